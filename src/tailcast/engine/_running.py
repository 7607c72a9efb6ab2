"""Phase 1 of a batch: tokens and blocks for running requests, preemption when blocks run out."""

from tailcast.engine import _heap
from tailcast.engine._compile import compiled, inlined, wide
from tailcast.engine._layout import DECODE, FREE, NONE, PREFILL
from tailcast.engine._pool import blocks, old_garbage, take
from tailcast.engine._queue import requeue
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
from tailcast.engine._streams import fill, release, settle


@inlined
def add_chunk(w: int, start: int, tokens: int) -> None:
    """Count a prefill chunk of `tokens` after `start` computed ones into the batch."""
    run = run_of(w)
    run.tokens += tokens
    run.pairs += tokens * (start + 0.5 * tokens)
    run.chunks += 1


@compiled
def unlink(w: int, slot: int) -> None:
    """Take a slot out of the running list."""
    run = run_of(w)
    sl = slot_at(run.slots, slot)
    if sl.prev == NONE:
        run.head = sl.next
    else:
        slot_at(run.slots, sl.prev).next = sl.next
    if sl.next == NONE:
        run.tail = sl.prev
    else:
        slot_at(run.slots, sl.next).prev = sl.prev
    run.n_active -= 1


@compiled
def free_slot(w: int, slot: int) -> None:
    """Make a slot available again."""
    run = run_of(w)
    slot_at(run.slots, slot).state = FREE
    place_at(run.places, run.n_spare).spare = slot
    run.n_spare += 1


@compiled
def leave_batch(w: int, slot: int) -> None:
    """Stop a running request that has not finished: it leaves every list and frees its blocks."""
    run = run_of(w)
    sl = slot_at(run.slots, slot)
    if sl.state == DECODE:
        context = run.step + sl.offset
        tokens = context + sl.granted
        run.n_decode -= 1
        run.context -= context
        whole_at(run.phases, sl.phase).value -= 1
        _heap.drop_slot(w, slot)
        if sl.last >= 0.0:
            run.n_skipped -= 1
    else:
        tokens = sl.progress + sl.granted
        kept = 0
        for i in range(run.n_pre):
            if place_at(run.places, i).prefill != slot:
                place_at(run.places, kept).prefill = place_at(run.places, i).prefill
                kept += 1
        run.n_pre = kept
    release(w, slot, wide(tokens))
    unlink(w, slot)
    free_slot(w, slot)


@compiled
def end_span(w: int, slot: int) -> None:
    """Close the stretch of step runs whose gaps are the request's own."""
    run = run_of(w)
    sl = slot_at(run.slots, slot)
    if run.n_run > sl.gap_from:
        span = loose_at(run.looses, run.n_loose)
        span.row = sl.row
        span.gap = -1.0
        span.gap_from = sl.gap_from
        span.gap_to = run.n_run
        run.n_loose += 1


@compiled
def _preempt(w: int, slot: int) -> None:
    run = run_of(w)
    sl = slot_at(run.slots, slot)
    row = sl.row
    fa = fate_at(run.fates, row)
    if sl.state == DECODE:
        fa.generated = item_at(run.items, row).output - ((sl.key >> 32) - run.step)
        if sl.last >= 0.0:
            fa.last = sl.last
        else:
            fa.last = run.now
            end_span(w, slot)
    fa.preempted += 1
    run.preemptions += 1
    run.preempted = 1
    leave_batch(w, slot)
    requeue(w, row)


@compiled
def _victim(w: int) -> int:
    """Who is preempted: the last of the running list, or the least urgent."""
    run = run_of(w)
    worst = run.tail
    if run.priority:
        slot = slot_at(run.slots, worst).prev
        while slot != NONE:
            a = slot_at(run.slots, slot).row
            b = slot_at(run.slots, worst).row
            if whole_at(run.priorities, a).value != whole_at(run.priorities, b).value:
                later = whole_at(run.priorities, a).value > whole_at(run.priorities, b).value
            elif fate_at(run.fates, a).arrival != fate_at(run.fates, b).arrival:
                later = fate_at(run.fates, a).arrival > fate_at(run.fates, b).arrival
            else:
                later = a > b
            if later:
                worst = slot
            slot = slot_at(run.slots, slot).prev
    return int(worst)


@inlined
def _wanted(w: int, slot: int, budget: int) -> int:
    """Tokens that a running prefill computes if it may have `budget`."""
    run = run_of(w)
    sl = slot_at(run.slots, slot)
    tokens = sl.target - sl.progress
    if run.threshold > 0:
        tokens = min(tokens, run.threshold)
    return int(min(tokens, budget))


@compiled
def everyone(w: int) -> int:
    """Phase 1 when all running requests get what they want; budget left, or -1 if they cannot."""
    run = run_of(w)
    budget = run.max_tokens - run.n_decode
    need = whole_at(run.phases, run.phase).value
    if budget < 0 or run.n_skipped > 0 or run.contested:
        return -1
    for i in range(run.n_pre):
        slot = place_at(run.places, i).prefill
        sl = slot_at(run.slots, slot)
        tokens = _wanted(w, slot, run.max_tokens + run.block + (1 << 31))
        if tokens > budget:
            if run.n_pre > 1 or run.tail != slot:
                return -1
            tokens = budget
        sl.granted = tokens
        budget -= tokens
        need += blocks(sl.progress + tokens, run.block) - blocks(sl.progress, run.block)
    if need > run.free or (run.n_pre > 0 and run.in_nodes > 0 and need > old_garbage(w)):
        return -1
    take(w, need)
    run.decodes = run.n_decode
    run.decode_context = run.context
    for i in range(run.n_pre):
        sl = slot_at(run.slots, place_at(run.places, i).prefill)
        if sl.granted > 0:
            add_chunk(w, sl.progress, sl.granted)
            if sl.sp != NONE or sl.sc != NONE:
                fill(w, place_at(run.places, i).prefill, sl.progress + sl.granted)
    return int(budget)


@compiled
def _skip(w: int, slot: int) -> None:
    """A decode gets no token in this step: everything about it comes one step later."""
    run = run_of(w)
    sl = slot_at(run.slots, slot)
    sl.offset -= 1
    sl.key += 1 << 32
    _heap.sink_slot(w, sl.heap, slot)
    whole_at(run.phases, sl.phase).value -= 1
    sl.phase = sl.phase + 1 if sl.phase + 1 < run.block else 0
    whole_at(run.phases, sl.phase).value += 1
    if sl.last < 0.0:
        end_span(w, slot)
        sl.last = run.now
        run.n_skipped += 1


@compiled
def _grant_in_order(w: int) -> int:
    """Phase 1 in full: budget and blocks run out, requests are preempted; budget left."""
    run = run_of(w)
    budget = run.max_tokens
    slot = run.head
    while slot != NONE and budget > 0:
        sl = slot_at(run.slots, slot)
        if sl.state == PREFILL:
            have = sl.progress
            tokens = _wanted(w, slot, budget)
        else:
            have = run.step + sl.offset
            tokens = 1
        need = blocks(have + tokens, run.block) - blocks(have, run.block)
        alive = True
        while need > run.free and alive:
            victim = _victim(w)
            alive = victim != slot
            budget += slot_at(run.slots, victim).granted
            _preempt(w, victim)
        if not alive:
            break
        take(w, need)
        sl.granted = tokens
        budget -= tokens
        if sl.state == PREFILL or (sl.session and sl.open_c):
            fill(w, slot, have + tokens)
        slot = sl.next
    return int(budget)


@compiled
def _settle_all(w: int) -> None:
    run = run_of(w)
    slot = run.head
    while slot != NONE:
        sl = slot_at(run.slots, slot)
        if sl.state == PREFILL:
            sl.granted = 0
        elif sl.session and sl.open_c:
            settle(w, sl.sc)
        slot = sl.next


@compiled
def is_contested(w: int, slot: int) -> bool:
    """Whether it matters in which order this request and others fill blocks."""
    run = run_of(w)
    sl = slot_at(run.slots, slot)
    if not sl.open_c or sl.sc == NONE or item_at(run.items, sl.row).content == NONE:
        return False
    st = stream_at(run.streams, sl.sc)
    return bool(st.n_open > 1 or (sl.state == DECODE and sl.ext_c < st.cached))


@compiled
def in_order(w: int) -> int:
    """Phase 1, one request after the other; budget left."""
    run = run_of(w)
    _settle_all(w)
    budget = _grant_in_order(w)
    run.decodes = 0
    run.decode_context = 0
    run.contested = 0
    slot = run.head
    while slot != NONE:
        sl = slot_at(run.slots, slot)
        if sl.granted > 0:
            if sl.state == PREFILL:
                add_chunk(w, sl.progress, sl.granted)
            else:
                run.decodes += 1
                run.decode_context += run.step + sl.offset
        if is_contested(w, slot):
            run.contested = 1
        slot = sl.next
    run.walked = 1
    granted = run.decodes + run.chunks > 0
    slot = run.head
    while slot != NONE:
        sl = slot_at(run.slots, slot)
        if sl.state == DECODE:
            if sl.granted == 0 and granted:
                _skip(w, slot)
            elif sl.last < 0.0:
                sl.granted = 0
        slot = sl.next
    return budget
