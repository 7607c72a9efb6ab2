"""Requests in BLIS's terms: integer microseconds, prefix groups, absolute deadlines."""

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tailcast.errors import InputError, UsageError
from tailcast.request import RequestTable

_FLAGS = ("session_output",)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlisRequests:
    """Requests in any order; every column has shape (n_request,).

    Parameters
    ----------
    arrival_us : ndarray of int64
        Microseconds from the start of the run; ties are served in row order.
    input_tokens : ndarray of int64
        Whole prompt, the shared prefix included; at least 1.
    output_tokens : ndarray of int64
        Tokens that will be generated; 0 for a request that ends with its prompt.
    prefix_group : ndarray of int64
        Identity of a shared prefix, -1 for none.
    prefix_length : ndarray of int64
        Leading prompt tokens shared by all rows of the same `prefix_group`.
    content_stream : ndarray of int64
        Identity of the prompt beyond the prefix, -1 for the row's own. Not in BLIS's traces; it
        stands for equal token lists (repeated prompts, sessions), which BLIS would find by hash.
    session_output : ndarray of bool
        Whether generated tokens belong to `content_stream` too.
    deadline_us : ndarray of int64
        Absolute time at which the client leaves, 0 for never.
    priority : ndarray of int64
        vLLM's meaning, lower is more urgent; used by priority policies alone.
    max_output_tokens : ndarray of int64
        What the client asked for, 0 for nothing said. Generators of BLIS set `output_tokens`.
    request_id : tuple of str
        Names, ``request_<row>`` unless given; some ties are broken by their string order.
    """

    arrival_us: NDArray[np.int64]
    input_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    prefix_group: NDArray[np.int64]
    prefix_length: NDArray[np.int64]
    content_stream: NDArray[np.int64]
    session_output: NDArray[np.bool_]
    deadline_us: NDArray[np.int64]
    priority: NDArray[np.int64]
    max_output_tokens: NDArray[np.int64]
    request_id: tuple[str, ...]

    def __post_init__(self) -> None:
        n = len(self.arrival_us)
        for field in fields(self):
            column = getattr(self, field.name)
            if field.name == "request_id":
                if len(column) != n or len(set(column)) != n:
                    raise InputError(f"request_id must hold {n} different names")
            elif column.shape != (n,):
                raise InputError(
                    f"request column {field.name} has shape {column.shape}, expected ({n},)"
                )
        for name, least in (
            ("arrival_us", 0),
            ("input_tokens", 1),
            ("output_tokens", 0),
            ("prefix_length", 0),
            ("deadline_us", 0),
        ):
            column = getattr(self, name)
            low = np.flatnonzero(column < least)
            if low.size:
                row = int(low[0])
                raise InputError(
                    f"request row {row}: {name} must be at least {least}, got {column[row]}"
                )
        if np.any(self.prefix_length > self.input_tokens):
            row = int(np.flatnonzero(self.prefix_length > self.input_tokens)[0])
            raise InputError(f"request row {row}: prefix_length exceeds input_tokens")

    def __len__(self) -> int:
        return len(self.arrival_us)


def blis_requests(
    arrival_us: ArrayLike,
    input_tokens: ArrayLike,
    output_tokens: ArrayLike,
    *,
    request_id: Sequence[str] | None = None,
    **columns: ArrayLike,
) -> BlisRequests:
    """Build a table from the three columns that always matter; the rest has neutral defaults.

    Parameters
    ----------
    arrival_us : array_like of int, shape (n_request,)
        Microseconds from the start of the run.
    input_tokens, output_tokens : array_like of int, shape (n_request,) or ()
        Lengths in tokens.
    request_id : sequence of str, optional
        Names; ``request_<row>`` by default.
    **columns : array_like, shape (n_request,) or ()
        Any other column of `BlisRequests`.

    Returns
    -------
    BlisRequests
        Unique prompts without deadline and with equal priority, but for what `columns` says.

    Raises
    ------
    InputError
        If a column is unknown, has another shape, is not whole or has an impossible value.

    Examples
    --------
    >>> len(blis_requests([0, 500], 100, 20))
    2
    """
    arrivals = np.asarray(arrival_us)
    n = len(arrivals)
    values: dict[str, ArrayLike] = {
        "arrival_us": arrivals,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "prefix_group": -1,
        "prefix_length": 0,
        "content_stream": -1,
        "session_output": False,
        "deadline_us": 0,
        "priority": 0,
        "max_output_tokens": output_tokens,
    }
    for name in columns:
        if name not in values:
            raise InputError(f"unknown request column {name!r}")
    values.update(columns)
    whole = {name: _column(name, value, n) for name, value in values.items() if name not in _FLAGS}
    flags = np.broadcast_to(np.asarray(values["session_output"], dtype=np.bool_), (n,))
    names = tuple(f"request_{row}" for row in range(n)) if request_id is None else tuple(request_id)
    return BlisRequests(**whole, session_output=np.ascontiguousarray(flags), request_id=names)


def requests_from_table(table: RequestTable) -> BlisRequests:
    """Say a request table in BLIS's terms.

    Parameters
    ----------
    table : RequestTable
        Open loop; seconds are rounded to microseconds, timeouts become deadlines.

    Returns
    -------
    BlisRequests
        Same rows.

    Raises
    ------
    UsageError
        If a row waits for another one: parity mode replays fixed arrival times.
    """
    if np.any(table.parent >= 0):
        row = int(np.flatnonzero(table.parent >= 0)[0])
        raise UsageError(f"blis mode replays fixed arrivals, but request row {row} has a parent")
    arrival_us = np.rint(table.arrival * 1e6).astype(np.int64)
    leaves = np.isfinite(table.timeout)
    timeout_us = np.rint(np.where(leaves, table.timeout, 0.0) * 1e6).astype(np.int64)
    return blis_requests(
        arrival_us,
        table.input_tokens,
        table.output_tokens,
        prefix_group=table.prefix_stream,
        prefix_length=np.where(table.prefix_stream >= 0, table.prefix_tokens, 0),
        content_stream=table.content_stream,
        session_output=table.session_output,
        deadline_us=np.where(leaves, np.maximum(1, arrival_us + timeout_us), 0),
        priority=table.priority,
    )


def _column(name: str, value: ArrayLike, n: int) -> NDArray[np.int64]:
    column = np.asarray(value)
    if column.dtype.kind == "f" and not np.all(column == np.floor(column)):
        raise InputError(f"request column {name} must hold whole numbers")
    if column.dtype.kind not in "iuf" or column.shape not in {(), (n,)}:
        raise InputError(f"request column {name} must hold {n} whole numbers")
    return np.ascontiguousarray(np.broadcast_to(column, (n,)), dtype=np.int64)
