"""Objectives are parsed strictly; P(miss) counts saturation as a miss."""

import numpy as np
import pytest

from tailcast.errors import UsageError
from tailcast.prediction import METRICS, Prediction
from tailcast.slo import miss_probabilities, parse_objective, verdict


def prediction(p99: list[float], load: list[float] | None = None, mode: str = "cold") -> Prediction:
    """Prediction whose TTFT P99 draws are given."""
    stat = np.full((len(p99), 2, len(METRICS), 2), 0.01)
    stat[:, :, 0, 1] = np.array(p99)[:, None]
    return Prediction(
        stat=stat,
        metrics=METRICS,
        stats=("mean", "p99"),
        load=np.array(load or [0.5] * len(p99)),
        counters={},
        mode=mode,
        warnings=(),
        extrapolates=False,
        posterior="test",
        n_request=100,
    )


def test_an_objective_is_metric_stat_and_seconds() -> None:
    found = parse_objective(" TTFT.p99 = 300ms".replace(" ", ""))
    assert (found.metric, found.stat, found.target) == ("ttft", "p99", 0.3)
    assert str(found) == "ttft.p99 <= 300 ms"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ttft.p99", "not metric.stat=duration"),
        ("p99=300ms", "not metric.stat=duration"),
        ("tttf.p99=300ms", "did you mean 'ttft'"),
        ("ttft.p0=300ms", "no statistic 'p0'"),
        ("ttft.p100=300ms", "no statistic"),
        ("ttft.pnan=300ms", "no statistic"),
        ("ttft.max=1s", "no statistic"),
        ("ttft.p99=300", "has no unit"),
        ("ttft.p99=-3ms", "not a number with a unit"),
        ("ttft.p99=0ms", "must be positive"),
        ("ttft.p99=3parsec", "unknown unit"),
    ],
)
def test_a_malformed_objective_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_objective(text)


def test_p_miss_is_the_share_of_draws_above_the_target() -> None:
    draws = prediction([0.1, 0.2, 0.4, 0.5])
    row = miss_probabilities(draws, [parse_objective("ttft.p99=300ms")])[0]
    assert row.p_miss == 0.5
    assert 0 < row.mcse < 0.5


def test_a_saturated_draw_misses_whatever_its_latency() -> None:
    draws = prediction([0.1, 0.1], load=[0.5, 1.2])
    assert draws.p_saturated == 0.5
    row = miss_probabilities(draws, [parse_objective("ttft.p99=300ms")])[0]
    assert row.p_miss == 0.5


def test_the_joint_probability_is_of_missing_any() -> None:
    draws = prediction([0.1, 0.4])
    draws.stat[0, :, METRICS.index("tpot"), 0] = 1.0
    texts = ("ttft.p99=300ms", "tpot.mean=50ms")
    rows = miss_probabilities(draws, [parse_objective(t) for t in texts])
    assert [r.p_miss for r in rows] == [0.5, 0.5, 1.0]
    assert rows[-1].label == "all"


@pytest.mark.parametrize(
    ("p99", "load", "word"),
    [
        ([0.1] * 100, None, "yes"),
        ([0.4] * 100, None, "no"),
        ([0.1] * 70 + [0.4] * 30, None, "unsure"),
        ([0.1] * 100, [1.5] * 100, "no"),
    ],
)
def test_the_verdict_follows_the_draws(
    p99: list[float], load: list[float] | None, word: str
) -> None:
    found = verdict(prediction(p99, load), [parse_objective("ttft.p99=300ms")])
    assert found.word == word
    assert found.reason
    assert found.advice


@pytest.mark.parametrize("risk", [0.0, 1.0, -0.1, float("nan")])
def test_a_risk_that_is_no_probability_is_refused(risk: float) -> None:
    with pytest.raises(UsageError, match="risk must lie between"):
        verdict(prediction([0.1]), [parse_objective("ttft.p99=300ms")], risk)
