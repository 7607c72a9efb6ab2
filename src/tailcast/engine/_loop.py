"""The loop over steps: clock, closed-form stretches of decode steps, and what ends at a step's end.

While the batch is the same set of decodes, step j of a stretch takes ``d + slope * j`` seconds, so
k steps take ``k d + slope k (k - 1) / 2`` and are done at once.
"""

import numpy as np

from tailcast.engine import _heap
from tailcast.engine._batch import form, free_slot, leave_batch, unlink
from tailcast.engine._compile import compiled, entry, inlined, wide
from tailcast.engine._pool import close, fill, release, take
from tailcast.engine._queue import (
    expire,
    first_waiting,
    ingest,
    next_leave,
    seek,
    send_children,
)
from tailcast.engine._state import (
    COMPLETED,
    DECODE,
    DONE,
    FINISHED,
    GROW,
    NO_ROOM,
    NONE,
    RUNNING,
    TIMED_OUT,
    fate_at,
    item_at,
    log_at,
    loose_at,
    place_at,
    real_at,
    run_of,
    slot_at,
    step_run_at,
    stream_at,
    timed_at,
    whole_at,
)


@inlined
def _elapsed(w: int, k: int) -> float:
    """Seconds that the next `k` steps take."""
    run = run_of(w)
    return float(k * run.duration + run.slope * (0.5 * k * (k - 1)))


@inlined
def _duration(w: int, j: int) -> float:
    """Duration of step `j` of the stretch; -1 is the step before it."""
    run = run_of(w)
    return float(run.duration + run.slope * j) if j >= 0 else float(run.d1)


@inlined
def _fixing(w: int, j: int) -> float:
    """When the batch of step `j` of the stretch is fixed, for j >= 1."""
    run = run_of(w)
    cutoff = run.now + _elapsed(w, j) - run.lag1 * _duration(w, j - 1)
    if run.lag2 > 0.0:
        cutoff -= run.lag2 * _duration(w, j - 2)
    return float(cutoff)


@compiled
def _steps_until(w: int, time: float, limit: int, lagged: bool) -> int:
    """Least j in 1..limit whose start (or fixing time) is not before `time`, else the limit."""
    run = run_of(w)
    lo = 0
    hi = limit
    while hi - lo > 1:
        middle = (lo + hi) >> 1
        at = _fixing(w, middle) if lagged else run.now + _elapsed(w, middle)
        if at >= time:
            hi = middle
        else:
            lo = middle
    return hi


@compiled
def _next_run_leave(w: int) -> float:
    """When the first of the running clients leaves."""
    run = run_of(w)
    while run.n_run_timer > 0:
        fa = fate_at(run.fates, timed_at(run.leave_heap, 0).row)
        if fa.state == RUNNING:
            return float(timed_at(run.leave_heap, 0).key)
        fa.timed &= ~2
        _heap.pop(run.leave_heap, run.n_run_timer)
        run.n_run_timer -= 1
    return np.inf


@compiled
def _block_need(w: int, k: int) -> int:
    """Blocks that the `k` steps after the present one take."""
    run = run_of(w)
    need = 0
    if k >= run.block:
        need = (k // run.block) * run.n_decode
        k = k % run.block
    phase = run.phase
    for _ in range(k):
        phase = phase + 1 if phase + 1 < run.block else 0
        need += whole_at(run.phases, phase).value
    return int(need)


@compiled
def _steps_within_blocks(w: int, limit: int) -> int:
    """Steps, at most `limit`, that the free blocks allow."""
    run = run_of(w)
    cycles = run.free // run.n_decode
    k = 1 + cycles * run.block
    left = run.free - cycles * run.n_decode
    phase = run.phase
    while k < limit:
        phase = phase + 1 if phase + 1 < run.block else 0
        left -= whole_at(run.phases, phase).value
        if left < 0:
            break
        k += 1
    return int(min(k, limit))


@inlined
def _head_may_move(w: int) -> bool:
    """Whether a head that finds no room may get in before anything is released.

    It may hit more blocks as a session goes on, or fewer as they are evicted (and then claim fewer
    free ones, if it computes its prompt in chunks).
    """
    run = run_of(w)
    if run.blocked != NO_ROOM:
        return False
    if run.lost_hit > 0:
        return True
    content = item_at(run.items, first_waiting(w)).content
    return bool(content != NONE and stream_at(run.streams, content).n_open > 0)


@compiled
def _stretch(w: int, pending: int) -> int:
    """How many steps the batch just formed lasts."""
    run = run_of(w)
    if run.chunks > 0 or run.n_pre > 0 or run.walked or run.preempted:
        return 1
    limit = int((place_at(run.places, 0).key >> 32) - run.step)
    if limit <= 1:
        return 1
    nobody_waits = run.n_waiting == 0
    if not nobody_waits and (pending > 0 or _head_may_move(w)):
        return 1
    if nobody_waits or run.priority:
        if _fixing(w, 1) >= run.next_queue:
            return 1
        limit = _steps_until(w, run.next_queue, limit, True)
    if run.timed:
        leave = min(next_leave(w), _next_run_leave(w))
        limit = _steps_until(w, leave, limit, False)
    if run.now + _elapsed(w, limit) >= run.horizon:
        limit = _steps_until(w, run.horizon, limit, False)
    return limit


@compiled
def _take_ahead(w: int, k: int) -> int:
    """Take the blocks of the steps after the first, as many steps as there are blocks for."""
    run = run_of(w)
    need = _block_need(w, k - 1)
    if need > run.free:
        k = _steps_within_blocks(w, k)
        need = _block_need(w, k - 1)
    take(w, need)
    run.min_free = min(run.min_free, run.free)
    return k


@compiled
def _measure(w: int, k: int, elapsed: float) -> None:
    """Totals and ranges over steps."""
    run = run_of(w)
    batch = run.decodes + run.chunks
    new = run.decodes + run.tokens
    run.busy += elapsed
    run.batch_time += elapsed * batch
    run.kv_time += elapsed * (run.kv_blocks - run.free)
    run.prefill_tokens += run.tokens
    run.max_batch = max(run.max_batch, batch)
    run.least_tokens = min(run.least_tokens, run.tokens)
    run.most_tokens = max(run.most_tokens, run.tokens)
    run.least_pairs = min(run.least_pairs, run.pairs)
    run.most_pairs = max(run.most_pairs, run.pairs)
    run.least_decodes = min(run.least_decodes, run.decodes)
    run.most_decodes = max(run.most_decodes, run.decodes)
    run.least_context = min(run.least_context, run.decode_context)
    run.most_context = max(run.most_context, run.decode_context + (k - 1) * run.decodes)
    run.least_new = min(run.least_new, new)
    run.most_new = max(run.most_new, new)


@compiled
def _log(w: int) -> None:
    run = run_of(w)
    entry_ = log_at(run.logs, run.n_run)
    entry_.start = run.now
    entry_.pairs = run.pairs
    entry_.tokens = run.tokens
    entry_.chunks = run.chunks
    entry_.decodes = run.decodes
    entry_.context = run.decode_context


@compiled
def _execute(w: int, k: int) -> None:
    """Move the clock over `k` steps."""
    run = run_of(w)
    elapsed = _elapsed(w, k)
    _measure(w, k, elapsed)
    steps = step_run_at(run.step_runs, run.n_run)
    steps.first = run.duration
    steps.slope = run.slope
    steps.count = k
    if run.logged:
        _log(w)
    run.n_run += 1
    run.d2 = _duration(w, k - 2)
    run.d1 = run.duration + run.slope * (k - 1)
    run.now += elapsed
    run.end = run.now
    run.step += k
    run.context += k * run.decodes
    run.phase += k
    if run.phase >= run.block:
        run.phase %= run.block


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
def _release_finished(w: int) -> None:
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
    if _next_run_leave(w) > run.now:
        return
    slot = run.head
    while slot != NONE:
        after = slot_at(run.slots, slot).next
        row = slot_at(run.slots, slot).row
        fa = fate_at(run.fates, row)
        if fa.arrival + real_at(run.timeouts, row).value <= run.now:
            fa.state = TIMED_OUT
            leave_batch(w, slot)
        slot = after


@compiled
def _end_step(w: int) -> None:
    """What the end of a step brings: tokens, finished requests, clients that leave."""
    run = run_of(w)
    if run.n_skipped > 0:
        _resume(w)
    if run.n_pre > 0:
        _advance_prefills(w)
    while run.n_heap > 0 and (place_at(run.places, 0).key >> 32) <= run.step:
        _finish(w, place_at(run.places, 0).heap)
    if not run.lagged:
        _release_finished(w)
    if run.timed:
        _abort(w)
    run.cutoff = max(run.now - run.lag1 * run.d1 - run.lag2 * run.d2, run.busy_from)


@compiled
def _step_duration(w: int) -> None:
    run = run_of(w)
    new = min(run.tokens + run.decodes, run.n_table - 1)
    run.duration = (
        run.per_step
        + run.per_token * run.tokens
        + run.per_pair * run.pairs
        + run.per_chunk * run.chunks
        + run.per_decode * run.decodes
        + run.per_context * run.decode_context
        + real_at(run.table, new).value
    )
    run.slope = run.per_context * run.decodes


@compiled
def _form_late(w: int) -> bool:
    """Form a batch after the one fixed in time was empty: release, look again, else idle."""
    run = run_of(w)
    _release_finished(w)
    run.cutoff = run.now
    ingest(w)
    if run.timed:
        expire(w)
    while not form(w):
        if not run.preempted:
            run.now = run.next_queue
            run.busy_from = run.now
            run.cutoff = run.now
            run.d1 = 0.0
            run.d2 = 0.0
            return False
    return True


@inlined
def _is_tight(w: int) -> bool:
    """Whether the next step may not find room to record its gaps."""
    run = run_of(w)
    return bool(run.n_run >= run.run_room or run.n_loose >= run.loose_room)


@compiled
def _expire_last(w: int) -> None:
    """Remove clients that came and left during a last stretch in which nobody was admitted."""
    run = run_of(w)
    run.cutoff = run.fixed
    ingest(w)
    expire(w)


@entry
def advance(w: int) -> int:
    """Run until everything is served or the horizon; `GROW` asks for more room first."""
    run = run_of(w)
    while run.now < run.horizon:
        if _is_tight(w):
            return GROW
        if run.next_queue <= run.cutoff:
            ingest(w)
        if run.timed:
            expire(w)
        if (run.n_active + run.n_waiting == 0 or not form(w)) and not _form_late(w):
            continue
        pending = run.n_pending
        if pending > 0:
            _release_finished(w)
        _step_duration(w)
        run.fixed = run.cutoff
        k = _stretch(w, pending)
        if k > 1:
            k = _take_ahead(w, k)
            run.fixed = _fixing(w, k - 1)
        _execute(w, k)
        _end_step(w)
    if run.timed:
        _expire_last(w)
    return DONE


@entry
def begin(w: int) -> None:
    """Bring the memory of a run into its first state; scalars of the run are set already."""
    run = run_of(w)
    for row in range(run.n_request):
        fa = fate_at(run.fates, row)
        fa.arrival = -1.0
        fa.scheduled = -1.0
        fa.first = -1.0
        fa.last = -1.0
        fa.state = 0
        fa.generated = 0
        fa.cached = 0
        fa.preempted = 0
        fa.own = NONE
        fa.timed = 0
    for phase in range(run.block):
        whole_at(run.phases, phase).value = 0
    seek(w)
    run.now = run.next_queue
    run.busy_from = run.now
    run.cutoff = run.now
