"""What must hold in every run: the plain engine agrees, nothing is lost, nothing is random."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.blis.deployments import deployment
from engine.blis.random_runs import blis_request_tables, blis_settings
from engine.blis.reference import PlainBlis
from tailcast.engine.blis.coefficients import BlisCoefficients
from tailcast.engine.blis.columns import Status
from tailcast.engine.blis.requests import BlisRequests, blis_requests
from tailcast.engine.blis.result import BlisResult
from tailcast.engine.blis.run import simulate_blis
from tailcast.engine.blis.settings import BlisSettings
from tailcast.errors import CapacityError, InputError, UsageError

MODELS = {backend: deployment(backend=backend) for backend in ("trained-physics", "roofline")}
RELAXED = settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


def _assert_same(result: BlisResult, plain: PlainBlis) -> None:
    requests = plain.requests
    states = [Status(int(s)).name.lower() for s in result.status]
    assert states == [r.state for r in requests]
    assert result.ttft_us.tolist() == [r.ttft for r in requests]
    assert result.e2e_us.tolist() == [r.e2e for r in requests]
    assert result.scheduled_us.tolist() == [r.scheduled for r in requests]
    assert result.preemptions.tolist() == [r.preemptions for r in requests]
    assert result.length_capped.tolist() == [r.capped for r in requests]
    for row in np.flatnonzero(result.completed).tolist():
        assert result.itl_us(row).tolist() == requests[row].itl
    values, counts = result.pooled_itl_us()
    assert np.repeat(values, counts).tolist() == sorted(plain.gaps)
    counted = result.counters
    assert counted["steps"] == plain.steps
    assert counted["preemptions"] == plain.preempted
    assert counted["kv_allocation_failures"] == plain.failures
    assert (counted["cache_hits"], counted["cache_misses"]) == (
        plain.cache.hits,
        plain.cache.misses,
    )
    assert counted["free_kv_blocks"] == len(plain.cache.free)
    assert result.ended_us == plain.clock


@RELAXED
@given(blis_request_tables(), blis_settings(), st.sampled_from(sorted(MODELS)))
def test_compiled_engine_equals_the_plain_one(
    requests: BlisRequests, limits: BlisSettings, backend: str
) -> None:
    model = MODELS[backend]
    _assert_same(simulate_blis(requests, limits, model), PlainBlis(requests, limits, model).run())


@RELAXED
@given(blis_request_tables(), blis_settings())
def test_requests_and_blocks_are_conserved(requests: BlisRequests, limits: BlisSettings) -> None:
    result = simulate_blis(requests, limits, MODELS["trained-physics"])
    counted = result.counters
    ended = sum(
        counted[name]
        for name in (
            "completed",
            "dropped_unservable",
            "timed_out",
            "still_queued",
            "still_running",
        )
    )
    assert ended + np.count_nonzero(result.status == Status.PENDING) == len(requests)
    assert counted["completed"] == np.count_nonzero(result.completed)
    if counted["still_running"] == 0:
        assert counted["free_kv_blocks"] == limits.kv_blocks
    assert counted["peak_kv_blocks"] <= limits.kv_blocks
    assert counted["peak_batch"] <= limits.max_num_seqs
    assert result.ended_us <= limits.horizon_us


@RELAXED
@given(blis_request_tables(), blis_settings())
def test_time_runs_forward(requests: BlisRequests, limits: BlisSettings) -> None:
    model = MODELS["trained-physics"]
    result = simulate_blis(requests, limits, model)
    admitted = result.scheduled_us >= 0
    queued_us = requests.arrival_us + model.ingest_us(1)
    assert np.all(result.scheduled_us[admitted] >= queued_us[admitted])
    assert np.all(result.step_duration_us >= 1)
    done = result.completed
    assert np.all(result.finished_us[done] > result.scheduled_us[done])
    assert np.all(result.e2e_us[done] >= result.ttft_us[done])
    assert np.all(result.n_itl[done] == np.maximum(requests.output_tokens[done] - 1, 0)) or any(
        result.length_capped
    )


@RELAXED
@given(blis_request_tables(), blis_settings())
def test_a_run_is_its_inputs_alone(requests: BlisRequests, limits: BlisSettings) -> None:
    first = simulate_blis(requests, limits, MODELS["roofline"])
    again = simulate_blis(requests, limits, MODELS["roofline"])
    assert first.metrics(with_requests=True) == again.metrics(with_requests=True)
    assert first.sim_results() == again.sim_results()


@RELAXED
@given(blis_request_tables(), blis_settings(), st.randoms(use_true_random=False))
def test_row_order_does_not_matter_where_arrivals_differ(
    requests: BlisRequests, limits: BlisSettings, random: object
) -> None:
    arrival_us = requests.arrival_us * len(requests) + np.arange(len(requests))
    spread = replace(requests, arrival_us=arrival_us, deadline_us=0 * arrival_us)
    order = np.argsort(-arrival_us)
    columns = {
        name: getattr(spread, name)[order]
        for name in BlisRequests.__dataclass_fields__
        if name != "request_id"
    }
    names = tuple(spread.request_id[i] for i in order)
    turned = BlisRequests(**columns, request_id=names)
    straight = simulate_blis(spread, limits, MODELS["trained-physics"])
    result = simulate_blis(turned, limits, MODELS["trained-physics"])
    assert result.e2e_us.tolist() == straight.e2e_us[order].tolist()


def test_a_fully_cached_prompt_is_readmitted_for_free() -> None:
    """The request needs 5 blocks of 4; readmitted without owning its prompt's 2, it fits in 3."""
    requests = blis_requests([0], 32, 40)
    limits = BlisSettings(kv_blocks=4)
    result = simulate_blis(requests, limits, MODELS["trained-physics"])
    assert result.preemptions.tolist() == [1]
    assert result.cached_tokens.tolist() == [32]
    assert result.counters["prefill_tokens"] == 32
    assert result.completed.all()
    _assert_same(result, PlainBlis(requests, limits, MODELS["trained-physics"]).run())


def test_a_request_that_outgrows_the_cache_is_an_error() -> None:
    with pytest.raises(CapacityError, match="row 0 needs 8 KV blocks"):
        simulate_blis(
            blis_requests([0], 33, 90), BlisSettings(kv_blocks=4), MODELS["trained-physics"]
        )


@pytest.mark.slow
def test_endless_preemption_is_an_error() -> None:
    limits = BlisSettings(kv_blocks=4)
    with pytest.raises(CapacityError, match="preemptions without"):
        simulate_blis(blis_requests([0], 32, 90), limits, MODELS["trained-physics"])


def test_an_emptied_replica_takes_the_next_request_at_once() -> None:
    """BLIS ends a step's requests at its start: a request queued meanwhile does not wait for it."""
    model = MODELS["trained-physics"]
    alone = simulate_blis(blis_requests([0], 1000, 1), BlisSettings(), model)
    overlapping = simulate_blis(blis_requests([0, 1], 1000, 1), BlisSettings(), model)
    assert overlapping.ttft_us.tolist() == [alone.ttft_us[0]] * 2


def test_impossible_inputs_are_refused() -> None:
    with pytest.raises(InputError, match="input_tokens"):
        blis_requests([0], 0, 1)
    with pytest.raises(InputError, match="unknown request column 'prefix'"):
        blis_requests([0], 1, 1, prefix=3)
    with pytest.raises(InputError, match="whole"):
        blis_requests([0.5], 1, 1)
    with pytest.raises(InputError, match="request_id"):
        blis_requests([0, 1], 1, 1, request_id=["a", "a"])
    with pytest.raises(UsageError, match="did you mean 'fcfs'"):
        BlisSettings(scheduler="fcf")
    with pytest.raises(UsageError, match="max_num_seqs"):
        BlisSettings(max_num_seqs=0)


def test_a_delay_beyond_all_time_means_never() -> None:
    late = replace(MODELS["trained-physics"], coefficients=BlisCoefficients(ingest=1e30))
    result = simulate_blis(blis_requests([0, 9], 10, 5), BlisSettings(), late)
    assert result.status.tolist() == [Status.PENDING] * 2
    assert result.ended_us == 9


def test_no_requests_make_an_empty_report() -> None:
    report = simulate_blis(blis_requests([], [], []), BlisSettings(), MODELS["roofline"]).metrics()
    assert report["injected_requests"] == 0
    assert report["ttft_p99_ms"] == 0.0
