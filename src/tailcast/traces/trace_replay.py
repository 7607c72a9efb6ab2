"""Between per-request traces and requests: replay of a trace, export of a run."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import InputError, UsageError, near_name
from tailcast.request import RequestTable
from tailcast.traces.trace_header import TraceHeader
from tailcast.traces.tracev2 import Trace, blank_columns

type Ints = NDArray[np.int64]
type Floats = NDArray[np.float64]

SESSION_MODES = ("recorded", "closed-loop")
# Shortest time-out: a deadline may equal the arrival.
_NO_PATIENCE = 1e-6


def replayed_rows(trace: Trace) -> Ints:
    """Rows of a trace that `trace_requests` can send again.

    A request that failed before its first token has no output length, so it is left out;
    ``len(trace) - len(replayed_rows(trace))`` is their number.

    Parameters
    ----------
    trace : Trace
        Recorded run.

    Returns
    -------
    ndarray of int, shape (n_request,)
        Row of the trace that each request comes from.
    """
    usable = (trace["output_tokens"] >= 1) & (_prompt_tokens(trace) >= 1)
    return np.flatnonzero(usable).astype(np.int64)


def trace_requests(
    trace: Trace, *, sessions: str = "recorded", group_by: str | None = None
) -> RequestTable:
    """Requests of a trace, to be sent again.

    Injection is at the time of sending, moved so that the first request arrives at the earliest
    recorded arrival. The prompt is the server's own count where there is one and no shared prefix,
    else `input_tokens` plus the prefix.

    Parameters
    ----------
    trace : Trace
        Recorded run.
    sessions : str
        ``recorded``: every request at its recorded time. ``closed-loop``: later turns wait for the
        simulated answer, then for the think time or else the gap on record.
    group_by : str, optional
        Column whose values become groups, for example ``slo_class``; else ``group``, or one group.

    Returns
    -------
    RequestTable
        Row i is row ``replayed_rows(trace)[i]`` of the trace.

    Raises
    ------
    UsageError, InputError
        If there is no such mode or column, or no row that can be replayed.
    """
    if sessions not in SESSION_MODES:
        raise UsageError(f"no session mode {sessions!r}; {near_name(sessions, SESSION_MODES)}")
    rows = replayed_rows(trace)
    if len(rows) == 0:
        raise InputError("no request of the trace has an output, so none can be replayed")
    injection = trace.injection
    # One difference, so that it is exactly 0 where requests were sent on arrival.
    injection = injection - (injection.min() - trace["arrival_time"].min())
    arrival = injection[rows]
    parent, think = np.full(len(rows), -1, dtype=np.int64), np.zeros(len(rows))
    if sessions == "closed-loop":
        parent = _parents(trace, rows)
        think = _think_time(trace, rows, parent)
        for row in np.flatnonzero(parent >= 0):  # parents come first, so this settles in one pass
            arrival[row] = arrival[parent[row]]
    prefix = _codes(trace["prefix_group"])
    patience = np.rint((trace["deadline"] - trace["arrival_time"]) * 1e6) / 1e6
    timeout = np.maximum(patience, _NO_PATIENCE)
    content, spoken = _contents(trace)
    return RequestTable(
        arrival=arrival,
        input_tokens=_prompt_tokens(trace)[rows],
        output_tokens=trace["output_tokens"][rows],
        prefix_stream=prefix[rows],
        prefix_tokens=np.where(prefix < 0, 0, trace["prefix_length"])[rows],
        content_stream=content[rows],
        session_output=spoken[rows],
        parent=parent,
        think_time=think,
        priority=trace.columns.get("vllm_priority", np.zeros(len(trace), dtype=np.int64))[rows],
        timeout=np.where(np.isnan(timeout), np.inf, timeout)[rows],
        group=_groups(trace, group_by)[rows],
    )


def run_trace(
    requests: RequestTable,
    *,
    first_token: Floats,
    finish: Floats,
    header: TraceHeader,
    arrival: Floats | None = None,
    status: NDArray[np.str_] | None = None,
    cached_tokens: Ints | None = None,
    request_id: NDArray[np.str_] | None = None,
) -> Trace:
    """Trace of a run, to be written or replayed.

    Parameters
    ----------
    requests : RequestTable
        What was sent.
    first_token, finish : ndarray, shape (n_request,)
        Seconds from the start of the run, as the client saw them; NaN where it never came.
    header : TraceHeader
        What was run.
    arrival : ndarray, shape (n_request,), optional
        When each request was sent, in seconds, NaN for never; needed for a closed loop.
    status : ndarray of str, shape (n_request,), optional
        ``ok``, ``error``, ``timeout`` or ``incomplete``; from `finish` where absent.
    cached_tokens : ndarray of int, shape (n_request,), optional
        Prompt tokens served from the prefix cache.
    request_id : ndarray of str, shape (n_request,), optional
        Names; ``request_<row>`` where absent.

    Returns
    -------
    Trace
        One row a request, sorted by arrival; requests that were never sent are left out.

    Raises
    ------
    UsageError
        If the arrivals of a closed loop are not given.
    """
    if arrival is None:
        if np.any(requests.parent >= 0):
            raise UsageError("a closed loop needs the times at which its requests were sent")
        arrival = requests.arrival
    done = np.isfinite(finish)
    if request_id is None:
        request_id = _labels("request_", np.arange(len(requests)))
    columns = blank_columns(len(requests)) | _request_columns(requests, request_id)
    columns.update(
        {
            "model": np.full(len(requests), header.server.model or ""),
            "deadline": np.where(np.isinf(requests.timeout), np.nan, arrival + requests.timeout),
            "arrival_time": arrival,
            "send_time": arrival,
            "first_chunk_time": np.where(np.isfinite(first_token), first_token, np.nan),
            "last_chunk_time": np.where(done, finish, np.nan),
            "num_chunks": np.where(done, requests.output_tokens, 0),
            "status": np.where(done, "ok", "incomplete") if status is None else status,
            "finish_reason": np.where(done, "length", ""),
        }
    )
    if cached_tokens is not None:
        columns["cached_tokens"] = cached_tokens
    order = np.argsort(arrival, kind="stable")[: np.isfinite(arrival).sum()]  # NaN comes last
    return Trace(header=header, columns={name: column[order] for name, column in columns.items()})


def _request_columns(requests: RequestTable, names: NDArray[np.str_]) -> dict[str, NDArray[Any]]:
    """Columns that do not depend on how the run went."""
    n = len(requests)
    shared = requests.prefix_stream >= 0
    prefix_length = np.where(shared, requests.prefix_tokens, 0)
    own = requests.input_tokens - prefix_length
    in_session = requests.session_output & (requests.content_stream >= 0)
    waits = requests.parent >= 0
    return {
        "request_id": names,
        "client_id": np.full(n, "tailcast"),
        "session_id": np.where(in_session, _labels("session_", requests.content_stream), ""),
        "round_index": _rounds(requests),
        "prefix_group": np.where(shared, _labels("prefix_", requests.prefix_stream), ""),
        "prefix_length": prefix_length,
        "streaming": np.ones(n, dtype=np.bool_),
        "input_tokens": own,
        "output_tokens": requests.output_tokens,
        "text_tokens": own,
        "server_input_tokens": requests.input_tokens,
        "vllm_priority": requests.priority,
        "think_time": np.where(waits, requests.think_time, np.nan),
        "content_stream": requests.content_stream,
        "session_output": requests.session_output,
        "parent_id": np.where(waits, names[requests.parent], ""),
        "group": requests.group,
    }


def _prompt_tokens(trace: Trace) -> Ints:
    grouped = trace["prefix_group"] != ""
    own = trace["input_tokens"]
    counted = trace["server_input_tokens"]
    tokens: Ints = np.where(
        grouped, own + trace["prefix_length"], np.where(counted > 0, counted, own)
    )
    return tokens


def _parents(trace: Trace, rows: Ints) -> Ints:
    """Request that each one waits for: the named parent, else the session's previous turn."""
    parent = np.full(len(rows), -1, dtype=np.int64)
    if "parent_id" in trace.columns:
        place = {name: i for i, name in enumerate(trace["request_id"][rows].tolist())}
        names = trace["parent_id"][rows].tolist()
        parent[:] = [place.get(name, -1) if name else -1 for name in names]
    else:
        last: dict[str, int] = {}
        for i, session in enumerate(trace["session_id"][rows].tolist()):
            if session:
                parent[i] = last.get(session, -1)
                last[session] = i
    late = np.flatnonzero(parent >= np.arange(len(rows)))
    if len(late):
        name = str(trace["request_id"][rows][late[0]])
        raise InputError(f"trace request {name!r} was sent before the one it waits for")
    return parent


def _think_time(trace: Trace, rows: Ints, parent: Ints) -> Floats:
    gap = trace.injection[rows] - trace["last_chunk_time"][rows][parent]
    think = trace.columns.get("think_time", np.full(len(trace), np.nan))[rows]
    think = np.where(np.isnan(think), gap, think)
    clean: Floats = np.where(np.isnan(think) | (parent < 0), 0.0, np.maximum(think, 0.0))
    return clean


def _contents(trace: Trace) -> tuple[Ints, NDArray[np.bool_]]:
    if "content_stream" in trace.columns:
        spoken = trace.columns.get("session_output", np.zeros(len(trace), dtype=np.bool_))
        return trace["content_stream"], spoken
    if trace.header.session_context_growth != "accumulate":
        return np.full(len(trace), -1, dtype=np.int64), np.zeros(len(trace), dtype=np.bool_)
    content = _codes(trace["session_id"])
    return content, content >= 0


def _groups(trace: Trace, group_by: str | None) -> Ints:
    if group_by is None:
        own: Ints = trace.columns.get("group", np.zeros(len(trace), dtype=np.int64))
        return own
    if group_by not in trace.columns:
        raise UsageError(f"no trace column {group_by!r}; {near_name(group_by, trace.columns)}")
    return np.unique(trace[group_by], return_inverse=True)[1].astype(np.int64)


def _codes(names: NDArray[np.str_]) -> Ints:
    """Numbers from 0 for different names in order of appearance; -1 for none."""
    known: dict[str, int] = {}
    codes = [known.setdefault(name, len(known)) if name else -1 for name in names.tolist()]
    return np.array(codes, dtype=np.int64)


def _labels(prefix: str, codes: Ints) -> NDArray[np.str_]:
    return np.array([f"{prefix}{code}" for code in codes.tolist()], dtype=np.str_)


def _rounds(requests: RequestTable) -> Ints:
    """Turn of each request within its session, from 0."""
    rounds = np.zeros(len(requests), dtype=np.int64)
    content = requests.content_stream
    for row in np.flatnonzero(requests.parent >= 0):
        before = requests.parent[row]
        if content[row] >= 0 and content[row] == content[before]:
            rounds[row] = rounds[before] + 1
    return rounds
