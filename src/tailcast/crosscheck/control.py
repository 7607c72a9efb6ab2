"""The chain as a control variate of engine runs: a cheap, correlated answer with a known mean.

Nelson (1990), doi:10.1287/opre.38.6.974: with control x of known mean, the mean of y is estimated
by that of :math:`y - b (x - \\mu_x)`, b by least squares.
"""

import math
from dataclasses import dataclass

import numpy as np

from tailcast.errors import UsageError
from tailcast.queueing.server import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Controlled:
    """A mean over runs with and without the control.

    Parameters
    ----------
    plain, plain_se : float
        Mean of the runs and its standard error.
    mean, se : float
        The same with the control.
    correlation : float
        Of the runs with the control.
    """

    plain: float
    plain_se: float
    mean: float
    se: float
    correlation: float

    @property
    def variance_ratio(self) -> float:
        """Runs that one run with the control is worth; below one it does harm."""
        return (self.plain_se / self.se) ** 2 if self.se > 0 else math.inf


def controlled_mean(values: Floats, control: Floats, control_mean: float) -> Controlled:
    """Mean of runs with the help of a control.

    Parameters
    ----------
    values : ndarray, shape (n_run,)
        Of the engine.
    control : ndarray, shape (n_run,)
        Of the chain, for the same draws and arrivals.
    control_mean : float
        Mean of the control over all draws and arrivals.

    Returns
    -------
    Controlled
        The standard error counts the slope that was estimated.

    Raises
    ------
    UsageError
        If there are fewer than four runs or the shapes differ.
    """
    n = values.size
    if n < 4 or control.shape != values.shape:
        raise UsageError(f"a control needs at least 4 paired runs, got {n} and {control.size}")
    plain, plain_se = float(values.mean()), float(values.std(ddof=1) / math.sqrt(n))
    away = control - control.mean()
    spread = float(away @ away)
    if spread <= 0:
        return Controlled(plain=plain, plain_se=plain_se, mean=plain, se=plain_se, correlation=0.0)
    slope = float(away @ (values - plain)) / spread
    rest = values - plain - slope * away
    variance = float(rest @ rest) / (n - 2)
    offset = float(control.mean()) - control_mean
    return Controlled(
        plain=plain,
        plain_se=plain_se,
        mean=plain - slope * offset,
        se=math.sqrt(variance * (1.0 / n + offset**2 / spread)),
        correlation=float(np.corrcoef(values, control)[0, 1]),
    )


def pooled_variance_ratio(controlled: list[Controlled]) -> float:
    """Geometric mean of variance ratios.

    Parameters
    ----------
    controlled : list of Controlled
        At least one.

    Returns
    -------
    float
        Above one where the control helps on the whole.
    """
    return float(np.exp(np.mean([math.log(each.variance_ratio) for each in controlled])))
