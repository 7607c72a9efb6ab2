"""Smallest batch cap that reaches almost the full throughput within the targets."""

from dataclasses import dataclass, replace

import numpy as np

from tailcast.errors import UsageError
from tailcast.queueing.server import RequestShape, ServerLimits, ThreeNumbers
from tailcast.queueing.sizing import InfeasibleTargetError, Sizing, Targets, largest_rate
from tailcast.queueing.steady_state import Replica
from tailcast.queueing.work_model import work_model


@dataclass(frozen=True, slots=True, kw_only=True)
class ConcurrencySearch:
    """How the batch cap is searched; the defaults are the source's.

    Parameters
    ----------
    least, most : int
        Batch caps considered; the largest is the anchor.
    epsilon : float
        Throughput given up against the anchor, half of it used as the threshold.
    max_steps : int
        Bisection steps.
    """

    least: int = 1
    most: int = 256
    epsilon: float = 0.02
    max_steps: int = 6

    def __post_init__(self) -> None:
        if not 1 <= self.least <= self.most:
            raise UsageError(f"batch caps: {self.least!r} to {self.most!r} is not a range from 1")
        if not 0 < self.epsilon < 1:
            raise UsageError(f"epsilon must lie between 0 and 1, got {self.epsilon!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Concurrency:
    """Result of the search.

    Parameters
    ----------
    max_batch : int
        Smallest batch cap with almost the throughput of the largest one.
    largest_by_itl, largest_by_prefill : int
        Largest batches whose decode step, or prefill, is within its target.
    n_evaluation : int
        Feasible sizings made on the way.
    sizing : Sizing or None
        The replica at that cap; none if the targets cannot be met.
    """

    max_batch: int
    largest_by_itl: int
    largest_by_prefill: int
    n_evaluation: int
    sizing: Sizing | None

    @property
    def feasible(self) -> bool:
        """Whether the targets can be met at all."""
        return self.sizing is not None


def concurrency_brackets(
    numbers: ThreeNumbers, shape: RequestShape, limits: ServerLimits, targets: Targets
) -> tuple[int, int]:
    """Largest batches whose decode step, and whose prefill, is within its target.

    Parameters
    ----------
    numbers : ThreeNumbers
        Cost of a step.
    shape : RequestShape
        Mean tokens.
    limits : ServerLimits
        Its batch cap is the largest batch tried.
    targets : Targets
        On ITL and TTFT.

    Returns
    -------
    by_itl, by_prefill : int
        Requests, at least one; the batch cap where there is no such target.
    """
    work = work_model(numbers, shape, limits)
    states = np.arange(1, limits.max_batch + 1, dtype=np.float64)
    found = []
    for target, times in (
        (targets.itl, work.decode_time(states)),
        (targets.ttft, work.prefill_time(states)),
    ):
        within = np.flatnonzero(times <= target) if target else np.array([limits.max_batch - 1])
        found.append(int(within[-1]) + 1 if within.size else 1)
    return found[0], found[1]


def optimal_concurrency(
    numbers: ThreeNumbers,
    shape: RequestShape,
    limits: ServerLimits,
    targets: Targets,
    search: ConcurrencySearch | None = None,
) -> Concurrency:
    """Search the smallest batch cap that is as good as the largest.

    Parameters
    ----------
    numbers : ThreeNumbers
        Cost of a step, work model V2.
    shape : RequestShape
        Mean tokens.
    limits : ServerLimits
        Waiting room and token budget; its batch cap is not used.
    targets : Targets
        On means.
    search : ConcurrencySearch, optional
        Range, tolerance and steps.

    Returns
    -------
    Concurrency
        Cap, brackets, evaluations and the sizing at the cap.
    """
    search = search or ConcurrencySearch()
    widest = replace(limits, max_batch=search.most)
    by_itl, by_prefill = concurrency_brackets(numbers, shape, widest, targets)
    n_evaluation = 0

    def sizing_at(max_batch: int) -> Sizing | None:
        nonlocal n_evaluation
        capped = replace(limits, max_batch=max_batch)
        try:
            work = work_model(numbers, shape, capped)
            sizing = largest_rate(Replica(work=work, limits=capped), targets)
        except InfeasibleTargetError:
            return None
        n_evaluation += 1
        return sizing

    anchor = sizing_at(search.most)
    cap, found = search.least, None
    if anchor is not None:
        threshold = (1.0 - search.epsilon / 2.0) * anchor.capacity
        low = max(search.least, min(by_itl, by_prefill))
        high = min(search.most, max(3 * max(by_itl, by_prefill), low + 1))
        steps = 0
        while low < high and steps < search.max_steps:
            middle = (low + high) // 2
            tried = sizing_at(middle)
            if tried is not None and tried.capacity >= threshold:
                high = middle
            else:
                low = middle + 1
            steps += 1
        cap, found = high, sizing_at(high)
    return Concurrency(
        max_batch=cap,
        largest_by_itl=by_itl,
        largest_by_prefill=by_prefill,
        n_evaluation=n_evaluation,
        sizing=found,
    )
