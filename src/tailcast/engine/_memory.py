"""Allocation of a run's memory, and the way from columns to records and back."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.engine import _state
from tailcast.engine._gaps import Gaps
from tailcast.engine._order import N_BIN
from tailcast.engine._state import NONE, Work
from tailcast.engine._summary import Summary, weigh_all_gaps
from tailcast.engine.limits import Limits
from tailcast.engine.result import (
    METRICS,
    RANGES,
    GapRuns,
    RequestRecords,
    Status,
    StepLog,
)
from tailcast.request import RequestTable
from tailcast.step_law import StepLaw

_INT32_MAX = np.iinfo(np.int32).max
_N_DISTINCT = 1 << 14
_RANGE_FIELDS = {
    "prefill_tokens": ("least_tokens", "most_tokens"),
    "prefill_pairs": ("least_pairs", "most_pairs"),
    "decodes": ("least_decodes", "most_decodes"),
    "context": ("least_context", "most_context"),
    "new_tokens": ("least_new", "most_new"),
}
_LAW_FIELDS = {
    "per_step": "per_step",
    "per_token": "per_prefill_token",
    "per_pair": "per_prefill_pair",
    "per_chunk": "per_prefill_request",
    "per_decode": "per_decode",
    "per_context": "per_context_token",
    "ingest": "ingest",
    "finish": "finish",
    "stream": "stream",
}
_COUNTERS = {
    "steps": "step",
    "preemptions": "preemptions",
    "prefill_tokens": "prefill_tokens",
    "cached_tokens": "cached_tokens",
    "max_batch": "max_batch",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A request table in the kernel's layout; nothing in it changes during a run."""

    table: RequestTable
    item: NDArray[np.void]
    stream: NDArray[np.void]
    first_child: NDArray[np.int32]
    sibling: NDArray[np.int32]
    priority: NDArray[np.int64]
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


def _children(table: RequestTable) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """First child of each row and next child of the same parent, in order of rows."""
    n = len(table)
    first = np.full(n, NONE, dtype=np.int32)
    sibling = np.full(n, NONE, dtype=np.int32)
    rows = np.flatnonzero(table.parent >= 0)
    order = rows[np.argsort(table.parent[rows], kind="stable")]
    parents = table.parent[order]
    heads = np.ones(len(order), dtype=np.bool_)
    heads[1:] = parents[1:] != parents[:-1]
    first[parents[heads]] = order[heads]
    sibling[order[:-1][~heads[1:]]] = order[1:][~heads[1:]]
    return first, sibling


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
    item = np.empty(n, dtype=_state.ITEM)
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
    stream = np.zeros(n_prefix + int(content.max(initial=NONE)) + 1, dtype=_state.STREAM)
    shared = content >= 0
    stream["base"][content[shared] + n_prefix] = base[shared]
    for field in ("cached", "used"):
        stream[field] = stream["base"]
    stream["low"] = NONE
    closed = bool((table.parent >= 0).any())
    nothing = np.full(1, NONE, dtype=np.int32)
    first_child, sibling = _children(table) if closed else (nothing, nothing)
    rows = np.argsort(table.group, kind="stable").astype(np.int32)
    return Plan(
        table=table,
        item=item,
        stream=stream,
        first_child=first_child,
        sibling=sibling,
        priority=table.priority if limits.priority else np.zeros(1, dtype=np.int64),
        timed=bool(np.isfinite(table.timeout).any()),
        closed=closed,
        rows=rows,
        bounds=np.searchsorted(table.group[rows], np.arange(table.n_group + 1)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """Arrays that all draws of a simulation write into, each draw its own rows."""

    stat: NDArray[np.float64]
    ranges: NDArray[np.float64]
    counters: dict[str, NDArray[Any]]

    @classmethod
    def empty(cls, n_draw: int, n_group: int, n_quantile: int) -> "Output":
        """Arrays of the right shapes."""
        floats = ("busy_time", "end_time", "mean_batch", "mean_kv_blocks")
        counts = ("n", *(name.lower() for name in Status.__members__), *_COUNTERS, "peak_kv_blocks")
        counters: dict[str, NDArray[Any]] = {}
        counters.update({name: np.zeros(n_draw, dtype=np.int64) for name in counts})
        counters["completed_by_group"] = np.zeros((n_draw, n_group), dtype=np.int64)
        counters.update({name: np.zeros(n_draw) for name in floats})
        return cls(
            stat=np.full((n_draw, n_group + 1, len(METRICS), 1 + n_quantile), np.nan),
            ranges=np.full((n_draw, len(RANGES), 2), np.nan),
            counters=counters,
        )


class Memory:
    """What one thread needs to simulate one draw after the other."""

    __slots__ = ("limits", "plan", "scratch", "template", "want_log", "work")

    def __init__(self, plan: Plan, limits: Limits, want_log: bool) -> None:
        self.plan = plan
        self.limits = limits
        self.want_log = want_log
        self.template = self._template()
        self.work = self._work()
        n = max(len(plan.table), 1)
        self.scratch = (np.empty(n), np.empty(n, dtype=np.int64))

    def _template(self) -> NDArray[np.void]:
        plan, limits = self.plan, self.limits
        run = np.zeros(1, dtype=_state.RUN)
        for name in ("head", "tail", "oldest", "youngest", "node_free"):
            run[name] = NONE
        for name in RANGES:
            run[_RANGE_FIELDS[name][0]] = np.inf
            run[_RANGE_FIELDS[name][1]] = -np.inf
        values = {
            "max_seqs": limits.max_num_seqs,
            "max_tokens": limits.max_num_batched_tokens,
            "max_total": min(limits.max_model_len, limits.kv_blocks * limits.block_size + 1),
            "block": limits.block_size,
            "kv_blocks": limits.kv_blocks,
            "free": limits.kv_blocks,
            "min_free": limits.kv_blocks,
            "caching": limits.prefix_caching,
            "chunked": limits.chunked_prefill,
            "threshold": limits.long_prefill_token_threshold,
            "priority": limits.priority,
            "horizon": limits.horizon,
            "n_request": len(plan.table),
            "n_stream": len(plan.stream),
            "closed": plan.closed,
            "timed": plan.timed,
            "logged": self.want_log,
        }
        for name, value in values.items():
            run[name] = value
        return run

    def _n_node(self) -> int:
        """Most ranges that the free pool can hold at once."""
        if not self.limits.prefix_caching:
            return 1
        item = self.plan.item
        total = item["input"].astype(np.int64) + item["output"]
        total = total[total <= self.template["max_total"][0]]
        held = int(((total - 2) // self.limits.block_size + 1).sum())
        return min(self.limits.kv_blocks, 2 * held) + 4

    def _work(self) -> Work:
        plan, table = self.plan, self.plan.table
        n = max(len(table), 1)
        n_slot = min(self.limits.max_num_seqs, n)
        n_child = max(int((table.parent >= 0).sum()), 1)
        n_timer = n if plan.timed else 1
        n_stream = max(len(plan.stream) + len(table) * self.limits.prefix_caching, 1)
        small = (np.empty(n_slot, dtype=np.int32) for _ in range(4))
        slots, pre, pend, heap = small
        return Work(
            run=self.template.copy(),
            item=plan.item,
            fate=np.empty(n, dtype=_state.FATE),
            slot=np.zeros(n_slot, dtype=_state.SLOT),
            stream=np.empty(n_stream, dtype=_state.STREAM),
            node=np.empty(self._n_node(), dtype=_state.NODE),
            hist=np.zeros(self.limits.block_size, dtype=np.int64),
            table=np.zeros(1),
            slots=slots,
            pre=pre,
            pend=pend,
            stack=np.empty(n_slot, dtype=np.int32),
            heap=heap,
            queue=np.empty(n, dtype=np.int32),
            child_key=np.empty(n_child),
            child_row=np.empty(n_child, dtype=np.int32),
            wait_key=np.empty(n_timer),
            wait_row=np.empty(n_timer, dtype=np.int32),
            busy_key=np.empty(n_timer),
            busy_row=np.empty(n_timer, dtype=np.int32),
            first_child=plan.first_child,
            sibling=plan.sibling,
            arrival=table.arrival,
            think=table.think_time,
            timeout=table.timeout,
            parent=table.parent,
            priority=plan.priority,
            steps=np.empty(3 * n + 1024, dtype=_state.STEP_RUN),
            odd=np.empty(n_slot + 64, dtype=_state.ODD_GAP),
            span=np.empty(n_slot + 64, dtype=_state.SPAN),
            log=np.empty(3 * n + 1024 if self.want_log else 1, dtype=_state.LOG),
        )

    def reset(self, law: StepLaw, draw: int) -> None:
        """Make ready for one draw of the step law."""
        run = self.work.run
        run[:] = self.template
        lag = law.schedule_lag[draw]
        for name, column in _LAW_FIELDS.items():
            run[name] = getattr(law, column)[draw]
        run["lag1"] = min(lag, 1.0)
        run["lag2"] = max(lag - 1.0, 0.0)
        run["lagged"] = lag >= 0.5
        run["n_table"] = law.token_table.shape[1]
        self.work.stream[: len(self.plan.stream)] = self.plan.stream
        self.work = self.work._replace(table=law.token_table[draw])

    def grow(self) -> None:
        """Double the room for step runs, spans and odd gaps."""
        work = self.work
        run = work.run[0]
        larger: dict[str, NDArray[np.void]] = {}
        used_by_name = {"steps": "n_run", "odd": "n_odd", "span": "n_span"}
        if self.want_log:
            used_by_name["log"] = "n_run"
        for name, used in used_by_name.items():
            old = getattr(work, name)
            new = np.empty(2 * len(old), dtype=old.dtype)
            new[: run[used]] = old[: run[used]]
            larger[name] = new
        self.work = work._replace(**larger)

    def summary(
        self, output: Output, draw: int, quantiles: NDArray[np.float64]
    ) -> tuple[Summary, Gaps]:
        """Where the statistics of one draw go, and the memory that finding them takes."""
        buffer, scratch = self.scratch
        n_run = int(self.work.run["n_run"][0])
        summary = Summary(
            rows=self.plan.rows,
            bounds=self.plan.bounds,
            group=self.plan.table.group,
            quantiles=quantiles,
            buffer=buffer,
            keys=buffer.view(np.int64),
            scratch=scratch,
            histogram=np.empty(N_BIN, dtype=np.int64),
            stat=output.stat[draw],
            completed=output.counters["completed_by_group"][draw],
        )
        gaps = Gaps(
            steps=self.work.steps,
            weights=np.empty(n_run + 1, dtype=np.int32),
            extra=np.empty(int(self.work.run["n_odd"][0])),
            histogram=np.empty(N_BIN, dtype=np.int64),
            finer=np.empty(N_BIN, dtype=np.int64),
            keys=np.empty(_N_DISTINCT, dtype=np.int64),
            counts=np.empty(_N_DISTINCT, dtype=np.int64),
            place=np.zeros(9, dtype=np.int64),
        )
        return summary, gaps

    def report(self, output: Output, draw: int) -> None:
        """Copy counters and ranges of the finished draw."""
        run = self.work.run[0]
        counters = output.counters
        n = len(self.plan.table)
        counters["n"][draw] = n
        totals = np.bincount(self.work.fate["state"][:n], minlength=len(Status))
        for status in Status:
            counters[status.name.lower()][draw] = totals[status]
        for name, field in _COUNTERS.items():
            counters[name][draw] = run[field]
        counters["peak_kv_blocks"][draw] = run["kv_blocks"] - run["min_free"]
        counters["busy_time"][draw] = busy = run["busy"]
        counters["end_time"][draw] = run["end"]
        counters["mean_batch"][draw] = run["batch_time"] / busy if busy > 0 else 0.0
        counters["mean_kv_blocks"][draw] = run["kv_time"] / busy if busy > 0 else 0.0
        if run["step"] > 0:
            for i, name in enumerate(RANGES):
                for j in range(2):
                    output.ranges[draw, i, j] = run[_RANGE_FIELDS[name][j]]

    def records(self) -> RequestRecords:
        """Copy what became of every request."""
        fate = self.work.fate[: len(self.plan.table)]
        times = {
            name: np.where(fate[field] < 0, np.nan, fate[field])
            for name, field in (
                ("arrival", "arrival"),
                ("scheduled", "scheduled"),
                ("first_token", "first"),
            )
        }
        completed = fate["state"] == Status.COMPLETED
        return RequestRecords(
            **times,
            finish=np.where(completed, fate["last"], np.nan),
            status=fate["state"].astype(np.int64),
            cached_tokens=fate["cached"].astype(np.int64),
            preemptions=fate["preempted"].astype(np.int64),
        )

    def gap_runs(self, summary: Summary, gaps: Gaps, warmup: int) -> GapRuns:
        """Copy the token gaps of counted requests."""
        weigh_all_gaps(self.work, summary, gaps, warmup)
        n_run = int(self.work.run["n_run"][0])
        stream = float(self.work.run["stream"][0])
        weights = gaps.weights[:n_run]
        seen = np.flatnonzero(weights > 0)
        steps = self.work.steps[:n_run][seen]
        extra = np.array(gaps.extra)
        ones = np.ones(len(extra), dtype=np.int64)
        return GapRuns(
            first=np.concatenate([steps["first"], extra]) + stream,
            slope=np.concatenate([steps["slope"], np.zeros(len(extra))]),
            count=np.concatenate([steps["count"], ones]),
            multiplicity=np.concatenate([weights[seen].astype(np.int64), ones]),
        )

    def step_log(self) -> StepLog:
        """Expand the log of step runs to single steps."""
        n_run = int(self.work.run["n_run"][0])
        steps, log = self.work.steps[:n_run], self.work.log[:n_run]
        count = steps["count"]
        j = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
        first, slope, decodes = (
            np.repeat(column, count) for column in (steps["first"], steps["slope"], log["decodes"])
        )
        return StepLog(
            start=np.repeat(log["start"], count) + j * first + slope * (0.5 * j * (j - 1)),
            duration=first + slope * j,
            prefill_tokens=np.repeat(log["tokens"], count),
            prefill_pairs=np.repeat(log["pairs"], count),
            prefill_requests=np.repeat(log["chunks"], count),
            decodes=decodes,
            context=np.repeat(log["context"], count) + j * decodes,
        )
