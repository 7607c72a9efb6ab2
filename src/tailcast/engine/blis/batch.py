"""Batch formation: running requests first, with preemption, then admissions."""

from tailcast.engine.blis.columns import Count, Fact, KvCount, Live, Rule, Run, Slot, Status
from tailcast.engine.blis.compiled import compiled_part
from tailcast.engine.blis.kv_blocks import (
    NO_KEY,
    allocate_decode,
    allocate_prompt,
    cached_prompt_blocks,
    release,
)
from tailcast.engine.blis.replica import Replica, StepLog
from tailcast.engine.blis.wait_queue import pop, push


@compiled_part
def form_batch(r: Replica, log: StepLog, now: int) -> None:
    """Grant new tokens for the step that starts at `now` (BLIS phases 1 and 2)."""
    for position in range(r.counts[Count.RUNNING]):
        r.live[r.running[position], Live.NEW_TOKENS] = 0
    before = r.counts[Count.PREEMPTIONS]
    budget = _serve_running(r, log)
    if r.counts[Count.PREEMPTIONS] == before:
        _admit(r, budget, now)
    r.counts[Count.PEAK_BATCH] = max(r.counts[Count.PEAK_BATCH], r.counts[Count.RUNNING])


@compiled_part
def enqueue(r: Replica, row: int, place: int) -> None:
    """Put a request into the waiting queue; `place` counts when first come is first served."""
    if r.rules[Rule.FIRST_COME_FIRST_SERVED] == 0:
        place = r.facts[row, Fact.PLACE]
    push(r.heap, r.counts[Count.HEAP], place, row)
    r.counts[Count.HEAP] += 1
    r.counts[Count.WAITING] += 1
    r.live[row, Live.STATUS] = Status.QUEUED


@compiled_part
def leave_running(r: Replica, position: int) -> int:
    """Take a request out of the running list and give back its blocks and slot."""
    row = r.running[position]
    for i in range(position, r.counts[Count.RUNNING] - 1):
        r.running[i] = r.running[i + 1]
    r.counts[Count.RUNNING] -= 1
    release_slot(r, row)
    return int(row)


@compiled_part
def release_slot(r: Replica, row: int) -> None:
    """Give back blocks and slot of a request that stops running."""
    slot = r.live[row, Live.SLOT]
    release(r.kv, slot)
    r.free_slots[r.counts[Count.FREE_SLOTS]] = slot
    r.counts[Count.FREE_SLOTS] += 1
    r.live[row, Live.SLOT] = -1


@compiled_part
def allocate_token(r: Replica, row: int) -> bool:
    """Make room for a running request's next generated token."""
    slot = r.live[row, Live.SLOT]
    index = r.live[row, Live.PROGRESS] // r.kv.counts[KvCount.BLOCK_SIZE]
    key = NO_KEY
    # A prompt admitted for free owns no prompt blocks: its block order is not the sequence's.
    aligned = r.kv.slots[slot, Slot.N_OWNED] == index + 1
    if aligned and r.facts[row, Fact.SESSION_OUTPUT] != 0:
        key = r.facts[row, Fact.CONTENT_KEY] + index
    return allocate_decode(r.kv, slot, key)


@compiled_part
def _allocate(r: Replica, row: int, tokens: int) -> bool:
    progress = r.live[row, Live.PROGRESS]
    if progress < r.facts[row, Fact.INPUT_TOKENS]:
        return allocate_prompt(r.kv, r.facts, r.live[row, Live.SLOT], row, progress, tokens)
    return allocate_token(r, row)


@compiled_part
def _prompt_grant(r: Replica, row: int, start: int, budget: int) -> int:
    tokens = min(r.facts[row, Fact.INPUT_TOKENS] - start, budget)
    if r.rules[Rule.LONG_PREFILL] > 0:
        tokens = min(tokens, r.rules[Rule.LONG_PREFILL])
    if r.rules[Rule.MAX_MODEL_LEN] > 0:
        tokens = min(tokens, max(r.rules[Rule.MAX_MODEL_LEN] - 1 - start, 0))
    return int(tokens)


@compiled_part
def _running_grant(r: Replica, row: int, budget: int) -> int:
    """Tokens that a running request computes next; 0 at the sequence limit."""
    progress = r.live[row, Live.PROGRESS]
    if progress < r.facts[row, Fact.INPUT_TOKENS]:
        return _prompt_grant(r, row, progress, budget)
    limit = r.rules[Rule.MAX_MODEL_LEN]
    wants = r.facts[row, Fact.OUTPUT_TOKENS] > 0
    return 1 if wants and (limit == 0 or progress + 1 <= limit - 1) else 0


@compiled_part
def _serve_running(r: Replica, log: StepLog) -> int:
    """Phase 1; returns the budget left."""
    budget = r.rules[Rule.MAX_NUM_BATCHED_TOKENS]
    position = 0
    while position < r.counts[Count.RUNNING] and budget > 0:
        row = r.running[position]
        tokens = _running_grant(r, row, budget)
        if tokens > 0:
            while not _allocate(r, row, tokens):
                victim = _victim(r)
                evicted = r.running[victim]
                budget += r.live[evicted, Live.NEW_TOKENS]
                _preempt(r, log, victim)
                if evicted == row:
                    return int(budget)
                if victim < position:
                    position -= 1
            budget -= tokens
            r.live[row, Live.NEW_TOKENS] = tokens
            r.live[row, Live.COMPUTED] += tokens
        position += 1
    return int(budget)


@compiled_part
def _victim(r: Replica) -> int:
    """Position to preempt: the last one, or the least urgent and then latest to arrive."""
    best = r.counts[Count.RUNNING] - 1
    if r.rules[Rule.PREEMPT_BY_PRIORITY] == 0:
        return int(best)
    for position in range(best - 1, -1, -1):
        row, chosen = r.running[position], r.running[best]
        priority, worst = r.facts[row, Fact.PRIORITY], r.facts[chosen, Fact.PRIORITY]
        later = r.facts[row, Fact.ARRIVAL_US] > r.facts[chosen, Fact.ARRIVAL_US]
        if priority > worst or (priority == worst and later):
            best = position
    return int(best)


@compiled_part
def _preempt(r: Replica, log: StepLog, position: int) -> None:
    """Send a running request back to the queue's front; it loses what it generated."""
    row = leave_running(r, position)
    r.live[row, Live.NEW_TOKENS] = 0
    r.live[row, Live.PROGRESS] = 0
    r.live[row, Live.COMPUTED] = 0
    r.live[row, Live.ITL_SUM_US] = 0
    r.live[row, Live.N_ITL] = 0
    r.live[row, Live.HAS_FIRST_TOKEN] = 0
    r.live[row, Live.PREEMPTIONS] += 1
    run = r.live[row, Live.RUN]
    while run >= 0:
        log.runs[run, Run.LENGTH] = 0
        run = log.runs[run, Run.PREVIOUS]
    r.live[row, Live.RUN] = -1
    r.counts[Count.PREEMPTIONS] += 1
    r.counts[Count.PREEMPTIONS_SINCE_PROGRESS] += 1
    r.counts[Count.FRONT] -= 1
    enqueue(r, row, r.counts[Count.FRONT])


@compiled_part
def _admit(r: Replica, budget: int, now: int) -> None:
    """Phase 2: head of the queue first, stop at the first that does not fit."""
    limit = r.rules[Rule.MAX_NUM_SEQS]
    while r.counts[Count.WAITING] > 0 and r.counts[Count.RUNNING] < limit and budget > 0:
        row = r.heap[0, 1]
        if r.live[row, Live.STATUS] != Status.QUEUED:
            _pop(r)
            continue
        start = cached_prompt_blocks(r.kv, r.facts, row) * r.kv.counts[KvCount.BLOCK_SIZE]
        tokens = _prompt_grant(r, row, start, budget)
        slot = r.free_slots[r.counts[Count.FREE_SLOTS] - 1]
        if not allocate_prompt(r.kv, r.facts, slot, row, start, tokens):
            return
        _pop(r)
        r.counts[Count.FREE_SLOTS] -= 1
        r.running[r.counts[Count.RUNNING]] = row
        r.counts[Count.RUNNING] += 1
        r.counts[Count.WAITING] -= 1
        r.live[row, Live.SLOT] = slot
        r.live[row, Live.STATUS] = Status.RUNNING
        r.live[row, Live.NEW_TOKENS] = tokens
        r.live[row, Live.COMPUTED] = start + tokens
        r.live[row, Live.CACHED_TOKENS] = start
        r.live[row, Live.SCHEDULED_US] = now
        budget -= tokens


@compiled_part
def _pop(r: Replica) -> None:
    pop(r.heap, r.counts[Count.HEAP])
    r.counts[Count.HEAP] -= 1
