"""Faults of traces, each named with its row and column."""

from pathlib import Path

import pytest

from tailcast.traces.raw_table import Fault
from tailcast.traces.trace_faults import trace_faults
from tailcast.traces.trace_files import trace_files
from traces.trace_files import HEADER, NAMES, UNIX, plain, row

SERVER = (
    "server:\n  model: m\n  accelerator: a\n  version: '1'\n  max_num_seqs: 8\n"
    "  max_num_batched_tokens: 512\n  kv_blocks: 9\n"
)


def _faults(
    folder: Path,
    *rows: str,
    header: str = HEADER + SERVER,
    tokens: str | None = None,
    end: str = "\n",
) -> list[Fault]:
    (folder / "header.yaml").write_text(header)
    (folder / "requests.csv").write_text("\n".join([",".join(NAMES), *rows]) + end)
    if tokens is not None:
        text = "request_id,chunk_index,timestamp_us,n_tokens\n" + tokens
        (folder / "token_times.csv").write_text(text)
    return list(trace_faults(trace_files(folder)))


def _only(faults: list[Fault]) -> Fault:
    assert len(faults) == 1, [str(fault) for fault in faults]
    return faults[0]


def test_a_clean_trace_has_none(tmp_path: Path) -> None:
    assert _faults(tmp_path, plain("a", 0, num_chunks=5), plain("b", 10_000)) == []


def test_two_clocks_are_a_note_and_mixed_clocks_a_fault(tmp_path: Path) -> None:
    blis = _only(_faults(tmp_path, plain("a", 0, clock=UNIX), plain("b", 9_000, clock=UNIX)))
    assert (blis.kind, blis.severe) == ("two clocks", False)
    column = _faults(tmp_path, plain("a", 0, clock=UNIX), plain("b", 9_000))
    mixed = [fault for fault in column if fault.kind == "clock"]
    assert {fault.column for fault in mixed} == {
        "send_time_us",
        "first_chunk_time_us",
        "last_chunk_time_us",
    }
    one = plain("a", 0, send_time_us=UNIX)
    fault = next(f for f in _faults(tmp_path, one) if f.kind == "clock")
    assert "only send_time_us hold Unix times" in fault.message


def test_ttft_above_e2e_is_named_with_line_and_column(tmp_path: Path) -> None:
    fault = _only(_faults(tmp_path, plain("a", 0), plain("b", 0, last_chunk_time_us=40_000)))
    assert (fault.kind, fault.line, fault.column) == ("order", 3, "last_chunk_time_us")
    assert "TTFT exceeds E2E" in fault.message
    assert str(fault).startswith("requests.csv:3 [last_chunk_time_us]: ")


@pytest.mark.parametrize(
    ("cells", "column"),
    [
        ({"first_chunk_time_us": 500}, "first_chunk_time_us"),
        ({"arrival_time_us": 60_000, "late": -9_000}, "send_time_us"),
        ({"arrival_time_us": 60_000, "deadline_us": 5}, "deadline_us"),
    ],
)
def test_times_out_of_order_are_faults(tmp_path: Path, cells: dict[str, int], column: str) -> None:
    late = cells.pop("late", 1000)
    arrival = cells.pop("arrival_time_us", 0)
    faults = _faults(tmp_path, plain("a", arrival, late=late, **cells))
    assert ("order", column) in {(fault.kind, fault.column) for fault in faults}


def test_counts_that_disagree_are_faults(tmp_path: Path) -> None:
    faults = _faults(
        tmp_path,
        plain("a", 0, num_chunks=6),
        plain("b", 0, output_tokens=0),
        plain("c", 0, server_input_tokens=93),
    )
    found = {fault.column: fault for fault in faults if fault.kind == "count"}
    assert set(found) == {"num_chunks", "output_tokens", "server_input_tokens"}
    assert "usage and role chunks" in found["num_chunks"].message
    assert found["server_input_tokens"].line == 4
    near = _only(_faults(tmp_path, plain("a", 0, server_input_tokens=41)))
    assert not near.severe


def test_cells_that_are_no_numbers_are_named(tmp_path: Path) -> None:
    bad = plain("b", 0).replace(",40,", ",forty,")
    fault = next(f for f in _faults(tmp_path, plain("a", 0), bad) if f.kind == "number")
    assert (fault.line, fault.column) == (3, "input_tokens")


def test_truncated_and_empty_files_are_faults(tmp_path: Path) -> None:
    half = plain("b", 0)[:40]
    fault = next(f for f in _faults(tmp_path, plain("a", 0), half, end="") if f.kind == "truncated")
    assert fault.line == 3
    assert _faults(tmp_path)[0].kind == "empty"
    (tmp_path / "requests.csv").write_text("")
    assert trace_faults(trace_files(tmp_path))[0].message == "empty file"
    short = ",".join(plain("a", 0).split(",")[:-2])
    assert "cells for" in _faults(tmp_path, short, plain("b", 0))[0].message


def test_missing_columns_are_named_with_the_near_one(tmp_path: Path) -> None:
    (tmp_path / "header.yaml").write_text(HEADER + SERVER)
    text = "request_id,input_token,output_tokens,arrival_time_us\na,1,1,0\n"
    (tmp_path / "requests.csv").write_text(text)
    fault = _only(list(trace_faults(trace_files(tmp_path))))
    assert fault.message == "no column 'input_tokens'; did you mean 'input_token'?"


def test_identities_and_states_are_checked(tmp_path: Path) -> None:
    faults = _faults(
        tmp_path,
        plain("a", 0),
        plain("a", 0),
        plain("c", 0, status="okay"),
        row("d", input_tokens=4, output_tokens=3),
        plain("e", 0, status="timeout"),
    )
    found = {(fault.kind, fault.column): fault for fault in faults}
    assert found["identity", "request_id"].line == 3
    assert "did you mean 'ok'" in found["status", "status"].message
    assert found["status", "last_chunk_time_us"].line == 5
    assert not found["failed", "status"].severe


def test_a_late_client_is_noted(tmp_path: Path) -> None:
    fault = _only(_faults(tmp_path, plain("a", 0), plain("b", 1000, late=400_000)))
    assert (fault.kind, fault.severe, fault.line) == ("late client", False, 3)


def test_token_times_must_be_those_of_the_requests(tmp_path: Path) -> None:
    times = [51_000, 61_000, 71_000, 81_000, 91_000]
    good = "".join(f"a,{i},{t},1\n" for i, t in enumerate(times))
    assert _faults(tmp_path, plain("a", 0), tokens=good) == []
    stranger = _only(_faults(tmp_path, plain("a", 0), tokens=good + "z,0,5,1\n"))
    assert (stranger.line, stranger.message) == (7, "no such request in the trace")
    short = _only(_faults(tmp_path, plain("a", 0), tokens=good.replace("81000,1", "81000,0")))
    assert short.message == "5 tokens, but 4 in token_times.csv"
    back = _faults(tmp_path, plain("a", 0), tokens=good.replace("61000", "49000"))
    assert ("order", "timestamp_us") in {(f.kind, f.column) for f in back}
    none = _only(_faults(tmp_path, plain("a", 0), plain("b", 0), tokens=good))
    assert none.message == "no tokens in token_times.csv"


def test_a_first_gap_inside_itl_is_a_fault(tmp_path: Path) -> None:
    """A side file whose first time is the sending makes TTFT the first gap."""
    times = [1_000, 51_000, 61_000, 71_000, 91_000]
    tokens = "".join(f"a,{i},{t},1\n" for i, t in enumerate(times))
    fault = _only(_faults(tmp_path, plain("a", 0), tokens=tokens))
    assert (fault.kind, fault.file, fault.line) == ("first gap", "token_times.csv", 2)
    assert "first gap inside ITL" in fault.message


def test_events_read_together_are_noted(tmp_path: Path) -> None:
    tokens = "a,0,51000,1\na,1,51000,1\na,2,71000,1\na,3,71000,1\na,4,91000,1\n"
    fault = _only(_faults(tmp_path, plain("a", 0), tokens=tokens))
    assert (fault.kind, fault.severe) == ("merged", False)
    assert fault.message.startswith("50% of the token events")


def test_what_the_header_says_against_the_run_is_noted(tmp_path: Path) -> None:
    header = (
        HEADER
        + SERVER
        + "complete: false\nunsent: {stopped: 3, parent_failed: 2}\n"
        + "client: {bottleneck_reasons: [too slow]}\n"
        + "counters: {generation_tokens: 200, tokens_received: 100, restarts: 1}\n"
    )
    faults = _faults(tmp_path, plain("a", 0), header=header)
    assert not any(fault.severe for fault in faults)
    text = " ".join(str(fault) for fault in faults)
    for words in ("3 unsent", "2 turns", "too slow", "other traffic", "started again 1"):
        assert words in text
    bare = _only(_faults(tmp_path, plain("a", 0), header=HEADER))
    assert "not recorded: model, accelerator" in bare.message


def test_a_bad_header_does_not_hide_the_rows(tmp_path: Path) -> None:
    faults = _faults(tmp_path, plain("a", 0, num_chunks=9), header="trace_version: 9\n")
    assert [fault.kind for fault in faults] == ["header", "count"]


def test_real_traces_have_no_severe_fault(shared_data: Path) -> None:
    for folder in ("cpu_engine_trace", "cpu_engine_trace/quiet"):
        faults = trace_faults(trace_files(shared_data / folder))
        assert [str(fault) for fault in faults if fault.severe] == []
