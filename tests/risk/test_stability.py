"""Bounds hold against the engine: no lone request is beaten, no queue ends beyond the boundary."""

import numpy as np
import pytest

from risk.cases import deployment, workload
from tailcast.engine.deployment_limits import deployment_limits
from tailcast.engine.result import METRICS
from tailcast.engine.run import simulate
from tailcast.request import request_table
from tailcast.risk.stability import (
    Shape,
    lone_gap,
    lone_ttft,
    new_tokens,
    offered_load,
    order_statistic,
    request_shape,
)
from tailcast.step_law import StepLaw
from tailcast.workload.materialise import materialise

LAW = StepLaw.single(
    per_step=0.005,
    per_prefill_token=2e-5,
    per_prefill_pair=1e-9,
    per_prefill_request=1e-4,
    per_decode=3e-5,
    per_context_token=2e-8,
    ingest=0.003,
    stream=1e-5,
)


def test_the_load_of_a_linear_law_by_hand() -> None:
    law = StepLaw.single(per_step=0.01, per_decode=1e-3)
    shape = Shape(rate=2.0, output=100.0, context=150.0, computed=100.0, pairs=5000.0)
    one = deployment(max_num_seqs=10, max_num_batched_tokens=1000)
    assert offered_load(law, one, shape)[0] == pytest.approx(2 * (10 * 0.01 + 100 * 1e-3))


def test_a_tight_token_budget_needs_more_steps() -> None:
    law = StepLaw.single(per_step=0.01)
    shape = Shape(rate=1.0, output=10.0, context=100.0, computed=990.0, pairs=0.0)
    loads = [
        offered_load(law, deployment(max_num_seqs=100, max_num_batched_tokens=b), shape)[0]
        for b in (100, 200, 100_000)
    ]
    assert loads == pytest.approx([0.1, 0.05, 0.001])


@pytest.mark.parametrize(("factor", "grows"), [(0.9, False), (1.1, True)])
def test_the_queue_grows_beyond_the_boundary_and_not_before(factor: float, grows: bool) -> None:
    one = deployment(max_num_seqs=16, max_num_batched_tokens=2048)
    spec = workload(rate=1.0, n_requests=3000)
    shape = request_shape(materialise(spec, 0), prefix_caching=False)
    limit = 1.0 / offered_load(LAW, one, shape)[0]
    busy = materialise(workload(rate=factor * limit, n_requests=3000), 0)
    result = simulate(busy, deployment_limits(one), LAW, records=True)
    assert result.records is not None
    wait = result.records[0].scheduled - busy.arrival
    third = len(wait) // 3
    early, late = np.median(wait[third : 2 * third]), np.median(wait[-third:])
    assert bool(late > early + 1.0) is grows


@pytest.mark.parametrize("budget", [256, 2048])
def test_no_request_is_faster_in_company_than_alone(budget: int) -> None:
    one = deployment(max_num_seqs=64, max_num_batched_tokens=budget)
    requests = materialise(workload(rate=10.0, n_requests=200), 2)
    result = simulate(requests, deployment_limits(one), LAW, records=True)
    assert result.records is not None
    done = result.records[0]
    ttft = done.first_token - done.arrival + LAW.stream[0]
    n = len(requests)
    law = StepLaw(**{f: np.repeat(getattr(LAW, f), n, axis=0) for f in LAW.__slots__})
    tokens = requests.input_tokens.astype(float)
    assert np.all(ttft >= lone_ttft(law, one, tokens) - 1e-9)
    mean = lone_ttft(LAW, one, np.array([tokens.mean()]), is_mean=True)[0]
    assert result.stat[0, -1, METRICS.index("ttft"), 0] >= mean
    later = requests.output_tokens > 1
    span = done.finish - done.first_token + LAW.stream[0] * (requests.output_tokens - 1)
    tpot = span[later] / (requests.output_tokens[later] - 1)
    assert np.all(tpot >= lone_gap(law, tokens)[later] - 1e-9)


def test_a_lone_request_meets_its_bound() -> None:
    one = deployment(max_num_batched_tokens=512)
    result = simulate(request_table(np.zeros(1), 1300, 1), deployment_limits(one), LAW)
    bound = lone_ttft(LAW, one, np.array([1300.0]))[0]
    assert result.stat[0, -1, 0, 0] == pytest.approx(bound, rel=1e-6)


def test_what_was_seen_before_may_be_cached() -> None:
    requests = request_table(
        np.arange(4.0),
        np.array([100, 100, 100, 80]),
        5,
        prefix_stream=np.array([0, 0, -1, -1]),
        prefix_tokens=np.array([60, 60, 0, 0]),
        content_stream=np.array([-1, -1, 3, 3]),
    )
    np.testing.assert_array_equal(new_tokens(requests, prefix_caching=True), [100, 40, 100, 1])
    np.testing.assert_array_equal(new_tokens(requests, prefix_caching=False), [100, 100, 100, 80])


def test_a_closed_loop_has_no_load() -> None:
    spec = workload(rate=None, concurrency=8, arrivals=None)
    shape = request_shape(materialise(spec, 0), prefix_caching=False)
    assert shape.rate == 0
    assert offered_load(LAW, deployment(), shape)[0] == 0


def test_an_order_statistic_is_not_above_the_quantile() -> None:
    values = np.random.default_rng(0).normal(size=57)
    for p in (0.01, 0.5, 0.9, 0.99):
        assert order_statistic(values, p) <= np.quantile(values, p)
        assert order_statistic(values, p) in values
