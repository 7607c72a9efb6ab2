"""Exact order statistics of plain values, by a histogram over their bit patterns.

Floats that are not negative sort like their bit patterns, so a histogram over bit patterns has bins
of nearly constant relative width; exact selection is needed inside the hit bin alone.
"""

from typing import Any, Final

import numpy as np

from tailcast.engine._compile import compiled, inlined

N_BIT: Final = 12
N_BIN: Final = 1 << N_BIT


@inlined
def key_of(value: float) -> int:
    """Bit pattern of a float, negative ones taken as zero."""
    return int(np.float64(max(value, 0.0)).view(np.int64))


@inlined
def value_of(key: int) -> float:
    return float(np.int64(key).view(np.float64))


@inlined
def shift_for(width: int, n_bin: int) -> int:
    """Least shift that maps 0..width to fewer than `n_bin` bins."""
    shift = 0
    while (width >> shift) >= n_bin:
        shift += 1
    return shift


@compiled
def _kth(keys: Any, n: int, k: int) -> int:
    """The k-th smallest of the first `n` keys, which are reordered."""
    lo = 0
    hi = n - 1
    while lo < hi:
        pivot = keys[(lo + hi) >> 1]
        i = lo
        j = hi
        while i <= j:
            while keys[i] < pivot:
                i += 1
            while keys[j] > pivot:
                j -= 1
            if i <= j:
                swap = keys[i]
                keys[i] = keys[j]
                keys[j] = swap
                i += 1
                j -= 1
        if k <= j:
            hi = j
        elif k >= i:
            lo = i
        else:
            break
    return int(keys[k])


@compiled
def interpolated(low: float, high: float, weight: float) -> float:
    """Point between two order statistics, rounded as numpy does."""
    gap = high - low
    return high - gap * (1.0 - weight) if weight >= 0.5 else low + gap * weight


@compiled
def _gather(keys: Any, n: int, least: int, shift: int, b: int, scratch: Any) -> None:
    """Copy the keys of one bin."""
    m = 0
    for i in range(n):
        if (keys[i] - least) >> shift == b:
            scratch[m] = keys[i]
            m += 1


@compiled
def value_quantiles(
    keys: Any, n: int, quantiles: Any, scratch: Any, histogram: Any, out: Any
) -> None:
    """Quantiles, in ascending order, of `n` values given by their bit patterns."""
    least = keys[0]
    greatest = keys[0]
    for i in range(n):
        least = min(least, keys[i])
        greatest = max(greatest, keys[i])
    shift = shift_for(greatest - least, N_BIN)
    histogram[:N_BIN] = 0
    for i in range(n):
        histogram[(keys[i] - least) >> shift] += 1
    gathered = -1
    b = 0
    below = 0
    known = -1
    last = 0.0
    before = 0.0
    for q in range(len(quantiles)):
        position = quantiles[q] * (n - 1)
        rank = int(position)
        for k in range(max(rank, known + 1), min(rank + 2, n)):
            while below + histogram[b] <= k:
                below += histogram[b]
                b += 1
            if gathered != b:
                _gather(keys, n, least, shift, b, scratch)
                gathered = b
            before = last
            last = value_of(_kth(scratch, histogram[b], k - below))
            known = k
        low = before if known > rank else last
        out[q] = interpolated(low, last, position - rank)
