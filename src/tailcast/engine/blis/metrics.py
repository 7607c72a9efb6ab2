"""BLIS's aggregates: percentiles in milliseconds and the keys of its ``MetricsOutput``."""

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

PERCENTILES = (90, 95, 99)
"""Percentiles that BLIS reports."""


def percentile_ms(values_us: NDArray[np.int64], percent: float) -> float:
    """Percentile as BLIS interpolates it.

    Parameters
    ----------
    values_us : ndarray of int64, shape (n,)
        Microseconds in ascending order.
    percent : float
        From 0 to 100.

    Returns
    -------
    float
        Milliseconds; 0 for no values.

    Examples
    --------
    >>> percentile_ms(np.array([1000, 2000, 4000]), 75)
    3.0
    """
    return _percentile_ms(len(values_us), lambda i: int(values_us[i]), percent)


def pooled_percentile_ms(
    values_us: NDArray[np.int64], counts: NDArray[np.int64], percent: float
) -> float:
    """Percentile of a multiset.

    Parameters
    ----------
    values_us : ndarray of int64, shape (n_value,)
        Different microseconds in ascending order.
    counts : ndarray of int64, shape (n_value,)
        How often each occurs.
    percent : float
        From 0 to 100.

    Returns
    -------
    float
        Milliseconds; 0 for no values.
    """
    ends = np.cumsum(counts)
    n = int(ends[-1]) if len(ends) else 0

    def at(index: int) -> int:
        return int(values_us[np.searchsorted(ends, index, side="right")])

    return _percentile_ms(n, at, percent)


def mean_ms(values_us: NDArray[np.int64], counts: NDArray[np.int64] | None = None) -> float:
    """Mean in milliseconds.

    Parameters
    ----------
    values_us : ndarray of int64, shape (n,)
        Microseconds.
    counts : ndarray of int64, shape (n,), optional
        How often each occurs; once by default.

    Returns
    -------
    float
        Milliseconds; 0 for no values.
    """
    n = len(values_us) if counts is None else int(counts.sum())
    if n == 0:
        return 0.0
    total = int(values_us.sum()) if counts is None else int((values_us * counts).sum())
    return total / n / 1000


def latency_entries(name: str, values_us: NDArray[np.int64]) -> dict[str, float]:
    """Mean and percentiles of one metric under BLIS's keys.

    Parameters
    ----------
    name : str
        Metric, for example ``"ttft"``.
    values_us : ndarray of int64, shape (n,)
        Microseconds in any order.

    Returns
    -------
    dict of str to float
        ``<name>_mean_ms``, ``<name>_p90_ms``, ... in milliseconds.
    """
    ordered = np.sort(values_us)
    entries = {f"{name}_mean_ms": mean_ms(ordered)}
    for percent in PERCENTILES:
        entries[f"{name}_p{percent}_ms"] = percentile_ms(ordered, percent)
    return entries


def pooled_latency_entries(
    name: str, values_us: NDArray[np.int64], counts: NDArray[np.int64]
) -> dict[str, float]:
    """`latency_entries` of a multiset.

    Parameters
    ----------
    name : str
        Metric, for example ``"itl"``.
    values_us : ndarray of int64, shape (n_value,)
        Different microseconds in ascending order.
    counts : ndarray of int64, shape (n_value,)
        How often each occurs.

    Returns
    -------
    dict of str to float
        Keys as in `latency_entries`, milliseconds.
    """
    entries = {f"{name}_mean_ms": mean_ms(values_us, counts)}
    for percent in PERCENTILES:
        entries[f"{name}_p{percent}_ms"] = pooled_percentile_ms(values_us, counts, percent)
    return entries


def _percentile_ms(n: int, at: Callable[[int], int], percent: float) -> float:
    if n == 0:
        return 0.0
    rank = percent / 100 * (n - 1)
    low, high = math.floor(rank), math.ceil(rank)
    if low == high:
        return at(low) / 1000
    below, above = at(low), at(high)
    return below / 1000 + (above - below) * (rank - low) / 1000
