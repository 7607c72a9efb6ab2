"""Two binary heaps: rows by time, and running requests by the step of their last token."""

from typing import Any

from tailcast.engine._compile import compiled
from tailcast.engine._state import NONE, Work


@compiled
def push(keys: Any, rows: Any, n: int, key: float, row: int) -> None:
    """Add a row to a heap of `n`; equal keys come out by row."""
    i = n
    while i > 0:
        parent = (i - 1) >> 1
        if keys[parent] < key or (keys[parent] == key and rows[parent] < row):
            break
        keys[i] = keys[parent]
        rows[i] = rows[parent]
        i = parent
    keys[i] = key
    rows[i] = row


@compiled
def pop(keys: Any, rows: Any, n: int) -> None:
    """Remove the first row of a heap of `n`."""
    last = n - 1
    key = keys[last]
    row = rows[last]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= last:
            break
        right = child + 1
        if right < last and (
            keys[right] < keys[child] or (keys[right] == keys[child] and rows[right] < rows[child])
        ):
            child = right
        if key < keys[child] or (key == keys[child] and row < rows[child]):
            break
        keys[i] = keys[child]
        rows[i] = rows[child]
        i = child
    keys[i] = key
    rows[i] = row


@compiled
def raise_slot(w: Work, i: int, slot: int) -> None:
    """Put a slot at position `i` of the finish heap or above."""
    key = w.slot[slot].key
    while i > 0:
        parent = (i - 1) >> 1
        other = w.heap[parent]
        if w.slot[other].key < key:
            break
        w.heap[i] = other
        w.slot[other].heap = i
        i = parent
    w.heap[i] = slot
    w.slot[slot].heap = i


@compiled
def sink_slot(w: Work, i: int, slot: int) -> None:
    """Put a slot at position `i` of the finish heap or below."""
    n = w.run[0].n_heap
    key = w.slot[slot].key
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        other = w.heap[child]
        if child + 1 < n and w.slot[w.heap[child + 1]].key < w.slot[other].key:
            child += 1
            other = w.heap[child]
        if key < w.slot[other].key:
            break
        w.heap[i] = other
        w.slot[other].heap = i
        i = child
    w.heap[i] = slot
    w.slot[slot].heap = i


@compiled
def push_slot(w: Work, slot: int) -> None:
    """Add a slot to the finish heap."""
    run = w.run[0]
    run.n_heap += 1
    raise_slot(w, run.n_heap - 1, slot)


@compiled
def drop_slot(w: Work, slot: int) -> None:
    """Remove a slot from the finish heap, wherever it stands."""
    run = w.run[0]
    i = w.slot[slot].heap
    w.slot[slot].heap = NONE
    run.n_heap -= 1
    if i < run.n_heap:
        moved = w.heap[run.n_heap]
        parent = (i - 1) >> 1
        if i > 0 and w.slot[moved].key < w.slot[w.heap[parent]].key:
            raise_slot(w, i, moved)
        else:
            sink_slot(w, i, moved)
