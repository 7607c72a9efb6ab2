"""Requests of another tool in this project's terms, checked, as a trace."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import InputError
from tailcast.traces.importers.findings import Findings
from tailcast.traces.importers.token_events import TokenEvents, match_events
from tailcast.traces.token_times import TokenTimes
from tailcast.traces.trace_header import TraceHeader
from tailcast.traces.tracev2 import Trace, blank_columns

type Floats = NDArray[np.float64]
type Bools = NDArray[np.bool_]

# Seconds that separate a Unix time from a time since the start of something.
_UNIX = 1e9
_SINCE_START = 3e8
LATEST = 1e11
"""Seconds that no time reaches: Unix time is then in the year 5138."""
# The clock's grain and the time to open a connection.
_EARLY = 1e-3
_UNMATCHED_SHARE = 0.05


@dataclass(slots=True, kw_only=True)
class RequestRows:
    """Requests as they were read; grows by `add`.

    The contract: times are seconds on one clock, NaN where there is none. TTFT and E2E count from
    `send` to the first and the last token; TPOT is (E2E - TTFT)/(output - 1); ITL are the gaps
    between tokens. `arrival` is when the request was due, so ``send - arrival`` is the client's
    lateness.

    Parameters
    ----------
    findings : Findings
        Takes what is found.
    column : str
        What a fault of times is shown under, for example ``"requests"``.
    cells : dict of str to list
        Columns so far, by name.
    events : list of ndarray or None
        Times of the events of each answer so far.
    """

    findings: Findings
    column: str = "requests"
    cells: dict[str, list[Any]] = field(default_factory=dict)
    events: list[Floats | None] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.cells.get("arrival", ()))

    def add(
        self,
        *,
        arrival: float,
        send: float = np.nan,
        first: float = np.nan,
        last: float = np.nan,
        input_tokens: int,
        output_tokens: int,
        events: Floats | None = None,
        status: str = "ok",
        **more: Any,
    ) -> None:
        """Add a request.

        Parameters
        ----------
        arrival, send, first, last : float
            Seconds; NaN where unknown.
        input_tokens, output_tokens : int
            Lengths, by the best count that the file has.
        events : ndarray, shape (n_event,), optional
            Times of the streamed events that carried tokens.
        status : str
            ``ok``, ``error``, ``timeout`` or ``incomplete``.
        **more : object
            Further columns of a trace.
        """
        row = {
            "arrival": arrival,
            "send": send,
            "first": first,
            "last": last,
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "status": status,
            **more,
        }
        for key in row:
            self.cells.setdefault(key, [None] * len(self.events))
        for key, column in self.cells.items():
            column.append(row.get(key))
        self.events.append(events)

    def trace(self, header: TraceHeader) -> tuple[Trace, TokenTimes | None]:
        """Trace of the requests.

        Parameters
        ----------
        header : TraceHeader
            What was run.

        Returns
        -------
        trace : Trace
            All rows, sorted by sending; times count from the earliest arrival. Rows with
            impossible times are kept as errors, so that they enter no latency.
        token_times : TokenTimes or None
            Where the events of nearly every answer could be matched with its tokens.

        Raises
        ------
        InputError
            If there is no row, or a time lies on another clock than the others.
        """
        if not len(self):
            raise InputError(f"{self.findings.path}: no requests")
        times = {
            key: np.array(self.cells[key], dtype=np.float64)
            for key in ("arrival", "send", "first", "last")
        }
        refuse_mixed_clocks(times, self.findings, self.column)
        origin = float(np.min(times["arrival"]))
        columns = self._columns(times, origin)
        matched = self._matched(columns, origin)
        injection = np.where(
            np.isnan(columns["send_time"]), columns["arrival_time"], columns["send_time"]
        )
        order = np.lexsort((columns["round_index"], injection))
        token_times = _token_times(matched, order, origin) if matched is not None else None
        trace = Trace(
            header=header, columns={name: column[order] for name, column in columns.items()}
        )
        self._count(trace)
        return trace, token_times

    def _columns(self, times: dict[str, Floats], origin: float) -> dict[str, NDArray[Any]]:
        n = len(self)
        columns = blank_columns(n)
        for name, key in (
            ("arrival_time", "arrival"),
            ("send_time", "send"),
            ("first_chunk_time", "first"),
            ("last_chunk_time", "last"),
        ):
            columns[name] = times[key] - origin
        columns["streaming"] = np.ones(n, dtype=np.bool_)
        columns["request_id"] = np.array([f"request_{i}" for i in range(n)])
        for key, cells in self.cells.items():
            if key in times:
                continue
            blank = columns.get(key)
            empty: Any = "" if blank is None or blank.dtype.kind == "U" else blank.dtype.type()
            if blank is None and any(isinstance(cell, int) for cell in cells):
                empty = -1 if key == "content_stream" else 0
            columns[key] = np.array([empty if cell is None else cell for cell in cells])
        columns["text_tokens"] = columns["input_tokens"]
        self._refuse_times(columns)
        return columns

    def _refuse_times(self, columns: dict[str, NDArray[Any]]) -> None:
        """Note impossible times, and let their rows enter no latency."""
        send, first = columns["send_time"], columns["first_chunk_time"]
        last = columns["last_chunk_time"]
        arrival, ok = columns["arrival_time"], columns["status"] == "ok"
        since = np.where(np.isnan(send), arrival, send)
        over, before = ok & (last < first), ok & (first < since)
        rows, name = self.findings.rows, self.column
        rows("order", over, f"{name} ttft", f"TTFT exceeds E2E by {_by(first, last, over)}")
        rows("order", before, f"{name} first token", f"{_by(since, first, before)} before sending")
        early = send < arrival - _EARLY
        text = f"sent {_by(arrival, send, early)} before it was due"
        rows("order", early, f"{name} send", text, severe=False)
        bad = over | before
        if bad.any():
            columns["status"] = np.where(bad, "error", columns["status"].astype("U16"))
            message = np.where(bad, "times out of order", columns["error_message"])
            columns["error_message"] = message
            self.findings.count("times out of order (kept as errors)", int(bad.sum()))
        empty = (columns["status"] == "ok") & (columns["output_tokens"] < 1)
        rows("count", empty, f"{name} output tokens", "succeeded without an output token")

    def _matched(
        self, columns: dict[str, NDArray[Any]], origin: float
    ) -> list[TokenEvents | None] | None:
        """Tokens of the events; None where the events are no tokens."""
        ok = columns["status"] == "ok"
        if not any(events is not None for events in self.events):
            return None
        found: list[TokenEvents | None] = [None] * len(self)
        for row in np.flatnonzero(ok):
            events = self.events[row]
            if events is not None and len(events):
                if np.max(np.abs(events - origin)) > LATEST:
                    text = f"reach {np.max(events):.6g} s, which is no time"
                    raise self.findings.error(int(row), f"{self.column} events", text)
                found[row] = match_events(events, int(columns["output_tokens"][row]))
        kept = [found[row] for row in np.flatnonzero(ok)]
        hows = Counter("none" if tokens is None else tokens.how for tokens in kept)
        unusable = hows["none"] + hows["unmatched"]
        self._say_events(hows, found, ok, columns)
        if unusable > _UNMATCHED_SHARE * max(int(ok.sum()), 1):
            self.findings.note(
                f"gaps between events are refused as ITL: in {unusable} of {ok.sum()} answers the "
                "events are no tokens; TTFT, E2E and TPOT stand"
            )
            return None
        for row in np.flatnonzero(ok):
            tokens = found[row]
            if tokens is None or tokens.how == "unmatched":
                found[row] = _evenly(columns, int(row), origin)
            else:
                columns["first_chunk_time"][row] = tokens.time[0] - origin
                columns["last_chunk_time"][row] = tokens.time[-1] - origin
        if unusable:
            self.findings.note(f"{unusable} answers without usable events were spread evenly")
        columns["num_chunks"] = np.array([0 if e is None else len(e.time) for e in found])
        return found

    def _say_events(
        self,
        hows: Counter[str],
        found: list[TokenEvents | None],
        ok: Bools,
        columns: dict[str, NDArray[Any]],
    ) -> None:
        texts = {
            "doubled": "logged two events a token; the first of each pair was taken",
            "role event": "began with an empty event beside the first token; it was dropped",
            "final event": "ended with an empty event; it was dropped",
            "merged": "had events with several tokens; the widest gaps were taken to hold them",
        }
        for how, text in texts.items():
            if hows[how]:
                self.findings.note(f"{hows[how]} answers {text}")
        odd = np.array([e is not None and e.how == "unmatched" for e in found]) & ok
        if odd.any():
            row = int(np.flatnonzero(odd)[0])
            events = found[row]
            n = 0 if events is None else len(events.time)
            self.findings.rows(
                "count",
                odd,
                f"{self.column} events",
                f"{n} events for {columns['output_tokens'][row]} tokens",
                severe=int(odd.sum()) > _UNMATCHED_SHARE * max(int(ok.sum()), 1),
            )

    def _count(self, trace: Trace) -> None:
        ok = trace["status"] == "ok"
        self.findings.count("read", len(trace))
        self.findings.count("did not succeed (kept, no latency)", int((~ok).sum()))
        timed = np.isfinite(trace["first_chunk_time"]) & np.isfinite(trace["last_chunk_time"])
        if timed.any():
            self.findings.count("no first or last token time", int((ok & ~timed).sum()))


def refuse_mixed_clocks(times: dict[str, Floats], findings: Findings, column: str) -> None:
    """Complain where Unix times and times since a start stand together.

    Parameters
    ----------
    times : dict of str to ndarray, shape (n_row,)
        Seconds, NaN for none.
    findings : Findings
        Knows the place of a row.
    column : str
        What the file calls them.

    Raises
    ------
    InputError
        If a time lies on another clock than the first arrival, or an arrival is no number.
    """
    arrival = times["arrival"]
    if not np.all(np.isfinite(arrival)):
        row = int(np.flatnonzero(~np.isfinite(arrival))[0])
        raise findings.error(row, column, "has no arrival time")
    for key, values in times.items():
        if np.any(np.abs(values) > LATEST):
            row = int(np.flatnonzero(np.abs(values) > LATEST)[0])
            raise findings.error(row, f"{column} {key}", f"{values[row]:.6g} s is no time")
    unix = arrival[0] > _UNIX
    for key, values in times.items():
        other = values < _SINCE_START if unix else values > _UNIX
        if np.any(other):
            row = int(np.flatnonzero(other)[0])
            kind = "Unix times" if unix else "times since a start"
            raise findings.error(
                row, f"{column} {key}", f"{values[row]:.6g} s: mixed clocks, arrivals are {kind}"
            )


def _by(one: Floats, other: Floats, rows: Bools) -> str:
    if not rows.any():
        return ""
    row = int(np.flatnonzero(rows)[0])
    return f"{(one[row] - other[row]) * 1e3:.3g} ms"


def _evenly(columns: dict[str, NDArray[Any]], row: int, origin: float) -> TokenEvents:
    """Tokens of an answer of which only the first and the last time are known."""
    n = int(columns["output_tokens"][row])
    first, last = columns["first_chunk_time"][row], columns["last_chunk_time"][row]
    time = np.linspace(first, last if n > 1 else first, max(n, 1)) + origin
    ones = np.ones(len(time), dtype=np.int64)
    return TokenEvents(time=time, n_tokens=ones, how="evenly")


def _token_times(
    matched: Sequence[TokenEvents | None], order: NDArray[np.int64], origin: float
) -> TokenTimes:
    rows, times, counts = [], [], []
    for place, row in enumerate(order.tolist()):
        tokens = matched[row]
        if tokens is not None:
            rows.append(np.full(len(tokens.time), place, dtype=np.int64))
            times.append(tokens.time - origin)
            counts.append(tokens.n_tokens)
    return TokenTimes(
        row=np.concatenate(rows), time=np.concatenate(times), n_tokens=np.concatenate(counts)
    )
