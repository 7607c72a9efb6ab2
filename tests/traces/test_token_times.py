"""Side files with the time of every chunk."""

from pathlib import Path

import numpy as np
import pytest

from tailcast.errors import InputError
from tailcast.traces.token_times import TokenTimes, read_token_times, token_gaps, write_token_times
from tailcast.traces.tracev2 import Trace, read_trace
from traces.trace_files import UNIX, plain, trace_of


def read(folder: Path, trace: Trace, *lines: str, tokens: bool = False) -> TokenTimes:
    path = folder / "itl.csv"
    names = "request_id,chunk_index,timestamp_us" + (",n_tokens" if tokens else "")
    path.write_text("\n".join([names, *lines]) + "\n")
    return read_token_times(path, trace)


@pytest.mark.parametrize("clock", [0, UNIX])
def test_chunks_are_matched_and_put_on_the_clock_of_the_trace(tmp_path: Path, clock: int) -> None:
    trace = trace_of(tmp_path, plain("b", 100, clock=clock), plain("a", 0, clock=clock))
    stamp = clock + 1000
    times = read(
        tmp_path,
        trace,
        f"b,1,{stamp + 70_000}",
        f"a,0,{stamp + 50_000}",
        f"b,0,{stamp + 50_100}",
        f"stranger,0,{stamp}",
        f"a,1,{stamp + 60_000}",
    )
    assert times.row.tolist() == [0, 0, 1, 1]
    delay = times.time - trace.injection[times.row]
    np.testing.assert_allclose(delay, [0.05, 0.06, 0.05, 0.0699], atol=1e-9)
    assert times.n_unmatched == 1
    assert times.n_tokens.tolist() == [1, 1, 1, 1]


def test_gaps_are_shared_by_the_tokens_of_a_chunk(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, plain("a", 0), plain("b", 10))
    lines = ("a,0,10000,1", "a,1,40000,3", "a,2,50000,0", "a,3,55000,1", "b,0,20000,1")
    row, gap = token_gaps(read(tmp_path, trace, *lines, tokens=True))
    assert row.tolist() == [0, 0, 0, 0]
    np.testing.assert_allclose(gap, [0.01, 0.01, 0.01, 0.005])


@pytest.mark.parametrize("clock", [0, UNIX])
def test_chunks_survive_a_round_trip(tmp_path: Path, clock: int) -> None:
    trace = trace_of(tmp_path, plain("a", 0, clock=clock), plain("b", 10, clock=clock))
    lines = [f"a,0,{clock + 51_000},1", f"a,1,{clock + 60_001},2", f"b,0,{clock + 55_000},1"]
    times = read(tmp_path, trace, *lines, tokens=True)
    write_token_times(times, trace, tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_text().splitlines()[1:] == lines


def test_an_empty_side_file_has_no_gaps(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, plain("a", 0))
    times = read(tmp_path, trace)
    assert len(times.row) == len(token_gaps(times)[1]) == 0
    write_token_times(times, trace, tmp_path / "again.csv")
    assert len(read_token_times(tmp_path / "again.csv", trace).row) == 0


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["a,0,x"], r"itl\.csv:2: timestamp_us must be a whole number"),
        (["a,nan,5"], "chunk_index must be a whole number"),
        (["a,0,50", "a,1,40"], "chunks of request 'a' go back in time"),
    ],
)
def test_bad_side_files_are_refused(tmp_path: Path, lines: list[str], message: str) -> None:
    trace = trace_of(tmp_path, plain("a", 0))
    with pytest.raises(InputError, match=message):
        read(tmp_path, trace, *lines)
    with pytest.raises(InputError, match="n_tokens must not be negative"):
        read(tmp_path, trace, "a,0,50,-1", tokens=True)


def test_the_recorded_side_file_belongs_to_its_trace(shared_data: Path) -> None:
    source = shared_data / "cpu_engine_trace"
    trace = read_trace(source / "header.yaml", source / "requests.csv")
    times = read_token_times(source / "token_times.csv", trace)
    assert times.n_unmatched == 0
    produced = np.bincount(times.row, weights=times.n_tokens, minlength=len(trace))
    np.testing.assert_array_equal(produced, trace["output_tokens"])
    first = np.flatnonzero(np.diff(times.row, prepend=-1))
    np.testing.assert_allclose(times.time[first], trace["first_chunk_time"][times.row[first]])
