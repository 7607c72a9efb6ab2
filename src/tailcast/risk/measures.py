"""From the records of one or several engine runs to what objectives ask for."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.engine.result import GapRuns, RequestRecords, Status
from tailcast.errors import UsageError
from tailcast.request import RequestTable
from tailcast.slo import Objective, stat_quantile

Array = NDArray[np.float64]

_HALVINGS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Measures:
    """Latencies of all requests of one block; arrays have shape (n_request,).

    Parameters
    ----------
    ttft, tpot, e2e, queue_delay : ndarray of float64
        Seconds; NaN where the request did not finish (or, for tpot, has one token).
    group : ndarray of int
        Stage or class by request.
    gaps : tuple of GapRuns
        Token gaps of all runs, where they were asked for.
    seconds : float
        Time over which the requests came, all runs together.
    """

    ttft: Array
    tpot: Array
    e2e: Array
    queue_delay: Array
    group: NDArray[np.int64]
    gaps: tuple[GapRuns, ...]
    seconds: float

    def column(self, metric: str) -> Array:
        """One metric of every request.

        Parameters
        ----------
        metric : str
            ``ttft``, ``tpot``, ``e2e`` or ``queue_delay``.

        Returns
        -------
        ndarray, shape (n_request,)
            Seconds.
        """
        values: Array = getattr(self, metric)
        return values


def run_measures(
    requests: RequestTable,
    records: RequestRecords,
    *,
    stream: float,
    finish: float,
    ttft: float,
    group: NDArray[np.int64],
    gaps: GapRuns | None = None,
) -> Measures:
    """Latencies of one run, by the engine's definitions.

    Parameters
    ----------
    requests : RequestTable
        What arrived.
    records : RequestRecords
        What became of it.
    stream, finish : float
        Overheads of the law, seconds per token and per request.
    ttft : float
        Factor of the TTFT discrepancy.
    group : ndarray of int, shape (n_request,)
        Stage or class by request.
    gaps : GapRuns, optional
        Token gaps.

    Returns
    -------
    Measures
        Of this run.
    """
    done = records.status == Status.COMPLETED
    output = requests.output_tokens
    first = np.where(done, records.first_token - records.arrival + stream, np.nan)
    e2e = np.where(done, records.finish - records.arrival + stream * output + finish, np.nan)
    with np.errstate(divide="ignore", invalid="ignore"):
        tpot = np.where(output > 1, (e2e - first) / (output - 1), np.nan)
    closed = bool(np.any(requests.parent >= 0))
    last = np.nanmax(records.finish, initial=0.0) if closed else float(requests.arrival[-1])
    return Measures(
        ttft=np.maximum(first, 0.0) * ttft,
        tpot=np.maximum(tpot, 0.0),
        e2e=np.maximum(e2e, 0.0),
        queue_delay=np.where(done, np.maximum(records.scheduled - records.arrival, 0.0), np.nan),
        group=group,
        gaps=() if gaps is None else (gaps,),
        seconds=float(last) - float(requests.arrival[0]),
    )


def pooled(parts: Sequence[Measures], *, seconds: float) -> Measures:
    """Measures of several runs as if they were one.

    Parameters
    ----------
    parts : sequence of Measures
        Replicas and repetitions.
    seconds : float
        Time over which the requests came: of one replica, times the repetitions.

    Returns
    -------
    Measures
        All requests.
    """
    if len(parts) == 1:
        return parts[0]
    names = ("ttft", "tpot", "e2e", "queue_delay", "group")
    columns = {name: np.concatenate([getattr(p, name) for p in parts]) for name in names}
    gaps = tuple(g for p in parts for g in p.gaps)
    return Measures(**columns, gaps=gaps, seconds=seconds)


def attainment(
    measures: Measures, objective: Objective, member: NDArray[np.bool_] | None
) -> tuple[float, float, float]:
    """Value of an objective's statistic, and the parts that runs are pooled by.

    Parameters
    ----------
    measures : Measures
        Of one block.
    objective : Objective
        What is asked; its target counts exceedances.
    member : ndarray of bool, shape (n_request,), optional
        Requests of the objective's class; all where absent.

    Returns
    -------
    tuple of float
        The value; then for a percentile the number above the target and the number in all, for a
        mean the sum and the number, for goodput the good requests and all requests or seconds.
    """
    if objective.is_goodput:
        return _goodput(measures, objective, member)
    probability = stat_quantile(objective.stat)
    if objective.metric == "itl":
        return _itl(measures.gaps, probability, objective.target)
    values = measures.column(objective.metric)
    values = values if member is None else values[member]
    values = values[~np.isnan(values)]
    n = len(values)
    if not n:
        return float("nan"), 0.0, 0.0
    if probability is None:
        total = float(values.sum())
        return total / n, total, float(n)
    above = float(np.count_nonzero(values > objective.target))
    return _quantile(values, probability), above, float(n)


def _quantile(values: Array, probability: float) -> float:
    """Numpy's linear quantile, without its overhead."""
    place = probability * (len(values) - 1)
    low = int(place)
    high = min(low + 1, len(values) - 1)
    split = np.partition(values, (low, high))
    return float(split[low] + (place - low) * (split[high] - split[low]))


def _goodput(
    measures: Measures, objective: Objective, member: NDArray[np.bool_] | None
) -> tuple[float, float, float]:
    good = np.ones(len(measures.ttft), dtype=np.bool_)
    for metric, seconds in objective.per_request:
        values = measures.column(metric)
        fits = values <= seconds
        if metric == "tpot":  # a single token has no gap to be late with
            fits |= np.isnan(values) & ~np.isnan(measures.e2e)
        good &= fits
    good &= ~np.isnan(measures.e2e)
    if member is not None:
        good = good[member]
    n = float(np.count_nonzero(good))
    whole = float(len(good)) if objective.stat == "share" else measures.seconds
    return (n / whole if whole > 0 else float("nan")), n, whole


def _itl(
    gaps: Sequence[GapRuns], probability: float | None, target: float
) -> tuple[float, float, float]:
    if not gaps:
        raise UsageError("itl was asked for without token gaps")
    first, slope, count, times = (
        np.concatenate([np.asarray(getattr(g, name), dtype=np.float64) for g in gaps])
        for name in ("first", "slope", "count", "multiplicity")
    )
    total = float((count * times).sum())
    if not total:
        return float("nan"), 0.0, 0.0
    if probability is None:
        amount = float((times * count * (first + slope * (count - 1) / 2)).sum())
        return amount / total, amount, total

    def below(value: float) -> float:
        """Gaps that are at most `value`."""
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.floor((value - first) / slope) + 1
        reach = np.where(slope > 0, reach, np.where(first <= value, count, 0.0))
        return float((np.clip(reach, 0.0, count) * times).sum())

    ends = float(first.min()), float((first + slope * (count - 1)).max())

    def ordered(place: int) -> float:
        """Value at a place of the sorted gaps, by halving."""
        low, high = ends
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (low, middle) if below(middle) > place else (middle, high)
        return high

    place = probability * (total - 1)
    left = ordered(int(place))
    right = left if place == int(place) or below(left) > int(place) + 1 else ordered(int(place) + 1)
    return left + (place - int(place)) * (right - left), total - below(target), total
