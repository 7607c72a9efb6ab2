"""Two timers, of waiting and of running requests: whose client leaves next.

Clients mostly leave in the order in which a timer meets them, so it keeps a ring of rows in that
order, and a heap for whoever leaves before the last of the ring. A row stays until it stands in
front, also when it is not in the timer's state any more.
"""

import numpy as np

from tailcast.engine import _heap
from tailcast.engine._compile import compiled, inlined, wide
from tailcast.engine._state import fate_at, real_at, row_at, run_of, timed_at, timer_of


@inlined
def leave_time(w: int, row: int) -> float:
    """When the client of a request that has arrived leaves."""
    run = run_of(w)
    return float(fate_at(run.fates, row).arrival + real_at(run.timeouts, row).value)


@compiled
def watch(w: int, timer: int, row: int) -> None:
    """Put a request into a timer, unless it is there already."""
    run = run_of(w)
    t = timer_of(timer)
    fa = fate_at(run.fates, row)
    leave = leave_time(w, row)
    if leave == np.inf or fa.timed & t.bit:
        return
    fa.timed |= t.bit
    if t.n_ring > 0 and leave < t.last:
        _heap.push(t.heap, t.n_heap, leave, row)
        t.n_heap += 1
        return
    if t.n_ring == 0:
        t.first = 0
    place = t.first + t.n_ring
    row_at(t.ring, place if place < run.n_request else place - run.n_request).row = row
    t.n_ring += 1
    t.last = leave


@inlined
def _drop_ring(w: int, timer: int, row: int) -> None:
    run = run_of(w)
    t = timer_of(timer)
    fate_at(run.fates, row).timed &= ~t.bit
    t.first = t.first + 1 if t.first + 1 < run.n_request else 0
    t.n_ring -= 1


@inlined
def _drop_heap(w: int, timer: int, row: int) -> None:
    t = timer_of(timer)
    fate_at(run_of(w).fates, row).timed &= ~t.bit
    _heap.pop(t.heap, t.n_heap)
    t.n_heap -= 1


@compiled
def next_leave(w: int, timer: int) -> float:
    """When the first client leaves whose request is in the timer's state."""
    run = run_of(w)
    t = timer_of(timer)
    leave = np.inf
    while t.n_ring > 0:
        row = row_at(t.ring, t.first).row
        if fate_at(run.fates, row).state == t.state:
            leave = leave_time(w, row)
            break
        _drop_ring(w, timer, row)
    while t.n_heap > 0:
        row = timed_at(t.heap, 0).row
        if fate_at(run.fates, row).state == t.state:
            leave = min(leave, timed_at(t.heap, 0).key)
            break
        _drop_heap(w, timer, row)
    return float(leave)


@compiled
def first_to_leave(w: int, timer: int) -> int:
    """Row that `next_leave` has just given the time of."""
    t = timer_of(timer)
    row = wide(row_at(t.ring, t.first).row)
    if t.n_ring == 0 or (t.n_heap > 0 and timed_at(t.heap, 0).key < leave_time(w, row)):
        return int(timed_at(t.heap, 0).row)
    return row
