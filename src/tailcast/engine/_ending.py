"""What the end of a step brings: tokens, finished requests, clients that leave."""

from tailcast.engine import _heap
from tailcast.engine._compile import compiled, wide
from tailcast.engine._layout import COMPLETED, DECODE, FINISHED, NONE, TIMED_OUT
from tailcast.engine._queue import send_children
from tailcast.engine._running import free_slot, leave_batch, unlink
from tailcast.engine._state import (
    fate_at,
    item_at,
    loose_at,
    place_at,
    run_of,
    slot_at,
    stream_at,
    whole_at,
)
from tailcast.engine._streams import close, fill, release
from tailcast.engine._stretch import cutoff_of
from tailcast.engine._timer import leave_time, next_leave


@compiled
def _odd_gap(w: int, row: int, gap: float) -> None:
    run = run_of(w)
    odd = loose_at(run.looses, run.n_loose)
    odd.row = row
    odd.gap = gap
    run.n_loose += 1


@compiled
def _resume(w: int) -> None:
    """Decodes that were skipped before have got their token: one long gap each."""
    run = run_of(w)
    slot = run.head
    while slot != NONE:
        sl = slot_at(run.slots, slot)
        if sl.state == DECODE and sl.last >= 0.0 and sl.granted > 0:
            _odd_gap(w, sl.row, run.now - sl.last)
            sl.granted = 0
            sl.last = -1.0
            sl.gap_from = run.n_run
            run.n_skipped -= 1
        slot = sl.next


@compiled
def _start_decode(w: int, slot: int) -> None:
    """A prefill is complete and has yielded a token."""
    run = run_of(w)
    sl = slot_at(run.slots, slot)
    fa = fate_at(run.fates, sl.row)
    it = item_at(run.items, sl.row)
    if fa.generated == 0:
        fa.first = run.now
    else:
        _odd_gap(w, sl.row, run.now - fa.last)
    fa.generated += 1
    sl.state = DECODE
    sl.offset = sl.target - run.step
    sl.key = ((run.step + it.output - fa.generated) << 32) | sl.seq
    _heap.push_slot(w, slot)
    phase = run.phase - sl.target % run.block
    sl.phase = phase if phase >= 0 else phase + run.block
    whole_at(run.phases, sl.phase).value += 1
    run.n_decode += 1
    run.context += sl.target
    sl.gap_from = run.n_run
    if sl.sc != NONE and sl.open_c and it.content != NONE:
        if sl.session == 0:
            close(w, slot)
        elif (
            stream_at(run.streams, sl.sc).n_open > 1
            or sl.ext_c < stream_at(run.streams, sl.sc).cached
        ):
            run.contested = 1


@compiled
def _advance_prefills(w: int) -> None:
    run = run_of(w)
    kept = 0
    for i in range(run.n_pre):
        slot = place_at(run.places, i).prefill
        sl = slot_at(run.slots, slot)
        sl.progress += sl.granted
        sl.granted = 0
        if sl.progress == sl.target:
            _start_decode(w, slot)
        else:
            place_at(run.places, kept).prefill = slot
            kept += 1
    run.n_pre = kept


@compiled
def _finish(w: int, slot: int) -> None:
    """The last token of a request has come."""
    run = run_of(w)
    sl = slot_at(run.slots, slot)
    fa = fate_at(run.fates, sl.row)
    sl.progress = run.step + sl.offset
    if sl.session and sl.open_c:
        fill(w, slot, sl.progress)
        close(w, slot)
    run.n_heap -= 1
    if run.n_heap > 0:
        _heap.sink_slot(w, wide(0), place_at(run.places, run.n_heap).heap)
    unlink(w, slot)
    run.n_decode -= 1
    run.context -= sl.progress
    whole_at(run.phases, sl.phase).value -= 1
    sl.state = FINISHED
    fa.state = COMPLETED
    fa.last = run.now
    fa.generated = item_at(run.items, sl.row).output
    fa.gap_from = sl.gap_from
    fa.gap_to = run.n_run
    place_at(run.places, run.n_pending).pending = slot
    run.n_pending += 1
    if run.closed:
        send_children(w, sl.row)


@compiled
def release_finished(w: int) -> None:
    """Give back what finished requests hold."""
    run = run_of(w)
    for i in range(run.n_pending):
        slot = place_at(run.places, i).pending
        release(w, slot, wide(slot_at(run.slots, slot).progress))
        free_slot(w, slot)
    run.n_pending = 0


@compiled
def _abort(w: int) -> None:
    """Remove running requests whose client has left."""
    run = run_of(w)
    if next_leave(w, run.run_timer) > run.now:
        return
    slot = run.head
    while slot != NONE:
        after = slot_at(run.slots, slot).next
        row = slot_at(run.slots, slot).row
        if leave_time(w, row) <= run.now:
            fate_at(run.fates, row).state = TIMED_OUT
            leave_batch(w, slot)
        slot = after


@compiled
def end_step(w: int) -> None:
    """What the end of a step brings: tokens, finished requests, clients that leave."""
    run = run_of(w)
    if run.n_skipped > 0:
        _resume(w)
    if run.n_pre > 0:
        _advance_prefills(w)
    while run.n_heap > 0 and (place_at(run.places, 0).key >> 32) <= run.step:
        _finish(w, place_at(run.places, 0).heap)
    if not run.lagged:
        release_finished(w)
    if run.timed:
        _abort(w)
    cutoff = cutoff_of(run.lag, run.now, run.start1, run.start2)
    run.cutoff = max(cutoff, run.busy_from)
