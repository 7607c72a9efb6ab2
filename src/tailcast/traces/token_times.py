"""The side file of a trace with the time of every chunk of every answer."""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import InputError
from tailcast.traces.tracev2 import Trace
from tailcast.workload.csv_file import CsvFile


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenTimes:
    """Chunks of all answers, by row of the trace and time; every array has shape (n_chunk,).

    Parameters
    ----------
    row : ndarray of int
        Row of the trace.
    time : ndarray
        Arrival of the chunk at the client, in seconds from the start of the run.
    n_tokens : ndarray of int
        Tokens in the chunk; 1 where the file does not say.
    n_unmatched : int
        Chunks of requests that the trace does not have; they are left out.
    """

    row: NDArray[np.int64]
    time: NDArray[np.float64]
    n_tokens: NDArray[np.int64]
    n_unmatched: int = 0


def read_token_times(path: Path | str, trace: Trace) -> TokenTimes:
    """Chunk times that belong to a trace.

    Parameters
    ----------
    path : pathlib.Path or str
        CSV ``request_id,chunk_index,timestamp_us`` and optionally ``n_tokens``; on the trace's
        arrival clock or on its client clock, whichever the times are nearer to.
    trace : Trace
        The trace they were recorded with.

    Returns
    -------
    TokenTimes
        Sorted by row and chunk index, on the clock of the trace.

    Raises
    ------
    InputError
        If the file is malformed or the chunks of a request go back in time.
    """
    file = CsvFile(Path(path))
    file.require(("request_id", "chunk_index", "timestamp_us"))
    place = {name: row for row, name in enumerate(trace["request_id"].tolist())}
    row = np.array([place.get(name, -1) for name in file.text("request_id")], dtype=np.int64)
    index, stamp = file.whole("chunk_index"), file.whole("timestamp_us")
    tokens = file.whole("n_tokens", empty=1) if "n_tokens" in file else np.ones_like(index)
    for bad in np.flatnonzero(tokens < 0):
        raise file.error(int(bad), f"n_tokens must not be negative, got {tokens[bad]}")
    if len(stamp) and abs(int(stamp.min())) > abs(int(stamp.min()) - trace.client_clock):
        stamp = stamp - trace.client_clock
    order = np.lexsort((index, row))
    order = order[row[order] >= 0]
    row, time = row[order], stamp[order] / 1e6
    for back in np.flatnonzero((np.diff(time) < 0) & (np.diff(row) == 0)):
        name = str(trace["request_id"][row[back]])
        raise InputError(f"{path}: chunks of request {name!r} go back in time")
    return TokenTimes(
        row=row,
        time=time,
        n_tokens=tokens[order],
        n_unmatched=len(index) - len(order),
    )


def write_token_times(times: TokenTimes, trace: Trace, path: Path | str) -> None:
    """Write a side file so that `read_token_times` gives it back.

    Parameters
    ----------
    times : TokenTimes
        What to write.
    trace : Trace
        The trace they belong to.
    path : pathlib.Path or str
        CSV file to write, on the trace's client clock.
    """
    names = trace["request_id"][times.row].tolist()
    starts = np.flatnonzero(np.append(True, np.diff(times.row) != 0))
    counts = np.diff(np.append(starts, len(times.row)))
    index = np.arange(len(times.row)) - np.repeat(starts, counts) if len(names) else times.row
    stamp = np.rint(times.time * 1e6).astype(np.int64) + trace.client_clock
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("request_id", "chunk_index", "timestamp_us", "n_tokens"))
        writer.writerows(
            zip(names, index.tolist(), stamp.tolist(), times.n_tokens.tolist(), strict=True)
        )


def token_gaps(times: TokenTimes) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Inter-token latencies: gaps between consecutive chunks of a request, shared by their tokens.

    A chunk of k tokens ends k gaps of a k-th of its gap each, since an engine step yields one
    token a request and several were merged on their way.

    Parameters
    ----------
    times : TokenTimes
        Chunks of a trace.

    Returns
    -------
    row : ndarray of int, shape (n_gap,)
        Row of the trace that each gap belongs to.
    gap : ndarray, shape (n_gap,)
        Seconds.
    """
    same = np.diff(times.row) == 0
    gap, tokens = np.diff(times.time)[same], times.n_tokens[1:][same]
    gap, row, tokens = gap[tokens > 0], times.row[1:][same][tokens > 0], tokens[tokens > 0]
    return np.repeat(row, tokens), np.repeat(gap / tokens, tokens)
