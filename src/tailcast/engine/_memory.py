"""Memory of the runs of one thread: allocation, reset between draws, copies of the answers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.engine import _state
from tailcast.engine._order import N_BIN
from tailcast.engine._plan import Plan
from tailcast.engine._state import NONE
from tailcast.engine._summary import weigh_all_gaps
from tailcast.engine.limits import Limits
from tailcast.engine.result import METRICS, RANGES, GapRuns, RequestRecords, Status, StepLog
from tailcast.step_law import StepLaw

_N_DISTINCT = 1 << 11
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
    "busy_time": "busy",
    "end_time": "end",
} | {status.name.lower(): status.name.lower() for status in Status}


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
        counts = [name for name in ("n", *_COUNTERS, "peak_kv_blocks") if name not in floats]
        counters: dict[str, NDArray[Any]] = {}
        counters.update({name: np.zeros(n_draw, dtype=np.int64) for name in counts})
        counters["completed_by_group"] = np.zeros((n_draw, n_group), dtype=np.int64)
        counters.update({name: np.zeros(n_draw) for name in floats})
        return cls(
            stat=np.full((n_draw, n_group + 1, len(METRICS), 1 + n_quantile), np.nan),
            ranges=np.full((n_draw, len(RANGES), 2), np.nan),
            counters=counters,
        )


def _address(array: NDArray[Any]) -> int:
    return int(array.ctypes.data)


class Memory:
    """What one thread needs to simulate one draw after the other.

    `run` and `ask` are the records that kernel functions work on, `w` and `a` their addresses;
    `arrays` keeps what the addresses in them point to alive.
    """

    __slots__ = ("a", "arrays", "ask", "limits", "plan", "run", "template", "w", "want_log")

    def __init__(
        self, plan: Plan, limits: Limits, quantiles: NDArray[np.float64], warmup: int, log: bool
    ) -> None:
        self.plan = plan
        self.limits = limits
        self.want_log = log
        self.arrays = self._arrays()
        self.template = self._template()
        self.run = self.template.copy()
        self.ask = np.zeros(1, dtype=_state.ASK)
        self.w = _address(self.run)
        self.a = _address(self.ask)
        self.ask["n_group"] = plan.table.n_group
        self.ask["n_quantile"] = len(quantiles)
        self.ask["warmup"] = warmup
        self.ask["n_distinct"] = _N_DISTINCT
        self.arrays |= self._ask_arrays(quantiles)
        for name in _state.ASK_ADDRESSES:
            if name in self.arrays:
                self.ask[name] = _address(self.arrays[name])

    def _template(self) -> NDArray[np.void]:
        """The run's record as it is before each draw."""
        plan, limits = self.plan, self.limits
        run = np.zeros(1, dtype=_state.RUN)
        for name in ("head", "tail", "oldest", "youngest", "node_free"):
            run[name] = NONE
        for least, most in _RANGE_FIELDS.values():
            run[least] = np.inf
            run[most] = -np.inf
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
        self._set_room(run)
        return run

    def _set_room(self, run: NDArray[np.void]) -> None:
        """Write the addresses of all arrays and the sizes of those that may grow."""
        for name in _state.ADDRESSES:
            if name in self.arrays:
                run[name] = _address(self.arrays[name])
        run["run_room"] = len(self.arrays["step_runs"])
        # one step adds at most a span and a gap for every slot
        run["loose_room"] = len(self.arrays["looses"]) - 2 * len(self.arrays["slots"])

    def _n_node(self) -> int:
        """Most ranges that the free pool can hold at once."""
        if not self.limits.prefix_caching:
            return 1
        limits, item = self.limits, self.plan.item
        n = len(item)
        longest = int((item["input"].astype(np.int64) + item["output"]).max(initial=0))
        longest = min(longest, limits.max_model_len)
        most_held = min(limits.max_num_seqs, n) * (longest // limits.block_size + 1)
        # without preemption a request frees two ranges once, each perhaps behind some garbage
        ever = 4 * n if limits.kv_blocks >= most_held else limits.kv_blocks
        return min(limits.kv_blocks, ever) + 4

    def _arrays(self) -> dict[str, NDArray[Any]]:
        plan, table = self.plan, self.plan.table
        n = max(len(table), 1)
        n_slot = min(self.limits.max_num_seqs, n)
        n_child = max(int((table.parent >= 0).sum()), 1)
        n_timer = n if plan.timed else 1
        n_stream = len(plan.stream) + len(table) * self.limits.prefix_caching
        n_run = 3 * n + 1024
        return {
            "items": plan.item,
            "fates": np.empty(n, dtype=_state.FATE),
            "slots": np.zeros(n_slot, dtype=_state.SLOT),
            "places": np.zeros(n_slot, dtype=_state.PLACE),
            "streams": np.empty(n_stream, dtype=_state.STREAM),
            "nodes": np.empty(self._n_node(), dtype=_state.NODE),
            "phases": np.zeros(self.limits.block_size, dtype=_state.WHOLE),
            "queue": np.empty(n, dtype=_state.ROW),
            "child_heap": np.empty(n_child, dtype=_state.TIMED),
            "wait_heap": np.empty(n_timer, dtype=_state.TIMED),
            "leave_heap": np.empty(n_timer, dtype=_state.TIMED),
            "kins": plan.kin,
            "arrivals": np.ascontiguousarray(table.arrival, dtype=np.float64),
            "thinks": np.ascontiguousarray(table.think_time, dtype=np.float64),
            "timeouts": np.ascontiguousarray(table.timeout, dtype=np.float64),
            "parents": np.ascontiguousarray(table.parent, dtype=np.int64),
            "priorities": np.ascontiguousarray(table.priority, dtype=np.int64),
            "step_runs": np.empty(n_run, dtype=_state.STEP_RUN),
            "looses": np.empty(4 * n_slot + 64, dtype=_state.LOOSE),
            "logs": np.empty(n_run if self.want_log else 1, dtype=_state.LOG),
        }

    def _ask_arrays(self, quantiles: NDArray[np.float64]) -> dict[str, NDArray[Any]]:
        plan = self.plan
        n = max(len(plan.table), 1)
        return {
            "rows": plan.rows,
            "bounds": plan.bounds,
            "groups": np.ascontiguousarray(plan.table.group, dtype=np.int64),
            "quantiles": quantiles,
            "values": np.empty(n),
            "scratch": np.empty(n),
            "histogram": np.empty(N_BIN, dtype=np.int64),
            "finer": np.empty(N_BIN, dtype=np.int64),
            "keys": np.empty(_N_DISTINCT, dtype=np.int64),
            "counts": np.empty(_N_DISTINCT, dtype=np.int64),
        }

    def reset(self, law: StepLaw, draw: int) -> None:
        """Make ready for one draw of the step law."""
        self._set_room(self.template)
        run = self.run
        run[:] = self.template
        lag = law.schedule_lag[draw]
        for name, column in _LAW_FIELDS.items():
            run[name] = getattr(law, column)[draw]
        run["lag"] = lag
        run["lagged"] = lag >= 0.5
        run["n_table"] = law.token_table.shape[1]
        self.arrays["table"] = law.token_table[draw]
        run["table"] = _address(self.arrays["table"])
        self.arrays["streams"][: len(self.plan.stream)] = self.plan.stream

    def grow(self) -> None:
        """Double the room for step runs and loose gaps."""
        used_by_name = {"step_runs": "n_run", "looses": "n_loose"}
        if self.want_log:
            used_by_name["logs"] = "n_run"
        for name, used in used_by_name.items():
            old = self.arrays[name]
            new = np.empty(2 * len(old), dtype=old.dtype)
            n = int(self.run[used][0])
            new[:n] = old[:n]
            self.arrays[name] = new
        self._set_room(self.run)

    def aim(self, output: "Output", draw: int) -> None:
        """Say where the statistics of the finished draw go, and make room for its gaps."""
        self.arrays["weights"] = np.empty(int(self.run["n_run"][0]) + 1, dtype=np.int64)
        self.arrays["extras"] = np.empty(int(self.run["n_loose"][0]))
        self.arrays["stats"] = output.stat[draw]
        self.arrays["completed"] = output.counters["completed_by_group"][draw]
        for name in ("weights", "extras", "stats", "completed"):
            self.ask[name] = _address(self.arrays[name])

    def report(self, output: Output, draw: int) -> None:
        """Copy counters and ranges of the finished draw."""
        run = dict(zip(_state.RUN.names or (), self.run[0].item(), strict=True))
        counters = output.counters
        counters["n"][draw] = len(self.plan.table)
        for name, field in _COUNTERS.items():
            counters[name][draw] = run[field]
        counters["peak_kv_blocks"][draw] = run["kv_blocks"] - run["min_free"]
        busy = run["busy"]
        counters["mean_batch"][draw] = run["batch_time"] / busy if busy > 0 else 0.0
        counters["mean_kv_blocks"][draw] = run["kv_time"] / busy if busy > 0 else 0.0
        if run["step"] > 0:
            output.ranges[draw] = [
                [run[least], run[most]] for least, most in _RANGE_FIELDS.values()
            ]

    def records(self) -> RequestRecords:
        """Copy what became of every request."""
        fate = self.arrays["fates"][: len(self.plan.table)]
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

    def gap_runs(self) -> GapRuns:
        """Copy the token gaps of counted requests."""
        weigh_all_gaps(self.w, self.a)
        n_run = int(self.run["n_run"][0])
        stream = float(self.run["stream"][0])
        weights = self.arrays["weights"][:n_run]
        seen = np.flatnonzero(weights > 0)
        steps = self.arrays["step_runs"][:n_run][seen]
        extra = self.arrays["extras"][: int(self.ask["n_extra"][0])]
        ones = np.ones(len(extra), dtype=np.int64)
        return GapRuns(
            first=np.concatenate([steps["first"], extra]) + stream,
            slope=np.concatenate([steps["slope"], np.zeros(len(extra))]),
            count=np.concatenate([steps["count"], ones]),
            multiplicity=np.concatenate([weights[seen], ones]),
        )

    def step_log(self) -> StepLog:
        """Expand the log of step runs to single steps."""
        n_run = int(self.run["n_run"][0])
        steps, log = self.arrays["step_runs"][:n_run], self.arrays["logs"][:n_run]
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
