"""Simulate a fleet at other rates and with other numbers of replicas."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from tailcast.errors import UsageError
from tailcast.risk.blocks import Blocks
from tailcast.risk.curve import Curve
from tailcast.risk.fleet import Fleet
from tailcast.risk.tables import Tables
from tailcast.risk.trial import Outcomes, Question, run_blocks
from tailcast.workload.arrivals import Stage
from tailcast.workload.materialise import materialise
from tailcast.workload.spec import Workload

_RESOLUTION = 0.02
_AROUND = (0.6, 0.8, 1.25, 1.6, 2.0)
_MOST_POINTS = 24
_FACTOR = 2.0
_LEAST = 1 / 64


def workload_at(workload: Workload, factor: float) -> Workload:
    """A workload with every rate multiplied; lengths and the pattern of gaps stay.

    Parameters
    ----------
    workload : Workload
        Open loop.
    factor : float
        Positive.

    Returns
    -------
    Workload
        As many requests where their number was given, else as long a time.

    Raises
    ------
    UsageError
        If the workload is a closed loop.
    """
    if workload.concurrency is not None:
        raise UsageError("a closed loop has no rate to vary; give a rate in place of concurrency")
    stages = tuple(Stage(rate=s.rate * factor, duration=s.duration) for s in workload.stages)
    return replace(workload, stages=stages)


def mean_rate(workload: Workload) -> float:
    """Requests (or session starts) a second over the whole run.

    Parameters
    ----------
    workload : Workload
        Open loop.

    Returns
    -------
    float
        NaN for a closed loop.
    """
    if workload.concurrency is not None:
        return float("nan")
    durations = [s.duration for s in workload.stages]
    if len(workload.stages) == 1 or any(d is None for d in durations):
        return float(workload.stages[0].rate)
    seconds = [float(d or 0.0) for d in durations]
    starts = sum(s.rate * d for s, d in zip(workload.stages, seconds, strict=True))
    return starts / sum(seconds)


def rate_curve(
    fleet: Fleet,
    blocks: Blocks,
    workload: Workload,
    question: Question,
    *,
    risk: float,
    threads: int = 1,
    progress: Callable[[str], None] | None = None,
) -> Curve:
    """P(miss) over the rate, refined where it crosses the risk.

    The stability boundary bounds the crossing from above; halving the interval in log rate then
    finds it to about 2 %. Every rate serves the same blocks: gaps are stretched, lengths stay.

    Parameters
    ----------
    fleet : Fleet
        Replicas.
    blocks : Blocks
        Common random numbers.
    workload : Workload
        Open loop; its rate is where the search starts.
    question : Question
        What is asked.
    risk : float
        Accepted P(miss).
    threads : int
        Engine threads.
    progress : callable, optional
        Told each point.

    Returns
    -------
    Curve
        Over requests/s; at most 24 points.

    Raises
    ------
    UsageError
        If the workload is a closed loop.
    """
    found: dict[float, Outcomes] = {}
    base = mean_rate(workload)

    def held(factor: float) -> bool:
        if factor not in found:
            scaled = workload_at(workload, factor)
            tables = Tables(lambda seed: materialise(scaled, seed))
            chosen = np.arange(blocks.n_block)
            found[factor] = run_blocks(fleet, blocks, tables, question, chosen, threads=threads)
            if progress:
                progress(f"risk curve: {base * factor:.3g} req/s")
        return bool(found[factor].missed(question).any(axis=1).mean() <= risk)

    if held(1.0):
        low, high = 1.0, max(1.0, stability_factor(found[1.0], risk)) * (1 + _RESOLUTION)
        while held(high) and len(found) < _MOST_POINTS:  # the boundary is a bound of mean load
            low, high = high, high * (1 + 4 * _RESOLUTION)
    else:
        high = 1.0
        low = min(1.0, stability_factor(found[1.0], risk)) / _FACTOR
        while not held(low) and low > _LEAST:
            low, high = low / _FACTOR, low
    if not held(low):
        low = high
    while high / low > 1 + _RESOLUTION and len(found) < _MOST_POINTS:
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if held(middle) else (low, middle)
    for around in _AROUND:  # the shape of the curve, and room for its interval
        held(low * around)
    at = sorted(found)
    return Curve(
        over="rate",
        at=base * np.array(at),
        missed=np.array([found[f].missed(question).any(axis=1) for f in at]),
        saturated=np.array([~found[f].stable for f in at]),
    )


def stability_factor(outcomes: Outcomes, risk: float) -> float:
    """By how much the rate may be multiplied before more than a risk of blocks saturates.

    Parameters
    ----------
    outcomes : Outcomes
        At some rate.
    risk : float
        Accepted share of blocks beyond the stability boundary.

    Returns
    -------
    float
        Below 1 where the rate itself is too high; infinite for a closed loop.
    """
    load = np.sort(outcomes.load)[len(outcomes.load) - 1 - int(np.floor(risk * len(outcomes.load)))]
    return float(1.0 / load) if load > 0 else float("inf")


def replica_curve(
    fleet: Fleet,
    blocks: Blocks,
    tables: Tables,
    question: Question,
    *,
    risk: float,
    most: int = 64,
    threads: int = 1,
) -> Curve:
    """P(miss) over the number of replicas, up to one more than is needed.

    Parameters
    ----------
    fleet : Fleet
        Its own number of replicas is ignored.
    blocks : Blocks
        Common random numbers.
    tables : Tables
        Requests by seed.
    question : Question
        What is asked.
    risk : float
        Accepted P(miss).
    most : int
        Replicas at which to give up.
    threads : int
        Engine threads.

    Returns
    -------
    Curve
        Over replicas.
    """
    found: dict[int, Outcomes] = {}

    def held(n: int) -> bool:
        if n not in found:
            own = Fleet(deployment=fleet.deployment, replicas=n)
            chosen = np.arange(blocks.n_block)
            found[n] = run_blocks(own, blocks, tables, question, chosen, threads=threads)
        return bool(found[n].missed(question).any(axis=1).mean() <= risk)

    low, high = 0, 1
    while high <= most and not held(high):
        low, high = high, high * 2
    while high <= most and high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if held(middle) else (middle, high)
    if high < most:
        held(high + 1)
    at = sorted(found)
    return Curve(
        over="replicas",
        at=np.array(at, dtype=np.float64),
        missed=np.array([found[n].missed(question).any(axis=1) for n in at]),
        saturated=np.array([~found[n].stable for n in at]),
    )
