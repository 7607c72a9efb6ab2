"""Replay of traces and export of runs."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailcast.errors import InputError, UsageError
from tailcast.request import RequestTable, request_table
from tailcast.traces.trace_header import TraceHeader, TraceServer
from tailcast.traces.trace_replay import replayed_rows, run_trace, trace_requests
from tailcast.traces.tracev2 import Trace, read_trace, write_trace
from tailcast.workload.mapping import workload_from_mapping
from tailcast.workload.materialise import materialise
from traces.trace_files import HEADER, NAMES, UNIX, plain, row, trace_of

STUDIES: tuple[dict[str, Any], ...] = (
    {"preset": "chatbot", "rate": 3},
    {"preset": "general", "rate": 3},
    {"preset": "chatbot", "rate": 1, "session": {"turns": 3, "think_time": "2s"}},
    {"preset": "general", "concurrency": {"users": 4, "think_time": "1s"}},
    {
        "rate": 2,
        "classes": [
            {"name": "a", "preset": "summarization", "priority": -1, "timeout": "30s"},
            {"name": "b", "preset": "codegen", "prefix": {"tokens": 32}},
        ],
    },
)


def exported(requests: RequestTable, **columns: Any) -> Trace:
    """Trace of a run in which every request takes one second and its answer another."""
    arrival = requests.arrival.copy()
    for i in np.flatnonzero(requests.parent >= 0):
        before = arrival[requests.parent[i]] + 2.0 + requests.think_time[i]
        arrival[i] = max(arrival[i], before)
    return run_trace(
        requests,
        arrival=arrival,
        first_token=arrival + 1.0,
        finish=arrival + 2.0,
        header=TraceHeader(server=TraceServer(model="m")),
        **columns,
    )


def through_files(folder: Path, trace: Trace) -> Trace:
    write_trace(trace, folder / "h.yaml", folder / "d.csv")
    return read_trace(folder / "h.yaml", folder / "d.csv")


def partition(column: np.ndarray[Any, Any]) -> list[int]:
    """Values renamed in order of appearance: equal for equal groupings."""
    names: dict[int, int] = {-1: -1}
    return [names.setdefault(value, len(names)) for value in column.tolist()]


@pytest.mark.parametrize("study", STUDIES)
def test_a_run_survives_export_and_replay(tmp_path: Path, study: dict[str, Any]) -> None:
    table = materialise(workload_from_mapping(study | {"n_requests": 60}, "w"), 5)
    trace = through_files(tmp_path, exported(table))
    again = trace_requests(trace, sessions="closed-loop")
    order = [int(name.removeprefix("request_")) for name in trace["request_id"].tolist()]
    place = np.argsort(order)
    assert len(again) == 60
    for name in ("input_tokens", "output_tokens", "prefix_tokens", "priority", "group"):
        np.testing.assert_array_equal(getattr(again, name), getattr(table, name)[order], name)
    np.testing.assert_array_equal(again.session_output, table.session_output[order])
    for name in ("prefix_stream", "content_stream"):
        assert partition(getattr(again, name)) == partition(getattr(table, name)[order])
    parents = table.parent[order]
    np.testing.assert_array_equal(again.parent, np.where(parents < 0, -1, place[parents]))
    np.testing.assert_allclose(again.think_time, table.think_time[order], atol=1e-6)
    np.testing.assert_allclose(again.timeout, table.timeout[order], atol=2e-6)
    free = again.parent < 0
    np.testing.assert_allclose(again.arrival[free], table.arrival[order][free], atol=1e-6)


@pytest.mark.parametrize("study", STUDIES[2:4])
def test_recorded_times_are_kept_by_default(tmp_path: Path, study: dict[str, Any]) -> None:
    table = materialise(workload_from_mapping(study | {"n_requests": 30}, "w"), 5)
    trace = through_files(tmp_path, exported(table))
    again = trace_requests(trace)
    assert np.all(again.parent == -1)
    np.testing.assert_allclose(again.arrival, trace["arrival_time"], atol=1e-9)


def test_replay_injects_at_the_time_of_sending(tmp_path: Path) -> None:
    """The first request arrives at the earliest recorded arrival, on either clock."""
    tables = [
        trace_requests(
            trace_of(
                tmp_path,
                plain("a", 500_000, clock=clock, late=10_000),
                plain("b", 600_000, clock=clock, late=40_000),
            )
        )
        for clock in (0, UNIX)
    ]
    for table in tables:
        np.testing.assert_allclose(table.arrival, [0.5, 0.63], atol=1e-9)


def test_prompts_are_the_servers_count_unless_a_prefix_is_shared(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        plain("a", 0, input_tokens=40, server_input_tokens=43),
        plain("b", 10, input_tokens=40),
        plain("c", 20, input_tokens=40, server_input_tokens=99, prefix_group="p", prefix_length=8),
        plain("d", 30, input_tokens=41, prefix_group="q", prefix_length=9),
        plain("e", 40, input_tokens=42, prefix_group="p", prefix_length=8),
    )
    table = trace_requests(trace)
    assert table.input_tokens.tolist() == [43, 40, 48, 50, 50]
    assert table.prefix_stream.tolist() == [-1, -1, 0, 1, 0]
    assert table.prefix_tokens.tolist() == [0, 0, 8, 9, 8]


def test_deadlines_become_timeouts(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        plain("a", 1_000_000, deadline_us=301_000_000, clock=UNIX),
        plain("b", 1_000_000, deadline_us=1_000_000, clock=UNIX),
        plain("c", 1_000_000, clock=UNIX),
    )
    assert trace_requests(trace).timeout.tolist() == [300.0, 1e-6, math.inf]


def test_failures_without_output_are_left_out_and_counted(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        plain("a", 0),
        row("b", arrival_time_us=1010, input_tokens=9, status="error"),
        plain("c", 20, status="timeout", first_chunk_time_us=0, last_chunk_time_us=0),
    )
    assert replayed_rows(trace).tolist() == [0, 2]
    assert len(trace_requests(trace)) == 2
    with pytest.raises(InputError, match="none can be replayed"):
        trace_requests(trace_of(tmp_path, row("b", input_tokens=9, status="error")))


def test_sessions_close_the_loop_on_request(tmp_path: Path) -> None:
    header = HEADER + "session_context_growth: accumulate\n"
    rows = [
        plain("a0", 0, session_id="a"),
        plain("b0", 50_000, session_id="b"),
        plain("a1", 200_000, session_id="a", round_index=1),
        plain("a2", 500_000, session_id="a", round_index=2),
        plain("c", 600_000),
    ]
    trace = trace_of(tmp_path, *rows, header=header)
    table = trace_requests(trace, sessions="closed-loop")
    assert table.parent.tolist() == [-1, -1, 0, 2, -1]
    np.testing.assert_allclose(table.think_time, [0, 0, 0.11, 0.21, 0], atol=1e-9)
    np.testing.assert_allclose(table.arrival, [0, 0.05, 0, 0, 0.6], atol=1e-9)
    assert table.content_stream.tolist() == [0, 1, 0, 0, -1]
    assert table.session_output.tolist() == [True, True, True, True, False]


def test_recorded_think_times_win_over_gaps(tmp_path: Path) -> None:
    names = [*NAMES, "think_time_us"]
    rows = [
        plain("a0", 0, session_id="a") + ",0",
        plain("a1", 200_000, session_id="a", round_index=1) + ",70000",
    ]
    table = trace_requests(trace_of(tmp_path, *rows, names=names), sessions="closed-loop")
    assert table.think_time.tolist() == [0.0, 0.07]


def test_sessions_without_growth_have_unique_prompts(tmp_path: Path) -> None:
    rows = [plain("a0", 0, session_id="a"), plain("a1", 9_000_000, session_id="a", round_index=1)]
    assert trace_requests(trace_of(tmp_path, *rows)).content_stream.tolist() == [-1, -1]


def test_groups_come_from_a_column_on_request(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        plain("a", 0, slo_class="x"),
        plain("b", 1, slo_class="y"),
        plain("c", 2, slo_class="x"),
    )
    assert trace_requests(trace).group.tolist() == [0, 0, 0]
    assert trace_requests(trace, group_by="slo_class").group.tolist() == [0, 1, 0]
    phases = trace.with_column("group", np.array([0, 0, 1]))
    assert trace_requests(phases).group.tolist() == [0, 0, 1]
    with pytest.raises(UsageError, match="did you mean 'slo_class'"):
        trace_requests(trace, group_by="slo_clas")
    with pytest.raises(UsageError, match="did you mean 'closed-loop'"):
        trace_requests(trace, sessions="closed")


def test_unfinished_and_unsent_requests_are_told_apart() -> None:
    table = request_table(
        np.array([0.0, 1.0, 1.0]), 10, 3, parent=np.array([-1, -1, 1]), priority=np.array([0, 2, 0])
    )
    trace = run_trace(
        table,
        arrival=np.array([0.0, 1.0, np.nan]),
        first_token=np.array([0.5, np.nan, np.nan]),
        finish=np.array([0.9, np.nan, np.nan]),
        header=TraceHeader(),
        cached_tokens=np.array([4, 0, 0]),
    )
    assert trace["request_id"].tolist() == ["request_0", "request_1"]
    assert trace["status"].tolist() == ["ok", "incomplete"]
    assert trace["num_chunks"].tolist() == [3, 0]
    assert trace["cached_tokens"].tolist() == [4, 0]


def test_a_closed_loop_needs_its_arrivals() -> None:
    table = request_table(np.array([0.0, 0.0]), 10, 3, parent=np.array([-1, 0]))
    with pytest.raises(UsageError, match="closed loop"):
        run_trace(table, first_token=np.ones(2), finish=np.ones(2), header=TraceHeader())


@settings(max_examples=30, deadline=None, derandomize=True)
@given(st.permutations(range(8)), st.sampled_from([0, UNIX]))
def test_the_order_of_rows_does_not_matter(
    tmp_path_factory: pytest.TempPathFactory, order: list[int], clock: int
) -> None:
    folder = tmp_path_factory.mktemp("trace")
    rows = [plain(f"r{i}", i * 1000, clock=clock, input_tokens=i + 1) for i in range(8)]
    table = trace_requests(trace_of(folder, *(rows[i] for i in order)))
    assert table.input_tokens.tolist() == list(range(1, 9))


def test_the_recorded_trace_is_replayed(shared_data: Path) -> None:
    source = shared_data / "cpu_engine_trace"
    trace = read_trace(source / "header.yaml", source / "requests.csv")
    table = trace_requests(trace)
    assert len(table) == 298
    assert len(trace) - len(replayed_rows(trace)) == 2
    assert table.arrival[0] == pytest.approx(0.658235)
    assert int(table.output_tokens.sum()) == 8638
