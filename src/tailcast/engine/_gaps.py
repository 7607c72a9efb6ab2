"""Exact order statistics of the multiset of token gaps that step runs stand for.

Step run i stands for the gaps ``first + slope * j``, j below its count, each ``weights[i]`` times;
some gaps stand apart in `extras`. Nothing is expanded but the bin that holds a quantile.
"""

import math

from tailcast.engine._compile import compiled, inlined
from tailcast.engine._layout import N_BIN, N_BIT
from tailcast.engine._order import clear, interpolated, key_of, shift_for, value_of
from tailcast.engine._state import ask_of, real_at, run_of, step_run_at, whole_at


@inlined
def _reach(first: float, slope: float, count: int, value: float) -> int:
    """How many gaps of a step run are below `value`."""
    if first >= value:
        return 0
    if first + slope * (count - 1) < value:
        return count
    j = math.ceil((value - first) / slope)
    while j > 0 and first + slope * (j - 1) >= value:
        j -= 1
    while first + slope * j < value:
        j += 1
    return j


@compiled
def _count_run(w: int, i: int, weight: int, origin: int, shift: int, histogram: int) -> None:
    """Add step run i's gaps to the bins from `origin` on; those outside are left out."""
    s = step_run_at(run_of(w).step_runs, i)
    low = key_of(s.first)
    high = key_of(s.first + s.slope * (s.count - 1))
    if high < origin or (low - origin) >> shift >= N_BIN:
        return
    b0 = max(low - origin, 0) >> shift
    top = (high - origin) >> shift
    if b0 == top and low >= origin:
        whole_at(histogram, b0).value += weight * s.count
        return
    start = _reach(s.first, s.slope, s.count, value_of(origin)) if low < origin else 0
    b1 = min(top, N_BIN - 1)
    stop = s.count
    if top > b1:
        stop = _reach(s.first, s.slope, s.count, value_of(origin + (N_BIN << shift)))
    if stop - start < 2 * (b1 - b0):
        for j in range(start, stop):
            b = (key_of(s.first + s.slope * j) - origin) >> shift
            whole_at(histogram, b).value += weight
        return
    for b in range(b0, b1):
        below = _reach(s.first, s.slope, s.count, value_of(origin + ((b + 1) << shift)))
        whole_at(histogram, b).value += weight * (below - start)
        start = below
    whole_at(histogram, b1).value += weight * (stop - start)


@compiled
def _count_gaps(w: int, a: int, origin: int, shift: int, histogram: int) -> None:
    """Count all gaps whose bit pattern lies in the bins from `origin` on."""
    run = run_of(w)
    ask = ask_of(a)
    clear(histogram)
    for i in range(run.n_run):
        weight = whole_at(ask.weights, i).value
        if weight > 0:
            _count_run(w, i, weight, origin, shift, histogram)
    for i in range(ask.n_extra):
        b = (key_of(real_at(ask.extras, i).value) - origin) >> shift
        if 0 <= b < N_BIN:
            whole_at(histogram, b).value += 1


@compiled
def _sort_distinct(a: int, n: int) -> None:
    """Shell sort of the gathered gaps."""
    ask = ask_of(a)
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for i in range(gap, n):
            key = whole_at(ask.keys, i).value
            count = whole_at(ask.counts, i).value
            j = i
            while j >= gap and whole_at(ask.keys, j - gap).value > key:
                whole_at(ask.keys, j).value = whole_at(ask.keys, j - gap).value
                whole_at(ask.counts, j).value = whole_at(ask.counts, j - gap).value
                j -= gap
            whole_at(ask.keys, j).value = key
            whole_at(ask.counts, j).value = count
        gap //= 3


@inlined
def _keep(a: int, n: int, gap: float, count: int) -> int:
    ask = ask_of(a)
    whole_at(ask.keys, n).value = key_of(gap)
    whole_at(ask.counts, n).value = count
    return n + 1


@compiled
def _gather_run(w: int, a: int, i: int, low: float, end: float, n: int) -> int:
    """Add step run i's gaps in low..end to the `n` gathered; -1 if they do not fit."""
    ask = ask_of(a)
    s = step_run_at(run_of(w).step_runs, i)
    weight = whole_at(ask.weights, i).value
    start = _reach(s.first, s.slope, s.count, low)
    stop = _reach(s.first, s.slope, s.count, end)
    if s.slope == 0.0:
        return _keep(a, n, s.first, weight * (stop - start)) if n < ask.n_distinct else -1
    if n + stop - start > ask.n_distinct:
        return -1
    for j in range(start, stop):
        n = _keep(a, n, s.first + s.slope * j, weight)
    return n


@compiled
def _gather(w: int, a: int, origin: int, shift: int) -> int:
    """Distinct gaps with bit patterns in one bin, sorted; -1 when they do not fit."""
    run = run_of(w)
    ask = ask_of(a)
    n = 0
    low = value_of(origin)
    end = value_of(origin + (1 << shift))
    for i in range(run.n_run):
        if whole_at(ask.weights, i).value > 0:
            s = step_run_at(run.step_runs, i)
            if s.first < end and s.first + s.slope * (s.count - 1) >= low:
                n = _gather_run(w, a, i, low, end, n)
                if n < 0:
                    return -1
    for i in range(ask.n_extra):
        gap = real_at(ask.extras, i).value
        if low <= gap < end:
            if n == ask.n_distinct:
                return -1
            n = _keep(a, n, gap, 1)
    _sort_distinct(a, n)
    return n


@compiled
def _zoom(w: int, a: int, rank: int) -> None:
    """Gather the bin that holds the gap of this rank, a finer one if it holds too many."""
    ask = ask_of(a)
    while ask.below + whole_at(ask.histogram, ask.bin).value <= rank:
        ask.below += whole_at(ask.histogram, ask.bin).value
        ask.bin += 1
    shift = ask.shift
    origin = ask.origin + (ask.bin << shift)
    below = ask.below
    within = whole_at(ask.histogram, ask.bin).value
    n = _gather(w, a, origin, shift)
    while n < 0:
        if shift == 0:
            n = _keep(a, 0, value_of(origin), within)
        else:
            shift = max(shift - N_BIT, 0)
            _count_gaps(w, a, origin, shift, ask.finer)
            b = 0
            while below + whole_at(ask.finer, b).value <= rank:
                below += whole_at(ask.finer, b).value
                b += 1
            origin += b << shift
            within = whole_at(ask.finer, b).value
            n = _gather(w, a, origin, shift)
    ask.gathered = below
    ask.within = within


@compiled
def _ranked(w: int, a: int, rank: int) -> float:
    """The gap of a rank; ranks are asked for in ascending order."""
    ask = ask_of(a)
    if rank >= ask.gathered + ask.within:
        _zoom(w, a, rank)
    left = rank - ask.gathered
    i = 0
    while left >= whole_at(ask.counts, i).value:
        left -= whole_at(ask.counts, i).value
        i += 1
    return value_of(whole_at(ask.keys, i).value)


@compiled
def _prepare(w: int, a: int) -> None:
    """Histogram of all gaps."""
    run = run_of(w)
    ask = ask_of(a)
    least = key_of(math.inf)
    greatest = key_of(0.0)
    for i in range(run.n_run):
        if whole_at(ask.weights, i).value > 0:
            s = step_run_at(run.step_runs, i)
            least = min(least, key_of(s.first))
            greatest = max(greatest, key_of(s.first + s.slope * (s.count - 1)))
    for i in range(ask.n_extra):
        key = key_of(real_at(ask.extras, i).value)
        least = min(least, key)
        greatest = max(greatest, key)
    ask.origin = least
    # many distinct gaps: first coarse bins, of which long runs span few
    coarse = 4 if run.step > 16 * N_BIN else 0
    ask.shift = shift_for(greatest - least) + coarse
    _count_gaps(w, a, least, ask.shift, ask.histogram)
    ask.bin = 0
    ask.below = 0
    ask.gathered = 0
    ask.within = 0


@compiled
def gap_quantiles(w: int, a: int, total: int, out: int) -> None:
    """Quantiles of `total` gaps, to the floats at an address."""
    run = run_of(w)
    ask = ask_of(a)
    _prepare(w, a)
    known = -1
    last = 0.0
    before = 0.0
    for q in range(ask.n_quantile):
        position = real_at(ask.quantiles, q).value * (total - 1)
        rank = int(position)
        for k in range(max(rank, known + 1), min(rank + 2, total)):
            before = last
            last = _ranked(w, a, k)
            known = k
        low = before if known > rank else last
        real_at(out, q).value = interpolated(low, last, position - rank) + run.stream


@compiled
def gap_mean(w: int, a: int, out: int) -> int:
    """Mean of all gaps, to the float at an address; how many gaps there are."""
    run = run_of(w)
    ask = ask_of(a)
    total = 0.0
    n = ask.n_extra
    for i in range(n):
        total += real_at(ask.extras, i).value
    for i in range(run.n_run):
        weight = whole_at(ask.weights, i).value
        if weight > 0:
            s = step_run_at(run.step_runs, i)
            k = s.count
            total += weight * (k * s.first + s.slope * (0.5 * k * (k - 1)))
            n += weight * k
    if n > 0:
        real_at(out, 0).value = total / n + run.stream
    return int(n)
