"""A request table in the kernel's layout: which blocks requests share, who is whose child."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.engine import _layout
from tailcast.engine._layout import NONE
from tailcast.engine.limits import Limits
from tailcast.request import RequestTable

_INT32_MAX = np.iinfo(np.int32).max


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A request table in the kernel's layout; nothing in it changes during a run."""

    table: RequestTable
    item: NDArray[np.void]
    stream: NDArray[np.void]
    kin: NDArray[np.void]
    timed: bool
    closed: bool
    rows: NDArray[np.int32]
    bounds: NDArray[np.int64]


def _prefix_streams(table: RequestTable, base: NDArray[np.int64]) -> NDArray[np.int64]:
    """Stream of each request's shared prefix, numbered from 0, or NONE."""
    ids = np.full(len(table), NONE)
    shared = base > 0
    if shared.any():
        ids[shared] = np.unique(table.prefix_stream[shared], return_inverse=True)[1]
    return ids


def _content_streams(
    table: RequestTable, prefix: NDArray[np.int64], base: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Stream of each request's content, numbered from 0; NONE where nobody shares it."""
    ids = np.full(len(table), NONE)
    rows = np.flatnonzero(table.content_stream >= 0)
    if len(rows):
        names = np.stack([table.content_stream[rows], prefix[rows], base[rows]])
        _, inverse, count = np.unique(names, axis=1, return_inverse=True, return_counts=True)
        shared = count > 1
        number = np.where(shared, np.cumsum(shared) - 1, NONE)
        ids[rows] = number[inverse]
    return ids


def _kin(table: RequestTable) -> NDArray[np.void]:
    """First child of each row and next child of the same parent, in order of rows."""
    kin = np.empty(len(table), dtype=_layout.KIN)
    kin["first_child"] = NONE
    kin["sibling"] = NONE
    rows = np.flatnonzero(table.parent >= 0)
    order = rows[np.argsort(table.parent[rows], kind="stable")]
    parents = table.parent[order]
    heads = np.ones(len(order), dtype=np.bool_)
    heads[1:] = parents[1:] != parents[:-1]
    kin["first_child"][parents[heads]] = order[heads]
    kin["sibling"][order[:-1][~heads[1:]]] = order[1:][~heads[1:]]
    return kin


def plan_requests(table: RequestTable, limits: Limits) -> Plan:
    """Bring a request table into the kernel's layout.

    Parameters
    ----------
    table : RequestTable
        What arrives.
    limits : Limits
        Block size and prefix caching decide which blocks requests share.

    Returns
    -------
    Plan
        To be used by any number of runs at once.
    """
    n = len(table)
    item = np.empty(n, dtype=_layout.ITEM)
    item["input"] = np.minimum(table.input_tokens, _INT32_MAX)
    item["output"] = np.minimum(table.output_tokens, _INT32_MAX)
    prefixed = (table.prefix_stream >= 0) & limits.prefix_caching
    base = np.where(prefixed, table.prefix_tokens // limits.block_size, 0)
    item["base"] = np.minimum(base, _INT32_MAX)
    named = (table.content_stream >= 0) & ~table.session_output
    keyed = np.where(named, table.input_tokens // limits.block_size, _INT32_MAX)
    item["keyed"] = np.minimum(keyed, _INT32_MAX)
    prefix = np.full(n, NONE)
    content = np.full(n, NONE)
    if limits.prefix_caching:
        prefix = _prefix_streams(table, base)
        content = _content_streams(table, prefix, base)
    n_prefix = int(prefix.max(initial=NONE)) + 1
    item["prefix"] = prefix
    item["content"] = np.where(content >= 0, content + n_prefix, NONE)
    stream = np.zeros(n_prefix + int(content.max(initial=NONE)) + 1, dtype=_layout.STREAM)
    shared = content >= 0
    stream["base"][content[shared] + n_prefix] = base[shared]
    for field in ("cached", "used"):
        stream[field] = stream["base"]
    stream["low"] = NONE
    closed = bool((table.parent >= 0).any())
    rows = np.arange(n) if table.n_group < 2 else np.argsort(table.group, kind="stable")
    return Plan(
        table=table,
        item=item,
        stream=stream,
        kin=_kin(table) if closed else np.empty(0, dtype=_layout.KIN),
        timed=bool(np.isfinite(table.timeout).any()),
        closed=closed,
        rows=rows.astype(np.int32),
        bounds=np.searchsorted(table.group[rows], np.arange(table.n_group + 1)),
    )
