"""What is wrong with a trace, with row and column."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import InputError, near_name
from tailcast.traces.raw_table import Fault, RawTable
from tailcast.traces.trace_files import TraceFiles
from tailcast.traces.trace_header import TraceHeader, read_header
from tailcast.traces.tracev2 import STATUSES

type Floats = NDArray[np.float64]
type Bools = NDArray[np.bool_]

_NEEDED = ("request_id", "input_tokens", "output_tokens", "arrival_time_us")
_TIMES = ("arrival_time_us", "send_time_us", "first_chunk_time_us", "last_chunk_time_us")
_UNIX_US = 1e15  # microseconds: the year 2001; milliseconds and nanoseconds are far from it
_UNIX_NS = 1e17
_NEAR_US = 2.0
# Opening a connection and the clock's grain may put sending this long before the due time.
_EARLY_US = 1000.0
_LATE_US = 5000.0
_LATE_SHARE = 0.2
_WANTED = ("model", "accelerator", "version", "max_num_seqs", "max_num_batched_tokens", "kv_blocks")


def trace_faults(files: TraceFiles) -> tuple[Fault, ...]:
    """Look for everything that would make a trace say something else than what happened.

    Parameters
    ----------
    files : TraceFiles
        Header, requests, and token times where there are some.

    Returns
    -------
    tuple of Fault
        One a kind and file, severe ones first; empty for a clean trace.
    """
    faults, header = _header_faults(files.header)
    table = RawTable(files.requests)
    if len(table) and _has_needed(table):
        times = {name: table.numbers(name) for name in _TIMES}
        offset = _clock_faults(table, times)
        _order_faults(table, times, offset)
        _status_faults(table, times)
        _count_faults(table)
        _late_faults(table, times, offset)
        if files.token_times is not None:
            tokens = RawTable(files.token_times)
            if len(tokens):
                _token_faults(tokens, table, times)
            faults += tokens.faults
    faults += table.faults
    if header is not None:
        faults += _run_faults(files.header, header)
    return tuple(sorted(faults, key=lambda fault: not fault.severe))


def _header_faults(path: Path) -> tuple[list[Fault], TraceHeader | None]:
    try:
        return [], read_header(path)
    except InputError as error:
        message = str(error).removeprefix(f"{path}: ").removeprefix(str(path))
        fault = Fault(kind="header", file=path.name, line=0, column="", message=message)
        return [fault], None


def _has_needed(table: RawTable) -> bool:
    missing = [name for name in _NEEDED if name not in table]
    for name in missing:
        hint = near_name(name, table.names)
        table.whole("column", f"no column {name!r}; {hint}", name)
    return not missing


def _clock_faults(table: RawTable, times: Mapping[str, Floats]) -> float:
    """Faults of clocks; microseconds by which the client's times are ahead of arrivals."""
    for name in _TIMES:
        column = times[name]
        table.note(
            "unit",
            column > _UNIX_NS,
            name,
            f"{np.nanmax(column, initial=0.0):.0f} us is no time of this century; nanoseconds?",
        )
        unix = column > _UNIX_US
        seen = np.isfinite(column) & (column > 0)
        odd = seen & unix if unix.sum() <= seen.sum() / 2 else seen & ~unix
        if unix.any() and odd.any():
            table.note("clock", odd, name, "Unix times and times since the start in one column")
    client = [times[name] for name in _TIMES[1:]]
    in_unix = [bool(np.any(column > _UNIX_US)) for column in client]
    present = [bool(np.any(column > 0)) for column in client]
    kinds = {u for u, p in zip(in_unix, present, strict=True) if p}
    if len(kinds) > 1:
        named = [name for name, u in zip(_TIMES[1:], in_unix, strict=True) if u]
        table.whole(
            "clock",
            f"only {', '.join(named)} hold Unix times, the other times count from the start",
        )
        return 0.0
    if kinds == {True} and not np.any(times["arrival_time_us"] > _UNIX_US):
        sent = times["send_time_us"] > 0
        ahead = np.nanmin(times["send_time_us"][sent]) - np.nanmin(times["arrival_time_us"][sent])
        table.whole(
            "two clocks",
            "arrivals count from the start but sending is in Unix time; the earliest of each are "
            "taken for the same instant",
            "send_time_us",
            severe=False,
        )
        return float(ahead)
    return 0.0


def _order_faults(table: RawTable, times: Mapping[str, Floats], offset: float) -> None:
    arrival, send, first, last = (times[name] for name in _TIMES)
    send, first, last = (np.where(column > 0, column, np.nan) for column in (send, first, last))
    early = send - offset < arrival - _EARLY_US
    table.note("order", early, "send_time_us", _gap("sent", send - offset, arrival, early))
    early = first < send
    table.note(
        "order", early, "first_chunk_time_us", _gap("first chunk", first, send, early, "sending")
    )
    over = last < first
    table.note(
        "order",
        over,
        "last_chunk_time_us",
        _gap("TTFT exceeds E2E: last chunk", last, first, over, "the first"),
    )
    if "deadline_us" in table:
        deadline = table.numbers("deadline_us")
        passed = (deadline > 0) & (deadline < arrival)
        table.note("order", passed, "deadline_us", _gap("deadline", deadline, arrival, passed))


def _gap(what: str, one: Floats, other: Floats, rows: Bools, than: str = "arrival") -> str:
    if not rows.any():
        return ""
    first = int(np.flatnonzero(rows)[0])
    return f"{what} {other[first] - one[first]:.0f} us before {than}"


def _status_faults(table: RawTable, times: Mapping[str, Floats]) -> None:
    names = table.text("request_id")
    again = np.ones(len(table), dtype=np.bool_)
    again[np.unique(names, return_index=True)[1]] = False
    if again.any():
        shown = str(names[again][0])
        table.note("identity", again, "request_id", f"request_id {shown!r} is there twice")
    table.note("identity", names == "", "request_id", "request without an id")
    status = table.text("status") if "status" in table else np.full(len(table), "ok")
    unknown = ~np.isin(status, STATUSES)
    if unknown.any():
        shown = str(status[unknown][0])
        table.note(
            "status", unknown, "status", f"no status {shown!r}; {near_name(shown, STATUSES)}"
        )
    if np.any(times["first_chunk_time_us"] > 0):
        for name in _TIMES[2:]:
            missing = (status == "ok") & ~(times[name] > 0)
            table.note("status", missing, name, "status ok but no time")
    failed = int(np.isin(status, STATUSES[1:]).sum())
    if failed:
        table.note(
            "failed",
            np.isin(status, STATUSES[1:]),
            "status",
            f"{failed} of {len(table)} requests did not succeed; they enter no latency",
            severe=False,
        )


def _count_faults(table: RawTable) -> None:
    ok = table.text("status") == "ok" if "status" in table else np.ones(len(table), np.bool_)
    output, chunks = table.numbers("output_tokens"), table.numbers("num_chunks")
    table.note("count", ok & ~(output >= 1), "output_tokens", "status ok but no output token")
    doubled = ok & (chunks > output)
    if doubled.any():
        first = int(np.flatnonzero(doubled)[0])
        extra = chunks[doubled] - output[doubled]
        kind = "usage and role chunks are counted" if np.median(extra) <= 2 else "doubled events"
        table.note(
            "count",
            doubled,
            "num_chunks",
            f"{chunks[first]:.0f} chunks for {output[first]:.0f} tokens: {kind}",
        )
    planned = table.numbers("input_tokens") + np.nan_to_num(table.numbers("prefix_length"))
    counted = table.numbers("server_input_tokens")
    differs = ok & (counted > 0) & (counted != planned)
    if differs.any():
        first = int(np.flatnonzero(differs)[0])
        share = float(np.median(np.abs(counted - planned)[differs] / planned[differs]))
        table.note(
            "count",
            differs,
            "server_input_tokens",
            f"server counted {counted[first]:.0f} prompt tokens for {planned[first]:.0f} planned "
            f"(median difference {share:.0%})",
            severe=share > 0.1,
        )


def _late_faults(table: RawTable, times: Mapping[str, Floats], offset: float) -> None:
    arrival, send, first, _ = (times[name] for name in _TIMES)
    late = (send - offset - arrival)[send > 0]
    ttft = (first - send)[(first > 0) & (send > 0)]
    if not len(late) or not len(ttft):
        return
    p99, median = float(np.nanquantile(late, 0.99)), float(np.nanmedian(ttft))
    if p99 > max(_LATE_US, _LATE_SHARE * median):
        table.note(
            "late client",
            (send > 0) & (send - offset - arrival >= p99),
            "send_time_us",
            f"1 % of the requests were sent over {p99 / 1e3:.1f} ms late, against a median TTFT of "
            f"{median / 1e3:.1f} ms: the client was the bottleneck",
            severe=False,
        )


def _token_faults(tokens: RawTable, table: RawTable, times: Mapping[str, Floats]) -> None:
    if missing := [name for name in ("request_id", "timestamp_us") if name not in tokens]:
        tokens.whole("column", f"no column {missing[0]!r}", missing[0])
        return
    place = {name: row for row, name in enumerate(table.text("request_id").tolist())}
    row = np.array([place.get(name, -1) for name in tokens.text("request_id").tolist()])
    tokens.note("identity", row < 0, "request_id", "no such request in the trace")
    stamp = tokens.numbers("timestamp_us")
    n = tokens.numbers("n_tokens") if "n_tokens" in tokens else np.ones(len(tokens))
    same = (np.diff(row) == 0) & (row[1:] >= 0)
    back = np.append(False, same & (np.diff(stamp) < 0))
    tokens.note("order", back, "timestamp_us", "earlier than the token before it")
    merged = float(((np.diff(stamp) == 0) & same).sum() / max(same.sum(), 1))
    if merged > 0.05:
        tokens.whole(
            "merged",
            f"{merged:.0%} of the token events came together with the one before; ITL by event is "
            "no step time",
            "timestamp_us",
            severe=False,
        )
    _first_tokens(tokens, table, times, row, stamp)
    total = np.bincount(row[row >= 0], weights=n[row >= 0], minlength=len(table))
    output = table.numbers("output_tokens")
    wrong = (total > 0) & (total != output)
    if wrong.any():
        first = int(np.flatnonzero(wrong)[0])
        table.note(
            "count",
            wrong,
            "output_tokens",
            f"{output[first]:.0f} tokens, but {total[first]:.0f} in {tokens.path.name}",
        )
    ok = table.text("status") == "ok" if "status" in table else np.ones(len(table), np.bool_)
    table.note("count", ok & (total == 0), "request_id", f"no tokens in {tokens.path.name}")


def _first_tokens(
    tokens: RawTable,
    table: RawTable,
    times: Mapping[str, Floats],
    row: NDArray[np.int64],
    stamp: Floats,
) -> None:
    """Whether the first token of each request is its first chunk, rather than its sending."""
    starts = np.append(True, np.diff(row) != 0) & (row >= 0)
    send, first = times["send_time_us"][row], times["first_chunk_time_us"][row]
    at_send = starts & (np.abs(stamp - send) <= _NEAR_US) & (first > send + _NEAR_US)
    tokens.note(
        "first gap",
        at_send,
        "timestamp_us",
        "token times start at sending, so the first gap inside ITL would be the TTFT",
    )
    other = starts & ~at_send & (first > 0) & (np.abs(stamp - first) > _NEAR_US)
    tokens.note("first gap", other, "timestamp_us", "first token is not at first_chunk_time_us")
    ends = np.append(np.diff(row) != 0, True) & (row >= 0)
    last = times["last_chunk_time_us"][row]
    off = ends & (last > 0) & (np.abs(stamp - last) > _NEAR_US)
    tokens.note("last token", off, "timestamp_us", "last token is not at last_chunk_time_us")


def _run_faults(path: Path, header: TraceHeader) -> list[Fault]:
    """What the header itself says against the run."""
    notes: list[tuple[str, str]] = []
    other: Mapping[str, Any] = header.other
    unsent = other.get("unsent") or {}
    if other.get("complete") is False:
        notes.append(("complete", f"the run was stopped; {unsent.get('stopped', 0)} unsent"))
    if unsent.get("parent_failed"):
        notes.append(("unsent", f"{unsent['parent_failed']} turns unsent after a failed one"))
    client, counters = other.get("client") or {}, other.get("counters") or {}
    notes += [("client", str(reason)) for reason in client.get("bottleneck_reasons", ())]
    made, got = counters.get("generation_tokens"), counters.get("tokens_received")
    if made and got and abs(made - got) > 0.02 * got:
        notes.append(
            ("counters", f"the server made {made} tokens but {got} came here: other traffic?")
        )
    if counters.get("restarts"):
        notes.append(("counters", f"the server started again {counters['restarts']} times"))
    contradicted = header.server.other.get("contradicted")
    if isinstance(contradicted, Mapping):
        for key, value in contradicted.items():
            told = getattr(header.server, str(key), None)
            notes.append((f"server.{key}", f"the server says {told}, not {value} as it was given"))
    missing = [name for name in _WANTED if getattr(header.server, name) is None]
    if header.mode == "real" and missing:
        notes.append(("server", f"not recorded: {', '.join(missing)}; a fit must assume them"))
    return [
        Fault(kind="run", file=path.name, line=0, column=key, message=text, severe=False)
        for key, text in notes
    ]
