"""Free KV blocks in LRU order: ranges of cached blocks, and garbage.

The list goes from old to young. Garbage that is younger than every range is only counted
(``free - in_nodes``), so that unique prompts never touch the list.
"""

from tailcast.engine._compile import compiled, inlined
from tailcast.engine._layout import NONE
from tailcast.engine._state import node_at, run_of, stream_at


@inlined
def blocks(tokens: int, block: int) -> int:
    """KV blocks that hold `tokens`."""
    return (tokens + block - 1) // block


@compiled
def _forget(w: int, node: int) -> None:
    """Take a node out of its stream and give it back to the store of nodes."""
    run = run_of(w)
    e = node_at(run.nodes, node)
    if e.stream != NONE:
        if e.down != NONE:
            node_at(run.nodes, e.down).up = e.up
        else:
            stream_at(run.streams, e.stream).low = e.up
        if e.up != NONE:
            node_at(run.nodes, e.up).down = e.down
    e.younger = run.node_free
    run.node_free = node


@compiled
def _drop_node(w: int, node: int) -> None:
    """Forget the oldest node, which is empty."""
    run = run_of(w)
    e = node_at(run.nodes, node)
    run.oldest = e.younger
    if e.younger == NONE:
        run.youngest = NONE
    else:
        node_at(run.nodes, e.younger).older = NONE
    _forget(w, node)


@compiled
def unlink_node(w: int, node: int) -> None:
    """Take a node out of the LRU list and out of its stream."""
    run = run_of(w)
    e = node_at(run.nodes, node)
    if e.older == NONE:
        run.oldest = e.younger
    else:
        node_at(run.nodes, e.older).younger = e.younger
    if e.younger == NONE:
        run.youngest = e.older
    else:
        node_at(run.nodes, e.younger).older = e.older
    _forget(w, node)


@compiled
def _append(w: int, stream: int, lo: int, hi: int) -> int:
    """Add a node at the young end."""
    run = run_of(w)
    node = run.node_free
    if node == NONE:
        node = run.node_top
        run.node_top += 1
    else:
        run.node_free = node_at(run.nodes, node).younger
    e = node_at(run.nodes, node)
    e.stream = stream
    e.lo = lo
    e.hi = hi
    e.up = NONE
    e.down = NONE
    e.older = run.youngest
    e.younger = NONE
    if run.youngest == NONE:
        run.oldest = node
    else:
        node_at(run.nodes, run.youngest).younger = node
    run.youngest = node
    run.in_nodes += hi - lo
    return int(node)


@compiled
def _evict(w: int, n: int) -> None:
    """Take blocks from the old end while there are nodes."""
    run = run_of(w)
    while n > 0 and run.oldest != NONE:
        node = run.oldest
        e = node_at(run.nodes, node)
        m = min(n, e.hi - e.lo)
        e.hi -= m
        if e.stream != NONE:
            stream_at(run.streams, e.stream).cached -= m
        run.in_nodes -= m
        n -= m
        if e.hi == e.lo:
            _drop_node(w, node)


@inlined
def take(w: int, n: int) -> None:
    """Take `n` free blocks, oldest first."""
    run = run_of(w)
    run.free -= n
    if run.in_nodes > 0 and n > 0:
        _evict(w, n)


@compiled
def old_garbage(w: int) -> int:
    """Free blocks that can be taken without evicting a cached one (a lower bound)."""
    run = run_of(w)
    if run.oldest == NONE:
        return int(run.free)
    e = node_at(run.nodes, run.oldest)
    return int(e.hi - e.lo) if e.stream == NONE else 0


@compiled
def push_range(w: int, stream: int, lo: int, hi: int) -> None:
    """Free the blocks lo..hi-1 of a stream: they stay cached until they are taken."""
    run = run_of(w)
    if hi <= lo:
        return
    if run.free > run.in_nodes:
        _append(w, NONE, 0, run.free - run.in_nodes)
    node = _append(w, stream, lo, hi)
    run.free += hi - lo
    st = stream_at(run.streams, stream)
    node_at(run.nodes, node).up = st.low
    if st.low != NONE:
        node_at(run.nodes, st.low).down = node
    st.low = node
