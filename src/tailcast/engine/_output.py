"""What all draws of a simulation write into, each draw its own row."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from tailcast.engine import _layout
from tailcast.engine.result import METRICS, RANGES, Status

RANGE_FIELDS: Final = {
    "prefill_tokens": ("least_tokens", "most_tokens"),
    "prefill_pairs": ("least_pairs", "most_pairs"),
    "decodes": ("least_decodes", "most_decodes"),
    "context": ("least_context", "most_context"),
    "new_tokens": ("least_new", "most_new"),
}
"""Fields of the run's record that hold the range of each of `RANGES`."""

_COUNTERS: Final = {
    "n": "n_request",
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
    """Statistics, completed requests by group, and the final record of each run."""

    stat: NDArray[np.float64]
    completed_by_group: NDArray[np.int64]
    runs: NDArray[np.void]

    @classmethod
    def empty(cls, n_draw: int, n_group: int, n_quantile: int) -> "Output":
        """Arrays of the right shapes."""
        return cls(
            stat=np.full((n_draw, n_group + 1, len(METRICS), 1 + n_quantile), np.nan),
            completed_by_group=np.zeros((n_draw, n_group), dtype=np.int64),
            runs=np.zeros(n_draw, dtype=_layout.RUN),
        )

    def counters(self) -> dict[str, NDArray[Any]]:
        """Counts and totals by draw."""
        runs = self.runs
        counters = {name: runs[field].copy() for name, field in _COUNTERS.items()}
        counters["completed_by_group"] = self.completed_by_group
        counters["peak_kv_blocks"] = runs["kv_blocks"] - runs["min_free"]
        busy = np.where(runs["busy"] > 0, runs["busy"], np.inf)
        counters["mean_batch"] = runs["batch_time"] / busy
        counters["mean_kv_blocks"] = runs["kv_time"] / busy
        return counters

    def ranges(self) -> NDArray[np.float64]:
        """Least and greatest value over steps of `RANGES`, NaN where there was no step."""
        runs = self.runs
        pairs = [[runs[least], runs[most]] for least, most in (RANGE_FIELDS[k] for k in RANGES)]
        ranges = np.moveaxis(np.array(pairs, dtype=np.float64), -1, 0)
        return np.where(runs["step"][:, None, None] > 0, ranges, np.nan)
