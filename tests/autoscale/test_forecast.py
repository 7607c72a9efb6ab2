"""The rate ahead of now."""

import numpy as np
import pytest

from tailcast.autoscale.forecast import RateTrend, TrendSettings
from tailcast.errors import UsageError
from tailcast.streams import stream


def after(counts: list[float], duration: float = 15.0) -> RateTrend:
    trend = RateTrend()
    for count in counts:
        trend.update(count, duration)
    return trend


def test_a_constant_rate_is_found_and_stays() -> None:
    trend = after([120.0] * 60)
    mean, sd = trend.forecast(110.0)
    assert trend.level == pytest.approx(8.0, rel=1e-3)
    assert mean == pytest.approx(8.0, rel=0.01)
    assert 0.02 < sd / mean < 0.3


def test_a_ramp_is_carried_on() -> None:
    rates = 2.0 + 0.0105 * 15.0 * np.arange(36)
    trend = after([15.0 * rate for rate in rates])
    mean, _ = trend.forecast(100.0)
    assert mean == pytest.approx(rates[-1] + 0.0105 * 107.5, rel=0.05)


def test_a_jump_is_believed_at_once() -> None:
    assert after([30.0] * 40 + [120.0] * 2).level == pytest.approx(8.0, rel=0.15)
    slow = RateTrend(TrendSettings(jump_deviations=1e6))
    for count in [30.0] * 40 + [120.0] * 2:
        slow.update(count, 15.0)
    assert slow.level < 5.0  # without the belief in jumps


def test_uncertainty_grows_with_the_lead_and_no_forecast_is_below_zero() -> None:
    trend = after([60.0] * 10 + [20.0, 10.0, 5.0, 2.0, 0.0, 0.0])
    sds = [trend.forecast(seconds)[1] for seconds in (0.0, 30.0, 120.0, 600.0)]
    assert sds == sorted(sds)
    draws = trend.draws(600.0, 1000, stream(0, "x"))
    assert np.all(draws > 0)


def coverage(claimed: float) -> float:
    """Share of forecasts of a wandering rate that a 90 % interval of a claimed width holds."""
    generator = stream(5, "wander")
    root, hits = 15.0**0.5, []
    for _ in range(200):
        rate, slope = 12.0, 0.0
        trend, rates = RateTrend(), []
        for _ in range(47):
            slope += 6e-5 * root * rate * generator.standard_normal()
            rate += 15.0 * slope + 0.003 * root * rate * generator.standard_normal()
            rate = max(rate, 1.0)
            rates.append(rate)
        for seen in rates[:40]:
            trend.update(float(generator.poisson(15.0 * seen)), 15.0)
        # the rate of the middle of the last interval
        mean, sd = trend.forecast(6.5 * 15.0)
        hits.append(abs(rates[-1] - mean) < 1.645 * claimed * sd)
    return float(np.mean(hits))


@pytest.mark.slow
@pytest.mark.statistical
def test_forecasts_hold_what_they_claim() -> None:
    """Binomial sd 0.021 at 0.9: below 0.81 with less than 1e-4; a third of the width fails."""
    assert coverage(1.0) > 0.81
    assert coverage(0.33) < 0.7


def test_what_is_no_count_is_refused() -> None:
    with pytest.raises(UsageError, match="count"):
        RateTrend().update(3.0, 0.0)
    with pytest.raises(UsageError, match="no arrivals"):
        RateTrend().forecast(10.0)
    with pytest.raises(UsageError, match="trend"):
        TrendSettings(level_log_sd=-1.0)
