"""Per-request traces in TraceV2: a YAML header and a CSV of one row a request."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import InputError, near_name
from tailcast.traces.trace_header import TraceHeader, read_header, write_header
from tailcast.workload.csv_file import CsvFile

STATUSES = ("ok", "error", "timeout", "incomplete")
# Column, kind, and whether it is written only where some row has a value. The order is TraceV2's;
# the last five are ours, and readers that do not know them ignore trailing columns.
_LAYOUT = (
    ("request_id", "text", False),
    ("client_id", "text", False),
    ("tenant_id", "text", False),
    ("slo_class", "text", False),
    ("vllm_priority", "whole", True),
    ("session_id", "text", False),
    ("round_index", "whole", False),
    ("prefix_group", "text", False),
    ("prefix_length", "whole", False),
    ("streaming", "flag", False),
    ("input_tokens", "whole", False),
    ("output_tokens", "whole", False),
    ("text_tokens", "whole", False),
    ("image_tokens", "whole", False),
    ("audio_tokens", "whole", False),
    ("video_tokens", "whole", False),
    ("reason_ratio", "number", False),
    ("model", "text", False),
    ("deadline_us", "run", False),
    ("slo_target_us", "span", True),
    ("server_input_tokens", "whole", False),
    ("arrival_time_us", "run", False),
    ("send_time_us", "client", False),
    ("first_chunk_time_us", "client", False),
    ("last_chunk_time_us", "client", False),
    ("num_chunks", "whole", False),
    ("status", "text", False),
    ("error_message", "text", False),
    ("finish_reason", "text", False),
    ("x_request_id", "text", True),
    ("adapter", "text", True),
    ("think_time_us", "span", True),
    ("content_stream", "whole", True),
    ("session_output", "flag", True),
    ("parent_id", "text", True),
    ("group", "whole", True),
    ("cached_tokens", "whole", True),
)
_NEEDED = ("request_id", "input_tokens", "output_tokens", "arrival_time_us")
_SIGNED = ("vllm_priority", "content_stream")
# Two clocks that differ by more than this are taken for two clocks, not for late sending.
_SAME_CLOCK_US = 60_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One recorded or generated run; rows are sorted by the time of sending.

    Parameters
    ----------
    header : TraceHeader
        What was run.
    columns : mapping of str to ndarray, shape (n_row,)
        TraceV2's columns by name, without the suffix ``_us``: times in seconds from the start of
        the run on one clock, NaN where there is none.
    client_clock : int
        Microseconds that the file's send, first and last times are ahead of its arrival times, 0
        for a file with one clock. Already taken off `columns`.
    """

    header: TraceHeader
    columns: Mapping[str, NDArray[Any]]
    client_clock: int = 0

    def __len__(self) -> int:
        return len(self.columns["request_id"])

    def __getitem__(self, name: str) -> NDArray[Any]:
        if name not in self.columns:
            raise InputError(f"no trace column {name!r}; {near_name(name, self.columns)}")
        return self.columns[name]

    @property
    def injection(self) -> NDArray[np.float64]:
        """Time each request was sent, or arrived where that is not recorded, in seconds."""
        send, arrival = self["send_time"], self["arrival_time"]
        return np.where(np.isnan(send), arrival, send)

    def with_column(self, name: str, values: NDArray[Any]) -> "Trace":
        """Copy with one column replaced or added, for example a `group` of one's own.

        Parameters
        ----------
        name : str
            Name of the column.
        values : ndarray, shape (n_row,)
            Its values.

        Returns
        -------
        Trace
            The copy.

        Raises
        ------
        InputError
            If there are not as many values as rows.
        """
        if len(values) != len(self):
            raise InputError(f"trace column {name!r}: {len(values)} values for {len(self)} rows")
        return replace(self, columns={**self.columns, name: values})


def read_trace(header_path: Path | str, data_path: Path | str) -> Trace:
    """Trace of a header and a data file.

    Send, first-chunk and last-chunk times may be on another clock than arrivals (BLIS writes Unix
    time there): then one constant, the earliest send minus the earliest arrival, is taken off.

    Parameters
    ----------
    header_path : pathlib.Path or str
        YAML.
    data_path : pathlib.Path or str
        CSV; columns are found by name, unknown ones are ignored.

    Returns
    -------
    Trace
        All rows, failed ones too.

    Raises
    ------
    InputError
        If a file is malformed; the message has file and line.
    """
    header = read_header(Path(header_path))
    file = CsvFile(Path(data_path))
    if not len(file):
        raise InputError(f"{data_path}: no rows")
    file.require(_NEEDED)
    columns: dict[str, NDArray[Any]] = {}
    for name, kind, optional in _LAYOUT:
        if name in file or not optional:
            columns[name] = _column(file, name, kind)
    _check(file, columns)
    offset = _client_clock(columns)
    for name, kind, _ in _LAYOUT:
        if kind in {"run", "client", "span"} and name in columns:
            shift = offset if kind == "client" else 0
            absent = columns[name] == 0 if name != "arrival_time_us" else columns[name] < 0
            seconds = np.where(absent, np.nan, (columns[name] - shift) / 1e6)
            columns[name.removesuffix("_us")] = seconds
            del columns[name]
    trace = Trace(header=header, columns=columns, client_clock=offset)
    order = np.lexsort((columns["round_index"], trace.injection))
    return Trace(
        header=header,
        columns={name: column[order] for name, column in columns.items()},
        client_clock=offset,
    )


def write_trace(trace: Trace, header_path: Path | str, data_path: Path | str) -> None:
    """Write a trace so that `read_trace` gives it back.

    Parameters
    ----------
    trace : Trace
        What to write; times are rounded to microseconds and put back on the file's clocks.
    header_path, data_path : pathlib.Path or str
        YAML and CSV file to write.
    """
    write_header(trace.header, Path(header_path))
    names, cells = [], []
    for name, kind, optional in _LAYOUT:
        key = name.removesuffix("_us")
        if key not in trace.columns:
            continue
        column = trace.columns[key]
        if optional and not _has_values(name, column):
            continue
        names.append(name)
        cells.append(_cells(column, kind, trace.client_clock))
    with open(data_path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(zip(*cells, strict=True))


def blank_columns(n: int) -> dict[str, NDArray[Any]]:
    """Columns of a trace of which nothing is known.

    Parameters
    ----------
    n : int
        Number of rows.

    Returns
    -------
    dict of str to ndarray
        Every column that is always written, by its name in `Trace`.
    """
    empty = {"text": "", "whole": 0, "number": 0.0, "flag": False}
    return {
        name.removesuffix("_us"): np.full(n, empty.get(kind, np.nan))
        for name, kind, optional in _LAYOUT
        if not optional
    }


def _column(file: CsvFile, name: str, kind: str) -> NDArray[Any]:
    if name not in file:
        default = {"text": "", "number": 0.0, "flag": name == "streaming"}.get(kind, 0)
        default = "ok" if name == "status" else default
        return np.full(len(file), default)
    if kind == "text":
        return np.array(file.text(name), dtype=np.str_)
    if kind == "number":
        return file.numbers(name, empty=0.0)
    if kind == "flag":
        return _flags(file, name)
    values = file.whole(name, empty=-1 if name == "content_stream" else 0)
    if name not in _SIGNED:
        for row in np.flatnonzero(values < 0):
            raise file.error(int(row), f"{name} must not be negative, got {values[row]}")
    return values


def _flags(file: CsvFile, name: str) -> NDArray[np.bool_]:
    values = np.zeros(len(file), dtype=np.bool_)
    for row, cell in enumerate(file.text(name)):
        word = cell.strip().lower()
        if word not in {"true", "false", "1", "0", ""}:
            raise file.error(row, f"{name} must be true or false, got {cell!r}")
        values[row] = word in {"true", "1"}
    return values


def _check(file: CsvFile, columns: Mapping[str, NDArray[Any]]) -> None:
    seen: set[str] = set()
    for row, name in enumerate(columns["request_id"].tolist()):
        if name in seen or not name:
            raise file.error(row, f"request_id {name!r} is {'there twice' if name else 'empty'}")
        seen.add(name)
    for row, status in enumerate(columns["status"].tolist()):
        if status not in STATUSES:
            raise file.error(row, f"no status {status!r}; {near_name(status, STATUSES)}")
    deadline, arrival = columns["deadline_us"], columns["arrival_time_us"]
    for late in np.flatnonzero((deadline > 0) & (deadline < arrival)):
        raise file.error(int(late), f"deadline {deadline[late]} is before arrival {arrival[late]}")
    send, first = columns["send_time_us"], columns["first_chunk_time_us"]
    last = columns["last_chunk_time_us"]
    for bad in np.flatnonzero((columns["status"] == "ok") & (last < first)):
        raise file.error(int(bad), "last_chunk_time_us is before first_chunk_time_us")
    for bad in np.flatnonzero((first > 0) & (send > 0) & (first < send)):
        raise file.error(int(bad), "first_chunk_time_us is before send_time_us")


def _client_clock(columns: Mapping[str, NDArray[Any]]) -> int:
    sent = columns["send_time_us"] > 0
    if not sent.any():
        return 0
    ahead = columns["send_time_us"][sent].min() - columns["arrival_time_us"][sent].min()
    return int(ahead) if abs(int(ahead)) > _SAME_CLOCK_US else 0


def _has_values(name: str, column: NDArray[Any]) -> bool:
    if name == "content_stream":
        return bool(np.any(column >= 0))
    if column.dtype.kind == "f":
        return bool(np.any(~np.isnan(column) & (column != 0)))
    return bool(np.any(column != column.dtype.type()))


def _cells(column: NDArray[Any], kind: str, client_clock: int) -> list[Any]:
    if kind == "flag":
        return ["true" if value else "false" for value in column.tolist()]
    if kind in {"run", "client", "span"}:
        absent = np.isnan(column)
        whole = np.rint(np.where(absent, 0.0, column) * 1e6).astype(np.int64)
        if kind == "client":
            whole += client_clock
        return np.where(absent, 0, whole).tolist()  # type: ignore[no-any-return]
    if kind == "number":
        return [repr(value).removesuffix(".0") for value in column.tolist()]
    return column.tolist()  # type: ignore[no-any-return]
