"""Laws of the arrival processes."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import gammainc

from tailcast.errors import InputError
from tailcast.streams import stream
from tailcast.workload.arrivals import (
    PROCESSES,
    Arrivals,
    Stage,
    first_gap,
    start_times,
    unit_gaps,
    weibull_shape,
)
from workload.distance import KS_LIMIT, Floats, ks

law = settings(max_examples=40, deadline=None, derandomize=True)

N = 20_000
CV = {"gamma": 2.0, "weibull": 2.0}
rates = st.floats(0.1, 50.0)
seeds = st.integers(0, 2**32)


def arrivals_of(process: str) -> Arrivals:
    return Arrivals(process=process, cv=CV.get(process))


processes = st.sampled_from(PROCESSES).map(arrivals_of)


def gaps_of(process: str, *, rate: float = 1.0, cv: float | None = None) -> Floats:
    arrivals = Arrivals(process=process, cv=cv)
    return unit_gaps(arrivals, stream(7, "arrivals"), N) / rate


def exponential_cdf(gap: Floats) -> Floats:
    return -np.expm1(-gap)


@pytest.mark.statistical
def test_poisson_gaps_are_exponential() -> None:
    """False alarm 1e-4 (Kolmogorov); n = 20,000 sees a rate 8 % off with power 0.99."""
    assert ks(gaps_of("poisson"), exponential_cdf) < KS_LIMIT
    assert ks(gaps_of("poisson", rate=1.08), exponential_cdf) > KS_LIMIT  # negative control
    assert ks(gaps_of("gamma", cv=1.15), exponential_cdf) > KS_LIMIT  # negative control


@pytest.mark.statistical
def test_gamma_gaps_follow_their_law() -> None:
    """False alarm 1e-4 (Kolmogorov); n = 20,000 sees a CV of 2.2 for 2 with power 0.99."""

    def cdf(gap: Floats) -> Floats:
        return np.asarray(gammainc(0.25, 0.25 * gap))

    assert ks(gaps_of("gamma", cv=2.0), cdf) < KS_LIMIT
    assert ks(gaps_of("gamma", cv=2.2), cdf) > KS_LIMIT  # negative control


@pytest.mark.statistical
def test_weibull_gaps_follow_their_law() -> None:
    """False alarm 1e-4 (Kolmogorov); n = 20,000 sees a CV of 2.2 for 2 with power 0.99."""
    shape = 0.5427  # of CV 2: gamma(1 + 2/k) = 5 gamma(1 + 1/k)^2

    def cdf(gap: Floats) -> Floats:
        return -np.expm1(-((gap * math.gamma(1 + 1 / shape)) ** shape))

    assert ks(gaps_of("weibull", cv=2.0), cdf) < KS_LIMIT
    assert ks(gaps_of("weibull", cv=2.2), cdf) > KS_LIMIT  # negative control


@pytest.mark.statistical
def test_conditioned_poisson_starts_are_uniform() -> None:
    """False alarm 1e-4 (Kolmogorov); bursts of CV 2 are seen with power 0.99."""
    stage = Stage(rate=20.0, duration=500.0)
    times, _ = start_times(Arrivals(process="conditioned-poisson"), [stage], 3)
    bursty, _ = start_times(Arrivals(process="gamma", cv=2.0), [stage], 3)
    assert len(times) == 10_000
    assert times[-1] == pytest.approx(500.0)
    assert ks(times[:-1] / 500.0, lambda u: u) < KS_LIMIT
    assert ks(bursty / 500.0, lambda u: u) > KS_LIMIT  # negative control


@pytest.mark.statistical
@pytest.mark.parametrize("process", ["gamma", "weibull"])
def test_bursty_starts_have_the_asked_rate_without_bias(process: str) -> None:
    """False alarm 1e-4 (3.9 sigma) over 600 short runs; a whole first gap is seen surely."""
    arrivals = Arrivals(process=process, cv=3.0)
    stage = Stage(rate=1.0, duration=20.0)
    counts = np.array([len(start_times(arrivals, [stage], seed)[0]) for seed in range(600)])
    assert abs(_z(counts, 20.0)) < 3.9
    naive = np.array(
        [
            np.sum(np.cumsum(unit_gaps(arrivals, stream(seed, "arrivals", 0), 400)) <= 20.0)
            for seed in range(600)
        ]
    )
    assert abs(_z(naive, 20.0)) > 3.9  # negative control: a whole gap before the first start


@pytest.mark.statistical
def test_first_gap_has_the_mean_of_a_residual_wait() -> None:
    """False alarm 1e-4 (3.9 sigma); a mean of one gap is seen surely."""
    arrivals = Arrivals(process="weibull", cv=2.0)
    waits = np.array([first_gap(arrivals, stream(seed, "first")) for seed in range(2_000)])
    assert abs(_z(waits, 2.5)) < 3.9  # (1 + cv^2)/2
    assert abs(_z(waits, 1.0)) > 3.9  # negative control


def test_constant_gaps_are_exactly_one_over_the_rate() -> None:
    times, stage = start_times(
        Arrivals(process="constant"),
        [Stage(rate=4.0, duration=2.0), Stage(rate=1.0, duration=3.0)],
        0,
    )
    np.testing.assert_allclose(times, [0.25, 0.5, 0.75, 1, 1.25, 1.5, 1.75, 2, 3, 4, 5])
    assert stage.tolist() == [0] * 8 + [1] * 3


@pytest.mark.parametrize("cv", [0.02, 0.3, 1.0, 3.0, 13.2, 30.0])
def test_weibull_shape_gives_the_asked_cv(cv: float) -> None:
    shape = weibull_shape(cv)
    log_ratio = math.lgamma(1 + 2 / shape) - 2 * math.lgamma(1 + 1 / shape)
    assert math.sqrt(math.expm1(log_ratio)) == pytest.approx(cv, rel=1e-6)


@law
@given(processes, st.lists(st.tuples(rates, st.floats(0.5, 30.0)), min_size=1, max_size=4), seeds)
def test_starts_are_sorted_and_inside_their_stage(
    arrivals: Arrivals, pairs: list[tuple[float, float]], seed: int
) -> None:
    stages = [Stage(rate=rate, duration=duration) for rate, duration in pairs]
    times, owner = start_times(arrivals, stages, seed)
    edges = np.concatenate(([0.0], np.cumsum([stage.duration or 0.0 for stage in stages])))
    assert np.all(np.diff(times) >= 0)
    assert np.all(np.diff(owner) >= 0)
    assert np.all(times >= edges[owner])
    assert np.all(times <= edges[owner + 1] * (1 + 1e-12))


@law
@given(processes, rates, st.integers(1, 300), seeds)
def test_an_open_ended_stage_has_the_exact_count(
    arrivals: Arrivals, rate: float, n: int, seed: int
) -> None:
    times, owner = start_times(arrivals, [Stage(rate=rate)], seed, n)
    assert len(times) == len(owner) == n
    assert np.all(np.diff(times) >= 0)


@law
@given(rates, st.floats(0.5, 100.0), seeds)
def test_conditioned_poisson_has_the_exact_count(rate: float, duration: float, seed: int) -> None:
    stage = Stage(rate=rate, duration=duration)
    times, _ = start_times(Arrivals(process="conditioned-poisson"), [stage], seed)
    assert len(times) == round(rate * duration)


@law
@given(processes, st.integers(1, 100), seeds)
def test_a_rate_only_stretches_the_gaps(arrivals: Arrivals, n: int, seed: int) -> None:
    slow, _ = start_times(arrivals, [Stage(rate=1.0)], seed, n)
    fast, _ = start_times(arrivals, [Stage(rate=8.0)], seed, n)
    np.testing.assert_allclose(slow / 8.0, fast, rtol=1e-12)


@law
@given(processes, st.integers(2, 100), seeds)
def test_more_requests_keep_the_earlier_ones(arrivals: Arrivals, n: int, seed: int) -> None:
    few, _ = start_times(arrivals, [Stage(rate=1.0)], seed, n)
    many, _ = start_times(arrivals, [Stage(rate=1.0)], seed, n + 50)
    if arrivals.process != "conditioned-poisson":  # rescaled by its own sum
        np.testing.assert_array_equal(few, many[:n])


@law
@given(processes, rates, seeds)
def test_a_stage_does_not_depend_on_the_rate_before(
    arrivals: Arrivals, rate: float, seed: int
) -> None:
    second = Stage(rate=3.0, duration=10.0)
    runs = [
        start_times(arrivals, [Stage(rate=r, duration=10.0), second], seed) for r in (rate, 1.0)
    ]
    later = [times[owner == 1] for times, owner in runs]
    np.testing.assert_array_equal(later[0], later[1])


def test_a_stage_may_have_no_start() -> None:
    stage = Stage(rate=0.001, duration=1.0)
    for process in ("conditioned-poisson", "constant"):
        times, owner = start_times(Arrivals(process=process), [stage], 0)
        assert len(times) == len(owner) == 0


@pytest.mark.parametrize(
    ("process", "cv", "message"),
    [
        ("poison", None, "did you mean 'poisson'"),
        ("gamma", None, "need cv"),
        ("gamma", 0.0, "cv of gamma"),
        ("gamma", -1.0, "cv of gamma"),
        ("weibull", math.nan, "cv of weibull"),
        ("weibull", math.inf, "cv of weibull"),
        ("poisson", 2.0, "take no cv"),
    ],
)
def test_impossible_arrivals_are_refused(process: str, cv: float | None, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Arrivals(process=process, cv=cv)


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf])
def test_impossible_stages_are_refused(bad: float) -> None:
    with pytest.raises(InputError, match="rate must be positive"):
        Stage(rate=bad)
    with pytest.raises(InputError, match="duration must be positive"):
        Stage(rate=1.0, duration=bad)


def test_an_endless_stage_is_refused() -> None:
    with pytest.raises(InputError, match="more than"):
        Stage(rate=1e6, duration=1e6)


def _z(values: NDArray[Any], mean: float) -> float:
    return float((values.mean() - mean) / (values.std(ddof=1) / math.sqrt(len(values))))
