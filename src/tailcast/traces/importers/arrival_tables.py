"""Workloads without latencies as tables: Azure, BurstGPT, and arrivals with lengths."""

import csv
import math
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import InputError, near_name
from tailcast.traces.importers.findings import Findings
from tailcast.traces.importers.imported import Imported, ReadOptions, imported
from tailcast.traces.importers.request_rows import LATEST
from tailcast.traces.importers.sample import Sample
from tailcast.traces.trace_header import TraceHeader
from tailcast.traces.tracev2 import Trace, blank_columns

AZURE, BURSTGPT, TABLE = "azure", "burstgpt", "arrivals-csv"

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

_AZURE = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_BURSTGPT = ("Timestamp", "Model", "Request tokens", "Response tokens")
_ARRIVALS = {
    "arrival_s": 1.0,
    "arrival_ms": 1e-3,
    "arrival_us": 1e-6,
    "arrived_at": 1.0,
    "arrival_time_s": 1.0,
}
_INPUTS = ("n_in", "input_tokens", "input_length", "num_prefill_tokens", "prompt_tokens")
_OUTPUTS = ("n_out", "output_tokens", "output_length", "num_decode_tokens", "completion_tokens")
_LARGEST = 2.0**53
_ZONE = re.compile(r"[+-]\d\d:?\d\d$|Z$")


def recognises_azure(sample: Sample) -> bool:
    """Whether a file is a trace of Azure's LLM services, of 2023 or 2024.

    Parameters
    ----------
    sample : Sample
        What may be one.

    Returns
    -------
    bool
        By the columns.
    """
    return sample.has_columns(*_AZURE)


def recognises_burstgpt(sample: Sample) -> bool:
    """Whether a file is a trace of BurstGPT.

    Parameters
    ----------
    sample : Sample
        What may be one.

    Returns
    -------
    bool
        By the columns.
    """
    return sample.has_columns(*_BURSTGPT)


def recognises_table(sample: Sample) -> bool:
    """Whether a file is a table of arrivals and lengths, and no benchmark.

    Parameters
    ----------
    sample : Sample
        What may be one.

    Returns
    -------
    bool
        By the columns.
    """
    names = set(sample.columns)
    known = (names & set(_ARRIVALS), names & set(_INPUTS), names & set(_OUTPUTS))
    timed = {"first_token_s", "first_chunk_time_us", "queued_s"}
    return all(len(found) == 1 for found in known) and not names & timed


def read_azure(sample: Sample, options: ReadOptions) -> Imported:
    """Requests of Azure's services.

    Parameters
    ----------
    sample : Sample
        ``TIMESTAMP,ContextTokens,GeneratedTokens``; times with or without a zone, to 100 ns.
    options : ReadOptions
        Limit and window.

    Returns
    -------
    Imported
        A trace of arrivals and lengths, without latencies.

    Raises
    ------
    InputError
        If a cell is impossible.
    """
    findings = Findings(str(sample.path), lines=[])
    cells = _cells(sample, _AZURE, options, findings, _azure_seconds)
    trace = workload_trace(
        cells["TIMESTAMP"],
        _whole(cells["ContextTokens"], "ContextTokens", findings),
        _whole(cells["GeneratedTokens"], "GeneratedTokens", findings),
        findings,
    )
    return imported(AZURE, findings, trace)


def read_burstgpt(sample: Sample, options: ReadOptions) -> Imported:
    """Requests of BurstGPT.

    An answer of 0 tokens is a failure of the service and is kept as an error. Where there is an
    elapsed time it is that of OpenAI's service: it is kept as the end of the answer, but without a
    first token it enters no latency.

    Parameters
    ----------
    sample : Sample
        ``Timestamp,Model,Request tokens,Response tokens...``; seconds.
    options : ReadOptions
        Limit and window.

    Returns
    -------
    Imported
        A trace of arrivals and lengths.

    Raises
    ------
    InputError
        If a cell is impossible.
    """
    findings = Findings(str(sample.path), lines=[])
    extra = [n for n in ("Log Type", "Session ID", "Elapsed time") if n in sample.columns]
    cells = _cells(sample, (*_BURSTGPT, *extra), options, findings, _plain_seconds)
    output = _whole(cells["Response tokens"], "Response tokens", findings)
    more: dict[str, Any] = {
        "model": np.array(cells["Model"], dtype=np.str_),
    }
    if "Log Type" in cells:
        more["client_id"] = np.array(cells["Log Type"], dtype=np.str_)
    if "Session ID" in cells:
        more["session_id"] = np.array(cells["Session ID"], dtype=np.str_)
    if "Elapsed time" in cells:
        elapsed = _numbers(cells["Elapsed time"], "Elapsed time", findings)
        more["last_chunk_time"] = cells["Timestamp"] + elapsed
        findings.note("elapsed times are of another service; they enter no latency")
    trace = workload_trace(
        cells["Timestamp"],
        _whole(cells["Request tokens"], "Request tokens", findings),
        output,
        findings,
        **more,
    )
    return imported(BURSTGPT, findings, trace)


def read_table(sample: Sample, options: ReadOptions) -> Imported:
    """Requests of a table of arrivals and lengths.

    Parameters
    ----------
    sample : Sample
        One column of arrivals (``arrival_s arrival_ms arrival_us arrived_at``), one of prompt and
        one of answer lengths (``n_in n_out``, ``input_tokens output_tokens``...).
    options : ReadOptions
        Limit and window.

    Returns
    -------
    Imported
        A trace of arrivals and lengths, without latencies.

    Raises
    ------
    InputError
        If a cell is impossible.
    """
    findings = Findings(str(sample.path), lines=[])
    found = [
        [name for name in sample.columns if name in known]
        for known in (_ARRIVALS, _INPUTS, _OUTPUTS)
    ]
    if not all(found):
        raise InputError(f"{sample.path}: no columns of arrivals, prompt and output lengths")
    arrival, sent, got = (names[0] for names in found)
    scale = _ARRIVALS[arrival]

    def seconds(texts: Sequence[str], findings: Findings) -> Floats:
        return _numbers(texts, arrival, findings) * scale

    cells = _cells(sample, (arrival, sent, got), options, findings, seconds)
    trace = workload_trace(
        cells[arrival],
        _whole(cells[sent], sent, findings),
        _whole(cells[got], got, findings),
        findings,
    )
    return imported(TABLE, findings, trace)


def workload_trace(
    arrival: Floats,
    input_tokens: Ints,
    output_tokens: Ints,
    findings: Findings,
    **columns: NDArray[Any],
) -> Trace:
    """Trace of requests that nobody has served here yet.

    Parameters
    ----------
    arrival : ndarray, shape (n,)
        Seconds on any clock.
    input_tokens, output_tokens : ndarray of int, shape (n,)
        Lengths; whole prompts, a shared prefix (column ``prefix_length``) included.
    findings : Findings
        Takes what is found.
    **columns : ndarray, shape (n,)
        Further columns of a trace; times on the clock of `arrival`.

    Returns
    -------
    Trace
        Sorted by arrival, which counts from the first one.

    Raises
    ------
    InputError
        If there is no request.
    """
    n = len(arrival)
    if not n:
        raise InputError(f"{findings.path}: no requests")
    if np.any(np.diff(arrival) < 0):
        findings.note("the requests were not in the order of their arrival; they were sorted")
    if np.any(np.abs(arrival) > LATEST):
        row = int(np.flatnonzero(np.abs(arrival) > LATEST)[0])
        raise findings.error(row, "arrival", f"{arrival[row]:.6g} s is no time")
    empty = output_tokens < 1
    findings.count("read", n)
    findings.count("without an answer (kept as errors, not replayed)", int(empty.sum()))
    findings.count("without a prompt token (kept, not replayed)", int((input_tokens < 1).sum()))
    order = np.argsort(arrival, kind="stable")
    origin = float(arrival[order[0]])
    table = blank_columns(n)
    table.update(
        request_id=np.array([f"request_{i}" for i in range(n)]),
        arrival_time=arrival - origin,
        output_tokens=output_tokens,
        status=np.where(empty, "error", "ok"),
        streaming=np.ones(n, dtype=np.bool_),
    )
    for name, column in columns.items():
        table[name] = column - origin if name.endswith("_time") else column
    table["input_tokens"] = input_tokens - table["prefix_length"]
    table["text_tokens"] = table["input_tokens"]
    return Trace(
        header=TraceHeader(mode="generated"),
        columns={name: column[order] for name, column in table.items()},
    )


def _cells(
    sample: Sample,
    names: Sequence[str],
    options: ReadOptions,
    findings: Findings,
    seconds: Callable[[Sequence[str], Findings], Floats],
) -> dict[str, Any]:
    """Texts of the columns, the first one in seconds, as far as limit and window reach."""
    texts: list[list[str]] = [[] for _ in names]
    lines: list[int] = []
    # A window needs every time up to its end, and files need not be sorted.
    wanted = options.limit if options.window is None else None
    for number, row in islice(_rows(sample, names), wanted):
        lines.append(number)
        for column, cell in zip(texts, row, strict=True):
            column.append(cell)
    findings.lines = lines
    if not lines:
        raise InputError(f"{sample.path}: no rows")
    cells: dict[str, Any] = dict(zip(names, texts, strict=True))
    times = seconds(texts[0], findings)
    cells[names[0]] = times
    if options.window is not None:
        low, high = options.window
        since = times - times.min()
        keep = np.flatnonzero((since >= low) & (since < high))[: options.limit]
        findings.count("outside the window, left out", len(times) - len(keep))
        findings.lines = [lines[row] for row in keep]
        cells = {
            name: column[keep] if isinstance(column, np.ndarray) else [column[i] for i in keep]
            for name, column in cells.items()
        }
    elif wanted is not None and len(lines) == wanted:
        findings.note(f"only the first {wanted} requests of the file were read")
    return cells


def _rows(sample: Sample, names: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Line and cells of the columns asked for."""
    places: list[int] = []
    n = 0
    try:
        for number, line in sample.lines():
            if not line:
                continue
            row = next(csv.reader([line]))
            if not places:
                header = [cell.strip() for cell in row]
                if missing := [name for name in names if name not in header]:
                    hint = near_name(missing[0], header)
                    raise InputError(f"{sample.path}: no column {missing[0]!r}; {hint}")
                places, n = [header.index(name) for name in names], len(header)
                continue
            if len(row) != n:
                raise InputError(f"{sample.path}:{number}: {len(row)} cells for {n} columns")
            yield number, [row[place] for place in places]
    except csv.Error as error:
        raise InputError(f"{sample.path}: not a CSV file: {error}") from error


def _azure_seconds(texts: Sequence[str], findings: Findings) -> Floats:
    """Seconds of times such as ``2023-11-16 18:15:46.6805900`` or with a zone."""
    plain = [_ZONE.sub("", text.strip()) for text in texts]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            stamps = np.array(plain, dtype="datetime64[ns]")
    except (ValueError, UserWarning):
        stamps = np.array([_instant(text, row, findings) for row, text in enumerate(plain)])
    if np.any(np.isnat(stamps)):
        row = int(np.flatnonzero(np.isnat(stamps))[0])
        raise findings.error(row, "TIMESTAMP", f"must be a date and time, got {texts[row]!r:.40}")
    zones = {text.strip()[len(rest) :] for text, rest in zip(texts, plain, strict=True)}
    if len(zones) > 1:
        row = next(i for i, t in enumerate(texts) if t.strip()[len(plain[i]) :] != texts[0][-6:])
        raise findings.error(row, "TIMESTAMP", f"{texts[row]!r}: mixed time zones")
    # Off the first one before they become floats, which cannot hold a date to 100 ns.
    since: Floats = (stamps - stamps[0]).astype(np.int64) / 1e9
    return since


def _instant(text: str, row: int, findings: Findings) -> np.datetime64:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return np.datetime64(text, "ns")
    except (ValueError, UserWarning):
        message = f"must be a date and time, got {text!r:.40}"
        raise findings.error(row, "TIMESTAMP", message) from None


def _plain_seconds(texts: Sequence[str], findings: Findings) -> Floats:
    return _numbers(texts, "Timestamp", findings)


def _numbers(texts: Sequence[str], name: str, findings: Findings) -> Floats:
    """Finite numbers, not negative."""
    try:
        values = np.array(texts, dtype=np.float64)
    except ValueError:
        values = np.array([_number(text) for text in texts])
    bad = ~(np.isfinite(values) & (values >= 0))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise findings.error(
            row, name, f"must be a finite number, not negative, got {texts[row]!r:.40}"
        )
    return values


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _whole(texts: Sequence[str], name: str, findings: Findings) -> Ints:
    values = _numbers(texts, name, findings)
    odd = (values != np.rint(values)) | (values > _LARGEST)
    if odd.any():
        row = int(np.flatnonzero(odd)[0])
        raise findings.error(row, name, f"must be a whole number, got {texts[row]!r:.40}")
    return values.astype(np.int64)
