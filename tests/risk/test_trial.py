"""Scores of pooled records equal the engine's own statistics; pooling and classes are right."""

import math

import numpy as np
import pytest

from risk.cases import deployment, prior_posterior, question, tables, workload
from tailcast.engine.result import GapRuns
from tailcast.errors import UsageError
from tailcast.prediction import predictive
from tailcast.risk.blocks import predictive_blocks
from tailcast.risk.fleet import Fleet
from tailcast.risk.measures import Measures, attainment
from tailcast.risk.trial import Question, joined, outcomes_of, run_blocks
from tailcast.slo import parse_objective
from tailcast.workload.materialise import materialise

N = 12
ASKED = (
    "ttft.p99=300ms",
    "ttft.mean=100ms",
    "tpot.p90=20ms",
    "e2e.p50=2s",
    "queue_delay.mean=5ms",
    "itl.p99=50ms",
    "itl.mean=50ms",
)


def test_outcomes_are_the_predictions_statistics() -> None:
    posterior, spec = prior_posterior(), workload()
    blocks = predictive_blocks(posterior, N, 0)
    asked = question(*ASKED)
    found = run_blocks(Fleet(deployment=deployment()), blocks, tables(), asked, np.arange(N))
    predicted = predictive(posterior, deployment(), lambda s: materialise(spec, s), n_draw=N)
    for k, objective in enumerate(asked.objectives):
        known = predicted.draws(objective.metric, objective.stat)
        np.testing.assert_allclose(found.value[:, k], known, rtol=1e-6)
    np.testing.assert_allclose(found.load, predicted.load, rtol=0.1)


def test_outcomes_do_not_depend_on_threads_or_on_who_else_is_run() -> None:
    blocks = predictive_blocks(prior_posterior(), N, 0)
    fleet, asked = Fleet(deployment=deployment(), replicas=2), question("ttft.p99=300ms")
    whole = run_blocks(fleet, blocks, tables(), asked, np.arange(N))
    parts = [
        run_blocks(fleet, blocks, tables(), asked, np.arange(a, b), threads=2)
        for a, b in ((0, 5), (5, N))
    ]
    np.testing.assert_array_equal(joined(parts).to_array(), whole.to_array())
    np.testing.assert_array_equal(outcomes_of(whole.to_array()).value, whole.value)


def test_more_replicas_wait_less() -> None:
    blocks = predictive_blocks(prior_posterior(), N, 0)
    asked, busy = question("ttft.mean=300ms"), workload(rate=40.0)
    one, four = (
        run_blocks(
            Fleet(deployment=deployment(), replicas=n), blocks, tables(busy), asked, np.arange(N)
        )
        for n in (1, 4)
    )
    assert np.all(four.load < one.load / 3)
    assert np.all(four.value[:, 0] < one.value[:, 0])
    assert np.all(four.whole[:, 0] == one.whole[:, 0])


def test_pooled_runs_hold_all_requests() -> None:
    blocks = predictive_blocks(prior_posterior(), 3, 0, n_run=4)
    asked = question("ttft.p90=50ms", "goodput(ttft=50ms)=0.9", "goodput(ttft=50ms)=3/s")
    pooled = run_blocks(Fleet(deployment=deployment()), blocks, tables(), asked, np.arange(3))
    assert np.all(pooled.whole[:, 0] == 400)
    assert np.all(pooled.whole[:, 1] == 400)
    late = pooled.part[:, 0]
    np.testing.assert_allclose(pooled.value[:, 1], 1 - late / 400)
    np.testing.assert_allclose(pooled.value[:, 2], (400 - late) / pooled.whole[:, 2])
    assert pooled.whole[0, 2] == pytest.approx(400 / 5.0, rel=0.25)


def test_a_class_is_judged_by_its_own_requests() -> None:
    classes = [
        {"name": "chat", "weight": 3, "input_tokens": 100, "output_tokens": 30},
        {"name": "docs", "weight": 1, "input_tokens": 6000, "output_tokens": 30},
    ]
    spec = workload(input_tokens=None, output_tokens=None, classes=classes)
    asked = question(
        "ttft.p50[chat]=50ms", "ttft.p50[docs]=50ms", "ttft.p50=50ms", groups=spec.group_names
    )
    blocks = predictive_blocks(prior_posterior(), N, 0)
    found = run_blocks(Fleet(deployment=deployment()), blocks, tables(spec), asked, np.arange(N))
    assert np.all(found.value[:, 0] < found.value[:, 1])
    np.testing.assert_array_equal(found.whole[:, 0] + found.whole[:, 1], found.whole[:, 2])


def test_a_saturated_block_misses_whatever_it_measured() -> None:
    blocks = predictive_blocks(prior_posterior(), 4, 0)
    asked = question("ttft.p99=1h")
    fast = workload(rate=5000.0)
    found = run_blocks(Fleet(deployment=deployment()), blocks, tables(fast), asked, np.arange(4))
    assert np.all(found.load > 1)
    assert found.missed(asked).all()
    assert np.isnan(found.rank).all()
    assert np.all(found.margins(asked) < 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ttft.p99[chatt]=1s", "no request class 'chatt'; known: chat, docs, stage 0"),
        ("itl.p99[chat]=1s", "gaps are pooled over classes; use tpot"),
    ],
)
def test_a_class_that_cannot_be_judged_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        question(text, groups=("stage 0, chat", "stage 0, docs"))


def test_a_class_name_stands_for_all_its_stages() -> None:
    asked = question(
        "ttft.p99[chat]=1s", groups=("stage 0, chat", "stage 0, docs", "stage 1, chat")
    )
    assert asked.members_of("chat") == (0, 2)
    assert asked.members_of("stage 0") == (0, 1)


def test_a_question_needs_an_objective() -> None:
    with pytest.raises(UsageError, match="no objective given"):
        Question(objectives=())


def measures(n: int = 101) -> Measures:
    """Requests with TTFT 0, 1, 2 ms and so on; one of them failed."""
    ttft = np.arange(n, dtype=np.float64) * 1e-3
    ttft[0] = np.nan
    return Measures(
        ttft=ttft,
        tpot=np.full(n, 0.01),
        e2e=ttft + 1,
        queue_delay=ttft,
        group=np.zeros(n, dtype=int),
        gaps=(),
        seconds=10.0,
    )


def test_a_percentile_counts_who_exceeds_and_a_mean_sums() -> None:
    value, above, n = attainment(measures(), parse_objective("ttft.p90=0.09s"), None)
    assert value == pytest.approx(np.quantile(np.arange(1, 101) * 1e-3, 0.9))
    assert (above, n) == (10, 100)
    value, total, n = attainment(measures(), parse_objective("ttft.mean=0.09s"), None)
    assert (value, total, n) == pytest.approx((0.0505, 5.05, 100))


def test_a_failed_request_is_not_good() -> None:
    share = attainment(measures(), parse_objective("goodput(ttft=1s,tpot=20ms)=0.9"), None)
    assert share == pytest.approx((100 / 101, 100, 101))
    rate = attainment(measures(), parse_objective("goodput(ttft=50ms)=3/s"), None)
    assert rate == pytest.approx((5.0, 50, 10.0))


def test_a_single_token_has_no_gap_to_be_late_with() -> None:
    lone = measures(3)
    lone.tpot[:] = np.nan
    assert attainment(lone, parse_objective("goodput(tpot=1ms)=0.5"), None)[1] == 2


def test_gap_quantiles_are_those_of_the_expanded_gaps() -> None:
    rng = np.random.default_rng(0)
    runs = [
        GapRuns(
            first=rng.uniform(0.01, 0.05, 20),
            slope=np.where(rng.random(20) < 0.3, 0.0, rng.uniform(0, 1e-4, 20)),
            count=rng.integers(1, 40, 20),
            multiplicity=rng.integers(1, 9, 20),
        )
        for _ in range(2)
    ]
    gaps = np.concatenate(
        [
            np.repeat(f + s * np.arange(c), m)
            for g in runs
            for f, s, c, m in zip(g.first, g.slope, g.count, g.multiplicity, strict=True)
        ]
    )
    own = Measures(**{**{f: getattr(measures(2), f) for f in Measures.__slots__}, "gaps": runs})
    for stat, known in (("p50", np.quantile(gaps, 0.5)), ("mean", gaps.mean())):
        value, _, n = attainment(own, parse_objective(f"itl.{stat}=30ms"), None)
        assert value == pytest.approx(known, rel=1e-9)
        assert n == len(gaps)
    above = attainment(own, parse_objective("itl.p99=30ms"), None)[1]
    assert above == np.count_nonzero(gaps > 0.03)


def test_nothing_finished_is_a_miss() -> None:
    none = measures(1)
    value, _, n = attainment(none, parse_objective("ttft.p99=1s"), None)
    assert math.isnan(value)
    assert n == 0
    assert parse_objective("ttft.p99=1s").margin(np.array([value]))[0] == np.inf
