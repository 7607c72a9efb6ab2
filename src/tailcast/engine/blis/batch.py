"""Batch formation: running requests first, with preemption, then admissions."""

from tailcast.engine.blis.compiled import compiled
from tailcast.engine.blis.kv_blocks import (
    NO_KEY,
    allocate_decode,
    allocate_prompt,
    cached_prompt_blocks,
    release,
)
from tailcast.engine.blis.state import Count, Replica, Status, StepLog
from tailcast.engine.blis.wait_queue import pop, push


@compiled
def form_batch(r: Replica, log: StepLog, now: int) -> None:
    """Grant new tokens for the step that starts at `now` (BLIS phases 1 and 2)."""
    for position in range(r.counts[Count.RUNNING]):
        r.state.new_tokens[r.running[position]] = 0
    before = r.counts[Count.PREEMPTIONS]
    budget = _serve_running(r, log)
    if r.counts[Count.PREEMPTIONS] == before:
        _admit(r, budget, now)
    r.counts[Count.PEAK_BATCH] = max(r.counts[Count.PEAK_BATCH], r.counts[Count.RUNNING])


@compiled
def leave_running(r: Replica, position: int) -> int:
    """Take a request out of the running list and give back its blocks and slot."""
    row = r.running[position]
    for i in range(position, r.counts[Count.RUNNING] - 1):
        r.running[i] = r.running[i + 1]
    r.counts[Count.RUNNING] -= 1
    release_slot(r, row)
    return int(row)


@compiled
def release_slot(r: Replica, row: int) -> None:
    """Give back blocks and slot of a request that stops running."""
    slot = r.state.slot[row]
    release(r.kv, slot)
    r.free_slots[r.counts[Count.FREE_SLOTS]] = slot
    r.counts[Count.FREE_SLOTS] += 1
    r.state.slot[row] = -1


@compiled
def decode_key(r: Replica, row: int) -> int:
    """Key of the block that the next generated token fills, if others may find it."""
    index = r.state.progress[row] // r.kv.block_size
    # A prompt admitted for free owns no prompt blocks: its block order is not the sequence's.
    if not r.rows.session_output[row] or r.kv.n_owned[r.state.slot[row]] != index + 1:
        return NO_KEY
    return int(r.keys.content_key[row] + index)


@compiled
def _prompt_grant(r: Replica, row: int, start: int, budget: int) -> int:
    tokens = r.rows.input_tokens[row] - start
    if r.rules.long_prefill > 0:
        tokens = min(tokens, r.rules.long_prefill)
    tokens = min(tokens, budget)
    if r.rules.max_model_len > 0:
        tokens = min(tokens, max(r.rules.max_model_len - 1 - start, 0))
    return int(tokens)


@compiled
def _serve_running(r: Replica, log: StepLog) -> int:
    """Phase 1; returns the budget left."""
    budget = r.rules.max_num_batched_tokens
    position = 0
    while position < r.counts[Count.RUNNING] and budget > 0:
        row = r.running[position]
        progress = r.state.progress[row]
        in_prompt = progress < r.rows.input_tokens[row]
        tokens = 0
        if in_prompt:
            tokens = _prompt_grant(r, row, progress, budget)
        elif r.rows.output_tokens[row] > 0:
            limit = r.rules.max_model_len
            tokens = 1 if limit == 0 or progress + 1 <= limit - 1 else 0
        if tokens > 0:
            while not _allocate(r, row, tokens, in_prompt):
                victim = _victim(r)
                evicted = r.running[victim]
                budget += r.state.new_tokens[evicted]
                _preempt(r, log, victim)
                if evicted == row:
                    return budget
                if victim < position:
                    position -= 1
            budget -= tokens
            r.state.new_tokens[row] = tokens
            r.state.computed[row] += tokens
        position += 1
    return budget


@compiled
def _allocate(r: Replica, row: int, tokens: int, in_prompt: bool) -> bool:
    slot = r.state.slot[row]
    if in_prompt:
        return allocate_prompt(r.kv, r.keys, slot, row, tokens, 0)
    return allocate_decode(r.kv, slot, decode_key(r, row))


@compiled
def _victim(r: Replica) -> int:
    """Position to preempt: the last one, or the least urgent and then latest to arrive."""
    last = int(r.counts[Count.RUNNING] - 1)
    if not r.rules.preempt_by_priority:
        return last
    best = last
    for position in range(last - 1, -1, -1):
        row, chosen = r.running[position], r.running[best]
        priority, worst = r.rows.priority[row], r.rows.priority[chosen]
        later = r.rows.arrival_us[row] > r.rows.arrival_us[chosen]
        if priority > worst or (priority == worst and later):
            best = position
    return best


@compiled
def _preempt(r: Replica, log: StepLog, position: int) -> None:
    """Send a running request back to the queue's front; it loses what it generated."""
    row = leave_running(r, position)
    state = r.state
    state.status[row] = Status.QUEUED
    state.new_tokens[row] = 0
    state.progress[row] = 0
    state.computed[row] = 0
    state.itl_sum_us[row] = 0
    state.n_itl[row] = 0
    state.has_first_token[row] = False
    state.preemptions[row] += 1
    segment = state.segment[row]
    while segment >= 0:
        log.length[segment] = 0
        segment = log.previous[segment]
    state.segment[row] = -1
    state.last_step[row] = -1
    r.counts[Count.PREEMPTIONS] += 1
    r.counts[Count.PREEMPTIONS_SINCE_PROGRESS] += 1
    r.counts[Count.WAITING] += 1
    key = r.rows.place[row]
    if r.rules.first_come_first_served:
        r.counts[Count.FRONT] -= 1
        key = r.counts[Count.FRONT]
    push(r.queue, key, row)


@compiled
def _admit(r: Replica, budget: int, now: int) -> None:
    """Phase 2: head of the queue first, stop at the first that does not fit."""
    while (
        r.counts[Count.WAITING] > 0
        and r.counts[Count.RUNNING] < r.rules.max_num_seqs
        and budget > 0
    ):
        row = r.queue.row[0]
        if r.state.status[row] != Status.QUEUED:
            pop(r.queue)
            continue
        hits = cached_prompt_blocks(r.kv, r.keys, row)
        start = hits * r.kv.block_size
        tokens = _prompt_grant(r, row, start, budget)
        slot = r.free_slots[r.counts[Count.FREE_SLOTS] - 1]
        if not allocate_prompt(r.kv, r.keys, slot, row, tokens, hits):
            return
        pop(r.queue)
        r.counts[Count.FREE_SLOTS] -= 1
        r.running[r.counts[Count.RUNNING]] = row
        r.counts[Count.RUNNING] += 1
        r.counts[Count.WAITING] -= 1
        r.state.slot[row] = slot
        r.state.status[row] = Status.RUNNING
        r.state.new_tokens[row] = tokens
        r.state.computed[row] = start + tokens
        r.state.cached_tokens[row] = start
        r.state.scheduled_us[row] = now
        budget -= tokens
