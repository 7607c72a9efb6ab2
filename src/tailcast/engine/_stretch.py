"""How many steps a batch lasts, and what all of them take at once.

While the batch is the same set of decodes, step j of a stretch takes ``d + slope * j`` seconds, so
k steps take ``k d + slope k (k - 1) / 2``.
"""

from tailcast.engine._compile import compiled, inlined
from tailcast.engine._layout import NO_ROOM, NONE
from tailcast.engine._pool import take
from tailcast.engine._queue import first_waiting
from tailcast.engine._state import item_at, place_at, run_of, stream_at, whole_at
from tailcast.engine._timer import next_leave


@inlined
def elapsed_over(w: int, k: int) -> float:
    """Seconds that the next `k` steps take."""
    run = run_of(w)
    return float(k * run.duration + run.slope * (0.5 * k * (k - 1)))


@inlined
def start_of(w: int, j: int) -> float:
    """Start of step `j` of the stretch; -1 is the step before it."""
    run = run_of(w)
    if j > 0:
        return float(run.now + elapsed_over(w, j))
    return float(run.now if j == 0 else run.start1)


@inlined
def cutoff_of(lag: float, now: float, last: float, before: float) -> float:
    """When the batch of a step is fixed, from its start and those of the two steps before."""
    return now - lag * (now - last) if lag < 1.0 else last - (lag - 1.0) * (last - before)


@inlined
def fixing_time(w: int, j: int) -> float:
    """When the batch of step `j` of the stretch is fixed, for j >= 1."""
    return cutoff_of(run_of(w).lag, start_of(w, j), start_of(w, j - 1), start_of(w, j - 2))


@compiled
def _steps_until(w: int, time: float, limit: int, lagged: bool) -> int:
    """Least j in 1..limit whose start (or fixing time) is not before `time`, else the limit."""
    run = run_of(w)
    lo = 0
    hi = limit
    while hi - lo > 1:
        middle = (lo + hi) >> 1
        at = fixing_time(w, middle) if lagged else run.now + elapsed_over(w, middle)
        if at >= time:
            hi = middle
        else:
            lo = middle
    return hi


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
def stretch(w: int, pending: int) -> int:
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
        if fixing_time(w, 1) >= run.next_queue:
            return 1
        limit = _steps_until(w, run.next_queue, limit, True)
    if run.timed:
        leave = min(next_leave(w, run.wait_timer), next_leave(w, run.run_timer))
        limit = _steps_until(w, leave, limit, False)
    if run.now + elapsed_over(w, limit) >= run.horizon:
        limit = _steps_until(w, run.horizon, limit, False)
    return limit


@compiled
def take_ahead(w: int, k: int) -> int:
    """Take the blocks of the steps after the first, as many steps as there are blocks for."""
    run = run_of(w)
    need = _block_need(w, k - 1)
    if need > run.free:
        k = _steps_within_blocks(w, k)
        need = _block_need(w, k - 1)
    take(w, need)
    run.min_free = min(run.min_free, run.free)
    return k
