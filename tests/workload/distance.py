"""Distance between draws and the law they should follow."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

KS_LIMIT = 2.226
"""Kolmogorov's sqrt(n) D exceeds this with probability 1e-4 under the right law."""

CHI2_LIMIT = {4: 23.51, 9: 33.72}
"""Chi-square exceeds this with probability 1e-4 under the right law, by degrees of freedom."""


def ks(values: Floats, cdf: Callable[[Floats], Floats]) -> float:
    """Kolmogorov's statistic, sqrt(n) times the greatest distance between the two laws."""
    n = len(values)
    at = cdf(np.sort(values))
    up, down = np.arange(1, n + 1) / n - at, at - np.arange(n) / n
    return float(np.sqrt(n) * max(up.max(), down.max()))


def chi2(counts: Floats, shares: Floats) -> float:
    """Pearson's statistic of counts against the shares they should have."""
    expected = counts.sum() * shares / shares.sum()
    return float(np.sum((counts - expected) ** 2 / expected))
