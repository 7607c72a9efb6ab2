"""Scores against closed forms and against what a calibrated forecast must show."""

import math
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from tailcast.scoring.binomial import clopper_pearson
from tailcast.scoring.record import EvaluationRecord
from tailcast.scoring.regimes import load_level, regime_rows
from tailcast.scoring.rivals import conformal_quantile, residual_baseline, split_conformal
from tailcast.scoring.saturation import SaturationRecord, saturation_score
from tailcast.scoring.score import LEVELS, Score, crps, pinball, point_score, score
from tailcast.scoring.summary import body_summary, coverage, summarise
from tailcast.streams import stream


def record(scored: Score, experiment: str = "a", stage: int = 0, **regime: str) -> EvaluationRecord:
    return EvaluationRecord(
        experiment=experiment,
        stage=stage,
        score=scored,
        extrapolates=False,
        mode="cold",
        regime=regime,
    )


def forecasts(
    draws: NDArray[np.float64], truth: Sequence[float], per_experiment: int = 1
) -> list[EvaluationRecord]:
    return [
        record(score("e2e", "mean", draws, float(y)), str(k // per_experiment), k % per_experiment)
        for k, y in enumerate(truth)
    ]


def test_crps_of_a_normal_has_the_closed_form() -> None:
    draws = stats.norm.ppf((np.arange(4000) + 0.5) / 4000)
    for y in (-1.5, 0.0, 0.7):
        closed = y * (2 * stats.norm.cdf(y) - 1) + 2 * stats.norm.pdf(y) - 1 / math.sqrt(math.pi)
        assert crps(draws, y) == pytest.approx(closed, abs=2e-3)


def test_crps_of_one_draw_is_the_absolute_error() -> None:
    assert crps(np.array([2.0]), 5.0) == 3.0


def test_crps_scales_with_the_unit_and_its_log_does_not() -> None:
    draws = stream(1, "crps").gamma(2.0, size=200)
    assert crps(1000 * draws, 1000.0) == pytest.approx(1000 * crps(draws, 1.0))
    one, other = score("e2e", "mean", draws, 1.0), score("e2e", "mean", 1e3 * draws, 1e3)
    assert one.crps_log == pytest.approx(other.crps_log)


def test_crps_is_twice_the_mean_pinball_loss() -> None:
    """CRPS is twice the integral of the pinball loss over the levels; 999 of them suffice."""
    draws = stream(2, "pinball").standard_normal(2000)
    levels = (np.arange(999) + 0.5) / 999
    losses = [
        pinball(q, level, 0.4) for q, level in zip(np.quantile(draws, levels), levels, strict=True)
    ]
    assert 2 * float(np.mean(losses)) == pytest.approx(crps(draws, 0.4), rel=2e-3)


def test_pinball_is_least_at_the_quantile() -> None:
    draws = stream(3, "pinball").standard_normal(4000)
    level = 0.9
    losses = {q: float(np.mean([pinball(q, level, y) for y in draws])) for q in (0.8, 1.2816, 1.8)}
    assert min(losses, key=lambda q: losses[q]) == 1.2816


def test_score_counts_ties_half_and_covers_its_own_median() -> None:
    draws = np.array([1.0, 2.0, 2.0, 3.0])
    found = score("ttft", "mean", draws, 2.0)
    assert found.pit == 0.5
    assert found.covered(50)
    assert found.ape == 0.0
    assert not score("ttft", "mean", draws, 30.0).covered(90)


def test_a_point_claims_no_interval_and_its_crps_is_its_error() -> None:
    found = point_score("ttft", "mean", 2.0, 1.0)
    assert found.is_point
    assert found.crps == 1.0
    assert found.crps_log == pytest.approx(math.log(2))
    assert found.log_width90 == 0.0


@pytest.mark.parametrize(
    ("n", "level", "least", "most"), [(15, 0.9, 11, 15), (36, 0.5, 12, 24), (36, 0.9, 29, 35)]
)
def test_exact_range_holds_the_nominal_level_for_the_published_counts(
    n: int, level: float, least: int, most: int
) -> None:
    """Counts of hits for which 95 % ranges hold the level, from binomial tables."""
    inside = [
        k for k in range(n + 1) if clopper_pearson(k, n)[0] <= level <= clopper_pearson(k, n)[1]
    ]
    assert inside[0] == pytest.approx(least, abs=1)
    assert inside[-1] == pytest.approx(most, abs=1)


def test_exact_range_has_the_binomial_tails() -> None:
    low, high = clopper_pearson(7, 20)
    assert stats.binom.sf(6, 20, low) == pytest.approx(0.025)
    assert stats.binom.cdf(7, 20, high) == pytest.approx(0.025)
    assert clopper_pearson(0, 20)[0] == 0.0
    assert clopper_pearson(20, 20)[1] == 1.0
    assert clopper_pearson(3.5, 20) > clopper_pearson(3, 20)


@pytest.mark.statistical
def test_coverage_of_a_calibrated_forecast_is_nominal() -> None:
    """n = 800: false alarm 6e-5 (4 sigma); the half-width control must fail."""
    rng = stream(3, "coverage")
    truth = np.exp(rng.standard_normal(800))
    normal = stats.norm.ppf((np.arange(400) + 0.5) / 400)
    draws, narrow = np.exp(normal), np.exp(0.5 * normal)
    good = summarise(forecasts(draws, truth.tolist(), 100))[0]
    bad = summarise(forecasts(narrow, truth.tolist(), 100))[0]
    slack = 4 * math.sqrt(0.9 * 0.1 / 800) + 0.002  # and the error of 400 draws' quantiles
    assert abs(good.coverage90 - 0.9) < slack
    assert abs(bad.coverage90 - 0.9) > slack
    assert max(good.pit) / min(good.pit) < 1.6
    assert max(bad.pit) / min(bad.pit) > 2


def test_coverage_counts_experiments_and_not_records() -> None:
    draws = np.linspace(0.9, 1.1, 50)
    many = forecasts(draws, [1.0] * 30, per_experiment=30)
    spread = forecasts(draws, [1.0] * 30)
    assert coverage(many, 90).share == coverage(spread, 90).share == 1.0
    assert coverage(many, 90).low == pytest.approx(clopper_pearson(1, 1)[0])
    assert coverage(spread, 90).low == pytest.approx(clopper_pearson(30, 30)[0])


def test_an_experiment_with_more_stages_weighs_no_more() -> None:
    draws = np.linspace(0.9, 1.1, 50)
    hit = [record(score("e2e", "mean", draws, 1.0), "long", k) for k in range(9)]
    miss = [record(score("e2e", "mean", draws, 5.0), "short")]
    row = summarise(hit + miss)[0]
    assert row.coverage90 == 0.9
    assert row.coverage[-1].share == 0.5
    assert sum(row.pit) == pytest.approx(2.0)


def test_summary_keeps_metrics_and_statistics_apart() -> None:
    draws = np.array([1.0, 1.1, 1.2])
    made = [record(score(m, s, draws, 1.0)) for m in ("ttft", "e2e") for s in ("mean", "p90")]
    rows = summarise(made)
    assert [(r.metric, r.statistic, r.n) for r in rows] == [
        ("ttft", "mean", 1),
        ("ttft", "p90", 1),
        ("e2e", "mean", 1),
        ("e2e", "p90", 1),
    ]


def test_the_pool_leaves_tails_out() -> None:
    draws = np.array([1.0, 1.1, 1.2])
    pool = body_summary(
        [record(score("e2e", s, draws, 1.0)) for s in ("mean", "p90", "p99", "max")]
    )
    assert pool is not None
    assert pool.n == 2
    assert body_summary([]) is None


def test_summary_as_json_has_the_contract_and_plain_numbers() -> None:
    row = summarise(forecasts(np.array([1.0, 1.1]), [1.0]))[0].as_json()
    contract = {
        *("metric", "statistic", "n", "median_ape", "mean_ape", "mean_log_width90"),
        *(f"coverage{level}" for level in LEVELS),
    }
    assert contract <= set(row)
    assert all(isinstance(v, str | int | float | list) for v in row.values())


def test_regimes_tell_a_biased_one_from_the_rest() -> None:
    draws = np.linspace(0.95, 1.05, 50)
    made = [record(score("e2e", "mean", draws, 1.0), f"d{k}", experts="dense") for k in range(3)]
    made += [record(score("e2e", "mean", draws, 0.8), f"m{k}", experts="MoE") for k in range(2)]
    rows = {row.level: row.scores for row in regime_rows(made)}
    assert rows["dense"].bias == pytest.approx(0.0, abs=1e-6)
    assert rows["MoE"].bias == pytest.approx(math.log(1 / 0.8))
    assert rows["MoE"].n_experiment == 2


def test_loads_are_banded() -> None:
    assert [load_level(v) for v in (0.0, 0.3, 0.99, 1.0)] == [
        "0.0-0.3",
        "0.3-0.7",
        "0.7-1.0",
        "1.0 and more",
    ]


def test_baseline_never_sees_its_own_experiment() -> None:
    draws = np.linspace(0.9, 1.1, 50)
    made = forecasts(draws, [1.0, 1.0, 1.0, 1.0, 1.0, 7.0])
    rival = residual_baseline(made)
    odd = next(r for r in rival.records if r.experiment == "5")
    assert odd.score.quantiles["q95"] == pytest.approx(1.0)
    assert next(r for r in rival.records if r.experiment == "0").score.quantiles["q95"] > 2
    assert residual_baseline(made[:4]).n_left_out == 4


@pytest.mark.statistical
def test_conformal_wrapper_repairs_intervals_that_are_too_narrow() -> None:
    """200 exchangeable experiments: coverage .90 +- 4 sigma (6e-5); the bare forecast fails."""
    rng = stream(5, "conformal")
    truth = np.exp(rng.standard_normal(200))
    narrow = np.exp(0.3 * np.linspace(-2, 2, 101))
    made = forecasts(narrow, truth.tolist())
    slack = 4 * math.sqrt(0.9 * 0.1 / 200)
    assert coverage(made, 90).share < 0.9 - slack
    wrapped = split_conformal(made, 1)
    assert abs(coverage(wrapped.records, 90).share - 0.9) < slack
    assert wrapped.n_left_out == 0


def test_conformal_reach_is_unbounded_where_calibration_is_too_small() -> None:
    assert conformal_quantile(np.arange(1.0, 20.0), 0.95) == 19.0
    assert math.isinf(conformal_quantile(np.arange(1.0, 19.0), 0.95))
    made = forecasts(np.linspace(0.9, 1.1, 50), [1.0] * 10)
    wide = split_conformal(made).records[0].score
    assert wide.covered(90)
    assert math.isinf(wide.log_width90)
    assert math.isfinite(wide.quantiles["q75"])


def test_brier_is_the_squared_error_and_names_the_wrong_side() -> None:
    def stage(name: str, predicted: float, observed: bool) -> SaturationRecord:
        return SaturationRecord(
            experiment=name, stage=0, predicted=predicted, observed=observed, source="label"
        )

    found = saturation_score(
        [stage("a", 0.9, True), stage("b", 0.2, False), stage("c", 0.7, False)]
    )
    assert found is not None
    assert found.brier == pytest.approx((0.01 + 0.04 + 0.49) / 3)
    assert found.brier_base_rate == pytest.approx(1 / 3 * 2 / 3)
    assert [m.experiment for m in found.misses] == ["c"]
    assert saturation_score([]) is None
