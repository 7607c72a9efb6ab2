"""The event loop: queueing, steps and time-outs in BLIS's order, in whole microseconds.

At one time, queueing comes before a step and a step before time-outs. A step's completions are
processed at its start with the times of its end, as in BLIS: a replica that empties at the start of
a step is idle from then on, and a request queued during that step starts at once.
"""

import numpy as np
from numpy.typing import NDArray

from tailcast.engine.blis.batch import (
    allocate_token,
    enqueue,
    form_batch,
    leave_running,
    release_slot,
)
from tailcast.engine.blis.columns import Count, Entry, Fact, KvCount, Live, Rule, Run, Status
from tailcast.engine.blis.compiled import compiled, compiled_part
from tailcast.engine.blis.replica import Replica, StepLog
from tailcast.engine.blis.step_time import MAX_INT64, StepModel, step_time_us

STALLED_PREEMPTIONS = 100_000
"""Preemptions without any request ending, after which a run is given up as endless."""

_NEVER = MAX_INT64


@compiled
def run_events(
    r: Replica,
    log: StepLog,
    batch: NDArray[np.int64],
    model: StepModel,
    timeouts: NDArray[np.int64],
    horizon_us: int,
) -> bool:
    """Run until nothing is left to do, the next event lies beyond the horizon, or the log is full.

    Parameters
    ----------
    r : Replica
        Fresh replica, or the one that a full log interrupted; changed in place.
    log : StepLog
        `Count.STEPS` and `Count.RUNS` say how much of it is real.
    batch : ndarray of int64, shape (n_slot, 4)
        Scratch; columns by `Entry`.
    model : StepModel
        Times the steps.
    timeouts : ndarray of int64, shape (n_timeout,)
        Rows with a deadline up to the horizon, by deadline and then row.
    horizon_us : int
        No event later than this is executed.

    Returns
    -------
    bool
        False if the log needs more room.
    """
    counts = r.counts
    while counts[Count.PREEMPTIONS_SINCE_PROGRESS] < STALLED_PREEMPTIONS:
        queue_us = _NEVER
        if counts[Count.NEXT_ROW] < len(r.facts):
            queue_us = r.facts[counts[Count.NEXT_ROW], Fact.QUEUE_US]
        leave_us = _NEVER
        if counts[Count.NEXT_TIMEOUT] < len(timeouts):
            leave_us = r.facts[timeouts[counts[Count.NEXT_TIMEOUT]], Fact.DEADLINE_US]
        now = min(queue_us, counts[Count.STEP_US], leave_us)
        if now == _NEVER or now > horizon_us:
            break
        if queue_us == now:
            _arrive(r, counts[Count.NEXT_ROW], now)
            counts[Count.NEXT_ROW] += 1
        elif counts[Count.STEP_US] == now:
            steps_left = len(log.duration_us) - counts[Count.STEPS]
            if steps_left == 0 or len(log.runs) - counts[Count.RUNS] < len(batch):
                return False
            counts[Count.STEP_US] = _step(r, log, batch, model, now, horizon_us)
        else:
            _time_out(r, timeouts[counts[Count.NEXT_TIMEOUT]], now)
            counts[Count.NEXT_TIMEOUT] += 1
        if counts[Count.STEP_US] == _NEVER and counts[Count.WAITING] > 0:
            counts[Count.STEP_US] = now
    return True


@compiled_part
def _tick(r: Replica, now: int) -> None:
    r.counts[Count.CLOCK] = max(r.counts[Count.CLOCK], now)


@compiled_part
def _is_servable(r: Replica, row: int) -> bool:
    prompt = r.facts[row, Fact.INPUT_TOKENS]
    limit = r.rules[Rule.MAX_MODEL_LEN]
    budget = r.facts[row, Fact.BUDGET]
    if budget == 0 and prompt < limit:
        budget = limit - prompt
    if budget < 0 or (limit > 0 and (prompt >= limit or prompt + budget > limit)):
        return False
    size = r.kv.counts[KvCount.BLOCK_SIZE]
    return bool((prompt + size - 1) // size <= r.kv.counts[KvCount.BLOCKS])


@compiled_part
def _arrive(r: Replica, row: int, now: int) -> None:
    """BLIS's guards in BLIS's order, then the back of the queue."""
    _tick(r, now)
    if not _is_servable(r, row):
        r.live[row, Live.STATUS] = Status.DROPPED
        r.counts[Count.DROPPED] += 1
        return
    r.counts[Count.INPUT_TOKENS] += r.facts[row, Fact.INPUT_TOKENS]
    if 0 < r.facts[row, Fact.DEADLINE_US] <= now:
        r.live[row, Live.STATUS] = Status.TIMED_OUT
        r.counts[Count.TIMED_OUT] += 1
        return
    r.counts[Count.BACK] += 1
    enqueue(r, row, r.counts[Count.BACK])


@compiled_part
def _time_out(r: Replica, row: int, now: int) -> None:
    """Remove a request whose client left; ended requests ignore it, the clock does too."""
    status = r.live[row, Live.STATUS]
    if status == Status.RUNNING:
        position = 0
        while r.running[position] != row:
            position += 1
        leave_running(r, position)
    elif status == Status.QUEUED:
        r.counts[Count.WAITING] -= 1  # its queue entry is dropped when it reaches the top
    else:
        return
    _tick(r, now)
    r.live[row, Live.STATUS] = Status.TIMED_OUT
    r.counts[Count.TIMED_OUT] += 1
    r.counts[Count.PREEMPTIONS_SINCE_PROGRESS] = 0


@compiled_part
def _step(
    r: Replica,
    log: StepLog,
    batch: NDArray[np.int64],
    model: StepModel,
    now: int,
    horizon_us: int,
) -> int:
    """Execute one step; returns when the next one starts."""
    _tick(r, now)
    if r.counts[Count.RUNNING] == 0 and r.counts[Count.WAITING] == 0:
        return _NEVER
    form_batch(r, log, now)
    duration = step_time_us(model, batch, _gather(r, batch))
    end = now + duration if duration < _NEVER - now else _NEVER
    log.duration_us[r.counts[Count.STEPS]] = duration
    for position in range(r.counts[Count.RUNNING]):
        _advance(r, log, r.running[position], duration, end)
    r.counts[Count.STEPS] += 1
    used = r.kv.counts[KvCount.BLOCKS] - r.kv.counts[KvCount.FREE]
    r.counts[Count.PEAK_BLOCKS] = max(r.counts[Count.PEAK_BLOCKS], used)
    if _complete(r, end) and end <= horizon_us:
        _tick(r, end)
    if r.counts[Count.RUNNING] > 0 or r.counts[Count.WAITING] > 0:
        return end
    return _NEVER


@compiled_part
def _gather(r: Replica, batch: NDArray[np.int64]) -> int:
    """Copy the requests that compute something into the step's batch."""
    n = 0
    for position in range(r.counts[Count.RUNNING]):
        row = r.running[position]
        if r.live[row, Live.NEW_TOKENS] > 0:
            batch[n, Entry.INPUT_TOKENS] = r.facts[row, Fact.INPUT_TOKENS]
            batch[n, Entry.OUTPUT_TOKENS] = r.facts[row, Fact.OUTPUT_TOKENS]
            batch[n, Entry.PROGRESS] = r.live[row, Live.PROGRESS]
            batch[n, Entry.NEW_TOKENS] = r.live[row, Live.NEW_TOKENS]
            n += 1
    return n


@compiled_part
def _advance(r: Replica, log: StepLog, row: int, duration: int, end: int) -> None:
    """Progress of one running request by one step."""
    prompt = r.facts[row, Fact.INPUT_TOKENS]
    stream = r.rules[Rule.STREAM_US]
    if r.live[row, Live.PROGRESS] < prompt:
        r.counts[Count.PREFILL_TOKENS] += r.live[row, Live.NEW_TOKENS]
        r.live[row, Live.PROGRESS] = r.live[row, Live.COMPUTED]
    elif r.live[row, Live.NEW_TOKENS] > 0:
        r.live[row, Live.PROGRESS] += 1
        r.live[row, Live.ITL_SUM_US] += duration + stream
        r.live[row, Live.N_ITL] += 1
        _log_decode(r, log, row)
    if r.live[row, Live.PROGRESS] == prompt and r.live[row, Live.HAS_FIRST_TOKEN] == 0:
        r.live[row, Live.HAS_FIRST_TOKEN] = 1
        r.live[row, Live.TTFT_US] = end + stream - r.facts[row, Fact.ARRIVAL_US]


@compiled_part
def _log_decode(r: Replica, log: StepLog, row: int) -> None:
    """Lengthen the request's run of decode steps, or begin a new one after a pause."""
    step = r.counts[Count.STEPS]
    run = r.live[row, Live.RUN]
    if run < 0 or r.live[row, Live.LAST_STEP] != step - 1:
        previous = run
        run = r.counts[Count.RUNS]
        r.counts[Count.RUNS] += 1
        log.runs[run, Run.ROW] = row
        log.runs[run, Run.FIRST] = step
        log.runs[run, Run.LENGTH] = 0
        log.runs[run, Run.PREVIOUS] = previous
        r.live[row, Live.RUN] = run
    log.runs[run, Run.LENGTH] += 1
    r.live[row, Live.LAST_STEP] = step


@compiled_part
def _complete(r: Replica, end: int) -> bool:
    """End finished and length-capped requests in running order; whether there was any."""
    kept = 0
    limit = r.rules[Rule.MAX_MODEL_LEN]
    n = r.counts[Count.RUNNING]
    for position in range(n):
        row = r.running[position]
        progress = r.live[row, Live.PROGRESS]
        wanted = r.facts[row, Fact.OUTPUT_TOKENS]
        if progress >= r.facts[row, Fact.INPUT_TOKENS] + max(wanted, 1) - 1:
            # The last token's block is taken although nothing will read it; it may evict.
            if wanted > 0 and not allocate_token(r, row):
                r.counts[Count.ALLOCATION_FAILURES] += 1
            _finish(r, row, end)
        elif 0 < limit <= progress + 1:
            r.live[row, Live.LENGTH_CAPPED] = 1
            r.counts[Count.LENGTH_CAPPED] += 1
            _finish(r, row, end)
        else:
            r.running[kept] = row
            kept += 1
    r.counts[Count.RUNNING] = kept
    return bool(kept < n)


@compiled_part
def _finish(r: Replica, row: int, end: int) -> None:
    release_slot(r, row)
    wanted = r.facts[row, Fact.OUTPUT_TOKENS]
    overhead = r.rules[Rule.FINISH_US] if wanted > 0 else 0
    latency = r.live[row, Live.TTFT_US] + r.live[row, Live.ITL_SUM_US] + overhead
    r.live[row, Live.STATUS] = Status.COMPLETED
    r.live[row, Live.FINISHED_US] = end
    r.live[row, Live.E2E_US] = latency
    decoded = r.live[row, Live.PROGRESS] - r.facts[row, Fact.INPUT_TOKENS]
    r.counts[Count.OUTPUT_TOKENS] += decoded + 1 if decoded < wanted else decoded
    r.counts[Count.COMPLETED] += 1
    r.counts[Count.PREEMPTIONS_SINCE_PROGRESS] = 0
