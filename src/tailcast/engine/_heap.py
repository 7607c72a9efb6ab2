"""Two binary heaps: rows by time, and running requests by the step of their last token."""

from tailcast.engine._compile import compiled, inlined
from tailcast.engine._layout import NONE
from tailcast.engine._state import place_at, run_of, slot_at, timed_at


@compiled
def push(heap: int, n: int, key: float, row: int) -> None:
    """Add a row to the heap of `n` at an address; equal keys come out by row."""
    i = n
    while i > 0:
        parent = (i - 1) >> 1
        above = timed_at(heap, parent)
        if above.key < key or (above.key == key and above.row < row):
            break
        place = timed_at(heap, i)
        place.key = above.key
        place.row = above.row
        i = parent
    place = timed_at(heap, i)
    place.key = key
    place.row = row


@inlined
def _first(heap: int, i: int, key: float, row: int) -> bool:
    """Whether entry `i` comes before the given one."""
    entry = timed_at(heap, i)
    return bool(entry.key < key or (entry.key == key and entry.row < row))


@compiled
def pop(heap: int, n: int) -> None:
    """Remove the first row of the heap of `n` at an address."""
    moved = timed_at(heap, n - 1)
    i = 0
    while True:
        child = 2 * i + 1
        if child >= n - 1:
            break
        other = timed_at(heap, child)
        if child + 2 < n and _first(heap, child + 1, other.key, other.row):
            child += 1
            other = timed_at(heap, child)
        if not _first(heap, child, moved.key, moved.row):
            break
        place = timed_at(heap, i)
        place.key = other.key
        place.row = other.row
        i = child
    place = timed_at(heap, i)
    place.key = moved.key
    place.row = moved.row


@inlined
def _put(w: int, i: int, slot: int, key: int) -> None:
    run = run_of(w)
    place = place_at(run.places, i)
    place.heap = slot
    place.key = key
    slot_at(run.slots, slot).heap = i


@compiled
def raise_slot(w: int, i: int, slot: int) -> None:
    """Put a slot at position `i` of the finish heap or above."""
    run = run_of(w)
    key = slot_at(run.slots, slot).key
    while i > 0:
        parent = (i - 1) >> 1
        above = place_at(run.places, parent)
        if above.key < key:
            break
        _put(w, i, above.heap, above.key)
        i = parent
    _put(w, i, slot, key)


@compiled
def sink_slot(w: int, i: int, slot: int) -> None:
    """Put a slot at position `i` of the finish heap or below."""
    run = run_of(w)
    n = run.n_heap
    key = slot_at(run.slots, slot).key
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        below = place_at(run.places, child)
        if child + 1 < n and place_at(run.places, child + 1).key < below.key:
            child += 1
            below = place_at(run.places, child)
        if key < below.key:
            break
        _put(w, i, below.heap, below.key)
        i = child
    _put(w, i, slot, key)


@compiled
def push_slot(w: int, slot: int) -> None:
    """Add a slot to the finish heap."""
    run = run_of(w)
    run.n_heap += 1
    raise_slot(w, run.n_heap - 1, slot)


@compiled
def drop_slot(w: int, slot: int) -> None:
    """Remove a slot from the finish heap, wherever it stands."""
    run = run_of(w)
    i = slot_at(run.slots, slot).heap
    slot_at(run.slots, slot).heap = NONE
    run.n_heap -= 1
    if i < run.n_heap:
        moved = place_at(run.places, run.n_heap).heap
        parent = (i - 1) >> 1
        above = place_at(run.places, max(parent, 0))
        if i > 0 and slot_at(run.slots, moved).key < above.key:
            raise_slot(w, i, moved)
        else:
            sink_slot(w, i, moved)
