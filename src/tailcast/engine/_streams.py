"""The prefix cache, by ranges of symbolic keys.

A stream is a sequence of block keys that several requests may share: the blocks of a shared prefix,
of a repeated prompt, of a session, or those of one request across its preemptions. Its cached
blocks are always base..cached-1. Those below `used` are held by running requests, the others stand
in the free pool as ranges, higher ones older. A block that a request computes although its stream
has it already is garbage, and so are its later blocks of that stream, so no hole can appear.
"""

from tailcast.engine._compile import compiled, inlined
from tailcast.engine._layout import DECODE, FREE, NONE, RUNNING
from tailcast.engine._pool import blocks, push_range, unlink_node
from tailcast.engine._state import fate_at, item_at, node_at, run_of, slot_at, stream_at


@compiled
def claim(w: int, stream: int, reach: int) -> None:
    """Hold the stream's blocks below `reach`: those that are free leave the pool."""
    run = run_of(w)
    st = stream_at(run.streams, stream)
    if reach > st.used:
        run.free -= reach - st.used
        run.in_nodes -= reach - st.used
        while st.low != NONE and node_at(run.nodes, st.low).lo < reach:
            e = node_at(run.nodes, st.low)
            if e.hi > reach:
                e.lo = reach
                break
            unlink_node(w, st.low)
        st.used = reach
        st.n_top = 1
    elif reach == st.used:
        st.n_top += 1
    st.users += 1


@compiled
def _highest(w: int, stream: int) -> None:
    """Find how far the holders of a stream reach."""
    run = run_of(w)
    st = stream_at(run.streams, stream)
    top = st.base
    n = 0
    for slot in range(run.n_slot):
        sl = slot_at(run.slots, slot)
        reach = -1
        if sl.state != FREE:
            if sl.sp == stream:
                reach = sl.ext_p
            elif sl.sc == stream:
                reach = sl.ext_c
        if reach > top:
            top = reach
            n = 1
        elif reach == top:
            n += 1
    st.used = top
    st.n_top = n


@compiled
def _detach(w: int, stream: int, reach: int) -> None:
    """One holder less; the slot must not name the stream any more."""
    run = run_of(w)
    st = stream_at(run.streams, stream)
    st.users -= 1
    if reach == st.used:
        st.n_top -= 1
        if st.n_top == 0:
            used = st.used
            st.used = st.base
            if st.users > 0:
                _highest(w, stream)
            push_range(w, stream, st.used, used)


@compiled
def close(w: int, slot: int) -> None:
    """The slot adds no more blocks to its content stream."""
    run = run_of(w)
    sl = slot_at(run.slots, slot)
    if sl.open_c:
        sl.open_c = 0
        if sl.sc != NONE:
            st = stream_at(run.streams, sl.sc)
            st.n_open -= 1
            st.open_sum -= slot


@inlined
def _extend(w: int, stream: int, reach: int) -> None:
    run = run_of(w)
    st = stream_at(run.streams, stream)
    st.cached = reach
    st.used = reach
    st.n_top = 1


@compiled
def fill(w: int, slot: int, tokens: int) -> None:
    """Cache the blocks that are full now that `tokens` of the request are granted."""
    run = run_of(w)
    sl = slot_at(run.slots, slot)
    full = tokens // run.block
    it = item_at(run.items, sl.row)
    if sl.open_p:
        reach = min(full, it.base)
        if reach > sl.ext_p:
            if stream_at(run.streams, sl.sp).cached == sl.ext_p:
                _extend(w, sl.sp, reach)
                sl.ext_p = reach
            else:
                sl.open_p = 0
    if sl.open_c:
        reach = min(full, it.keyed)
        if reach > sl.ext_c:
            if sl.sc == NONE:
                sl.ext_c = reach
            elif stream_at(run.streams, sl.sc).cached == sl.ext_c:
                _extend(w, sl.sc, reach)
                sl.ext_c = reach
            else:
                close(w, slot)
        if full >= it.keyed:
            close(w, slot)


@compiled
def settle(w: int, stream: int) -> None:
    """Bring a stream up to date with the decode that extends it, which is done lazily."""
    run = run_of(w)
    st = stream_at(run.streams, stream)
    if st.n_open == 1:
        sl = slot_at(run.slots, st.open_sum)
        if sl.state == DECODE:
            fill(w, st.open_sum, run.step + sl.offset + max(sl.granted, run.ahead))


@compiled
def _own_stream(w: int, slot: int) -> None:
    """Give a preempted request a stream for the blocks that nobody else can hit."""
    run = run_of(w)
    sl = slot_at(run.slots, slot)
    stream = run.n_stream
    run.n_stream += 1
    st = stream_at(run.streams, stream)
    st.open_sum = 0
    st.n_open = 0
    st.base = item_at(run.items, sl.row).base
    st.cached = sl.ext_c
    st.used = sl.ext_c
    st.n_top = 1
    st.users = 1
    st.low = NONE
    sl.sc = stream
    sl.open_c = 0
    fate_at(run.fates, sl.row).own = stream


@compiled
def release(w: int, slot: int, tokens: int) -> None:
    """Free all blocks of a request that has `tokens` in them: garbage first, prefix last.

    A request that still counts as running is being preempted; the own blocks of any other one
    cannot be hit any more.
    """
    run = run_of(w)
    sl = slot_at(run.slots, slot)
    held = blocks(tokens, run.block)
    final = fate_at(run.fates, sl.row).state != RUNNING
    if not run.caching or (final and sl.sp == NONE and sl.sc == NONE):
        run.free += held
        return
    it = item_at(run.items, sl.row)
    if sl.sc != NONE:
        settle(w, sl.sc)
    fill(w, slot, tokens)
    held -= sl.ext_p
    stream = sl.sc
    if final and it.content == NONE:
        stream = NONE
    elif stream == NONE and sl.ext_c > it.base:
        _own_stream(w, slot)
        stream = sl.sc
    if stream != NONE:
        held -= sl.ext_c - it.base
        close(w, slot)
    run.free += held
    prefix = sl.sp
    sl.sp = NONE
    sl.sc = NONE
    if stream != NONE:
        _detach(w, stream, sl.ext_c)
    if prefix != NONE:
        _detach(w, prefix, sl.ext_p)
