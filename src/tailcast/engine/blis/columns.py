"""Names of the columns of the compiled engine's arrays, so that no place is a bare number."""

from enum import IntEnum


class Status(IntEnum):
    """Where a request is, or how it ended."""

    PENDING = 0
    QUEUED = 1
    RUNNING = 2
    COMPLETED = 3
    DROPPED = 4
    TIMED_OUT = 5


class Rule(IntEnum):
    """Limits and policies of a replica; 0 switches a limit off."""

    MAX_NUM_SEQS = 0
    MAX_NUM_BATCHED_TOKENS = 1
    LONG_PREFILL = 2
    MAX_MODEL_LEN = 3
    FIRST_COME_FIRST_SERVED = 4
    PREEMPT_BY_PRIORITY = 5
    STREAM_US = 6
    FINISH_US = 7


class Fact(IntEnum):
    """What is known of a request beforehand; rows stand in order of queue time."""

    ARRIVAL_US = 0
    QUEUE_US = 1
    DEADLINE_US = 2
    INPUT_TOKENS = 3
    OUTPUT_TOKENS = 4
    BUDGET = 5  # output tokens the client asked for
    PRIORITY = 6
    PLACE = 7  # order under the scheduler
    SESSION_OUTPUT = 8
    PREFIX_KEY = 9  # key of the first block of the shared prefix
    PREFIX_BLOCKS = 10
    CONTENT_KEY = 11  # key that block 0 would have were it not shared


class Live(IntEnum):
    """What happens to a request."""

    STATUS = 0
    SLOT = 1
    PROGRESS = 2  # tokens computed before the step; BLIS leaves cache hits out until its end
    COMPUTED = 3  # tokens computed once the step ends, hits included
    NEW_TOKENS = 4
    CACHED_TOKENS = 5
    HAS_FIRST_TOKEN = 6
    TTFT_US = 7
    ITL_SUM_US = 8
    N_ITL = 9
    E2E_US = 10
    SCHEDULED_US = 11
    FINISHED_US = 12
    PREEMPTIONS = 13
    LENGTH_CAPPED = 14
    LAST_STEP = 15  # of the latest decode
    RUN = 16  # latest run of consecutive decode steps


class Count(IntEnum):
    """Numbers of a replica as a whole."""

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
    RUNS = 19
    HEAP = 20
    NEXT_ROW = 21  # next request to be queued
    NEXT_TIMEOUT = 22
    STEP_US = 23  # start of the pending step


class Block(IntEnum):
    """What is known of a KV block."""

    REFERENCES = 0  # running requests that use it
    OLDER = 1  # neighbours in the free list
    YOUNGER = 2


class Slot(IntEnum):
    """What a running request owns."""

    N_OWNED = 0
    LAST_FILL = 1  # tokens in the last owned block


class KvCount(IntEnum):
    """Numbers of a KV cache as a whole."""

    BLOCK_SIZE = 0
    BLOCKS = 1
    FREE = 2
    HITS = 3
    MISSES = 4


class Run(IntEnum):
    """A request's run of consecutive decode steps."""

    ROW = 0
    FIRST = 1
    LENGTH = 2
    PREVIOUS = 3


class Entry(IntEnum):
    """One request's share of a step."""

    INPUT_TOKENS = 0
    OUTPUT_TOKENS = 1
    PROGRESS = 2
    NEW_TOKENS = 3
