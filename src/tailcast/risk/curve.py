"""Risk curves: P(miss) over rate, target or replicas, and where they cross an accepted risk."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import UsageError
from tailcast.risk.trial import Outcomes, Question
from tailcast.streams import stream

Array = NDArray[np.float64]

_BOOTSTRAP = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """P(any objective missed) over something.

    Parameters
    ----------
    over : str
        ``"rate"`` (requests/s), ``"replicas"`` or the name of an objective (its target).
    at : ndarray, shape (n_point,)
        Increasing.
    missed : ndarray of bool, shape (n_point, n_block)
        Which blocks miss.
    saturated : ndarray of bool, shape (n_point, n_block)
        Which blocks lie beyond the stability boundary.
    """

    over: str
    at: Array
    missed: NDArray[np.bool_]
    saturated: NDArray[np.bool_]

    @property
    def p_miss(self) -> Array:
        """Share of blocks that miss, shape (n_point,)."""
        return np.asarray(self.missed.mean(axis=1))

    @property
    def mcse(self) -> Array:
        """Monte Carlo standard error of `p_miss`, shape (n_point,)."""
        n = self.missed.shape[1]
        smooth = (self.missed.sum(axis=1) + 1) / (n + 2)
        return np.asarray(np.sqrt(smooth * (1 - smooth) / n))


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """Where a risk curve crosses the accepted risk.

    Parameters
    ----------
    value : float
        Largest rate (or least target, fewest replicas) that was seen to hold the risk; NaN where
        none did.
    low, high : float
        Interval of it from resampling blocks, Monte Carlo error only.
    bounded : bool
        Whether a point on the other side was seen.
    """

    value: float
    low: float
    high: float
    bounded: bool


def target_curve(outcomes: Outcomes, question: Question, index: int, n_point: int = 41) -> Curve:
    """P(miss) of one latency objective over its target, from runs that are there already.

    Parameters
    ----------
    outcomes : Outcomes
        Of the blocks.
    question : Question
        That was asked.
    index : int
        Which objective.
    n_point : int
        Targets, evenly spread in the log around the observed values and the target asked for.

    Returns
    -------
    Curve
        Over seconds.

    Raises
    ------
    UsageError
        If the objective is a goodput, or no block lies within the stability boundary.
    """
    objective = question.objectives[index]
    if objective.is_goodput:
        raise UsageError(f"{objective}: a curve over targets is for latencies")
    values = outcomes.value[:, index]
    within = values[outcomes.stable & (values > 0)]
    if not len(within):
        raise UsageError(f"{objective}: every draw is beyond the stability boundary")
    low, high = (min(float(within.min()), objective.target), float(within.max()))
    at = np.geomspace(low / 1.05, max(high, objective.target) * 1.05, n_point)
    beyond = ~outcomes.stable | np.isnan(values)
    return Curve(
        over=objective.name,
        at=at,
        missed=(values[None, :] > at[:, None]) | beyond[None, :],
        saturated=np.broadcast_to(~outcomes.stable, (n_point, len(values))).copy(),
    )


def least_target(outcomes: Outcomes, index: int, risk: float) -> float:
    """Least target of a latency objective that holds at a risk.

    Parameters
    ----------
    outcomes : Outcomes
        Of the blocks.
    index : int
        Which objective.
    risk : float
        Accepted P(miss).

    Returns
    -------
    float
        Seconds; infinite where more blocks than the risk allows lie beyond the stability boundary.
    """
    values = np.where(outcomes.stable, outcomes.value[:, index], np.inf)
    values = np.sort(np.where(np.isnan(values), np.inf, values))
    return float(values[len(values) - 1 - int(np.floor(risk * len(values) + 1e-9))])


def largest_held(curve: Curve, risk: float, *, seed: int = 0, ci_prob: float = 0.89) -> Edge:
    """Largest point of a curve up to which the risk is held.

    Parameters
    ----------
    curve : Curve
        Over the rate.
    risk : float
        Accepted P(miss).
    seed : int
        Of the resampling.
    ci_prob : float
        Mass of its interval.

    Returns
    -------
    Edge
        Value 0 where no point holds; the interval stays within the points looked at.
    """
    n = curve.missed.shape[1]
    rng = stream(seed, "curve", curve.over)
    edges = np.empty(_BOOTSTRAP)
    for k in range(_BOOTSTRAP):
        edges[k] = _crossing(curve.at, curve.missed[:, rng.integers(n, size=n)].mean(axis=1), risk)
    tail = (1 - ci_prob) / 2
    low, high = np.quantile(edges, [tail, 1 - tail])
    value = _last_held(curve.at, curve.p_miss, risk)
    return Edge(
        value=value, low=float(low), high=float(high), bounded=bool(np.any(curve.p_miss > risk))
    )


def fewest_held(curve: Curve, risk: float) -> float:
    """Least point of a curve from which on the risk is held.

    Parameters
    ----------
    curve : Curve
        Over replicas.
    risk : float
        Accepted P(miss).

    Returns
    -------
    float
        NaN where no point holds.
    """
    held = np.flatnonzero(curve.p_miss <= risk)
    return float(curve.at[held[0]]) if len(held) else float("nan")


def _crossing(at: Array, p_miss: Array, risk: float) -> float:
    """Where the curve, made monotone, crosses the risk; between points by interpolation."""
    rising = np.maximum.accumulate(p_miss)
    over = np.flatnonzero(rising > risk)
    if not len(over):
        return float(at[-1])
    k = int(over[0])
    if k == 0:
        return float(at[0])
    part = (risk - rising[k - 1]) / (rising[k] - rising[k - 1])
    return float(at[k - 1] * (at[k] / at[k - 1]) ** part)


def _last_held(at: Array, p_miss: Array, risk: float) -> float:
    """Last point before the first that misses more than the risk."""
    over = np.flatnonzero(p_miss > risk)
    last = int(over[0]) - 1 if len(over) else len(at) - 1
    return float(at[last]) if last >= 0 else 0.0


def curve_points(curve: Curve) -> Sequence[dict[str, float]]:
    """A curve as rows for JSON.

    Parameters
    ----------
    curve : Curve
        Any.

    Returns
    -------
    sequence of dict
        ``at``, ``p_miss``, ``mcse`` and ``p_saturated`` by point.
    """
    saturated = curve.saturated.mean(axis=1)
    return [
        {"at": float(a), "p_miss": float(p), "mcse": float(e), "p_saturated": float(s)}
        for a, p, e, s in zip(curve.at, curve.p_miss, curve.mcse, saturated, strict=True)
    ]
