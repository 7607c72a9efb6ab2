"""Arrivals, the waiting queue, time-outs while waiting, and the children of closed loops."""

import numpy as np

from tailcast.engine import _heap
from tailcast.engine._compile import compiled, inlined
from tailcast.engine._state import ABSENT, NONE, REJECTED, TIMED_OUT, WAITING, Work


@inlined
def servable(w: Work, row: int) -> bool:
    """Whether a request may be queued at all."""
    it = w.item[row]
    return bool(it.input + it.output <= w.run[0].max_total)


@compiled
def seek(w: Work) -> None:
    """Move to the next open-loop arrival that is servable."""
    run = w.run[0]
    row = run.next_row
    while row < run.n_request:
        if servable(w, row) and (not run.closed or w.parent[row] < 0):
            break
        row += 1
    run.next_row = row
    run.next_open = w.arrival[row] + run.ingest if row < run.n_request else np.inf
    run.next_queue = run.next_open
    if run.n_child > 0:
        run.next_queue = min(run.next_open, w.child_key[0])


@inlined
def _before(w: Work, a: int, b: int) -> bool:
    """Order of the priority scheduler."""
    if w.priority[a] != w.priority[b]:
        return bool(w.priority[a] < w.priority[b])
    if w.fate[a].arrival != w.fate[b].arrival:
        return bool(w.fate[a].arrival < w.fate[b].arrival)
    return a < b


@compiled
def _push_priority(w: Work, row: int) -> None:
    run = w.run[0]
    i = run.n_queue
    run.n_queue += 1
    while i > 0:
        parent = (i - 1) >> 1
        if _before(w, w.queue[parent], row):
            break
        w.queue[i] = w.queue[parent]
        i = parent
    w.queue[i] = row


@compiled
def _pop_priority(w: Work) -> None:
    run = w.run[0]
    run.n_queue -= 1
    n = run.n_queue
    row = w.queue[n]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and _before(w, w.queue[child + 1], w.queue[child]):
            child += 1
        if _before(w, row, w.queue[child]):
            break
        w.queue[i] = w.queue[child]
        i = child
    w.queue[i] = row


@compiled
def _watch(w: Work, row: int) -> None:
    """Start the timer of a waiting request, unless it already runs."""
    run = w.run[0]
    fa = w.fate[row]
    leave = fa.arrival + w.timeout[row]
    if leave < np.inf and not fa.timed & 1:
        fa.timed |= 1
        _heap.push(w.wait_key, w.wait_row, run.n_wait_timer, leave, row)
        run.n_wait_timer += 1


@inlined
def _enqueue(w: Work, row: int) -> None:
    run = w.run[0]
    w.fate[row].state = WAITING
    run.n_waiting += 1
    if run.timed:
        _watch(w, row)
    if run.priority:
        _push_priority(w, row)
    else:
        w.queue[run.queue_tail] = row
        run.queue_tail += 1


@compiled
def requeue(w: Work, row: int) -> None:
    """Put a preempted request back: in front, or in its place under priority."""
    run = w.run[0]
    w.fate[row].state = WAITING
    run.n_waiting += 1
    if run.timed:
        _watch(w, row)
    if run.priority:
        _push_priority(w, row)
    else:
        w.stack[run.n_stack] = row
        run.n_stack += 1


@compiled
def _next_child(w: Work) -> None:
    """Queue the first of the children whose parents have finished."""
    run = w.run[0]
    row = w.child_row[0]
    _heap.pop(w.child_key, w.child_row, run.n_child)
    run.n_child -= 1
    _enqueue(w, row)
    run.next_queue = run.next_open
    if run.n_child > 0:
        run.next_queue = min(run.next_open, w.child_key[0])


@inlined
def ingest(w: Work) -> None:
    """Queue everything whose queue time has come by the cutoff."""
    run = w.run[0]
    while run.next_queue <= run.cutoff:
        if run.n_child > 0 and (
            w.child_key[0] < run.next_open
            or (w.child_key[0] == run.next_open and w.child_row[0] < run.next_row)
        ):
            _next_child(w)
        else:
            row = run.next_row
            w.fate[row].arrival = w.arrival[row]
            _enqueue(w, row)
            run.next_row = row + 1
            seek(w)


@compiled
def expire(w: Work) -> None:
    """Remove waiting requests whose client has left by the cutoff."""
    run = w.run[0]
    while run.n_wait_timer > 0 and w.wait_key[0] <= run.cutoff:
        fa = w.fate[w.wait_row[0]]
        fa.timed &= ~1
        if fa.state == WAITING:
            fa.state = TIMED_OUT
            run.n_waiting -= 1
        _heap.pop(w.wait_key, w.wait_row, run.n_wait_timer)
        run.n_wait_timer -= 1


@compiled
def next_leave(w: Work) -> float:
    """When the first of the waiting clients leaves."""
    run = w.run[0]
    while run.n_wait_timer > 0:
        fa = w.fate[w.wait_row[0]]
        if fa.state == WAITING:
            return float(w.wait_key[0])
        fa.timed &= ~1
        _heap.pop(w.wait_key, w.wait_row, run.n_wait_timer)
        run.n_wait_timer -= 1
    return np.inf


@inlined
def first_waiting(w: Work) -> int:
    """Row at the head of the waiting queue, which is not empty."""
    run = w.run[0]
    if run.priority:
        while w.fate[w.queue[0]].state != WAITING:
            _pop_priority(w)
        return int(w.queue[0])
    while run.n_stack > 0:
        row = w.stack[run.n_stack - 1]
        if w.fate[row].state == WAITING:
            return int(row)
        run.n_stack -= 1
    while w.fate[w.queue[run.queue_head]].state != WAITING:
        run.queue_head += 1
    return int(w.queue[run.queue_head])


@inlined
def drop_first(w: Work) -> None:
    """Remove the row that `first_waiting` has just named."""
    run = w.run[0]
    run.n_waiting -= 1
    if run.priority:
        _pop_priority(w)
    elif run.n_stack > 0:
        run.n_stack -= 1
    else:
        run.queue_head += 1


@compiled
def send_children(w: Work, row: int) -> None:
    """Let the closed loop go on after a request that has just finished."""
    run = w.run[0]
    fa = w.fate[row]
    served = fa.last - fa.arrival + run.stream * w.item[row].output + run.finish
    child = w.first_child[row]
    while child != NONE:
        arrival = max(w.arrival[child], fa.arrival + served + w.think[child])
        w.fate[child].arrival = arrival
        if servable(w, child):
            _heap.push(w.child_key, w.child_row, run.n_child, arrival + run.ingest, child)
            run.n_child += 1
            run.next_queue = min(run.next_open, w.child_key[0])
        elif arrival < run.horizon:
            w.fate[child].state = REJECTED
        else:
            w.fate[child].state = ABSENT
        child = w.sibling[child]
