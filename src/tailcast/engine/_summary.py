"""Statistics of one finished run: mean and quantiles of every metric, by group and overall."""

from typing import Any, NamedTuple

import numpy as np

from tailcast.engine._compile import compiled, entry, inlined
from tailcast.engine._gaps import N_EXTRA, N_RUN, Gaps, gap_quantiles, gap_sum
from tailcast.engine._order import (
    value_quantiles,
)
from tailcast.engine._state import ABSENT, COMPLETED, REJECTED, TIMED_OUT, UNSENT, WAITING, Work

TTFT = 0
ITL = 1
TPOT = 2
E2E = 3
QUEUE_DELAY = 4


class Summary(NamedTuple):
    """What `summarise` reads and writes besides the run itself.

    `rows` are request rows ordered by group, group g at ``bounds[g]:bounds[g + 1]``; `group` is by
    request. `quantiles` ascend. `buffer` (float64) and `keys` (int64) are one memory, `scratch` is
    as long, `histogram` has N_BIN counts. `stat` has shape (n_group + 1, n_metric, 1 + n_quantile),
    `completed` (n_group,).
    """

    rows: Any
    bounds: Any
    group: Any
    quantiles: Any
    buffer: Any
    keys: Any
    scratch: Any
    histogram: Any
    stat: Any
    completed: Any


@inlined
def _metric(w: Work, row: int, metric: int) -> float:
    run = w.run[0]
    fa = w.fate[row]
    if metric == QUEUE_DELAY:
        return float(fa.scheduled - fa.arrival)
    ttft = fa.first - fa.arrival + run.stream
    if metric == TTFT:
        return float(ttft)
    output = w.item[row].output
    e2e = fa.last - fa.arrival + run.stream * output + run.finish
    if metric == E2E:
        return float(e2e)
    return float((e2e - ttft) / (output - 1))


@compiled
def _values(w: Work, m: Summary, lo: int, hi: int, warmup: int, metric: int) -> int:
    """Fill the buffer with one metric of counted requests; how many they are."""
    n = 0
    for i in range(lo, hi):
        row = m.rows[i]
        if w.fate[row].state == COMPLETED and row >= warmup:
            if metric != TPOT or w.item[row].output > 1:
                m.buffer[n] = max(_metric(w, row, metric), 0.0)
                n += 1
    return n


@compiled
def _summarise_values(m: Summary, n: int, out: Any) -> None:
    if n == 0:
        out[:] = np.nan
        return
    total = 0.0
    for i in range(n):
        total += m.buffer[i]
    out[0] = total / n
    value_quantiles(m.keys, n, m.quantiles, m.scratch, m.histogram, out[1:])


@inlined
def _counts(w: Work, m: Summary, row: int, group: int, warmup: int) -> bool:
    """Whether a request enters the statistics of a group, of all groups when it is negative."""
    return bool(
        w.fate[row].state == COMPLETED and row >= warmup and (group < 0 or m.group[row] == group)
    )


@compiled
def weigh_gaps(w: Work, m: Summary, g: Gaps, group: int, warmup: int) -> None:
    """Count who saw each step run as a gap, and collect the gaps that stand apart."""
    run = w.run[0]
    weights = g.weights
    for i in range(run.n_run + 1):
        weights[i] = 0
    lo = m.bounds[max(group, 0)]
    hi = m.bounds[group + 1] if group >= 0 else len(m.rows)
    for i in range(lo, hi):
        fa = w.fate[m.rows[i]]
        if fa.state == COMPLETED and m.rows[i] >= warmup:
            weights[fa.gap_from] += 1
            weights[fa.gap_to] -= 1
    for i in range(run.n_span):
        span = w.span[i]
        if _counts(w, m, span.row, group, warmup):
            weights[span.gap_from] += 1
            weights[span.gap_to] -= 1
    level = 0
    for i in range(run.n_run):
        level += weights[i]
        weights[i] = level
    n = 0
    for i in range(run.n_odd):
        if _counts(w, m, w.odd[i].row, group, warmup):
            g.extra[n] = w.odd[i].gap
            n += 1
    g.place[N_RUN] = run.n_run
    g.place[N_EXTRA] = n


@compiled
def _summarise_gaps(w: Work, m: Summary, g: Gaps, group: int, warmup: int, out: Any) -> None:
    weigh_gaps(w, m, g, group, warmup)
    n = gap_sum(g, out)
    if n == 0:
        out[:] = np.nan
        return
    out[0] = out[0] / n + w.run[0].stream
    gap_quantiles(g, n, m.quantiles, w.run[0].stream, out[1:])


@compiled
def _close_books(w: Work) -> None:
    """Give every request its final state."""
    run = w.run[0]
    for row in range(run.n_request):
        fa = w.fate[row]
        if fa.state == ABSENT:
            parent = w.parent[row] if run.closed else -1
            if parent >= 0:
                before = w.fate[parent].state
                if before in (REJECTED, TIMED_OUT, UNSENT):
                    fa.state = UNSENT
            elif w.item[row].input + w.item[row].output > run.max_total:
                if w.arrival[row] < run.horizon:
                    fa.arrival = w.arrival[row]
                    fa.state = REJECTED
        elif fa.state == WAITING and run.now == np.inf:
            leave = fa.arrival + w.timeout[row]
            if leave < run.horizon and leave < np.inf:
                fa.state = TIMED_OUT
        if fa.state >= WAITING:
            fa.state = ABSENT


@compiled
def _copy_group(m: Summary) -> None:
    """The only group is all there is."""
    for metric in range(m.stat.shape[1]):
        for i in range(m.stat.shape[2]):
            m.stat[1, metric, i] = m.stat[0, metric, i]


@entry
def summarise(w: Work, m: Summary, g: Gaps, warmup: int) -> None:
    """Settle every request's state and fill the statistics of all groups."""
    _close_books(w)
    n_group = len(m.completed)
    for group in range(n_group):
        lo = m.bounds[group]
        hi = m.bounds[group + 1]
        n = 0
        for i in range(lo, hi):
            if w.fate[m.rows[i]].state == COMPLETED:
                n += 1
        m.completed[group] = n
        for metric in (TTFT, TPOT, E2E, QUEUE_DELAY):
            n = _values(w, m, lo, hi, warmup, metric)
            _summarise_values(m, n, m.stat[group, metric])
        _summarise_gaps(w, m, g, group, warmup, m.stat[group, ITL])
    if n_group == 1:
        _copy_group(m)
        return
    for metric in (TTFT, TPOT, E2E, QUEUE_DELAY):
        n = _values(w, m, 0, len(m.rows), warmup, metric)
        _summarise_values(m, n, m.stat[n_group, metric])
    _summarise_gaps(w, m, g, -1, warmup, m.stat[n_group, ITL])


@entry
def weigh_all_gaps(w: Work, m: Summary, g: Gaps, warmup: int) -> None:
    """Weigh the gaps of all groups together, to be copied out."""
    weigh_gaps(w, m, g, -1, warmup)
