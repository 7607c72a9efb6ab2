"""What the compiled engine knows while it runs."""

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailcast.engine.blis.compiled import compiled
from tailcast.engine.blis.kv_blocks import KvBlocks, PromptKeys
from tailcast.engine.blis.wait_queue import WaitQueue


class Status(IntEnum):
    """Where a request is, or how it ended."""

    PENDING = 0
    QUEUED = 1
    RUNNING = 2
    COMPLETED = 3
    DROPPED = 4
    TIMED_OUT = 5


class Count(IntEnum):
    """Places in `Replica.counts`."""

    RUNNING = 0
    WAITING = 1
    BACK = 2  # next first-come-first-served place
    FRONT = 3  # place of the last preempted request
    FREE_SLOTS = 4
    STEPS = 5
    PREEMPTIONS = 6
    PREEMPTIONS_SINCE_PROGRESS = 7
    DROPPED = 8
    TIMED_OUT = 9
    COMPLETED = 10
    LENGTH_CAPPED = 11
    ALLOCATION_FAILURES = 12
    INPUT_TOKENS = 13
    OUTPUT_TOKENS = 14
    PREFILL_TOKENS = 15
    PEAK_BLOCKS = 16
    PEAK_BATCH = 17
    CLOCK = 18
    SEGMENTS = 19


class Rules(NamedTuple):
    """Limits and policies of one replica; 0 switches `long_prefill` and `max_model_len` off."""

    max_num_seqs: int
    max_num_batched_tokens: int
    long_prefill: int
    max_model_len: int
    first_come_first_served: bool
    preempt_by_priority: bool
    stream_us: int
    finish_us: int


class Columns(NamedTuple):
    """Request columns in order of queue time, each of shape (n_request,)."""

    arrival_us: NDArray[np.int64]
    queue_us: NDArray[np.int64]
    deadline_us: NDArray[np.int64]
    input_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    budget: NDArray[np.int64]  # output tokens the client asked for
    priority: NDArray[np.int64]
    place: NDArray[np.int64]  # order under the scheduler
    session_output: NDArray[np.bool_]


class Progress(NamedTuple):
    """Mutable request state, each of shape (n_request,); -1 where nothing happened yet."""

    status: NDArray[np.int8]
    slot: NDArray[np.int64]
    progress: NDArray[np.int64]  # tokens computed before the step; BLIS ignores hits until its end
    computed: NDArray[np.int64]  # tokens computed once the step ends, hits included
    new_tokens: NDArray[np.int64]
    cached_tokens: NDArray[np.int64]
    has_first_token: NDArray[np.bool_]
    ttft_us: NDArray[np.int64]
    itl_sum_us: NDArray[np.int64]
    n_itl: NDArray[np.int64]
    e2e_us: NDArray[np.int64]
    scheduled_us: NDArray[np.int64]
    finished_us: NDArray[np.int64]
    preemptions: NDArray[np.int64]
    length_capped: NDArray[np.bool_]
    last_step: NDArray[np.int64]  # of the latest decode
    segment: NDArray[np.int64]  # latest run of decode steps


class Replica(NamedTuple):
    """One running engine."""

    rules: Rules
    rows: Columns
    state: Progress
    kv: KvBlocks
    keys: PromptKeys
    queue: WaitQueue
    running: NDArray[np.int64]  # (n_slot,) rows in admission order
    free_slots: NDArray[np.int64]  # (n_slot,) stack
    counts: NDArray[np.int64]  # by Count


class StepLog(NamedTuple):
    """Step durations and each request's runs of consecutive decode steps.

    `duration_us` has shape (n_step,); the others (n_segment,). `previous` chains a request's runs.
    """

    duration_us: NDArray[np.int64]
    row: NDArray[np.int64]
    first: NDArray[np.int64]
    length: NDArray[np.int64]
    previous: NDArray[np.int64]


def new_progress(n: int) -> Progress:
    """State of requests that have not arrived.

    Parameters
    ----------
    n : int
        Requests.

    Returns
    -------
    Progress
        All pending.
    """

    def zeros() -> NDArray[np.int64]:
        return np.zeros(n, dtype=np.int64)

    def unset() -> NDArray[np.int64]:
        return np.full(n, -1, dtype=np.int64)

    return Progress(
        status=np.zeros(n, dtype=np.int8),
        slot=unset(),
        progress=zeros(),
        computed=zeros(),
        new_tokens=zeros(),
        cached_tokens=zeros(),
        has_first_token=np.zeros(n, dtype=np.bool_),
        ttft_us=unset(),
        itl_sum_us=zeros(),
        n_itl=zeros(),
        e2e_us=unset(),
        scheduled_us=unset(),
        finished_us=unset(),
        preemptions=zeros(),
        length_capped=np.zeros(n, dtype=np.bool_),
        last_step=unset(),
        segment=unset(),
    )


@compiled
def new_step_log() -> StepLog:
    """Empty log with some room."""
    return StepLog(
        np.empty(1024, dtype=np.int64),
        np.empty(1024, dtype=np.int64),
        np.empty(1024, dtype=np.int64),
        np.empty(1024, dtype=np.int64),
        np.empty(1024, dtype=np.int64),
    )


@compiled
def _grown(column: NDArray[np.int64]) -> NDArray[np.int64]:
    larger = np.empty(2 * len(column), dtype=np.int64)
    larger[: len(column)] = column
    return larger


@compiled
def roomy_log(log: StepLog, steps: int, segments: int) -> StepLog:
    """The same log with room for that many steps and segments."""
    while len(log.duration_us) < steps:
        log = StepLog(_grown(log.duration_us), log.row, log.first, log.length, log.previous)
    while len(log.row) < segments:
        log = StepLog(
            log.duration_us,
            _grown(log.row),
            _grown(log.first),
            _grown(log.length),
            _grown(log.previous),
        )
    return log
