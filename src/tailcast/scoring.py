"""Predictive draws against one observation, and many such scores in one table."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

QUANTILE_FIELDS = {
    "q05": 0.05,
    "q10": 0.1,
    "q25": 0.25,
    "q50": 0.5,
    "q75": 0.75,
    "q90": 0.9,
    "q95": 0.95,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """One predicted statistic against its observation; seconds.

    Parameters
    ----------
    metric, statistic : str
        For example ``"ttft"`` and ``"mean"``.
    observed : float
        Measured value.
    mean : float
        Mean of the predictive draws.
    quantiles : dict of str to float
        Predictive quantiles by field name, ``q05`` to ``q95``.
    pit : float
        Share of draws below the observation (ties count half).
    crps : float
        Continuous ranked probability score.
    """

    metric: str
    statistic: str
    observed: float
    mean: float
    quantiles: dict[str, float]
    pit: float
    crps: float

    @property
    def ape(self) -> float:
        """Absolute error of the predictive median as a share of the observation."""
        return abs(self.quantiles["q50"] - self.observed) / self.observed

    @property
    def log_width90(self) -> float:
        """Log ratio of the ends of the 90 % interval."""
        low, high = self.quantiles["q05"], self.quantiles["q95"]
        return math.log(high / low) if low > 0 else math.inf

    def covered(self, level: int) -> bool:
        """Whether the central interval holds the observation.

        Parameters
        ----------
        level : {50, 80, 90}
            Nominal coverage in percent.

        Returns
        -------
        bool
            Ends included.
        """
        low, high = {50: ("q25", "q75"), 80: ("q10", "q90"), 90: ("q05", "q95")}[level]
        return self.quantiles[low] <= self.observed <= self.quantiles[high]


def crps(draws: Array, observed: float) -> float:
    r"""Continuous ranked probability score of an empirical distribution.

    .. math:: E|X - y| - \tfrac12 E|X - X'|

    Parameters
    ----------
    draws : ndarray, shape (n_draw,)
        Predictive draws.
    observed : float
        Observation, in the same unit.

    Returns
    -------
    float
        Same unit as the draws; smaller is better. Gneiting and Raftery (2007),
        10.1198/016214506000001437.

    Examples
    --------
    >>> crps(np.array([1.0, 1.0]), 3.0)
    2.0
    """
    ordered = np.sort(draws)
    n = len(ordered)
    rank = 2.0 * np.arange(1, n + 1) - n - 1.0
    spread = 2.0 * float(rank @ ordered) / (n * n)
    return float(np.mean(np.abs(ordered - observed)) - 0.5 * spread)


def score(metric: str, statistic: str, draws: Array, observed: float) -> Score:
    """Score predictive draws of one statistic.

    Parameters
    ----------
    metric, statistic : str
        What was predicted.
    draws : ndarray, shape (n_draw,)
        Finite predictive draws.
    observed : float
        Observation.

    Returns
    -------
    Score
        With PIT and CRPS.
    """
    below = np.mean(draws < observed) + 0.5 * np.mean(draws == observed)
    quantiles = np.quantile(draws, list(QUANTILE_FIELDS.values()))
    return Score(
        metric=metric,
        statistic=statistic,
        observed=observed,
        mean=float(draws.mean()),
        quantiles=dict(zip(QUANTILE_FIELDS, map(float, quantiles), strict=True)),
        pit=float(below),
        crps=crps(draws, observed),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSummary:
    """Scores of one metric and statistic over many runs and stages.

    Parameters
    ----------
    metric, statistic : str
        What was predicted.
    n : int
        Number of scores.
    median_ape, mean_ape : float
        Absolute error of the predictive median as a share of the observation.
    coverage50, coverage80, coverage90 : float
        Share of observations inside the central intervals.
    mean_log_width90 : float
        Mean log ratio of the ends of the 90 % interval.
    bias : float
        Median log ratio of prediction to observation.
    mean_crps : float
        Mean of CRPS over observation, a share.
    """

    metric: str
    statistic: str
    n: int
    median_ape: float
    mean_ape: float
    coverage50: float
    coverage80: float
    coverage90: float
    mean_log_width90: float
    bias: float
    mean_crps: float


def summarise(scores: Sequence[Score]) -> list[ScoreSummary]:
    """Scores by metric and statistic, in order of first appearance.

    Parameters
    ----------
    scores : sequence of Score
        Any mixture.

    Returns
    -------
    list of ScoreSummary
        One row a (metric, statistic).
    """
    rows = []
    for metric, statistic in dict.fromkeys((s.metric, s.statistic) for s in scores):
        own = [s for s in scores if (s.metric, s.statistic) == (metric, statistic)]
        ape = np.array([s.ape for s in own])
        rows.append(
            ScoreSummary(
                metric=metric,
                statistic=statistic,
                n=len(own),
                median_ape=float(np.median(ape)),
                mean_ape=float(ape.mean()),
                coverage50=float(np.mean([s.covered(50) for s in own])),
                coverage80=float(np.mean([s.covered(80) for s in own])),
                coverage90=float(np.mean([s.covered(90) for s in own])),
                mean_log_width90=float(np.mean([s.log_width90 for s in own])),
                bias=float(np.median([math.log(s.quantiles["q50"] / s.observed) for s in own])),
                mean_crps=float(np.mean([s.crps / s.observed for s in own])),
            )
        )
    return rows
