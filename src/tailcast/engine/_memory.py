"""Memory of the runs of one thread: allocation, reset between draws, copies of the answers."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.engine import _layout
from tailcast.engine._layout import GROW, N_BIN, NONE, RESUME, START, WEIGH
from tailcast.engine._output import RANGE_FIELDS, Output
from tailcast.engine._plan import Plan
from tailcast.engine.kernel import kernel
from tailcast.engine.limits import Limits
from tailcast.engine.result import GapRuns, RequestRecords, Status, StepLog
from tailcast.step_law import StepLaw

_N_DISTINCT = 1 << 11
_LAW_COLUMNS = {
    "per_step": "per_step",
    "per_token": "per_prefill_token",
    "per_pair": "per_prefill_pair",
    "per_chunk": "per_prefill_request",
    "per_decode": "per_decode",
    "per_context": "per_context_token",
    "ingest": "ingest",
    "finish": "finish",
    "stream": "stream",
    "lag": "schedule_lag",
}


def _address(array: NDArray[Any]) -> int:
    return int(array.ctypes.data)


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelLaw:
    """A step law in the kernel's layout, one row a draw."""

    laws: NDArray[np.float64]
    tables: NDArray[np.float64]

    @classmethod
    def of(cls, law: StepLaw) -> "KernelLaw":
        """Bring the columns of a law into the order of the run's record."""
        columns = [getattr(law, _LAW_COLUMNS[name]) for name in _layout.LAW_FIELDS]
        return cls(laws=np.stack(columns, axis=1), tables=law.token_table)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Which statistics are wanted of which requests, and where they go; `steps` asks for a log."""

    quantiles: NDArray[np.float64]
    warmup: int
    steps: bool
    output: Output


class Memory:
    """What one thread needs to simulate one draw after the other.

    `run` and `ask` are the records that kernel functions work on, `w` and `a` their addresses;
    `arrays` keeps what the addresses in them point to alive.
    """

    __slots__ = ("a", "arrays", "ask", "first", "kernel", "limits", "plan", "run", "template", "w")

    def __init__(self, plan: Plan, limits: Limits, law: KernelLaw, asked: Asked) -> None:
        self.plan = plan
        self.limits = limits
        self.kernel = kernel()
        self.arrays = self._arrays(asked.steps) | {"laws": law.laws, "tables": law.tables}
        self._set_timers()
        self.template = self._template()
        self.template["n_table"] = law.tables.shape[1]
        self.template["logged"] = asked.steps
        self.run = self.template.copy()
        self.ask = np.zeros(1, dtype=_layout.ASK)
        self.w, self.a, self.first = map(_address, (self.run, self.ask, self.template))
        self.ask["n_group"] = plan.table.n_group
        self.ask["n_quantile"] = len(asked.quantiles)
        self.ask["warmup"] = asked.warmup
        self.ask["n_distinct"] = _N_DISTINCT
        self.arrays |= self._ask_arrays(asked)
        for name in _layout.ASK_ADDRESSES:
            if name in self.arrays:
                self.ask[name] = _address(self.arrays[name])
        self._set_gap_memory()

    def _template(self) -> NDArray[np.void]:
        """The run's record as it is before each draw."""
        plan, limits = self.plan, self.limits
        run = np.zeros(1, dtype=_layout.RUN)
        for name in ("head", "tail", "oldest", "youngest", "node_free"):
            run[name] = NONE
        for least, most in RANGE_FIELDS.values():
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
            "n_shared": len(plan.stream),
        }
        for name, value in values.items():
            run[name] = value
        self._set_room(run)
        return run

    def _set_room(self, run: NDArray[np.void]) -> None:
        """Write the addresses of all arrays and the sizes of those that may grow."""
        for name in _layout.ADDRESSES:
            if name in self.arrays:
                run[name] = _address(self.arrays[name])
        run["run_room"] = len(self.arrays["step_runs"])
        # one step adds at most a span and a gap for every slot
        run["loose_room"] = len(self.arrays["looses"]) - 2 * len(self.arrays["slots"])

    def _set_gap_memory(self) -> None:
        """Make memory for the weights of step runs and for the gaps outside them."""
        self.arrays["weights"] = np.empty(len(self.arrays["step_runs"]) + 1, dtype=np.int64)
        self.arrays["extras"] = np.empty(len(self.arrays["looses"]))
        for name in ("weights", "extras"):
            self.ask[name] = _address(self.arrays[name])

    def _set_timers(self) -> None:
        """Tell the timers whom they watch and where their memory is."""
        for k, (name, state) in enumerate((("wait", _layout.WAITING), ("run", _layout.RUNNING))):
            timer = self.arrays[f"{name}_timer"]
            timer["state"] = state
            timer["bit"] = 1 << k
            timer["ring"] = _address(self.arrays[f"{name}_ring"])
            timer["heap"] = _address(self.arrays[f"{name}_heap"])

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

    def _arrays(self, log: bool) -> dict[str, NDArray[Any]]:
        plan, table = self.plan, self.plan.table
        n = max(len(table), 1)
        n_slot = min(self.limits.max_num_seqs, n)
        n_child = max(int((table.parent >= 0).sum()), 1)
        n_timer = n if plan.timed else 1
        n_stream = len(plan.stream) + len(table) * self.limits.prefix_caching
        n_run = 3 * n + 1024
        return {
            "items": plan.item,
            "shared": plan.stream,
            "fates": np.empty(n, dtype=_layout.FATE),
            "slots": np.zeros(n_slot, dtype=_layout.SLOT),
            "places": np.zeros(n_slot, dtype=_layout.PLACE),
            "streams": np.empty(n_stream, dtype=_layout.STREAM),
            "nodes": np.empty(self._n_node(), dtype=_layout.NODE),
            "phases": np.zeros(self.limits.block_size, dtype=_layout.WHOLE),
            "queue": np.empty(n, dtype=_layout.ROW),
            "child_heap": np.empty(n_child, dtype=_layout.TIMED),
            "wait_timer": np.zeros(1, dtype=_layout.TIMER),
            "wait_ring": np.empty(n_timer, dtype=_layout.ROW),
            "wait_heap": np.empty(n_timer, dtype=_layout.TIMED),
            "run_timer": np.zeros(1, dtype=_layout.TIMER),
            "run_ring": np.empty(n_timer, dtype=_layout.ROW),
            "run_heap": np.empty(n_timer, dtype=_layout.TIMED),
            "kins": plan.kin,
            "arrivals": np.ascontiguousarray(table.arrival, dtype=np.float64),
            "thinks": np.ascontiguousarray(table.think_time, dtype=np.float64),
            "timeouts": np.ascontiguousarray(table.timeout, dtype=np.float64),
            "parents": np.ascontiguousarray(table.parent, dtype=np.int64),
            "priorities": np.ascontiguousarray(table.priority, dtype=np.int64),
            "step_runs": np.empty(n_run, dtype=_layout.STEP_RUN),
            "looses": np.empty(4 * n_slot + 64, dtype=_layout.LOOSE),
            "logs": np.empty(n_run if log else 1, dtype=_layout.LOG),
        }

    def _ask_arrays(self, asked: Asked) -> dict[str, NDArray[Any]]:
        plan = self.plan
        n = max(len(plan.table), 1)
        return {
            "rows": plan.rows,
            "bounds": plan.bounds,
            "groups": np.ascontiguousarray(plan.table.group, dtype=np.int64),
            "quantiles": asked.quantiles,
            "stats": asked.output.stat,
            "completed": asked.output.completed_by_group,
            "runs": asked.output.runs,
            "values": np.empty(n),
            "scratch": np.empty(n),
            "histogram": np.empty(N_BIN, dtype=np.int64),
            "finer": np.empty(N_BIN, dtype=np.int64),
            "keys": np.empty(_N_DISTINCT, dtype=np.int64),
            "counts": np.empty(_N_DISTINCT, dtype=np.int64),
        }

    def serve(self, draw: int) -> None:
        """Simulate a draw to its end; statistics and final record go to the output."""
        order = START
        while self.kernel(self.w, self.a, self.first, draw, order) == GROW:
            self.grow()
            order = RESUME

    def grow(self) -> None:
        """Double the room for step runs and loose gaps."""
        used_by_name = {"step_runs": "n_run", "looses": "n_loose"}
        if self.run["logged"]:
            used_by_name["logs"] = "n_run"
        for name, used in used_by_name.items():
            old = self.arrays[name]
            new = np.empty(2 * len(old), dtype=old.dtype)
            n = int(self.run[used][0])
            new[:n] = old[:n]
            self.arrays[name] = new
        self._set_gap_memory()
        self._set_room(self.template)
        self._set_room(self.run)

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
        self.kernel(self.w, self.a, self.first, 0, WEIGH)
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
