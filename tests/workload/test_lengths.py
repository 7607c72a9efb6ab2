"""Laws of prompt and output lengths."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from tailcast.errors import InputError
from tailcast.streams import stream
from tailcast.workload.lengths import (
    Constant,
    Empirical,
    Gaussian,
    LengthLaw,
    LogNormal,
    Measured,
    Uniform,
)
from workload.distance import CHI2_LIMIT, KS_LIMIT, Floats, chi2, ks

law = settings(max_examples=40, deadline=None, derandomize=True)

N = 20_000
counts = st.integers(0, 200)
seeds = st.integers(0, 2**32)
tokens = st.integers(1, 5000)
bounds = st.tuples(tokens, tokens).map(sorted)


def drawn(law: LengthLaw) -> Floats:
    return law.tokens(stream(5, "lengths"), N).astype(np.float64)


@st.composite
def laws(draw: st.DrawFn) -> tuple[LengthLaw, int, int]:
    """Any law with its least and greatest length."""
    low, high = draw(bounds)
    middle = draw(st.floats(1, 5000))
    spread = draw(st.floats(0, 3))
    values = draw(st.lists(st.integers(low, high), min_size=1, max_size=20))
    choices: list[LengthLaw] = [
        Constant(value=low),
        Uniform(minimum=low, maximum=high),
        LogNormal(median=middle, sigma=spread, minimum=low, maximum=high),
        Gaussian(mean=middle, sd=spread * 500, minimum=low, maximum=high),
        Empirical(values=tuple(values)),
        Measured(mean=(low + high) / 2, minimum=low, maximum=high),
    ]
    return draw(st.sampled_from(choices)), low, high


@law
@given(laws(), counts, seeds)
def test_lengths_stay_within_their_bounds(
    case: tuple[LengthLaw, int, int], n: int, seed: int
) -> None:
    law, low, high = case
    lengths = law.tokens(stream(seed, "lengths"), n)
    assert lengths.shape == (n,)
    assert lengths.dtype == np.int64
    assert np.all((lengths >= low) & (lengths <= high))


@law
@given(laws(), counts, seeds)
def test_more_lengths_keep_the_earlier_ones(
    case: tuple[LengthLaw, int, int], n: int, seed: int
) -> None:
    law = case[0]
    few = law.tokens(stream(seed, "lengths"), n)
    many = law.tokens(stream(seed, "lengths"), n + 30)
    if not isinstance(law, Measured):  # a set with exact extremes: it depends on its size
        np.testing.assert_array_equal(few, many[:n])


@pytest.mark.statistical
def test_uniform_lengths_are_equally_frequent() -> None:
    """False alarm 1e-4 (chi-square, 9 degrees); a missing length is seen surely."""
    frequency = np.bincount(drawn(Uniform(minimum=1, maximum=10)).astype(int), minlength=11)[1:]
    short = np.bincount(drawn(Uniform(minimum=1, maximum=9)).astype(int), minlength=11)[1:]
    assert chi2(frequency.astype(float), np.ones(10)) < CHI2_LIMIT[9]
    assert chi2(short.astype(float), np.ones(10)) > CHI2_LIMIT[9]  # negative control


@pytest.mark.statistical
def test_lognormal_lengths_follow_their_law() -> None:
    """False alarm 1e-4 (Kolmogorov); sigma 10 % or a median 5 % off is seen with power 0.99."""

    def cdf(length: Floats) -> Floats:
        return np.asarray(ndtr(np.log(length / 50_000) / 0.6))

    assert ks(drawn(LogNormal(median=50_000, sigma=0.6)), cdf) < KS_LIMIT
    assert ks(drawn(LogNormal(median=50_000, sigma=0.66)), cdf) > KS_LIMIT  # negative control
    assert ks(drawn(LogNormal(median=52_500, sigma=0.6)), cdf) > KS_LIMIT  # negative control


@pytest.mark.statistical
def test_gaussian_lengths_follow_their_law() -> None:
    """False alarm 1e-4 (Kolmogorov); a mean off by 0.06 sd is seen with power 0.99."""

    def cdf(length: Floats) -> Floats:
        return np.asarray(ndtr((length - 50_000) / 5_000))

    assert ks(drawn(Gaussian(mean=50_000, sd=5_000)), cdf) < KS_LIMIT
    assert ks(drawn(Gaussian(mean=50_300, sd=5_000)), cdf) > KS_LIMIT  # negative control


@pytest.mark.statistical
def test_gaussian_lengths_are_clamped_not_redrawn() -> None:
    """False alarm 1e-4 (3.9 sigma); redrawing would leave next to nothing at the bound."""
    lengths = drawn(Gaussian(mean=256, sd=100, minimum=2, maximum=300))
    share = float(ndtr(-(299.5 - 256) / 100))
    sigma = math.sqrt(share * (1 - share) / N)
    assert abs(np.mean(lengths == 300) - share) < 3.9 * sigma
    assert abs(np.mean(lengths == 299) - share) > 3.9 * sigma  # negative control


@pytest.mark.statistical
def test_empirical_lengths_have_their_weights() -> None:
    """False alarm 1e-4 (chi-square, 4 degrees); a weight 15 % off is seen with power 0.99."""
    values, weights = (1, 2, 3, 4, 5), (5.0, 1.0, 3.0, 0.5, 0.5)
    frequency = np.bincount(
        drawn(Empirical(values=values, weights=weights)).astype(int), minlength=6
    )[1:].astype(float)
    assert chi2(frequency, np.array(weights)) < CHI2_LIMIT[4]
    wrong = np.array([5.0, 1.15, 2.85, 0.5, 0.5])
    assert chi2(frequency, wrong) > CHI2_LIMIT[4]  # negative control


def test_a_value_of_weight_zero_never_occurs() -> None:
    lengths = drawn(Empirical(values=(1, 2, 3), weights=(0.0, 1.0, 0.0)))
    assert set(lengths.tolist()) == {2.0}


@law
@given(bounds, st.floats(0.05, 0.95), st.integers(50, 400), seeds)
def test_measured_lengths_have_the_measured_mean_and_extremes(
    limits: list[int], share: float, n: int, seed: int
) -> None:
    low, high = limits
    mean = low + share * (high - low)
    lengths = Measured(mean=mean, minimum=low, maximum=high).tokens(stream(seed, "x"), n)
    if low < high:
        assert [lengths.min(), lengths.max()] == limits
    assert abs(lengths.mean() - mean) < 0.5


def test_measured_lengths_come_in_random_order() -> None:
    law = Measured(mean=100, minimum=50, maximum=150)
    one, two = (law.tokens(stream(seed, "x"), 100) for seed in (1, 2))
    assert not np.array_equal(one, two)
    np.testing.assert_array_equal(np.sort(one), np.sort(two))


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0, -5, 1.5])
def test_impossible_numbers_of_tokens_are_refused(bad: float) -> None:
    for build in (
        lambda: Constant(value=bad),  # type: ignore[arg-type]
        lambda: Uniform(minimum=bad, maximum=10),  # type: ignore[arg-type]
        lambda: Uniform(minimum=1, maximum=bad),  # type: ignore[arg-type]
        lambda: Empirical(values=(1, bad)),
        lambda: Measured(mean=5, minimum=bad, maximum=10),  # type: ignore[arg-type]
    ):
        with pytest.raises(InputError):
            build()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -1.0])
def test_impossible_parameters_are_refused(bad: float) -> None:
    for build in (
        lambda: LogNormal(median=bad, sigma=1.0),
        lambda: LogNormal(median=1.0, sigma=bad),
        lambda: Gaussian(mean=bad, sd=1.0),
        lambda: Gaussian(mean=1.0, sd=bad),
        lambda: Empirical(values=(1, 2), weights=(1.0, bad)),
    ):
        with pytest.raises(InputError):
            build()


def test_contradictions_are_refused() -> None:
    with pytest.raises(InputError, match="above the maximum"):
        Uniform(minimum=3, maximum=2)
    with pytest.raises(InputError, match="not within"):
        Measured(mean=20, minimum=1, maximum=10)
    with pytest.raises(InputError, match="at least one value"):
        Empirical(values=())
    with pytest.raises(InputError, match="2 empirical lengths but 1 weights"):
        Empirical(values=(1, 2), weights=(1.0,))
    with pytest.raises(InputError, match="not all zero"):
        Empirical(values=(1, 2), weights=(0.0, 0.0))
