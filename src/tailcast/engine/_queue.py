"""Arrivals, the waiting queue, time-outs while waiting, and the children of closed loops."""

import numpy as np

from tailcast.engine import _heap
from tailcast.engine._compile import compiled, inlined, wide
from tailcast.engine._layout import NONE, REJECTED, TIMED_OUT, WAITING
from tailcast.engine._state import (
    fate_at,
    item_at,
    kin_at,
    place_at,
    real_at,
    row_at,
    run_of,
    timed_at,
    whole_at,
)
from tailcast.engine._timer import first_to_leave, next_leave, watch


@inlined
def servable(w: int, row: int) -> bool:
    """Whether a request may be queued at all."""
    run = run_of(w)
    it = item_at(run.items, row)
    return bool(it.input + it.output <= run.max_total)


@compiled
def seek(w: int) -> None:
    """Move to the next open-loop arrival that is servable."""
    run = run_of(w)
    row = run.next_row
    while row < run.n_request:
        if servable(w, row) and (not run.closed or whole_at(run.parents, row).value < 0):
            break
        row += 1
    run.next_row = row
    run.next_open = real_at(run.arrivals, row).value + run.ingest if row < run.n_request else np.inf
    run.next_queue = run.next_open
    if run.n_child > 0:
        run.next_queue = min(run.next_open, timed_at(run.child_heap, 0).key)


@inlined
def _before(w: int, a: int, b: int) -> bool:
    """Order of the priority scheduler."""
    run = run_of(w)
    if whole_at(run.priorities, a).value != whole_at(run.priorities, b).value:
        return bool(whole_at(run.priorities, a).value < whole_at(run.priorities, b).value)
    if fate_at(run.fates, a).arrival != fate_at(run.fates, b).arrival:
        return bool(fate_at(run.fates, a).arrival < fate_at(run.fates, b).arrival)
    return a < b


@compiled
def _push_priority(w: int, row: int) -> None:
    run = run_of(w)
    i = run.n_queue
    run.n_queue += 1
    while i > 0:
        parent = (i - 1) >> 1
        if _before(w, row_at(run.queue, parent).row, row):
            break
        row_at(run.queue, i).row = row_at(run.queue, parent).row
        i = parent
    row_at(run.queue, i).row = row


@compiled
def _pop_priority(w: int) -> None:
    run = run_of(w)
    run.n_queue -= 1
    n = run.n_queue
    row = row_at(run.queue, n).row
    i = 0
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and _before(
            w, row_at(run.queue, child + 1).row, row_at(run.queue, child).row
        ):
            child += 1
        if _before(w, row, row_at(run.queue, child).row):
            break
        row_at(run.queue, i).row = row_at(run.queue, child).row
        i = child
    row_at(run.queue, i).row = row


@compiled
def _enqueue(w: int, row: int) -> None:
    run = run_of(w)
    fate_at(run.fates, row).state = WAITING
    run.n_waiting += 1
    if run.timed:
        watch(w, run.wait_timer, row)
    if run.priority:
        _push_priority(w, row)
    else:
        row_at(run.queue, run.queue_tail).row = row
        run.queue_tail += 1


@compiled
def requeue(w: int, row: int) -> None:
    """Put a preempted request back: in front, or in its place under priority."""
    run = run_of(w)
    fate_at(run.fates, row).state = WAITING
    run.n_waiting += 1
    if run.timed:
        watch(w, run.wait_timer, row)
    if run.priority:
        _push_priority(w, row)
    else:
        place_at(run.places, run.n_stack).stacked = row
        run.n_stack += 1


@compiled
def _next_child(w: int) -> None:
    """Queue the first of the children whose parents have finished."""
    run = run_of(w)
    row = timed_at(run.child_heap, 0).row
    _heap.pop(run.child_heap, run.n_child)
    run.n_child -= 1
    _enqueue(w, row)
    run.next_queue = run.next_open
    if run.n_child > 0:
        run.next_queue = min(run.next_open, timed_at(run.child_heap, 0).key)


@compiled
def ingest(w: int) -> None:
    """Queue everything whose queue time has come by the cutoff."""
    run = run_of(w)
    while run.next_queue <= run.cutoff:
        if run.n_child > 0 and (
            timed_at(run.child_heap, 0).key < run.next_open
            or (
                timed_at(run.child_heap, 0).key == run.next_open
                and timed_at(run.child_heap, 0).row < run.next_row
            )
        ):
            _next_child(w)
        else:
            row = run.next_row
            fate_at(run.fates, row).arrival = real_at(run.arrivals, row).value
            _enqueue(w, row)
            run.next_row = row + 1
            seek(w)


@compiled
def expire(w: int) -> None:
    """Remove waiting requests whose client has left by the cutoff."""
    run = run_of(w)
    while next_leave(w, run.wait_timer) <= run.cutoff:
        fate_at(run.fates, first_to_leave(w, run.wait_timer)).state = TIMED_OUT
        run.n_waiting -= 1


@compiled
def first_waiting(w: int) -> int:
    """Row at the head of the waiting queue, which is not empty."""
    run = run_of(w)
    if run.priority:
        while fate_at(run.fates, row_at(run.queue, 0).row).state != WAITING:
            _pop_priority(w)
        return wide(row_at(run.queue, 0).row)
    while run.n_stack > 0:
        row = place_at(run.places, run.n_stack - 1).stacked
        if fate_at(run.fates, row).state == WAITING:
            return int(row)
        run.n_stack -= 1
    while fate_at(run.fates, row_at(run.queue, run.queue_head).row).state != WAITING:
        run.queue_head += 1
    return wide(row_at(run.queue, run.queue_head).row)


@compiled
def drop_first(w: int) -> None:
    """Remove the row that `first_waiting` has just named."""
    run = run_of(w)
    run.n_waiting -= 1
    if run.priority:
        _pop_priority(w)
    elif run.n_stack > 0:
        run.n_stack -= 1
    else:
        run.queue_head += 1


@compiled
def send_children(w: int, row: int) -> None:
    """Let the closed loop go on after a request that has just finished."""
    run = run_of(w)
    fa = fate_at(run.fates, row)
    served = fa.last + run.stream * item_at(run.items, row).output + run.finish
    child = kin_at(run.kins, row).first_child
    while child != NONE:
        arrival = max(
            real_at(run.arrivals, child).value,
            served + real_at(run.thinks, child).value,
        )
        fate_at(run.fates, child).arrival = arrival
        if servable(w, child):
            _heap.push(run.child_heap, run.n_child, arrival + run.ingest, child)
            run.n_child += 1
            run.next_queue = min(run.next_open, timed_at(run.child_heap, 0).key)
        elif arrival < run.horizon:
            fate_at(run.fates, child).state = REJECTED
        child = kin_at(run.kins, child).sibling
