"""Replaying a recorded or exported request trace in BLIS's way, at its recorded times."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.engine.blis.latency_model import BlisLatencyModel
from tailcast.engine.blis.requests import BlisRequests, blis_requests
from tailcast.engine.blis.result import BlisResult
from tailcast.engine.blis.run import simulate_blis
from tailcast.engine.blis.settings import BlisSettings
from tailcast.engine.blis.step_time import MAX_INT64
from tailcast.errors import InputError
from tailcast.traces.tracev2 import Trace

_IDLE_HORIZON_US = 600_000_000
_SLO_PRIORITY = {"critical": 4, "standard": 3, "batch": -1, "sheddable": -2, "background": -3}
_REQUIRED = ("arrival_time_us", "input_tokens", "output_tokens")
_SHARED = (
    "request_id",
    "input_tokens",
    "output_tokens",
    "server_input_tokens",
    "prefix_group",
    "prefix_length",
    "slo_class",
    "vllm_priority",
    "content_stream",
    "session_output",
)


def requests_from_trace(trace: Trace) -> BlisRequests:
    """Requests of a trace, by BLIS's rules (see `requests_from_columns`).

    Parameters
    ----------
    trace : Trace
        Recorded or generated run.

    Returns
    -------
    BlisRequests
        Row i is row i of the trace, those without output included.

    Raises
    ------
    InputError
        If a row has no prompt.
    """
    columns: dict[str, Any] = {name: trace[name] for name in _SHARED if name in trace.columns}
    for name in ("arrival_time", "send_time", "deadline"):
        seconds = np.nan_to_num(trace[name], nan=0.0)
        columns[f"{name}_us"] = np.rint(seconds * 1e6).astype(np.int64)
    return requests_from_columns(columns)


def requests_from_columns(columns: Mapping[str, Sequence[Any]]) -> BlisRequests:
    """Requests from the columns of a TraceV2 file as they stand there.

    A row is injected at its send time where there is one, otherwise at its arrival time. One
    constant is taken from all injection times so that the first injection falls on the first
    arrival: send times are Unix time, arrivals and deadlines are not.

    Parameters
    ----------
    columns : mapping of str to sequence
        TraceV2 columns by name. ``arrival_time_us``, ``input_tokens`` and ``output_tokens`` are
        required; ``request_id``, ``send_time_us``, ``prefix_group``, ``prefix_length``,
        ``server_input_tokens``, ``deadline_us``, ``slo_class``, ``vllm_priority``,
        ``content_stream`` and ``session_output`` are used.

    Returns
    -------
    BlisRequests
        Same rows; members of a prefix group share their leading tokens.

    Raises
    ------
    InputError
        If a required column is missing or a value is impossible.
    """
    for name in _REQUIRED:
        if name not in columns:
            raise InputError(f"trace has no column {name!r}")
    arrival_us = _whole(columns, "arrival_time_us")
    n = len(arrival_us)
    send_us = _whole(columns, "send_time_us", n)
    injected_us = np.where(send_us > 0, send_us, arrival_us)
    if n:
        injected_us = injected_us - (injected_us.min() - arrival_us.min())
    groups = [str(g) for g in columns.get("prefix_group", [""] * n)]
    numbers = {name: i for i, name in enumerate(dict.fromkeys(filter(None, groups)))}
    prefix_group = np.array([numbers.get(g, -1) for g in groups], dtype=np.int64)
    prefix_length = np.where(prefix_group >= 0, _whole(columns, "prefix_length", n), 0)
    served = _whole(columns, "server_input_tokens", n)
    counted = _whole(columns, "input_tokens")
    alone = (prefix_group < 0) & (served > 0)
    names = columns.get("request_id")
    return blis_requests(
        injected_us,
        np.where(alone, served, counted + prefix_length),
        _whole(columns, "output_tokens"),
        request_id=None if names is None else [_request_name(name) for name in names],
        prefix_group=prefix_group,
        prefix_length=prefix_length,
        deadline_us=_whole(columns, "deadline_us", n),
        priority=_priorities(columns, n),
        content_stream=columns.get("content_stream", -1),
        session_output=columns.get("session_output", False),
    )


def vllm_priority(slo_class: str) -> int:
    """Priority that BLIS gives a service class, in vLLM's meaning.

    Parameters
    ----------
    slo_class : str
        critical, standard, batch, sheddable or background; anything else counts as standard.

    Returns
    -------
    int
        Lower is more urgent.

    Examples
    --------
    >>> vllm_priority("critical"), vllm_priority("background")
    (0, 7)
    """
    highest = max(_SLO_PRIORITY.values())
    return highest - _SLO_PRIORITY.get(slo_class, _SLO_PRIORITY["standard"])


def replay_horizon_us(requests: BlisRequests) -> int:
    """Horizon of ``blis replay`` when none is given; it cuts heavily loaded runs short.

    Parameters
    ----------
    requests : BlisRequests
        What is replayed.

    Returns
    -------
    int
        Twice the last arrival, ten minutes if all arrive at 0; microseconds.
    """
    if not len(requests):
        return MAX_INT64
    last = int(requests.arrival_us.max())
    if last > MAX_INT64 // 2:
        return MAX_INT64
    return 2 * last if last > 0 else _IDLE_HORIZON_US


def blis_replay(
    requests: BlisRequests,
    settings: BlisSettings,
    model: BlisLatencyModel,
    *,
    horizon_us: int | None = None,
) -> BlisResult:
    """Simulate a trace with BLIS's replay defaults.

    Parameters
    ----------
    requests : BlisRequests
        For example from `requests_from_trace`.
    settings : BlisSettings
        Limits and policies; its horizon is not used.
    model : BlisLatencyModel
        Step times and overheads.
    horizon_us : int, optional
        Horizon; `replay_horizon_us` by default, as in BLIS.

    Returns
    -------
    BlisResult
        One entry a row. ``counters`` tell how many were left waiting or running.
    """
    horizon = replay_horizon_us(requests) if horizon_us is None else horizon_us
    return simulate_blis(requests, replace(settings, horizon_us=horizon), model)


def _whole(
    columns: Mapping[str, Sequence[Any]], name: str, n: int | None = None
) -> NDArray[np.int64]:
    """Column of whole numbers; with `n`, a missing column is zeros."""
    if name not in columns and n is not None:
        return np.zeros(n, dtype=np.int64)
    values = np.asarray(columns[name])
    if values.dtype.kind not in "iuf" and values.size:
        raise InputError(f"trace column {name} must hold whole numbers")
    if values.dtype.kind == "f" and not np.all(values == np.floor(values)):
        raise InputError(f"trace column {name} must hold whole numbers")
    return values.astype(np.int64)


def _request_name(value: object) -> str:
    text = str(value)
    return f"request_{text}" if text.isdigit() else text


def _priorities(columns: Mapping[str, Sequence[Any]], n: int) -> NDArray[np.int64]:
    if "vllm_priority" in columns:
        return _whole(columns, "vllm_priority")
    classes = columns.get("slo_class", [""] * n)
    return np.array([vllm_priority(str(c)) for c in classes], dtype=np.int64)
