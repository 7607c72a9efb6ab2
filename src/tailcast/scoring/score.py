"""Predictive draws against one observation."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

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

LEVELS = {50: ("q25", "q75"), 80: ("q10", "q90"), 90: ("q05", "q95")}
"""Quantiles at the ends of each central interval, by nominal percent."""

_LEAST = 1e-6
"""Seconds below which a latency counts as this long on the log scale."""


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
    quantiles : mapping of str to float
        Predictive quantiles by field name, ``q05`` to ``q95``.
    pit : float
        Share of draws below the observation (ties count half).
    crps : float
        Continuous ranked probability score in seconds.
    crps_log : float
        The same on logs: for a narrow error it reads as a share of the observation.
    pinball_log : mapping of str to float
        Pinball loss of each quantile on the log scale.
    """

    metric: str
    statistic: str
    observed: float
    mean: float
    quantiles: Mapping[str, float]
    pit: float
    crps: float
    crps_log: float
    pinball_log: Mapping[str, float] = field(default_factory=dict)

    @property
    def ape(self) -> float:
        """Absolute error of the predictive median as a share of the observation."""
        return abs(self.quantiles["q50"] - self.observed) / self.observed

    @property
    def log_error(self) -> float:
        """Log ratio of the predictive median to the observation."""
        return log_latency(self.quantiles["q50"]) - log_latency(self.observed)

    @property
    def log_width90(self) -> float:
        """Log ratio of the ends of the 90 % interval."""
        low, high = self.quantiles["q05"], self.quantiles["q95"]
        return math.log(high / low) if low > 0 and math.isfinite(high) else math.inf

    @property
    def is_point(self) -> bool:
        """Whether this is one number without an interval."""
        return self.quantiles["q05"] == self.quantiles["q95"]

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
        low, high = LEVELS[level]
        return self.quantiles[low] <= self.observed <= self.quantiles[high]


def log_latency(seconds: float) -> float:
    """Log of a latency, floored at one microsecond.

    Parameters
    ----------
    seconds : float
        Latency; zero for a queue that never was.

    Returns
    -------
    float
        Natural log.
    """
    return math.log(max(seconds, _LEAST))


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


def pinball(quantile: float, level: float, observed: float) -> float:
    """Pinball loss of a predicted quantile.

    Parameters
    ----------
    quantile : float
        Predicted.
    level : float
        Its probability, in (0, 1).
    observed : float
        Observation, in the same unit.

    Returns
    -------
    float
        Same unit; least in expectation at the true quantile. Koenker and Bassett (1978),
        10.2307/1913643.

    Examples
    --------
    >>> pinball(1.0, 0.9, 2.0), round(pinball(2.0, 0.9, 1.0), 9)
    (0.9, 0.1)
    """
    return (level - (observed < quantile)) * (observed - quantile)


def score(
    metric: str,
    statistic: str,
    draws: Array,
    observed: float,
    quantiles: Mapping[str, float] | None = None,
) -> Score:
    """Score predictive draws of one statistic.

    Parameters
    ----------
    metric, statistic : str
        What was predicted.
    draws : ndarray, shape (n_draw,)
        Finite predictive draws in seconds.
    observed : float
        Observation in seconds.
    quantiles : mapping of str to float, optional
        In place of those of the draws, for a method that states its own.

    Returns
    -------
    Score
        With PIT, CRPS and pinball losses.
    """
    if quantiles is None:
        values = np.quantile(draws, list(QUANTILE_FIELDS.values()))
        quantiles = dict(zip(QUANTILE_FIELDS, map(float, values), strict=True))
    log_observed = log_latency(observed)
    below = np.mean(draws < observed) + 0.5 * np.mean(draws == observed)
    return Score(
        metric=metric,
        statistic=statistic,
        observed=observed,
        mean=float(draws.mean()),
        quantiles=quantiles,
        pit=float(below),
        crps=crps(draws, observed),
        crps_log=crps(np.log(np.maximum(draws, _LEAST)), log_observed),
        pinball_log={
            name: pinball(log_latency(quantiles[name]), level, log_observed)
            for name, level in QUANTILE_FIELDS.items()
        },
    )


def point_score(metric: str, statistic: str, value: float, observed: float) -> Score:
    """Score one number that claims no interval.

    Parameters
    ----------
    metric, statistic : str
        What was predicted.
    value, observed : float
        Prediction and observation in seconds.

    Returns
    -------
    Score
        Its CRPS is the absolute error.
    """
    return score(metric, statistic, np.array([value]), observed)
