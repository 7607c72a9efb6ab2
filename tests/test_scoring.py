"""Scores against closed forms and against what a calibrated forecast must show."""

import math

import numpy as np
import pytest
from scipy import stats

from tailcast.scoring import crps, score, summarise
from tailcast.streams import stream


def test_crps_of_a_normal_has_the_closed_form() -> None:
    draws = stats.norm.ppf((np.arange(4000) + 0.5) / 4000)
    for y in (-1.5, 0.0, 0.7):
        closed = y * (2 * stats.norm.cdf(y) - 1) + 2 * stats.norm.pdf(y) - 1 / math.sqrt(math.pi)
        assert crps(draws, y) == pytest.approx(closed, abs=2e-3)


def test_crps_of_one_draw_is_the_absolute_error() -> None:
    assert crps(np.array([2.0]), 5.0) == 3.0


def test_crps_scales_with_the_unit() -> None:
    draws = stream(1, "crps").gamma(2.0, size=200)
    assert crps(1000 * draws, 1000.0) == pytest.approx(1000 * crps(draws, 1.0))


def test_score_counts_ties_half_and_covers_its_own_median() -> None:
    draws = np.array([1.0, 2.0, 2.0, 3.0])
    found = score("ttft", "mean", draws, 2.0)
    assert found.pit == 0.5
    assert found.covered(50)
    assert found.ape == 0.0
    assert not score("ttft", "mean", draws, 30.0).covered(90)


@pytest.mark.statistical
def test_coverage_of_a_calibrated_forecast_is_nominal() -> None:
    """n = 4,000: false alarm 6e-5 (4 sigma); the half-width control must fail."""
    rng = stream(3, "coverage")
    truth = rng.standard_normal(4000)
    draws = np.exp(rng.standard_normal(200))
    narrow = np.exp(0.5 * rng.standard_normal(200))
    good = summarise([score("e2e", "mean", draws, math.exp(t)) for t in truth])[0]
    bad = summarise([score("e2e", "mean", narrow, math.exp(t)) for t in truth])[0]
    slack = 4 * math.sqrt(0.9 * 0.1 / 4000) + 0.02  # and the error of 200 draws' quantiles
    assert abs(good.coverage90 - 0.9) < slack
    assert abs(bad.coverage90 - 0.9) > slack


def test_summary_keeps_metrics_and_statistics_apart() -> None:
    draws = np.array([1.0, 1.1, 1.2])
    rows = summarise([score(m, s, draws, 1.0) for m in ("ttft", "e2e") for s in ("mean", "p90")])
    assert [(r.metric, r.statistic, r.n) for r in rows] == [
        ("ttft", "mean", 1),
        ("ttft", "p90", 1),
        ("e2e", "mean", 1),
        ("e2e", "p90", 1),
    ]
