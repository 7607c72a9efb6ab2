"""The event loop: queueing, steps and time-outs in BLIS's order, in whole microseconds.

At one time, queueing comes before a step and a step before time-outs. A step's completions are
processed at its start with the times of its end, as in BLIS: a replica that empties at the start of
a step is idle from then on, and a request queued during that step starts at once.
"""

import numpy as np
from numpy.typing import NDArray

from tailcast.engine.blis.batch import decode_key, form_batch, leave_running, release_slot
from tailcast.engine.blis.compiled import compiled
from tailcast.engine.blis.kv_blocks import allocate_decode, free_blocks
from tailcast.engine.blis.state import (
    Count,
    Replica,
    Status,
    StepLog,
    new_step_log,
    roomy_log,
)
from tailcast.engine.blis.step_time import MAX_INT64, StepBatch, StepModel, step_time_us
from tailcast.engine.blis.wait_queue import push

STALLED_PREEMPTIONS = 100_000
"""Preemptions without any request ending, after which a run is given up as endless."""

_NEVER = MAX_INT64


@compiled
def run_events(
    r: Replica, model: StepModel, timeouts: NDArray[np.int64], horizon_us: int
) -> StepLog:
    """Run until nothing is left to do or the next event lies beyond the horizon.

    Parameters
    ----------
    r : Replica
        Fresh replica; changed in place.
    model : StepModel
        Times the steps.
    timeouts : ndarray of int64, shape (n_timeout,)
        Rows with a deadline up to the horizon, by deadline and then row.
    horizon_us : int
        No event later than this is executed.

    Returns
    -------
    StepLog
        Step durations and decode runs; `Count.STEPS` and `Count.SEGMENTS` say how many are real.
    """
    log = new_step_log()
    batch = _new_batch(len(r.running))
    next_row = 0
    next_timeout = 0
    step_us = _NEVER
    while r.counts[Count.PREEMPTIONS_SINCE_PROGRESS] < STALLED_PREEMPTIONS:
        queue_us = _NEVER
        if next_row < len(r.rows.queue_us):
            queue_us = r.rows.queue_us[next_row]
        leave_us = _NEVER
        if next_timeout < len(timeouts):
            leave_us = r.rows.deadline_us[timeouts[next_timeout]]
        now = min(queue_us, step_us, leave_us)
        if now == _NEVER or now > horizon_us:
            break
        if queue_us == now:
            _enqueue(r, next_row, now)
            next_row += 1
            if step_us == _NEVER and r.counts[Count.WAITING] > 0:
                step_us = now
        elif step_us == now:
            steps, segments = r.counts[Count.STEPS], r.counts[Count.SEGMENTS]
            log = roomy_log(log, steps + 1, segments + len(r.running))
            step_us = _step(r, log, model, batch, now, horizon_us)
        else:
            left = _time_out(r, timeouts[next_timeout], now)
            next_timeout += 1
            idle = step_us == _NEVER and r.counts[Count.RUNNING] == 0
            if left and idle and r.counts[Count.WAITING] > 0:
                step_us = now
    return log


@compiled
def _new_batch(n: int) -> StepBatch:
    return StepBatch(
        np.zeros(n, dtype=np.int64),
        np.zeros(n, dtype=np.int64),
        np.zeros(n, dtype=np.int64),
        np.zeros(n, dtype=np.int64),
    )


@compiled
def _tick(r: Replica, now: int) -> None:
    r.counts[Count.CLOCK] = max(r.counts[Count.CLOCK], now)


@compiled
def _enqueue(r: Replica, row: int, now: int) -> None:
    """BLIS's guards in BLIS's order, then the back of the queue."""
    _tick(r, now)
    prompt = r.rows.input_tokens[row]
    limit = r.rules.max_model_len
    budget = r.rows.budget[row]
    if budget == 0 and 0 < limit and prompt < limit:
        budget = limit - prompt
    servable = budget >= 0
    if limit > 0 and (prompt >= limit or prompt + budget > limit):
        servable = False
    if (prompt + r.kv.block_size - 1) // r.kv.block_size > len(r.kv.key):
        servable = False
    if not servable:
        r.state.status[row] = Status.DROPPED
        r.counts[Count.DROPPED] += 1
        return
    r.counts[Count.INPUT_TOKENS] += prompt
    if 0 < r.rows.deadline_us[row] <= now:
        r.state.status[row] = Status.TIMED_OUT
        r.counts[Count.TIMED_OUT] += 1
        return
    r.state.status[row] = Status.QUEUED
    r.counts[Count.WAITING] += 1
    key = r.rows.place[row]
    if r.rules.first_come_first_served:
        r.counts[Count.BACK] += 1
        key = r.counts[Count.BACK]
    push(r.queue, key, row)


@compiled
def _time_out(r: Replica, row: int, now: int) -> bool:
    """Whether the deadline removed the request; ended requests ignore it, the clock does too."""
    status = r.state.status[row]
    if status == Status.RUNNING:
        position = 0
        while r.running[position] != row:
            position += 1
        leave_running(r, position)
    elif status == Status.QUEUED:
        r.counts[Count.WAITING] -= 1  # its queue entry is dropped when it reaches the top
    else:
        return False
    _tick(r, now)
    r.state.status[row] = Status.TIMED_OUT
    r.counts[Count.TIMED_OUT] += 1
    r.counts[Count.PREEMPTIONS_SINCE_PROGRESS] = 0
    return True


@compiled
def _step(
    r: Replica, log: StepLog, model: StepModel, batch: StepBatch, now: int, horizon_us: int
) -> int:
    """Execute one step; returns when the next one starts."""
    _tick(r, now)
    if r.counts[Count.RUNNING] == 0 and r.counts[Count.WAITING] == 0:
        return _NEVER
    form_batch(r, log, now)
    duration = step_time_us(model, batch, _gather(r, batch))
    end = now + duration if duration < _NEVER - now else _NEVER
    step = r.counts[Count.STEPS]
    log.duration_us[step] = duration
    r.counts[Count.STEPS] += 1
    for position in range(r.counts[Count.RUNNING]):
        _advance(r, log, r.running[position], step, duration, end)
    used = len(r.kv.key) - free_blocks(r.kv)
    r.counts[Count.PEAK_BLOCKS] = max(r.counts[Count.PEAK_BLOCKS], used)
    if _complete(r, end) and end <= horizon_us:
        _tick(r, end)
    if r.counts[Count.RUNNING] > 0 or r.counts[Count.WAITING] > 0:
        return end
    return _NEVER


@compiled
def _gather(r: Replica, batch: StepBatch) -> int:
    """Copy the requests that compute something into the step's batch."""
    n = 0
    for position in range(r.counts[Count.RUNNING]):
        row = r.running[position]
        if r.state.new_tokens[row] > 0:
            batch.input_tokens[n] = r.rows.input_tokens[row]
            batch.output_tokens[n] = r.rows.output_tokens[row]
            batch.progress[n] = r.state.progress[row]
            batch.new_tokens[n] = r.state.new_tokens[row]
            n += 1
    return n


@compiled
def _advance(r: Replica, log: StepLog, row: int, step: int, duration: int, end: int) -> None:
    """Progress of one running request by one step."""
    state = r.state
    prompt = r.rows.input_tokens[row]
    if state.progress[row] < prompt:
        r.counts[Count.PREFILL_TOKENS] += state.new_tokens[row]
        state.progress[row] = state.computed[row]
    elif state.new_tokens[row] > 0:
        state.progress[row] += 1
        state.itl_sum_us[row] += duration + r.rules.stream_us
        state.n_itl[row] += 1
        if state.segment[row] < 0 or state.last_step[row] != step - 1:
            segment = r.counts[Count.SEGMENTS]
            r.counts[Count.SEGMENTS] += 1
            log.row[segment] = row
            log.first[segment] = step
            log.length[segment] = 0
            log.previous[segment] = state.segment[row]
            state.segment[row] = segment
        log.length[state.segment[row]] += 1
        state.last_step[row] = step
    if state.progress[row] == prompt and not state.has_first_token[row]:
        state.has_first_token[row] = True
        state.ttft_us[row] = end + r.rules.stream_us - r.rows.arrival_us[row]


@compiled
def _complete(r: Replica, end: int) -> bool:
    """End finished and length-capped requests in running order; whether there was any."""
    kept = 0
    limit = r.rules.max_model_len
    n = r.counts[Count.RUNNING]
    for position in range(n):
        row = r.running[position]
        progress, wanted = r.state.progress[row], r.rows.output_tokens[row]
        prompt = r.rows.input_tokens[row]
        if progress >= prompt + max(wanted, 1) - 1:
            # The last token's block is taken although nothing will read it; it may evict.
            if wanted > 0 and not allocate_decode(r.kv, r.state.slot[row], decode_key(r, row)):
                r.counts[Count.ALLOCATION_FAILURES] += 1
        elif limit > 0 and progress >= limit - 1:
            r.state.length_capped[row] = True
            r.counts[Count.LENGTH_CAPPED] += 1
        else:
            r.running[kept] = row
            kept += 1
            continue
        _finish(r, row, end)
    r.counts[Count.RUNNING] = kept
    return kept < n


@compiled
def _finish(r: Replica, row: int, end: int) -> None:
    state = r.state
    release_slot(r, row)
    state.status[row] = Status.COMPLETED
    state.finished_us[row] = end
    wanted = r.rows.output_tokens[row]
    overhead = r.rules.finish_us if wanted > 0 else 0
    state.e2e_us[row] = state.ttft_us[row] + state.itl_sum_us[row] + overhead
    decoded = state.progress[row] - r.rows.input_tokens[row]
    r.counts[Count.OUTPUT_TOKENS] += decoded + 1 if decoded < wanted else decoded
    r.counts[Count.COMPLETED] += 1
    r.counts[Count.PREEMPTIONS_SINCE_PROGRESS] = 0
