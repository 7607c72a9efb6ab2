"""The loop over steps."""

from tailcast.engine._admission import admissions
from tailcast.engine._compile import compiled, inlined
from tailcast.engine._ending import end_step, release_finished
from tailcast.engine._layout import DONE, GROW, N_LAW, N_RUN, NONE, OPEN, WORDS_OF_STREAM
from tailcast.engine._queue import expire, ingest, seek
from tailcast.engine._running import everyone, in_order
from tailcast.engine._state import fate_at, log_at, real_at, run_of, step_run_at, timer_of, whole_at
from tailcast.engine._stretch import elapsed_over, fixing_time, start_of, stretch, take_ahead


@compiled
def form(w: int) -> bool:
    """Form the batch of the step that starts now; whether there is any."""
    run = run_of(w)
    run.tokens = 0
    run.pairs = 0.0
    run.chunks = 0
    run.preempted = 0
    run.blocked = OPEN
    run.walked = 0
    run.ahead = 0
    budget = everyone(w)
    if budget < 0:
        budget = in_order(w)
    run.ahead = 1
    if not run.preempted:
        admissions(w, budget)
    run.ahead = 0
    run.min_free = min(run.min_free, run.free)
    return bool(run.decodes + run.chunks > 0)


@compiled
def _form_late(w: int) -> bool:
    """Form a batch after the one fixed in time was empty: release, look again, else idle."""
    run = run_of(w)
    release_finished(w)
    run.cutoff = run.now
    ingest(w)
    if run.timed:
        expire(w)
    while not form(w):
        if not run.preempted:
            run.now = run.next_queue
            run.busy_from = run.now
            run.cutoff = run.now
            run.start1 = run.now
            run.start2 = run.now
            return False
    return True


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
    elapsed = elapsed_over(w, k)
    _measure(w, k, elapsed)
    steps = step_run_at(run.step_runs, run.n_run)
    steps.first = run.duration
    steps.slope = run.slope
    steps.count = k
    if run.logged:
        _log(w)
    run.n_run += 1
    run.start2 = start_of(w, k - 2)
    run.start1 = start_of(w, k - 1)
    run.now += elapsed
    run.end = run.now
    run.step += k
    run.context += k * run.decodes
    run.phase += k
    if run.phase >= run.block:
        run.phase %= run.block


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


@compiled
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
            release_finished(w)
        _step_duration(w)
        run.fixed = run.cutoff
        k = stretch(w, pending)
        if k > 1:
            k = take_ahead(w, k)
            run.fixed = fixing_time(w, k - 1)
        _execute(w, k)
        end_step(w)
    if run.timed:
        _expire_last(w)
    return DONE


@compiled
def begin(w: int, first: int, draw: int) -> None:
    """Bring the memory of a run into its first state: the record at `first`, a draw of the law."""
    for i in range(N_RUN):
        whole_at(w, i).value = whole_at(first, i).value
    run = run_of(w)
    for i in range(N_LAW):  # they stand first in the record
        real_at(w, i).value = real_at(run.laws, N_LAW * draw + i).value
    run.table = run.tables + 8 * run.n_table * draw
    for i in range(run.n_shared * WORDS_OF_STREAM):
        whole_at(run.streams, i).value = whole_at(run.shared, i).value
    run.lagged = run.lag >= 0.5
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
    timer_of(run.wait_timer).n_ring = 0
    timer_of(run.wait_timer).n_heap = 0
    timer_of(run.run_timer).n_ring = 0
    timer_of(run.run_timer).n_heap = 0
    seek(w)
    run.now = run.next_queue
    run.busy_from = run.now
    run.cutoff = run.now
    run.start1 = run.now
    run.start2 = run.now
