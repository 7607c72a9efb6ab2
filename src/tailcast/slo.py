"""Objectives such as ``ttft.p99=300ms`` and the probability that a deployment misses them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import UsageError, near_name
from tailcast.prediction import METRICS, Prediction
from tailcast.units import format_duration, parse_duration

Array = NDArray[np.float64]

MAX_SATURATED = 0.5
"""Share of saturated draws from which no latency is stated at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """One service level objective.

    Parameters
    ----------
    metric, stat : str
        For example ``"ttft"`` and ``"p99"``; stat is over requests.
    target : float
        Seconds that must not be exceeded.
    """

    metric: str
    stat: str
    target: float

    def __str__(self) -> str:
        return f"{self.metric}.{self.stat} <= {format_duration(self.target)}"


def parse_objective(text: str) -> Objective:
    """Objective of a text such as ``ttft.p99=300ms``.

    Parameters
    ----------
    text : str
        ``metric.stat=duration``.

    Returns
    -------
    Objective
        In seconds.

    Raises
    ------
    UsageError
        If the form, metric, statistic or duration is unknown.

    Examples
    --------
    >>> parse_objective("ttft.p99=300ms").target
    0.3
    """
    name, found, target = text.partition("=")
    metric, dot, stat = name.strip().lower().partition(".")
    if not found or not dot:
        raise UsageError(f"objective {text!r} is not metric.stat=duration; write ttft.p99=300ms")
    if metric not in METRICS:
        raise UsageError(f"objective {text!r}: no metric {metric!r}; {near_name(metric, METRICS)}")
    stat_quantile(stat)
    return Objective(metric=metric, stat=stat, target=parse_duration(target))


def stat_quantile(stat: str) -> float | None:
    """Probability that a statistic over requests stands for.

    Parameters
    ----------
    stat : str
        ``mean`` or a percentile such as ``p99`` or ``p99.9``.

    Returns
    -------
    float or None
        Between 0 and 1; None for the mean.

    Raises
    ------
    UsageError
        If it is neither.

    Examples
    --------
    >>> stat_quantile("p99.9")
    0.999
    """
    if stat == "mean":
        return None
    try:
        value = float(stat.removeprefix("p")) / 100 if stat.startswith("p") else math.nan
    except ValueError:
        value = math.nan
    if not 0 < value < 1:
        raise UsageError(f"no statistic {stat!r}; use mean or a percentile such as p99 or p99.9")
    return round(value, 9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """Probability of missing one or several objectives.

    Parameters
    ----------
    label : str
        The objective, or ``"all"``.
    p_miss : float
        Share of draws that miss; a saturated draw misses.
    mcse : float
        Monte Carlo standard error of `p_miss`.
    """

    label: str
    p_miss: float
    mcse: float


def misses(prediction: Prediction, objective: Objective, group: int = -1) -> NDArray[np.bool_]:
    """Which draws miss an objective.

    Parameters
    ----------
    prediction : Prediction
        Predictive draws.
    objective : Objective
        Statistic and target.
    group : int
        Load stage or request class, -1 for all requests.

    Returns
    -------
    ndarray of bool, shape (n_draw,)
        True where saturated, where nothing finished, or above target.
    """
    draws = prediction.draws(objective.metric, objective.stat, group)
    missed: NDArray[np.bool_] = ~prediction.stable | ~(draws <= objective.target)
    return missed


def miss_probabilities(
    prediction: Prediction, objectives: Sequence[Objective], group: int = -1
) -> list[Miss]:
    """P(miss) of each objective and, for several, of missing any.

    Parameters
    ----------
    prediction : Prediction
        Predictive draws.
    objectives : sequence of Objective
        At least one.
    group : int
        Load stage or request class, -1 for all requests.

    Returns
    -------
    list of Miss
        In order; the joint one last, labelled ``"all"``.
    """
    columns = [misses(prediction, objective, group) for objective in objectives]
    rows = [_miss(str(o), column) for o, column in zip(objectives, columns, strict=True)]
    if len(columns) > 1:
        rows.append(_miss("all", np.any(columns, axis=0)))
    return rows


def _miss(label: str, column: NDArray[np.bool_]) -> Miss:
    n, hit = len(column), int(column.sum())
    smooth = (hit + 1) / (n + 2)
    return Miss(label=label, p_miss=hit / n, mcse=math.sqrt(smooth * (1 - smooth) / n))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Answer to "does it hold?".

    Parameters
    ----------
    word : str
        ``"yes"``, ``"no"`` or ``"unsure"``.
    reason : str
        One sentence.
    advice : str
        What to do next, one sentence.
    """

    word: str
    reason: str
    advice: str


def verdict(prediction: Prediction, objectives: Sequence[Objective], risk: float = 0.05) -> Verdict:
    """Verdict on objectives at an accepted risk.

    ``yes`` where P(miss) is at most the risk, ``no`` where more draws miss than meet, ``unsure``
    between: there the spread decides, and a trace would settle it.

    Parameters
    ----------
    prediction : Prediction
        Predictive draws.
    objectives : sequence of Objective
        At least one.
    risk : float
        Accepted P(miss), between 0 and 1.

    Returns
    -------
    Verdict
        Word, reason, advice.

    Raises
    ------
    UsageError
        If `risk` is no probability or there is no objective.
    """
    if not 0 < risk < 1:
        raise UsageError(f"risk must lie between 0 and 1, got {risk:g}")
    if not objectives:
        raise UsageError("no objective given; add for example --slo ttft.p99=300ms")
    rows = miss_probabilities(prediction, objectives)
    joint = rows[-1].p_miss
    worst = max(rows[: len(objectives)], key=lambda row: row.p_miss)
    if prediction.p_saturated > MAX_SATURATED:
        return Verdict(
            word="no",
            reason=f"saturated in {prediction.p_saturated:.0%} of the draws: the queue never ends",
            advice="lower the rate, add replicas or TP, or shorten prompts and outputs",
        )
    if joint <= risk:
        return Verdict(
            word="yes",
            reason=f"P(miss) {joint:.1%} is within the accepted {risk:.0%}",
            advice="record the first traffic with tailcast observe",
        )
    if joint > 0.5:
        return Verdict(
            word="no",
            reason=f"{worst.label} is missed in {worst.p_miss:.0%} of the draws",
            advice="more TP or replicas, a faster accelerator, or a looser objective",
        )
    learn = (
        "observe this deployment and update the posterior"
        if prediction.mode == "cold"
        else ("observe a longer run, or lower the rate a little")
    )
    return Verdict(
        word="unsure",
        reason=f"{worst.label} is met in the median but missed in {joint:.0%} of the draws",
        advice=learn,
    )
