"""Traces as evidence: who counts, who only loads the server, and which runs are one."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from loop_runs import recorded_trace, requests, served, small_model
from tailcast.errors import InputError
from tailcast.inference.trace_input import same_source, staged_trace, trace_run, trace_runs
from tailcast.latency_model import LatencyModel
from tailcast.traces.token_times import TokenTimes
from tailcast.traces.trace_latencies import trace_observed
from tailcast.traces.tracev2 import Trace


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LatencyModel:
    """Five coefficients."""
    return small_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def trace(model: LatencyModel) -> Trace:
    """120 requests, all answered."""
    return recorded_trace(model, requests(120))


def failed(trace: Trace, rows: list[int], tokens: int) -> Trace:
    """Some requests got so many tokens and then failed."""
    status, output = trace["status"].copy(), trace["output_tokens"].copy()
    status[rows], output[rows] = "timeout", tokens
    return trace.with_column("status", status).with_column("output_tokens", output)


def test_statistics_are_those_of_the_trace(trace: Trace) -> None:
    staged = staged_trace(trace)
    expected = {
        (o.metric, o.statistic): o.value
        for o in trace_observed(trace, statistics=("mean", "p50", "p90", "p99"))
    }
    assert {(o.metric, o.statistic): o.value for o in staged.observed} == expected
    assert (staged.n_stage, staged.n_left_out, staged.n_uncounted) == (1, 0, 0)
    np.testing.assert_array_equal(staged.requests.group, 0)


def test_aborted_requests_load_the_server_and_count_in_nothing(trace: Trace) -> None:
    staged = staged_trace(failed(trace, [3, 50], 5))
    assert staged.n_uncounted == 2
    assert len(staged.requests) == 120
    assert staged.requests.output_tokens[3] == 5
    np.testing.assert_array_equal(np.flatnonzero(staged.requests.group == 1), [3, 50])
    assert all(o.n_requests == 118 for o in staged.observed)


def test_requests_without_a_token_are_left_out_and_counted(trace: Trace) -> None:
    staged = staged_trace(failed(trace, [0, 1, 2], 0))
    assert (staged.n_left_out, staged.n_uncounted, len(staged.requests)) == (3, 0, 117)


def test_warm_up_requests_are_sent_and_not_counted(trace: Trace) -> None:
    warm = replace(trace, header=replace(trace.header, warm_up_requests=10))
    staged = staged_trace(warm)
    assert staged.n_uncounted == 10
    assert (staged.requests.group[:10] == 1).all()


def test_tails_of_few_requests_are_no_statistics(model: LatencyModel) -> None:
    few = staged_trace(recorded_trace(model, requests(40)))
    assert {o.statistic for o in few.observed} == {"mean", "p50", "p90"}
    fewest = staged_trace(recorded_trace(model, requests(5)))
    assert {o.statistic for o in fewest.observed} == {"mean"}


def test_groups_become_stages_in_order(trace: Trace) -> None:
    groups = np.where(np.arange(120) < 60, 7, 2)
    staged = staged_trace(trace, groups=groups)
    assert staged.labels == (2, 7)
    assert (staged.requests.group[:60] == 1).all()
    by_stage = {
        o.stage: o.value for o in staged.observed if (o.metric, o.statistic) == ("e2e", "mean")
    }
    e2e = trace["last_chunk_time"] - trace.injection
    assert by_stage[1] == pytest.approx(e2e[:60].mean())
    assert by_stage[0] == pytest.approx(e2e[60:].mean())


def test_gaps_between_tokens_are_statistics_where_they_are_known(trace: Trace) -> None:
    rows = np.repeat(np.arange(120), 3)
    times = np.tile([0.0, 0.02, 0.05], 120)
    seen = TokenTimes(row=rows, time=times, n_tokens=np.ones(360, dtype=np.int64))
    staged = staged_trace(trace, token_times=seen)
    (mean,) = [o for o in staged.observed if (o.metric, o.statistic) == ("itl", "mean")]
    assert mean.value == pytest.approx(0.025)


def test_a_trace_of_failures_is_refused(trace: Trace) -> None:
    with pytest.raises(InputError, match="no request of the trace succeeded"):
        staged_trace(failed(trace, list(range(120)), 5))


def test_a_run_is_one_realisation_with_ttft_and_e2e(trace: Trace, model: LatencyModel) -> None:
    run = trace_run(staged_trace(trace), served(), "a", model)
    assert run.n_seed == 1
    assert run.requests(0) is run.requests(5)
    assert {o.metric for o in run.outputs} == {"ttft", "e2e"}
    tokens = float(trace["output_tokens"].mean())
    for output in run.outputs:
        assert output.finish == float(output.metric == "e2e")
        assert output.stream == (tokens if output.metric == "e2e" else 1.0)


def test_identity_is_the_content_and_not_the_name(trace: Trace, model: LatencyModel) -> None:
    staged = staged_trace(trace)
    first, renamed = (trace_run(staged, served(), name, model) for name in ("a", "b c"))
    assert same_source(first.name, renamed.name)
    assert first.content == renamed.content
    other = trace_run(staged_trace(failed(trace, [3], 5)), served(), "a", model)
    assert not same_source(first.name, other.name)
    assert other.content != first.content
    assert same_source("17", "17")
    assert not same_source("run 17", "my 17")
    assert Path(first.name).name == first.name


def test_engine_limits_are_part_of_the_content(trace: Trace, model: LatencyModel) -> None:
    own = served()
    smaller = replace(own, engine=replace(own.engine, max_num_seqs=4))
    staged = staged_trace(trace)
    assert (
        trace_run(staged, own, "a", model).content != trace_run(staged, smaller, "a", model).content
    )


def test_phases_that_follow_each_other_are_runs_of_their_own(
    trace: Trace, model: LatencyModel
) -> None:
    staged = staged_trace(trace, groups=np.where(np.arange(120) < 70, 7, 2))
    runs = trace_runs(staged, served(), "a", model)
    assert [run.name.split()[1] for run in runs] == ["a/7", "a/2"]
    assert [len(run.requests(0)) for run in runs] == [70, 50]
    whole = {
        (o.stage, o.key): o.log_observed for o in trace_run(staged, served(), "a", model).outputs
    }
    for run, stage in zip(runs, (1, 0), strict=True):
        assert {o.key: o.log_observed for o in run.outputs} == {
            key: value for (k, key), value in whole.items() if k == stage
        }
        assert {o.stage for o in run.outputs} == {0}


def test_groups_that_overlap_stay_one_run(trace: Trace, model: LatencyModel) -> None:
    staged = staged_trace(trace, groups=np.arange(120) % 2)
    assert len(trace_runs(staged, served(), "a", model)) == 1


def test_an_aborted_request_loads_the_phase_that_it_fell_into(
    trace: Trace, model: LatencyModel
) -> None:
    groups = np.where(np.arange(120) < 70, 0, 1)
    first, second = trace_runs(
        staged_trace(failed(trace, [90], 5), groups=groups), served(), "a", model
    )
    assert len(first.requests(0)) == 70
    assert (second.requests(0).group == 1).sum() == 1
