"""A cluster whose ready pods change: every request once, and no look ahead."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailcast.autoscale.plant import Cluster
from tailcast.crosscheck.law import engine_law, engine_limits
from tailcast.engine.result import Status
from tailcast.engine.run import simulate
from tailcast.errors import UsageError
from tailcast.queueing.server import ServerLimits, three_numbers_ms
from tailcast.request import RequestTable, request_table
from tailcast.streams import stream

LAW = engine_law(three_numbers_ms(6.678, 2.008e-2, 5.516e-5))
LIMITS = engine_limits(ServerLimits(max_batch=16))


def requests(n: int = 400, rate: float = 8.0, seed: int = 0) -> RequestTable:
    generator = stream(seed, "plant")
    arrival = np.cumsum(generator.exponential(1.0 / rate, n))
    return request_table(arrival, generator.integers(50, 500, n), generator.integers(1, 80, n))


def cluster(table: RequestTable, routing: str = "round-robin") -> Cluster:
    made = Cluster(table, LIMITS, LAW, routing=routing, draws=stream(1, "r").random(len(table)))
    made.add(0.0, 0.0)
    return made


def answered(made: Cluster) -> np.ndarray:
    """How often each request was answered."""
    count = np.zeros(len(made.requests), dtype=int)
    for pod in made.pods:
        run = made.run(pod)
        count[run.rows] += run.records.status == Status.COMPLETED
    return count


@settings(max_examples=25, deadline=None)
@given(
    changes=st.lists(st.tuples(st.floats(0.5, 12.0), st.booleans()), max_size=8),
    routing=st.sampled_from(["round-robin", "random"]),
)
def test_every_request_is_answered_once_whatever_the_changes(
    changes: list[tuple[float, bool]], routing: str
) -> None:
    made, now = cluster(requests(), routing), 0.0
    for wait, more in changes:
        now += wait
        wanted = [pod for pod in made.pods if pod.leaves == np.inf]
        ready = [pod for pod in wanted if pod.ready <= now]
        if more:
            made.add(now, now + 9.0)
        elif len(ready) > 1 or len(wanted) > len(ready):
            made.remove(max(wanted, key=lambda pod: (pod.ready > now, pod.ready)), now)
    assert np.all(answered(made) == 1)
    for pod in made.pods:
        arrival = made.requests.arrival[made.run(pod).rows]
        assert np.all((arrival >= pod.ready) & (arrival < pod.leaves))


def test_one_pod_is_the_engine() -> None:
    table = requests()
    run = cluster(table).run(cluster(table).pods[0])
    alone = simulate(table, LIMITS, LAW, records=True)
    assert alone.records is not None
    assert np.array_equal(run.records.first_token, alone.records[0].first_token)
    end = run.counters(run.last_finish + 1e-6)
    metrics = alone.metrics.index
    assert end.first_tokens == end.finished == len(table)
    assert end.waiting == 0
    assert end.ttft_sum / end.first_tokens == pytest.approx(
        alone.stat[0, -1, metrics("ttft"), 0], rel=1e-9
    )
    assert end.gap_sum / end.gaps == pytest.approx(alone.stat[0, -1, metrics("itl"), 0], rel=1e-9)
    assert end.gaps == (table.output_tokens - 1).sum()
    assert end.prompt_tokens == table.input_tokens.sum()


def test_a_later_change_leaves_the_past_as_it_was() -> None:
    made = cluster(requests())
    before = made.run(made.pods[0]).counters(20.0)
    made.add(20.0, 30.0)
    assert made.run(made.pods[0]).counters(20.0) == before
    assert made.run(made.pods[0]).counters(30.0) != made.run(made.pods[1]).counters(30.0)
    made.remove(made.pods[1], 35.0)
    assert made.run(made.pods[0]).counters(20.0) == before


def test_round_robin_is_even_and_random_is_not() -> None:
    even, random = cluster(requests()), cluster(requests(), "random")
    for made in (even, random):
        made.add(0.0, 0.0)
        made.add(0.0, 0.0)
    counts = np.bincount(even.pod_of)
    assert counts.max() - counts.min() <= 1
    spread = np.bincount(random.pod_of)
    assert spread.max() - spread.min() > 1
    assert spread.sum() == counts.sum()


def test_a_cluster_without_a_ready_pod_is_refused() -> None:
    made = cluster(requests())
    with pytest.raises(UsageError, match="no replica is ready"):
        made.remove(made.pods[0], 10.0)
    with pytest.raises(UsageError, match="routing"):
        cluster(requests(), "sideways")
    loop = request_table(np.array([0.0, 1.0]), 10, 10, parent=np.array([-1, 0]))
    with pytest.raises(UsageError, match="open loop"):
        Cluster(loop, LIMITS, LAW)


def test_a_cancelled_pod_takes_nothing() -> None:
    made = cluster(requests())
    pod = made.add(5.0, 25.0)
    made.remove(pod, 15.0)
    assert made.run(pod).rows.size == 0
    assert made.run(pod).last_finish == -np.inf
    assert np.all(answered(made) == 1)
