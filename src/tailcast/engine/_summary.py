"""Statistics of one finished run: mean and quantiles of every metric, by group and overall."""

from typing import Final

import numpy as np

from tailcast.engine._compile import compiled, inlined, wide
from tailcast.engine._gaps import gap_mean, gap_quantiles
from tailcast.engine._layout import ABSENT, COMPLETED, N_RUN, REJECTED, TIMED_OUT, UNSENT, WAITING
from tailcast.engine._order import value_quantiles
from tailcast.engine._state import (
    ask_of,
    fate_at,
    item_at,
    loose_at,
    real_at,
    row_at,
    run_of,
    whole_at,
)

TTFT: Final = 0
ITL: Final = 1
TPOT: Final = 2
E2E: Final = 3
QUEUE_DELAY: Final = 4
N_METRIC: Final = 5


@compiled
def _metric(w: int, row: int, metric: int) -> float:
    run = run_of(w)
    fa = fate_at(run.fates, row)
    if metric == QUEUE_DELAY:
        return float(fa.scheduled - fa.arrival)
    ttft = fa.first - fa.arrival + run.stream
    if metric == TTFT:
        return float(ttft)
    output = item_at(run.items, row).output
    e2e = fa.last - fa.arrival + run.stream * output + run.finish
    if metric == E2E:
        return float(e2e)
    return float((e2e - ttft) / (output - 1))


@inlined
def _is_counted(w: int, a: int, row: int) -> bool:
    """Whether a request enters statistics."""
    run = run_of(w)
    ask = ask_of(a)
    return bool(fate_at(run.fates, row).state == COMPLETED and row >= ask.warmup)


@compiled
def _values(w: int, a: int, lo: int, hi: int, metric: int) -> int:
    """Collect one metric of the counted requests among rows lo..hi-1; how many they are."""
    run = run_of(w)
    ask = ask_of(a)
    n = 0
    for i in range(lo, hi):
        row = row_at(ask.rows, i).row
        if _is_counted(w, a, row) and (metric != TPOT or item_at(run.items, row).output > 1):
            real_at(ask.values, n).value = max(_metric(w, row, metric), 0.0)
            n += 1
    return n


@compiled
def _summarise_values(a: int, n: int, out: int) -> None:
    ask = ask_of(a)
    if n == 0:
        return
    total = 0.0
    for i in range(n):
        total += real_at(ask.values, i).value
    real_at(out, 0).value = total / n
    value_quantiles(a, n, out + 8)


@compiled
def weigh_gaps(w: int, a: int, lo: int, hi: int, group: int) -> None:
    """Count who saw each step run as a gap, and collect the gaps that stand apart.

    Only counted requests of `group`, which are rows lo..hi-1, enter; all when it is negative.
    """
    run = run_of(w)
    ask = ask_of(a)
    for i in range(run.n_run + 1):
        whole_at(ask.weights, i).value = 0
    for i in range(lo, hi):
        row = row_at(ask.rows, i).row
        if _is_counted(w, a, row):
            fa = fate_at(run.fates, row)
            whole_at(ask.weights, fa.gap_from).value += 1
            whole_at(ask.weights, fa.gap_to).value -= 1
    n = 0
    for i in range(run.n_loose):
        loose = loose_at(run.looses, i)
        row = loose.row
        if _is_counted(w, a, row) and (group < 0 or whole_at(ask.groups, row).value == group):
            if loose.gap >= 0.0:
                real_at(ask.extras, n).value = loose.gap
                n += 1
            else:
                whole_at(ask.weights, loose.gap_from).value += 1
                whole_at(ask.weights, loose.gap_to).value -= 1
    ask.n_extra = n
    level = 0
    for i in range(run.n_run):
        level += whole_at(ask.weights, i).value
        whole_at(ask.weights, i).value = level


@compiled
def _summarise_group(w: int, a: int, lo: int, hi: int, group: int, out: int) -> None:
    """Fill the statistics of one group (of all when it is negative), at an address."""
    ask = ask_of(a)
    width = 8 * (1 + ask.n_quantile)
    for metric in range(N_METRIC):
        if metric == ITL:
            weigh_gaps(w, a, lo, hi, group)
            n = gap_mean(w, a, out + metric * width)
            if n > 0:
                gap_quantiles(w, a, n, out + metric * width + 8)
        else:
            n = _values(w, a, lo, hi, metric)
            _summarise_values(a, n, out + metric * width)


@compiled
def _close_books(w: int) -> None:
    """Give every request its final state."""
    run = run_of(w)
    for row in range(run.n_request):
        fa = fate_at(run.fates, row)
        it = item_at(run.items, row)
        if fa.state == ABSENT:
            parent = whole_at(run.parents, row).value if run.closed else -1
            if parent >= 0:
                before = fate_at(run.fates, parent).state
                if before in (REJECTED, TIMED_OUT, UNSENT):
                    fa.state = UNSENT
            elif real_at(run.arrivals, row).value < run.horizon:
                fa.arrival = real_at(run.arrivals, row).value
                if it.input + it.output > run.max_total:
                    fa.state = REJECTED
        elif fa.state == WAITING and run.now == np.inf:
            leave = fa.arrival + real_at(run.timeouts, row).value
            if leave < min(run.horizon, np.inf):
                fa.state = TIMED_OUT
        if fa.state >= WAITING:
            fa.state = ABSENT
        run.unfinished += fa.state == ABSENT
        run.completed += fa.state == COMPLETED
        run.rejected += fa.state == REJECTED
        run.unsent += fa.state == UNSENT
        run.timed_out += fa.state == TIMED_OUT


@compiled
def summarise(w: int, a: int, draw: int) -> None:
    """Settle every request's state and fill the statistics of all groups."""
    run = run_of(w)
    ask = ask_of(a)
    _close_books(w)
    size = 8 * N_METRIC * (1 + ask.n_quantile)
    stats = ask.stats + draw * (ask.n_group + 1) * size
    for group in range(ask.n_group):
        lo = whole_at(ask.bounds, group).value
        hi = whole_at(ask.bounds, group + 1).value
        n = 0
        for i in range(lo, hi):
            if fate_at(run.fates, row_at(ask.rows, i).row).state == COMPLETED:
                n += 1
        whole_at(ask.completed, draw * ask.n_group + group).value = n
        _summarise_group(w, a, lo, hi, group, stats + group * size)
    last = stats + ask.n_group * size
    if ask.n_group == 1:
        for i in range(size // 8):
            real_at(last, i).value = real_at(stats, i).value
    else:
        _summarise_group(w, a, wide(0), run.n_request, wide(-1), last)
    for i in range(N_RUN):
        whole_at(ask.runs, N_RUN * draw + i).value = whole_at(w, i).value
