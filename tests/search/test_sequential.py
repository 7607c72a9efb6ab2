"""Evidence keeps its promise however often one looks; the fixed-sample tests beside it do not."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailcast.errors import UsageError
from tailcast.search.sequential import (
    clopper_pearson,
    log_evidence_above,
    log_evidence_below,
    log_t_evidence,
    t_half_width,
)
from tailcast.streams import stream

N_REPEAT, N = 4000, 200
PLACES = np.arange(1, N + 1)


def binomial_alarm(counted: int, expected: float) -> float:
    """Excess of a count over a probability's share of the repeats, in standard errors."""
    return (counted - N_REPEAT * expected) / math.sqrt(N_REPEAT * expected * (1 - expected))


@pytest.mark.statistical
@pytest.mark.parametrize("rate", [0.05, 0.3])
def test_false_alarms_stay_within_alpha_under_optional_stopping(rate: float) -> None:
    """False alarm of each check below 1e-4 (4 sigma above alpha = 0.05). Control: looking at a
    fixed-sample Clopper-Pearson bound after every block must exceed alpha by 4 sigma."""
    hits = (stream(1, "hits", str(rate)).random((N_REPEAT, N)) < rate).cumsum(axis=1)
    n = np.broadcast_to(PLACES, hits.shape)
    for evidence in (log_evidence_above, log_evidence_below):
        ever = int((evidence(hits, n, rate).max(axis=1) > math.log(20)).sum())
        assert binomial_alarm(ever, 0.05) < 4
    allowed = np.array(
        [
            max(k for k in range(m + 1) if clopper_pearson(k, m, 0.05)[0] <= rate)
            for m in PLACES.tolist()
        ]
    )
    naive = int((hits > allowed).any(axis=1).sum())
    assert binomial_alarm(naive, 0.05) > 4


@pytest.mark.statistical
@pytest.mark.parametrize("law", ["normal", "t5", "exponential"])
def test_the_t_process_keeps_alpha_and_the_t_test_does_not(law: str) -> None:
    """False alarm below 1e-4 (4 sigma above alpha = 0.05), exact for the normal law, checked for a
    heavy-tailed and a skewed one. Control: a t test after every number must fail by 4 sigma."""
    rng = stream(2, law)
    shape = (N_REPEAT, N)
    draws = {
        "normal": lambda: rng.standard_normal(shape),
        "t5": lambda: rng.standard_t(5, shape),
        "exponential": lambda: rng.standard_exponential(shape) - 1,
    }[law]()
    mean = draws.cumsum(axis=1) / PLACES
    square = (draws**2).cumsum(axis=1) / PLACES
    sd = np.sqrt(np.maximum(square - mean**2, 0) * PLACES / np.maximum(PLACES - 1, 1))
    first = 15  # a comparison waits for 16 blocks, since few numbers may be skewed
    evidence = log_t_evidence(mean, sd, np.broadcast_to(PLACES, shape))[:, first:]
    assert binomial_alarm(int((evidence.max(axis=1) > math.log(20)).sum()), 0.05) < 4
    t = np.abs(mean[:, first:]) / sd[:, first:] * np.sqrt(PLACES[first:])
    assert binomial_alarm(int((t > 2.37).any(axis=1).sum()), 0.05) > 4


def test_evidence_is_an_e_value_at_a_fixed_size() -> None:
    """Mean over all outcomes of 8 blocks at the null: exactly 1 at the rate, less below it."""
    from math import comb

    for rate, null, most in ((0.2, 0.2, 1.0), (0.2, 0.1, 1.0)):
        mean = sum(
            comb(8, h)
            * null**h
            * (1 - null) ** (8 - h)
            * math.exp(float(log_evidence_above(np.array(h), np.array(8), rate)))
            for h in range(9)
        )
        assert mean <= most + 1e-9
        assert (mean == pytest.approx(1.0)) is (null == rate)


def test_two_misses_of_two_are_enough_and_no_miss_takes_many() -> None:
    two = float(log_evidence_above(np.array(2), np.array(2), 0.05))
    assert two > math.log(100)
    none = [float(log_evidence_below(np.array(0), np.array(n), 0.05)) for n in (59, 90)]
    assert none[0] < math.log(20) < none[1]


@settings(deadline=None)
@given(
    sd=st.floats(0.01, 10), n=st.integers(2, 400), alpha=st.floats(1e-4, 0.2), mean=st.floats(0, 9)
)
def test_the_sequence_is_what_the_evidence_does_not_reject(
    sd: float, n: int, alpha: float, mean: float
) -> None:
    half = float(t_half_width(np.array(sd), np.array(n), alpha))
    evidence = float(log_t_evidence(np.array(mean), np.array(sd), np.array(n)))
    if abs(mean - half) > 1e-6 * max(mean, 1):
        assert (evidence > -math.log(alpha)) is (mean > half)


def test_widths_shrink_with_blocks_and_are_infinite_at_first() -> None:
    widths = t_half_width(np.ones(6), np.array([1, 2, 8, 32, 128, 512]), 0.05)
    assert np.isinf(widths[0])
    assert np.all(np.diff(widths[2:]) < 0)


def test_clopper_pearson_of_the_specification() -> None:
    """59/59, 196/200 and 388/400 pass at 95 %, one fewer does not."""
    for hits, n in ((59, 59), (196, 200), (388, 400)):
        assert clopper_pearson(hits, n, 0.05)[0] >= 0.95
        assert clopper_pearson(hits - 1, n, 0.05)[0] < 0.95
    assert clopper_pearson(0, 10, 0.05)[0] == 0
    assert clopper_pearson(10, 10, 0.05)[1] == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda: log_evidence_above(np.array(1), np.array(2), 1.0),
        lambda: t_half_width(np.array(1.0), np.array(5), 0.0),
        lambda: clopper_pearson(3, 2, 0.05),
    ],
)
def test_what_is_no_probability_is_refused(call: object) -> None:
    with pytest.raises(UsageError):
        call()  # type: ignore[operator]
