"""TraceV2 files: reading on one clock, writing, refusing."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailcast.errors import InputError
from tailcast.traces.trace_header import TraceHeader
from tailcast.traces.tracev2 import Trace, blank_columns, read_trace, write_trace
from traces.trace_files import NAMES, UNIX, plain, row, trace_of

TIMES = ("arrival_time", "send_time", "first_chunk_time", "last_chunk_time", "deadline")


def assert_same(one: Trace, two: Trace) -> None:
    assert one.header == two.header
    assert one.client_clock == two.client_clock
    assert one.columns.keys() == two.columns.keys()
    for name, column in one.columns.items():
        np.testing.assert_array_equal(column, two.columns[name], err_msg=name)


def test_times_are_seconds_and_missing_ones_nan(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path, plain("a", 500_000), row("b", arrival_time_us=900_000, status="error")
    )
    assert trace["arrival_time"].tolist() == [0.5, 0.9]
    assert trace["send_time"][0] == 0.501
    assert trace["last_chunk_time"][0] == pytest.approx(0.591)
    assert np.isnan(trace["send_time"][1])
    assert np.isnan(trace["deadline"]).all()
    assert trace.injection.tolist() == [0.501, 0.9]
    assert trace.client_clock == 0


def test_unix_time_is_put_on_the_clock_of_arrivals(tmp_path: Path) -> None:
    """Shift of section 5.3: earliest send minus earliest arrival."""
    trace = trace_of(
        tmp_path,
        plain("a", 700_000, clock=UNIX, late=3000, deadline_us=300_700_000),
        plain("b", 500_000, clock=UNIX, late=2000),
    )
    assert trace.client_clock == UNIX + 2000
    assert trace["request_id"].tolist() == ["b", "a"]
    assert trace["send_time"].tolist() == [0.5, 0.701]
    assert trace["first_chunk_time"].tolist() == [0.55, 0.751]
    assert trace["deadline"][1] == 300.7


def test_both_origins_give_the_same_latencies(tmp_path: Path) -> None:
    traces = [
        trace_of(tmp_path, *(plain(name, at, clock=clock) for name, at in (("a", 10), ("b", 70))))
        for clock in (0, UNIX)
    ]
    for name in ("first_chunk_time", "last_chunk_time"):
        delays = [trace[name] - trace.injection for trace in traces]
        np.testing.assert_allclose(delays[0], delays[1], atol=1e-9)


def test_an_error_without_a_send_time_does_not_hide_the_second_clock(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        row("a", arrival_time_us=100, status="error"),
        plain("b", 200, clock=UNIX),
    )
    assert trace.client_clock == UNIX + 1000
    assert trace.injection.max() == pytest.approx(0.0002)


def test_rows_in_completion_order_are_sorted_by_sending(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, plain("late", 900), plain("early", 100), plain("middle", 500))
    assert trace["request_id"].tolist() == ["early", "middle", "late"]


def test_optional_columns_are_read_by_name_wherever_they_stand(tmp_path: Path) -> None:
    names = [*NAMES[:4], "vllm_priority", *NAMES[4:], "think_time_us", "something_new"]
    cells = plain("a", 100).split(",")
    line = ",".join([*cells[:4], "-2", *cells[4:], "1500000", "x"])
    trace = trace_of(tmp_path, line, names=names)
    assert trace["vllm_priority"].tolist() == [-2]
    assert trace["think_time"].tolist() == [1.5]
    assert "something_new" not in trace.columns


def test_the_needed_columns_are_enough(tmp_path: Path) -> None:
    names = ["request_id", "input_tokens", "output_tokens", "arrival_time_us"]
    trace = trace_of(tmp_path, "a,10,2,0", names=names)
    assert trace["status"].tolist() == ["ok"]
    assert trace.injection.tolist() == [0.0]


@pytest.mark.parametrize("clock", [0, UNIX])
def test_a_trace_survives_a_round_trip(tmp_path: Path, clock: int) -> None:
    trace = trace_of(
        tmp_path,
        plain("a", 123_457, clock=clock, slo_class="critical", prefix_group="p", prefix_length=7),
        plain("b", 200_001, clock=clock, session_id="s", round_index=1, reason_ratio=0.25),
        row("c", arrival_time_us=300_000, status="error", error_message="'lost'"),
        plain("d", 400_003, clock=clock, deadline_us=900_000_000, finish_reason="length"),
    )
    write_trace(trace, tmp_path / "h2.yaml", tmp_path / "d2.csv")
    assert_same(trace, read_trace(tmp_path / "h2.yaml", tmp_path / "d2.csv"))
    text = (tmp_path / "d2.csv").read_text().splitlines()
    assert text[0] == ",".join(NAMES)
    assert sorted(text[1:]) == sorted((tmp_path / "data.csv").read_text().splitlines()[1:])


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    st.lists(st.integers(0, 10**12), min_size=1, max_size=20),
    st.sampled_from([0, UNIX]),
    st.lists(st.integers(0, 2**40), min_size=20, max_size=20),
)
def test_microseconds_survive_a_round_trip(
    tmp_path_factory: pytest.TempPathFactory, arrivals: list[int], clock: int, tokens: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("trace")
    rows = [
        plain(f"r{i}", at, clock=clock, input_tokens=tokens[i]) for i, at in enumerate(arrivals)
    ]
    trace = trace_of(folder, *rows)
    write_trace(trace, folder / "h.yaml", folder / "d.csv")
    before = (folder / "data.csv").read_text().splitlines()
    assert sorted(before) == sorted((folder / "d.csv").read_text().splitlines())


def test_our_columns_are_written_only_where_they_say_something(tmp_path: Path) -> None:
    columns = blank_columns(2) | {
        "request_id": np.array(["a", "b"]),
        "arrival_time": np.array([0.0, 1.0]),
        "status": np.array(["ok", "ok"]),
        "content_stream": np.array([0, -1]),
        "group": np.array([0, 0]),
        "parent_id": np.array(["", ""]),
    }
    trace = Trace(header=TraceHeader(), columns=columns)
    write_trace(trace, tmp_path / "h.yaml", tmp_path / "d.csv")
    names = (tmp_path / "d.csv").read_text().splitlines()[0].split(",")
    assert names == [*NAMES, "content_stream"]
    again = read_trace(tmp_path / "h.yaml", tmp_path / "d.csv")
    assert again["content_stream"].tolist() == [0, -1]


def test_columns_are_replaced_in_a_copy(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, plain("a", 100))
    assert trace.with_column("group", np.array([3]))["group"].tolist() == [3]
    assert "group" not in trace.columns
    with pytest.raises(InputError, match="2 values for 1 rows"):
        trace.with_column("group", np.array([1, 2]))
    with pytest.raises(InputError, match="no trace column 'statu'; did you mean 'status'"):
        trace["statu"]


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"input_tokens": "nan"}, r"data\.csv:3: input_tokens must be a whole number"),
        ({"input_tokens": -1}, r"data\.csv:3: input_tokens must not be negative"),
        ({"output_tokens": "x"}, "output_tokens must be a whole number"),
        ({"arrival_time_us": -5}, "arrival_time_us must not be negative"),
        ({"arrival_time_us": 1.5}, "arrival_time_us must be a whole number"),
        ({"status": "fine"}, "no status 'fine'"),
        ({"streaming": "maybe"}, "streaming must be true or false"),
        ({"reason_ratio": "inf"}, "reason_ratio must be a finite number"),
        ({"deadline_us": 50}, "deadline 50 is before arrival 200"),
        ({"first_chunk_time_us": 900, "last_chunk_time_us": 950}, "before send_time_us"),
        ({"last_chunk_time_us": 40_000}, "before first_chunk_time_us"),
        ({"request_id": "a"}, "request_id 'a' is there twice"),
        ({"request_id": ""}, "request_id '' is empty"),
    ],
)
def test_bad_rows_are_refused_with_their_line(
    tmp_path: Path, cells: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        trace_of(tmp_path, plain("a", 100), plain("b", 200, **cells))


def test_files_without_rows_or_columns_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no rows"):
        trace_of(tmp_path)
    with pytest.raises(InputError, match="no column 'request_id'"):
        trace_of(tmp_path, "1,2,3", names=["id", "input_tokens", "output_tokens"])


@pytest.mark.parametrize("folder", ["", "quiet"])
def test_the_recorded_trace_is_read_and_written_back(
    shared_data: Path, tmp_path: Path, folder: str
) -> None:
    source = shared_data / "cpu_engine_trace" / folder
    trace = read_trace(source / "header.yaml", source / "requests.csv")
    assert len(trace) == 300
    assert trace.client_clock == 0
    write_trace(trace, tmp_path / "h.yaml", tmp_path / "d.csv")
    written = (tmp_path / "d.csv").read_text().splitlines()
    assert sorted(written) == sorted((source / "requests.csv").read_text().splitlines())
