"""Objectives are parsed strictly; P(miss) counts saturation as a miss."""

import numpy as np
import pytest

from tailcast.errors import UsageError
from tailcast.prediction import METRICS, Prediction
from tailcast.slo import (
    complete_objectives,
    miss_probabilities,
    parse_objective,
    plain_objectives,
    verdict,
)


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


def test_an_objective_may_be_for_one_class() -> None:
    found = parse_objective("ttft.p99[chat] = 300ms")
    assert (found.group, found.target) == ("chat", 0.3)
    assert str(found) == "ttft.p99[chat] <= 300 ms"
    assert found.name == "ttft.p99[chat]"


@pytest.mark.parametrize(
    ("text", "stat", "target", "shown"),
    [
        ("goodput(ttft=300ms,tpot=50ms)=0.95", "share", 0.95, "95.0%"),
        ("goodput(ttft<=300ms, tpot=50ms)>=95%", "share", 0.95, "95.0%"),
        ("goodput(ttft=300ms)[chat]=12/s", "rate", 12.0, "12/s"),
        ("goodput(e2e=2s)=3.5req/s", "rate", 3.5, "3.5/s"),
    ],
)
def test_goodput_is_a_share_or_a_rate(text: str, stat: str, target: float, shown: str) -> None:
    found = parse_objective(text)
    assert found.stat == stat
    assert found.target == pytest.approx(target)
    assert str(found).endswith(f">= {shown}")
    assert found.is_goodput


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("goodput=1.5", "a share such as 0.95 or a rate"),
        ("goodput=high", "a share such as 0.95 or a rate"),
        ("goodput.p99=0.9", "goodput has no statistic"),
        ("goodput(itl=3ms)=0.9", "'itl=3ms' is no target of a request"),
        ("goodput(ttft=3)=0.9", "has no unit"),
        ("goodput(ttft=3ms)<=0.9", "wrong way round"),
        ("ttft.p99>=300ms", "wrong way round"),
        ("ttft(tpot=3ms).p99=300ms", "targets in parentheses belong to goodput"),
        ("goodputt=0.9", "not metric.stat=duration"),
    ],
)
def test_a_malformed_goodput_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_objective(text)


def test_a_bare_goodput_takes_the_other_targets() -> None:
    asked = [parse_objective(t) for t in ("ttft.p99=300ms", "itl.p99=1s", "goodput=0.9")]
    done = complete_objectives(asked)
    assert done[2].per_request == (("ttft", 0.3),)
    assert done[:2] == tuple(asked[:2])
    with pytest.raises(UsageError, match="goodput needs to know what a good request holds"):
        complete_objectives(asked[2:])


def test_margins_are_positive_where_missed() -> None:
    values = np.array([0.15, 0.6, np.nan])
    late = parse_objective("ttft.p99=300ms").margin(values)
    np.testing.assert_allclose(late, [-np.log(2), np.log(2), np.inf])
    good = parse_objective("goodput(ttft=1s)=0.3").margin(values)
    np.testing.assert_allclose(good, [np.log(2), -np.log(2), np.inf])


def test_a_prediction_answers_only_what_it_can() -> None:
    asked = [parse_objective(t) for t in ("ttft.p99=1s", "ttft.p99[chat]=1s", "goodput(ttft=1s)=1")]
    assert plain_objectives(asked) == (asked[0],)
    for objective in asked[1:]:
        with pytest.raises(UsageError, match="ask tailcast slo"):
            miss_probabilities(prediction([0.1]), [objective])


@pytest.mark.parametrize(
    ("text", "value", "shown"),
    [
        ("ttft.p99=1s", 0.25, "250 ms"),
        ("goodput(ttft=1s)=0.9", 0.5, "50.0%"),
        ("goodput(ttft=1s)=9/s", 8.25, "8.25/s"),
        ("goodput(ttft=1s)=9/s", float("nan"), "n/a"),
    ],
)
def test_values_are_shown_in_their_unit(text: str, value: float, shown: str) -> None:
    assert parse_objective(text).show(value) == shown
