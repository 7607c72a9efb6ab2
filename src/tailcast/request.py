"""What arrives at a server, as one table of columns."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import InputError

_INTEGERS = (
    "input_tokens",
    "output_tokens",
    "prefix_stream",
    "prefix_tokens",
    "content_stream",
    "parent",
    "priority",
    "group",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTable:
    """Requests sorted by arrival; every column has shape (n_request,).

    Parameters
    ----------
    arrival : ndarray of float64
        Seconds from the start of the run. For a request with a `parent` the earliest arrival: it
        arrives at ``max(arrival, finish of the parent + think_time)``.
    input_tokens : ndarray of int64
        Whole prompt, shared prefix and session history included; at least 1.
    output_tokens : ndarray of int64
        Tokens that will be generated; at least 1. Only the engine may look at it.
    prefix_stream : ndarray of int64
        Identity of a shared prefix, -1 for none.
    prefix_tokens : ndarray of int64
        Leading prompt tokens shared by all requests of the same `prefix_stream`.
    content_stream : ndarray of int64
        Identity of the rest of the prompt: equal values mean equal tokens as far as both reach (a
        repeated prompt, or the growing history of one session); -1 means unique to the request.
    session_output : ndarray of bool
        Whether the generated tokens belong to `content_stream` too (a session's history).
    parent : ndarray of int64
        Row that must finish first (closed loop), -1 for none; always an earlier row.
    think_time : ndarray of float64
        Seconds between the parent's finish and this arrival.
    priority : ndarray of int64
        vLLM's meaning: the lower value is served first. Used by the priority scheduler alone.
    timeout : ndarray of float64
        The client leaves this many seconds after arrival; inf for never.
    group : ndarray of int64
        Index of the load stage or request class that statistics are kept by, from 0 without gaps.
    """

    arrival: NDArray[np.float64]
    input_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    prefix_stream: NDArray[np.int64]
    prefix_tokens: NDArray[np.int64]
    content_stream: NDArray[np.int64]
    session_output: NDArray[np.bool_]
    parent: NDArray[np.int64]
    think_time: NDArray[np.float64]
    priority: NDArray[np.int64]
    timeout: NDArray[np.float64]
    group: NDArray[np.int64]

    def __post_init__(self) -> None:
        n = len(self.arrival)
        for field in fields(self):
            column = getattr(self, field.name)
            if column.shape != (n,):
                raise InputError(
                    f"request column {field.name} has shape {column.shape}, expected ({n},)"
                )
        for name in ("arrival", "think_time"):
            column = getattr(self, name)
            bad = ~(np.isfinite(column) & (column >= 0))
            _refuse(name, column, bad, "must be finite and not negative")
        _refuse("timeout", self.timeout, ~(self.timeout > 0), "must be positive (inf for none)")
        for name in ("input_tokens", "output_tokens"):
            column = getattr(self, name)
            _refuse(name, column, column < 1, "must be at least 1")
        bad = (self.prefix_tokens < 0) | (self.prefix_tokens > self.input_tokens)
        _refuse("prefix_tokens", self.prefix_tokens, bad, "must lie in 0..input_tokens")
        _refuse("group", self.group, self.group < 0, "must not be negative")
        late = self.parent >= np.arange(n)
        _refuse("parent", self.parent, late, "must be an earlier row or -1")
        open_loop = self.arrival[self.parent < 0]
        if np.any(np.diff(open_loop) < 0):
            raise InputError("requests must be sorted by arrival")

    def __len__(self) -> int:
        return len(self.arrival)

    @property
    def n_group(self) -> int:
        """Number of groups that statistics are kept by; 0 for an empty table."""
        return int(self.group.max()) + 1 if len(self) else 0


def _refuse(name: str, column: NDArray[np.generic], bad: NDArray[np.bool_], rule: str) -> None:
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise InputError(f"request row {row}: {name} {rule}, got {column[row].item()!r}")


def request_table(
    arrival: NDArray[np.float64],
    input_tokens: NDArray[np.int64] | int,
    output_tokens: NDArray[np.int64] | int,
    **columns: NDArray[np.generic],
) -> RequestTable:
    """Build a table from the three columns that always matter; the rest has neutral defaults.

    Parameters
    ----------
    arrival : ndarray, shape (n_request,)
        Seconds from the start of the run.
    input_tokens, output_tokens : ndarray of int, shape (n_request,), or int
        Lengths in tokens.
    **columns : ndarray, shape (n_request,)
        Any other column of `RequestTable`.

    Returns
    -------
    RequestTable
        Open loop, unique prompts, no time-outs and one group, but for what `columns` says.

    Raises
    ------
    InputError
        If a column is unknown, has another shape or an impossible value.

    Examples
    --------
    >>> len(request_table(np.array([0.0, 0.5]), 100, 20))
    2
    """
    n = len(arrival)
    values: dict[str, NDArray[np.generic]] = {
        "arrival": np.asarray(arrival, dtype=np.float64),
        "input_tokens": np.broadcast_to(np.asarray(input_tokens), (n,)),
        "output_tokens": np.broadcast_to(np.asarray(output_tokens), (n,)),
        "prefix_stream": np.full(n, -1),
        "prefix_tokens": np.zeros(n),
        "content_stream": np.full(n, -1),
        "session_output": np.zeros(n, dtype=np.bool_),
        "parent": np.full(n, -1),
        "think_time": np.zeros(n),
        "priority": np.zeros(n),
        "timeout": np.full(n, np.inf),
        "group": np.zeros(n),
    }
    unknown = set(columns) - set(values)
    if unknown:
        raise InputError(f"unknown request column {sorted(unknown)[0]!r}")
    values.update(columns)
    for name in _INTEGERS:
        column = np.asarray(values[name])
        if column.dtype.kind == "f" and not np.all(np.isfinite(column)):
            row = int(np.flatnonzero(~np.isfinite(column))[0])
            raise InputError(f"request row {row}: {name} must be a whole number, got nan or inf")
        values[name] = np.ascontiguousarray(column, dtype=np.int64)
    for name in ("arrival", "think_time", "timeout"):
        values[name] = np.ascontiguousarray(values[name], dtype=np.float64)
    values["session_output"] = np.ascontiguousarray(values["session_output"], dtype=np.bool_)
    return RequestTable(**values)  # type: ignore[arg-type]
