"""What a simulation of one replica returns."""

from dataclasses import dataclass
from enum import IntEnum
from typing import Final

import numpy as np
from numpy.typing import NDArray

METRICS: Final = ("ttft", "itl", "tpot", "e2e", "queue_delay")
RANGES: Final = ("prefill_tokens", "prefill_pairs", "decodes", "context", "new_tokens")


class Status(IntEnum):
    """What became of a request."""

    UNFINISHED = 0
    COMPLETED = 1
    REJECTED = 2
    UNSENT = 3
    TIMED_OUT = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestRecords:
    """Every request of one draw; arrays have shape (n_request,), times are seconds of the run.

    Parameters
    ----------
    arrival : ndarray of float64
        When the request was sent (closed loop: after its parent); NaN when it never was.
    scheduled : ndarray of float64
        Start of the first step that computed any of it; NaN for none.
    first_token : ndarray of float64
        End of the step that yielded its first token; NaN for none.
    finish : ndarray of float64
        End of the step that yielded its last token; NaN unless completed.
    status : ndarray of int64
        A `Status`.
    cached_tokens : ndarray of int64
        Prompt tokens found in the prefix cache, summed over admissions.
    preemptions : ndarray of int64
        How often it was preempted.
    """

    arrival: NDArray[np.float64]
    scheduled: NDArray[np.float64]
    first_token: NDArray[np.float64]
    finish: NDArray[np.float64]
    status: NDArray[np.int64]
    cached_tokens: NDArray[np.int64]
    preemptions: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class GapRuns:
    """Token gaps of one draw's counted requests, as runs; arrays have shape (n_run,).

    A run stands for the gaps ``first + slope * j`` for j in ``range(count)``, each of them
    `multiplicity` times. The streaming overhead is included.

    Parameters
    ----------
    first, slope : ndarray of float64
        Seconds, and seconds per step.
    count, multiplicity : ndarray of int64
        Gaps of the run, and how many requests saw each of them.
    """

    first: NDArray[np.float64]
    slope: NDArray[np.float64]
    count: NDArray[np.int64]
    multiplicity: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLog:
    """Every step of one draw; arrays have shape (n_step,).

    Parameters
    ----------
    start, duration : ndarray of float64
        Seconds.
    prefill_tokens, prefill_pairs, prefill_requests : ndarray
        Prefill work of the batch: tokens, (query, key) pairs, chunks.
    decodes, context : ndarray of int64
        Decoding requests and the sum of their contexts in tokens.
    """

    start: NDArray[np.float64]
    duration: NDArray[np.float64]
    prefill_tokens: NDArray[np.int64]
    prefill_pairs: NDArray[np.float64]
    prefill_requests: NDArray[np.int64]
    decodes: NDArray[np.int64]
    context: NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineResult:
    """Statistics of one workload under every draw of a step law.

    Parameters
    ----------
    stat : ndarray of float64, shape (n_draw, n_group + 1, n_metric, 1 + n_quantile)
        Mean, then the quantiles, in seconds, over completed requests of a group that are not
        warm-up; the last group is all requests. NaN where there is nothing.
    quantiles : tuple of float
        Which quantiles, over requests (for ``itl`` over gaps).
    metrics : tuple of str
        Names along the metric axis.
    counters : dict of str to ndarray
        Counts and totals by draw, shape (n_draw,), warm-up included; ``completed_by_group`` has
        shape (n_draw, n_group).
    ranges : ndarray of float64, shape (n_draw, 5, 2)
        Least and greatest value over steps of `RANGES`; NaN without a step.
    records : tuple of RequestRecords or None
        One a draw, when asked for.
    gaps : tuple of GapRuns or None
        One a draw, when asked for.
    steps : tuple of StepLog or None
        One a draw, when asked for.
    """

    stat: NDArray[np.float64]
    quantiles: tuple[float, ...]
    metrics: tuple[str, ...]
    counters: dict[str, NDArray[np.float64] | NDArray[np.int64]]
    ranges: NDArray[np.float64]
    records: tuple[RequestRecords, ...] | None
    gaps: tuple[GapRuns, ...] | None
    steps: tuple[StepLog, ...] | None
