"""Phase 2 of a batch: admissions from the head of the waiting queue."""

from tailcast.engine._compile import compiled, wide
from tailcast.engine._layout import FULL, NO_ROOM, NONE, PREFILL, RUNNING
from tailcast.engine._pool import blocks, take
from tailcast.engine._queue import drop_first, first_waiting
from tailcast.engine._running import add_chunk
from tailcast.engine._state import fate_at, item_at, place_at, run_of, slot_at, stream_at
from tailcast.engine._streams import claim, fill, settle
from tailcast.engine._timer import watch


@compiled
def _hit_blocks(w: int, row: int, target: int) -> int:
    """Leading blocks of a waiting request that are cached."""
    run = run_of(w)
    it = item_at(run.items, row)
    hit = 0
    if it.prefix != NONE:
        hit = min(stream_at(run.streams, it.prefix).cached, it.base)
    content = wide(it.content)
    if content == NONE:
        content = fate_at(run.fates, row).own
    if content != NONE and hit == it.base:
        settle(w, content)
        hit = max(hit, min(stream_at(run.streams, content).cached, it.keyed))
    return int(min(hit, (target - 1) // run.block))


@compiled
def _free_hits(w: int, row: int, hit: int) -> int:
    """How many of the hit blocks stand in the free pool."""
    run = run_of(w)
    it = item_at(run.items, row)
    free = 0
    if it.prefix != NONE:
        free += max(0, min(hit, it.base) - stream_at(run.streams, it.prefix).used)
    content = wide(it.content)
    if content == NONE:
        content = fate_at(run.fates, row).own
    if content != NONE:
        free += max(0, hit - stream_at(run.streams, content).used)
    return int(free)


@compiled
def _join_streams(w: int, slot: int, hit: int) -> None:
    """Hold the blocks that were hit."""
    run = run_of(w)
    sl = slot_at(run.slots, slot)
    it = item_at(run.items, sl.row)
    sl.sp = it.prefix
    sl.sc = it.content if it.content != NONE else fate_at(run.fates, sl.row).own
    sl.ext_p = 0
    sl.ext_c = it.base
    sl.open_c = 1
    sl.open_p = 0
    sl.session = 0
    if sl.sp != NONE:
        sl.open_p = 1
        sl.ext_p = min(hit, it.base)
        claim(w, sl.sp, sl.ext_p)
    if sl.sc != NONE:
        st = stream_at(run.streams, sl.sc)
        sl.ext_c = max(hit, it.base)
        claim(w, sl.sc, sl.ext_c)
        st.n_open += 1
        st.open_sum += slot
        if it.content != NONE:
            sl.session = it.keyed > it.input
            run.contested |= st.n_open > 1


@compiled
def _new_slot(w: int, row: int) -> int:
    """Append a request to the running list."""
    run = run_of(w)
    if run.n_spare > 0:
        run.n_spare -= 1
        slot = place_at(run.places, run.n_spare).spare
    else:
        slot = run.n_slot
        run.n_slot += 1
    sl = slot_at(run.slots, slot)
    sl.row = row
    sl.state = PREFILL
    sl.seq = run.seq
    run.seq += 1
    sl.last = -1.0
    sl.heap = NONE
    sl.sp = NONE
    sl.sc = NONE
    sl.open_p = 0
    sl.open_c = 0
    sl.session = 0
    sl.prev = run.tail
    sl.next = NONE
    if run.tail == NONE:
        run.head = slot
    else:
        slot_at(run.slots, run.tail).next = slot
    run.tail = slot
    run.n_active += 1
    place_at(run.places, run.n_pre).prefill = slot
    run.n_pre += 1
    return int(slot)


@compiled
def _admit(w: int, row: int, hit: int, tokens: int, need: int) -> None:
    run = run_of(w)
    fa = fate_at(run.fates, row)
    drop_first(w)
    slot = _new_slot(w, row)
    sl = slot_at(run.slots, slot)
    fa.state = RUNNING
    if fa.scheduled < 0.0:
        fa.scheduled = run.now
    if run.timed:
        watch(w, run.run_timer, row)
    sl.target = item_at(run.items, row).input + fa.generated
    sl.progress = hit * run.block
    sl.granted = tokens
    fa.cached += sl.progress
    run.cached_tokens += sl.progress
    if run.caching:
        _join_streams(w, slot, hit)
    take(w, need)
    if sl.sp != NONE or sl.sc != NONE:
        fill(w, slot, sl.progress + tokens)
    add_chunk(w, sl.progress, tokens)


@compiled
def admissions(w: int, budget: int) -> None:
    """Phase 2: admit from the head of the queue until something runs out."""
    run = run_of(w)
    while run.n_waiting > 0:
        if budget <= 0 or run.n_active + run.n_pending >= run.max_seqs:
            run.blocked = FULL
            return
        row = first_waiting(w)
        target = item_at(run.items, row).input + fate_at(run.fates, row).generated
        hit = _hit_blocks(w, row, target) if run.caching else 0
        start = hit * run.block
        tokens = target - start
        if tokens > budget and not run.chunked:
            run.blocked = NO_ROOM
            run.lost_hit = 0
            return
        if run.threshold > 0:
            tokens = min(tokens, run.threshold)
        tokens = min(tokens, budget)
        need = blocks(start + tokens, run.block) - hit
        if need + (_free_hits(w, row, hit) if hit > 0 else 0) > run.free:
            run.blocked = NO_ROOM
            run.lost_hit = hit
            return
        _admit(w, row, hit, tokens, need)
        budget -= tokens
