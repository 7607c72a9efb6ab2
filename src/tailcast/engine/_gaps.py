"""Exact order statistics of the multiset of token gaps that step runs stand for.

Run i stands for the gaps ``first + slope * j``, j below its count, each ``weights[i]`` times; some
gaps stand apart in `extra`. Nothing is expanded but what falls into the bin that holds a quantile.
"""

import math
from typing import Any, NamedTuple

from tailcast.engine._compile import compiled, inlined
from tailcast.engine._order import N_BIN, N_BIT, interpolated, key_of, shift_for, value_of


class Gaps(NamedTuple):
    """Token gaps of one group, and the memory that finding their quantiles takes.

    `steps` are records of step runs, `weights` (n_run + 1,) counts; `extra` (n_extra,) are gaps in
    seconds. `histogram` and `finer` have N_BIN counts, `keys` and `counts` hold the distinct gaps
    of one bin. `place` holds integers: runs, extra gaps, least bit pattern, shift, bin, gaps below
    the bin, gaps below the gathered bin, gaps in it, distinct ones.
    """

    steps: Any
    weights: Any
    extra: Any
    histogram: Any
    finer: Any
    keys: Any
    counts: Any
    place: Any


N_RUN, N_EXTRA, ORIGIN, SHIFT, BIN, BELOW, FROM, WITHIN, DISTINCT = range(9)


@inlined
def _reach(first: float, slope: float, count: int, value: float) -> int:
    """How many gaps of a run are below `value`."""
    if first >= value:
        return 0
    if first + slope * (count - 1) < value:
        return count
    j = int(math.ceil((value - first) / slope))
    while j > 0 and first + slope * (j - 1) >= value:
        j -= 1
    while first + slope * j < value:
        j += 1
    return j


@compiled
def _count_run(
    first: float, slope: float, count: int, weight: int, origin: int, shift: int, histogram: Any
) -> None:
    """Add a run's gaps to the bins from `origin` on; those outside are left out."""
    low = key_of(first)
    high = key_of(first + slope * (count - 1))
    if high < origin or (low - origin) >> shift >= N_BIN:
        return
    b0 = max(low - origin, 0) >> shift
    top = (high - origin) >> shift
    b1 = min(top, N_BIN - 1)
    if b0 == top and low >= origin:
        histogram[b0] += weight * count
        return
    done = _reach(first, slope, count, value_of(origin)) if low < origin else 0
    for b in range(b0, b1 + 1):
        below = _reach(first, slope, count, value_of(origin + ((b + 1) << shift)))
        histogram[b] += weight * (below - done)
        done = below


@compiled
def _count_gaps(g: Gaps, origin: int, shift: int, histogram: Any) -> None:
    """Count all gaps whose bit pattern lies in the bins from `origin` on."""
    histogram[:N_BIN] = 0
    for i in range(g.place[N_RUN]):
        weight = g.weights[i]
        if weight > 0:
            s = g.steps[i]
            _count_run(s.first, s.slope, s.count, weight, origin, shift, histogram)
    for i in range(g.place[N_EXTRA]):
        b = (key_of(g.extra[i]) - origin) >> shift
        if 0 <= b < N_BIN:
            histogram[b] += 1


@compiled
def _sort_pairs(keys: Any, weights: Any, n: int) -> None:
    """Shell sort by key."""
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            key = keys[i]
            weight = weights[i]
            j = i
            while j >= gap and keys[j - gap] > key:
                keys[j] = keys[j - gap]
                weights[j] = weights[j - gap]
                j -= gap
            keys[j] = key
            weights[j] = weight
        gap //= 3


@compiled
def _gather_run(g: Gaps, i: int, low: float, end: float, n: int) -> int:
    """Add run i's gaps from `low` to below `end` to the `n` gathered; -1 if they do not fit."""
    s = g.steps[i]
    if s.first >= end or s.first + s.slope * (s.count - 1) < low:
        return n
    start = _reach(s.first, s.slope, s.count, low)
    stop = _reach(s.first, s.slope, s.count, end)
    if s.slope == 0.0:
        if n == len(g.keys):
            return -1
        g.keys[n] = key_of(s.first)
        g.counts[n] = g.weights[i] * (stop - start)
        return n + 1
    if n + stop - start > len(g.keys):
        return -1
    for j in range(start, stop):
        g.keys[n] = key_of(s.first + s.slope * j)
        g.counts[n] = g.weights[i]
        n += 1
    return n


@compiled
def _gather(g: Gaps, origin: int, shift: int) -> int:
    """Distinct gaps with bit patterns in one bin, sorted; -1 when they do not fit."""
    n = 0
    low = value_of(origin)
    end = value_of(origin + (1 << shift))
    for i in range(g.place[N_RUN]):
        if g.weights[i] > 0:
            n = _gather_run(g, i, low, end, n)
            if n < 0:
                return -1
    for i in range(g.place[N_EXTRA]):
        if low <= g.extra[i] < end:
            if n == len(g.keys):
                return -1
            g.keys[n] = key_of(g.extra[i])
            g.counts[n] = 1
            n += 1
    _sort_pairs(g.keys, g.counts, n)
    return n


@compiled
def _zoom(g: Gaps, rank: int) -> None:
    """Gather the bin that holds the gap of this rank, a finer one if it holds too many."""
    place = g.place
    while place[BELOW] + g.histogram[place[BIN]] <= rank:
        place[BELOW] += g.histogram[place[BIN]]
        place[BIN] += 1
    shift = place[SHIFT]
    origin = place[ORIGIN] + (place[BIN] << shift)
    below = place[BELOW]
    within = g.histogram[place[BIN]]
    n = _gather(g, origin, shift)
    while n < 0:
        if shift == 0:
            g.keys[0] = origin
            g.counts[0] = within
            n = 1
        else:
            shift = max(shift - N_BIT, 0)
            _count_gaps(g, origin, shift, g.finer)
            b = 0
            while below + g.finer[b] <= rank:
                below += g.finer[b]
                b += 1
            origin += b << shift
            within = g.finer[b]
            n = _gather(g, origin, shift)
    place[FROM] = below
    place[WITHIN] = within
    place[DISTINCT] = n


@compiled
def _ranked(g: Gaps, rank: int) -> float:
    """The gap of a rank; ranks are asked for in ascending order."""
    place = g.place
    if rank >= place[FROM] + place[WITHIN]:
        _zoom(g, rank)
    left = rank - place[FROM]
    i = 0
    while left >= g.counts[i]:
        left -= g.counts[i]
        i += 1
    return value_of(g.keys[i])


@compiled
def gap_quantiles(g: Gaps, total: int, quantiles: Any, stream: float, out: Any) -> None:
    """Quantiles, in ascending order, of `total` gaps, each `stream` seconds longer than stored."""
    place = g.place
    least = -1
    greatest = -1
    for i in range(place[N_RUN]):
        if g.weights[i] > 0:
            s = g.steps[i]
            low = key_of(s.first)
            least = low if least < 0 else min(least, low)
            greatest = max(greatest, key_of(s.first + s.slope * (s.count - 1)))
    for i in range(place[N_EXTRA]):
        key = key_of(g.extra[i])
        least = key if least < 0 else min(least, key)
        greatest = max(greatest, key)
    place[ORIGIN] = least
    place[SHIFT] = shift_for(greatest - least, N_BIN)
    _count_gaps(g, least, place[SHIFT], g.histogram)
    place[BIN] = 0
    place[BELOW] = 0
    place[FROM] = 0
    place[WITHIN] = 0
    known = -1
    last = 0.0
    before = 0.0
    for q in range(len(quantiles)):
        position = quantiles[q] * (total - 1)
        rank = int(position)
        for k in range(max(rank, known + 1), min(rank + 2, total)):
            before = last
            last = _ranked(g, k)
            known = k
        low = before if known > rank else last
        out[q] = interpolated(low, last, position - rank) + stream


@compiled
def gap_sum(g: Gaps, out: Any) -> int:
    """Sum of all gaps into ``out[0]``; how many they are."""
    total = 0.0
    n = g.place[N_EXTRA]
    for i in range(n):
        total += g.extra[i]
    for i in range(g.place[N_RUN]):
        weight = g.weights[i]
        if weight > 0:
            s = g.steps[i]
            k = s.count
            total += weight * (k * s.first + s.slope * (0.5 * k * (k - 1)))
            n += weight * k
    out[0] = total
    return int(n)
