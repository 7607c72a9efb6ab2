r"""Tests and intervals that may be looked at after every block (anytime-valid).

Evidence is an e-process: a non-negative process whose mean is at most 1 under the null at every
stopping time, so by Ville's inequality it exceeds :math:`1/\alpha` with probability at most
:math:`\alpha` however often one looks (10.1214/20-AOS1991). Rejecting at :math:`1/\alpha` therefore
keeps the false-alarm rate under optional stopping.
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import UsageError

Array = NDArray[np.float64]
Counts = NDArray[np.integer[Any]] | NDArray[np.floating[Any]]

EFFECT_VARIANCE = 10.0
"""Prior variance of a mean in units of its own spread; wide, since paired differences are sharp."""


def log_evidence_above(n_hit: Counts, n: Counts, rate: float) -> Array:
    r"""Log evidence that a probability exceeds a rate, from hits among blocks.

    A uniform mixture, over the probabilities p above the rate r, of likelihood ratios against r:

    .. math:: E = \frac{1}{1 - r} \int_r^1
        \left(\frac{p}{r}\right)^{h} \left(\frac{1 - p}{1 - r}\right)^{n - h} dp

    Each ratio is a supermartingale for every probability up to r (10.1093/jrsssb/qkad009 for the
    betting view), so the mixture is an e-process for the null "at most r".

    Parameters
    ----------
    n_hit, n : ndarray
        Hits and blocks, of one shape.
    rate : float
        Between 0 and 1.

    Returns
    -------
    ndarray
        Natural logs.

    Raises
    ------
    UsageError
        If the rate is out of range.
    """
    return _log_mixture(np.asarray(n_hit, float), np.asarray(n, float), rate, upper=True)


def log_evidence_below(n_hit: Counts, n: Counts, rate: float) -> Array:
    """Log evidence that a probability is below a rate; see `log_evidence_above`.

    Parameters
    ----------
    n_hit, n : ndarray
        Hits and blocks, of one shape.
    rate : float
        Between 0 and 1.

    Returns
    -------
    ndarray
        Natural logs.

    Raises
    ------
    UsageError
        If the rate is out of range.
    """
    return _log_mixture(np.asarray(n_hit, float), np.asarray(n, float), rate, upper=False)


def _log_mixture(n_hit: Array, n: Array, rate: float, *, upper: bool) -> Array:
    if not 0 < rate < 1:
        raise UsageError(f"rate must lie between 0 and 1, got {rate!r}")
    from scipy.special import betainc, betaincc, betaln

    first, second = n_hit + 1.0, n - n_hit + 1.0
    tail = (betaincc if upper else betainc)(first, second, rate)
    width = 1.0 - rate if upper else rate
    with np.errstate(divide="ignore"):
        mass = betaln(first, second) + np.log(tail)
    null = n_hit * math.log(rate) + (n - n_hit) * math.log1p(-rate)
    return np.asarray(mass - math.log(width) - null)


def log_t_evidence(mean: Array, sd: Array, n: Array) -> Array:
    r"""Log evidence that the mean of normal numbers of unknown spread is not zero.

    The Bayes factor with a normal prior of variance g on the standardised effect and the right-Haar
    prior on the spread,

    .. math:: E = (1 + n g)^{-1/2} \left(\frac{1 + t^2 / \nu}{1 + t^2 / (\nu (1 + n g))}
        \right)^{n / 2}, \quad \nu = n - 1,

    is an e-process in the scale-free data (10.1214/aos/1176343406; 10.48550/arXiv.2310.03722).

    Parameters
    ----------
    mean, sd : ndarray
        Sample mean and standard deviation (n - 1 in the denominator).
    n : ndarray
        Numbers; no evidence from fewer than 2.

    Returns
    -------
    ndarray
        Natural logs.
    """
    count = np.maximum(np.asarray(n, dtype=np.float64), 2.0)
    shrink = 1.0 + count * EFFECT_VARIANCE
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(sd > 0, count * (mean / sd) ** 2, np.where(mean == 0, 0.0, np.inf))
    ratio = np.minimum(ratio, 1e12) / (count - 1.0)
    log_e = -0.5 * np.log(shrink) + 0.5 * count * (np.log1p(ratio) - np.log1p(ratio / shrink))
    return np.asarray(np.where(np.asarray(n) < 2, 0.0, log_e))


def t_half_width(sd: Array, n: Array, alpha: float) -> Array:
    """Half width of the confidence sequence of a mean: what `log_t_evidence` does not reject.

    Parameters
    ----------
    sd : ndarray
        Sample standard deviation.
    n : ndarray
        Numbers; infinitely wide below 2.
    alpha : float
        Probability that the sequence ever misses the mean.

    Returns
    -------
    ndarray
        In the unit of `sd`; infinite as long as no mean could be rejected.

    Raises
    ------
    UsageError
        If alpha is out of range.
    """
    if not 0 < alpha < 1:
        raise UsageError(f"alpha must lie between 0 and 1, got {alpha!r}")
    count = np.maximum(np.asarray(n, dtype=np.float64), 2.0)
    shrink = 1.0 + count * EFFECT_VARIANCE
    # solve (1 + x) / (1 + x / shrink) = limit for x = t^2 / (n - 1)
    limit = np.exp((2.0 * math.log(1.0 / alpha) + np.log(shrink)) / count)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(limit < shrink, (limit - 1.0) / (1.0 - limit / shrink), np.inf)
        half = np.asarray(sd) * np.sqrt(ratio * (count - 1.0) / count)
    return np.asarray(np.where(np.asarray(n) < 2, np.inf, half))


def clopper_pearson(n_hit: int, n: int, level: float) -> tuple[float, float]:
    """One-sided exact bounds of a probability.

    Parameters
    ----------
    n_hit, n : int
        Hits among independent trials.
    level : float
        Probability that a bound is wrong, each on its own.

    Returns
    -------
    tuple of float
        Lower and upper bound (10.1093/biomet/26.4.404).

    Raises
    ------
    UsageError
        If the counts or the level are out of range.
    """
    if not (0 <= n_hit <= n and n >= 1 and 0 < level < 1):
        raise UsageError(f"need 0 <= hits <= trials and 0 < level < 1, got {n_hit}, {n}, {level!r}")
    from scipy.special import betaincinv

    low = 0.0 if n_hit == 0 else float(betaincinv(n_hit, n - n_hit + 1, level))
    high = 1.0 if n_hit == n else float(betaincinv(n_hit + 1, n - n_hit, 1.0 - level))
    return low, high
