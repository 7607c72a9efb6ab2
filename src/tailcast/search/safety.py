r"""How safe a candidate looks after few blocks; to choose whom to run, never to report.

The share of misses alone cannot tell 1 % from 4 % before hundreds of blocks. By how much blocks
miss or hold their targets can, if roughly: the estimate here is a Student-t tail of these margins,
as long as there are few blocks, and the share of misses when there are many,

.. math:: \tilde p = \frac{h + c\, T_{n-1}\!\left(\bar m / (s \sqrt{1 + 1/n})\right)}{n + c}

for h misses in n blocks whose margins have mean m and standard deviation s; c = 16 blocks is what
the tail is worth. Nothing that is promised rests on it: finalists are confirmed on fresh blocks.
"""

import math

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

_TAIL_WEIGHT = 16.0
_CAP = 3.0
"""Largest log margin either way that counts; beyond the stability boundary it is infinite."""
_LEAST_SPREAD = 1e-9


def miss_estimate(margin: Array) -> Array:
    """Estimate of P(miss) from margins.

    Parameters
    ----------
    margin : ndarray, shape (..., n_block)
        Largest log margin over the objectives, positive where missed; may be infinite.

    Returns
    -------
    ndarray, shape (...)
        NaN without blocks.
    """
    n = margin.shape[-1]
    if n < 2:
        return np.full(margin.shape[:-1], math.nan)
    from scipy.special import stdtr

    capped = np.clip(margin, -_CAP, _CAP)
    middle = capped.mean(axis=-1)
    spread = np.maximum(capped.std(axis=-1, ddof=1) * math.sqrt(1.0 + 1.0 / n), _LEAST_SPREAD)
    tail = stdtr(n - 1, middle / spread)
    return np.asarray(((margin > 0).sum(axis=-1) + _TAIL_WEIGHT * tail) / (n + _TAIL_WEIGHT))


def chance_within(margin: Array, limit: float) -> Array:
    """Belief that P(miss) is at most a limit.

    Parameters
    ----------
    margin : ndarray, shape (..., n_block)
        As in `miss_estimate`.
    limit : float
        Between 0 and 1.

    Returns
    -------
    ndarray, shape (...)
        Of a beta law with the mean of `miss_estimate` and the weight of its blocks; NaN without
        blocks.
    """
    from scipy.special import betainc

    weight = margin.shape[-1] + _TAIL_WEIGHT
    hits = weight * miss_estimate(margin)
    return np.asarray(betainc(hits + 0.5, weight - hits + 0.5, limit))
