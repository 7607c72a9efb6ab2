"""Exact order statistics of plain values, by a histogram over their bit patterns.

Floats that are not negative sort like their bit patterns, so a histogram over bit patterns has bins
of nearly constant relative width; exact selection is needed inside the hit bin alone.
"""

import numpy as np

from tailcast.engine._compile import compiled, inlined
from tailcast.engine._layout import N_BIN
from tailcast.engine._state import ask_of, real_at, whole_at


@inlined
def key_of(value: float) -> int:
    """Bit pattern of a float, negative ones taken as zero."""
    return np.float64(max(value, 0.0)).view(np.int64)  # type: ignore[return-value]


@inlined
def value_of(key: int) -> float:
    """Float with a bit pattern."""
    return np.int64(key).view(np.float64)


@compiled
def shift_for(width: int) -> int:
    """Least shift that maps 0..width to fewer than N_BIN bins."""
    shift = 0
    while (width >> shift) >= N_BIN:
        shift += 1
    return shift


@compiled
def clear(histogram: int) -> None:
    """Set the bins of the histogram at an address to zero."""
    for b in range(N_BIN):
        whole_at(histogram, b).value = 0


@compiled
def _kth(keys: int, n: int, k: int) -> int:
    """The k-th smallest of the `n` keys at an address, which are reordered."""
    lo = 0
    hi = n - 1
    while lo < hi:
        pivot = whole_at(keys, (lo + hi) >> 1).value
        i = lo
        j = hi
        while i <= j:
            while whole_at(keys, i).value < pivot:
                i += 1
            while whole_at(keys, j).value > pivot:
                j -= 1
            if i <= j:
                swap = whole_at(keys, i).value
                whole_at(keys, i).value = whole_at(keys, j).value
                whole_at(keys, j).value = swap
                i += 1
                j -= 1
        if k <= j:
            hi = j
        elif k >= i:
            lo = i
        else:
            break
    return int(whole_at(keys, k).value)


@inlined
def interpolated(low: float, high: float, weight: float) -> float:
    """Point between two order statistics, rounded as numpy does."""
    gap = high - low
    return high - gap * (1.0 - weight) if weight >= 0.5 else low + gap * weight


@compiled
def _gather(a: int, n: int, least: int, shift: int, b: int) -> None:
    """Copy the values of one bin to the scratch memory."""
    ask = ask_of(a)
    m = 0
    for i in range(n):
        key = whole_at(ask.values, i).value
        if (key - least) >> shift == b:
            whole_at(ask.scratch, m).value = key
            m += 1


@compiled
def _count(a: int, n: int, least: int, shift: int) -> None:
    ask = ask_of(a)
    clear(ask.histogram)
    for i in range(n):
        b = (whole_at(ask.values, i).value - least) >> shift
        whole_at(ask.histogram, b).value += 1


@compiled
def value_quantiles(a: int, n: int, out: int) -> None:
    """Quantiles of the first `n` values, to the floats at an address."""
    ask = ask_of(a)
    least = whole_at(ask.values, 0).value
    greatest = least
    for i in range(n):
        key = whole_at(ask.values, i).value
        least = min(least, key)
        greatest = max(greatest, key)
    shift = shift_for(greatest - least)
    _count(a, n, least, shift)
    gathered = -1
    b = 0
    below = 0
    known = -1
    last = 0.0
    before = 0.0
    for q in range(ask.n_quantile):
        position = real_at(ask.quantiles, q).value * (n - 1)
        rank = int(position)
        for k in range(max(rank, known + 1), min(rank + 2, n)):
            while below + whole_at(ask.histogram, b).value <= k:
                below += whole_at(ask.histogram, b).value
                b += 1
            if gathered != b:
                _gather(a, n, least, shift, b)
                gathered = b
            before = last
            last = value_of(_kth(ask.scratch, whole_at(ask.histogram, b).value, k - below))
            known = k
        low = before if known > rank else last
        real_at(out, q).value = interpolated(low, last, position - rank)
