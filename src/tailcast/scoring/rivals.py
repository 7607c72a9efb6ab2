"""What the posterior's intervals must beat: residual quantiles around its medians, conformal."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tailcast.scoring.record import EvaluationRecord
from tailcast.scoring.score import LEVELS, Score, score
from tailcast.streams import stream

Array = NDArray[np.float64]

LEAST_OTHERS = 4
"""Other experiments below which no distribution is made of their errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rival:
    """Another way to state intervals, on the same records.

    Parameters
    ----------
    name, note : str
        Name in tables, and what it does.
    records : tuple of EvaluationRecord
        Scored anew.
    n_left_out : int
        Records for which it had too little to go by.
    """

    name: str
    note: str
    records: tuple[EvaluationRecord, ...]
    n_left_out: int


def residual_baseline(records: Sequence[EvaluationRecord]) -> Rival:
    """Point fit with leave-one-experiment-out residual quantiles.

    The predictive median is taken for a point. Its distribution are the log errors of the same
    statistic on all other experiments, put around it: it knows the others' observations, which the
    posterior does not, so this is a hard baseline.

    Parameters
    ----------
    records : sequence of EvaluationRecord
        Of the posterior.

    Returns
    -------
    Rival
        Records whose statistic fewer than `LEAST_OTHERS` other experiments have are left out.
    """
    made = []
    for record in records:
        others = [
            other
            for other in records
            if other.experiment != record.experiment
            and (other.score.metric, other.score.statistic)
            == (record.score.metric, record.score.statistic)
        ]
        if len({other.experiment for other in others}) < LEAST_OTHERS:
            continue
        residuals = np.array([-other.score.log_error for other in others])
        draws = record.score.quantiles["q50"] * np.exp(residuals)
        made.append(replace(record, score=_rescored(record.score, draws)))
    return Rival(
        name="point + residuals",
        note="predictive median with leave-one-experiment-out residual quantiles",
        records=tuple(made),
        n_left_out=len(records) - len(made),
    )


def split_conformal(records: Sequence[EvaluationRecord], seed: int = 0) -> Rival:
    """Split-conformal wrapper: the posterior's own interval, stretched to hold on other runs.

    Experiments are dealt to two halves; the absolute log errors of one half over the posterior's
    own log widths, pooled by metric, set by how much the intervals of the other half are scaled
    (Lei et al. 2018, 10.1080/01621459.2017.1307116, with locally weighted scores). The guarantee
    is for exchangeable records; those of one run are not, so coverage is counted by experiment.

    Parameters
    ----------
    records : sequence of EvaluationRecord
        Of the posterior.
    seed : int
        Of the deal.

    Returns
    -------
    Rival
        Where the other half is too small for a level, that interval is unbounded.
    """
    names = sorted({r.experiment for r in records})
    order = stream(seed, "conformal").permutation(len(names))
    half = {names[k]: place % 2 for place, k in enumerate(order)}
    made = []
    for record in records:
        others = [
            r
            for r in records
            if half[r.experiment] != half[record.experiment]
            and r.score.metric == record.score.metric
        ]
        errors = weighted_errors(others)
        enough = len({r.experiment for r in others}) >= LEAST_OTHERS
        if not enough or not len(errors) or not math.isfinite(record.score.log_width90):
            continue
        made.append(replace(record, score=_conformal_score(record.score, errors)))
    return Rival(
        name="split conformal",
        note="posterior intervals rescaled by the errors on the other half of the experiments",
        records=tuple(made),
        n_left_out=len(records) - len(made),
    )


def weighted_errors(records: Sequence[EvaluationRecord]) -> Array:
    """Absolute log errors of records over the posterior's own 90 % log widths.

    Parameters
    ----------
    records : sequence of EvaluationRecord
        Of one metric.

    Returns
    -------
    ndarray, shape (n,)
        Sorted; records without a finite width are left out.
    """
    errors = [_weighted_error(record.score) for record in records]
    return np.sort([error for error in errors if error < math.inf])


def _weighted_error(own: Score) -> float:
    width = own.log_width90
    return abs(own.log_error) / width if 0 < width < math.inf else math.inf


def _conformal_score(own: Score, errors: Array) -> Score:
    middle, width = own.quantiles["q50"], own.log_width90
    quantiles = {"q50": middle}
    for level, (low, high) in LEVELS.items():
        reach = conformal_quantile(errors, level / 100) * width
        quantiles[low] = middle * math.exp(-reach)
        quantiles[high] = middle * math.exp(reach) if math.isfinite(reach) else math.inf
    draws = middle * np.exp(np.concatenate([-errors[::-1], errors]) * width)
    return _rescored(own, draws, quantiles)


def conformal_quantile(errors: Array, level: float) -> float:
    """Smallest reach that holds a new error with at least this probability.

    Parameters
    ----------
    errors : ndarray, shape (n,)
        Absolute errors on calibration data, sorted.
    level : float
        Wanted coverage.

    Returns
    -------
    float
        The ``ceil((n + 1) level)``-th smallest error; infinite where there is none.

    Examples
    --------
    >>> conformal_quantile(np.arange(1.0, 10.0), 0.9)
    9.0
    >>> conformal_quantile(np.arange(1.0, 9.0), 0.9)
    inf
    """
    rank = math.ceil((len(errors) + 1) * level - 1e-9)
    return float(errors[rank - 1]) if rank <= len(errors) else math.inf


def _rescored(own: Score, draws: Array, quantiles: dict[str, float] | None = None) -> Score:
    return score(own.metric, own.statistic, draws, own.observed, quantiles)
