"""Memory of one simulation: record layouts and the tuple that kernel functions share.

Kernel code sees records: ``w.run[0].free`` is a scalar of the run, ``w.slot[i].row`` a field of a
running request. All of it is allocated before the loop starts.
"""

from typing import Any, Final, NamedTuple

import numpy as np

NONE: Final = -1

# What a request is doing (`FATE.state`); from UNFINISHED on the numbers are those of `Status`.
ABSENT: Final = 0
COMPLETED: Final = 1
REJECTED: Final = 2
UNSENT: Final = 3
TIMED_OUT: Final = 4
WAITING: Final = 5
RUNNING: Final = 6

# What a slot holds (`SLOT.state`).
FREE: Final = 0
PREFILL: Final = 1
DECODE: Final = 2
FINISHED: Final = 3

# Why phase 2 stopped (`RUN.blocked`).
OPEN: Final = 0
FULL: Final = 1
NO_BLOCKS: Final = 2

# What `advance` returns.
DONE: Final = 0
GROW: Final = 1

_I4, _I8, _F8 = np.int32, np.int64, np.float64

ITEM: Final = np.dtype(
    [
        ("input", _I4),
        ("output", _I4),
        ("base", _I4),  # blocks that lie inside the shared prefix
        ("keyed", _I4),  # blocks of the prompt (and output) that content keys may cover
        ("prefix", _I4),  # stream of the prefix, or NONE
        ("content", _I4),  # stream of the content shared with others, or NONE
    ],
    align=True,
)

FATE: Final = np.dtype(
    [
        ("arrival", _F8),
        ("scheduled", _F8),
        ("first", _F8),
        ("last", _F8),  # last token: known at an interruption and at the end
        ("state", _I4),
        ("generated", _I4),  # tokens, up to date while waiting
        ("cached", _I4),
        ("preempted", _I4),
        ("gap_from", _I4),  # its regular gaps are those of step runs gap_from..gap_to-1
        ("gap_to", _I4),
        ("own", _I4),  # stream of its own content, once it was preempted
        ("timed", _I4),  # bit 0: in the waiting timer, bit 1: in the running timer
    ],
    align=True,
)

SLOT: Final = np.dtype(
    [
        ("seq", _I8),  # admission number
        ("key", _I8),  # step at which the last token comes, then the admission number
        ("offset", _I8),  # context of a decode = run.step + offset
        ("last", _F8),  # time of the last token while decodes are skipped, else -1
        ("row", _I4),
        ("state", _I4),
        ("prev", _I4),
        ("next", _I4),
        ("heap", _I4),  # position in the finish heap
        ("phase", _I4),  # needs a block whenever run.phase equals it
        ("progress", _I4),  # computed tokens: of a prefill, and frozen at the finish
        ("target", _I4),
        ("granted", _I4),
        ("gap_from", _I4),
        ("sp", _I4),  # streams and how many leading blocks of each it holds
        ("sc", _I4),
        ("ext_p", _I4),
        ("ext_c", _I4),
        ("open_p", _I4),  # whether it may still add blocks to the stream
        ("open_c", _I4),
        ("session", _I4),  # generated tokens extend a stream that others share
    ],
    align=True,
)

STREAM: Final = np.dtype(
    [
        ("open_sum", _I8),  # sum of the slots that may add blocks, to know a lone one
        ("n_open", _I4),
        ("base", _I4),  # index of its first block
        ("cached", _I4),  # blocks base..cached-1 are in the cache
        ("used", _I4),  # blocks base..used-1 are held by a running request
        ("n_top", _I4),  # holders that reach `used`
        ("users", _I4),
        ("low", _I4),  # its lowest free range
    ],
    align=True,
)

NODE: Final = np.dtype(
    [
        ("stream", _I4),  # NONE for garbage
        ("lo", _I4),
        ("hi", _I4),
        ("older", _I4),
        ("younger", _I4),
        ("up", _I4),  # next higher range of the stream
        ("down", _I4),
    ],
    align=True,
)

STEP_RUN: Final = np.dtype([("first", _F8), ("slope", _F8), ("count", _I8)], align=True)

ODD_GAP: Final = np.dtype([("gap", _F8), ("row", _I8)], align=True)

SPAN: Final = np.dtype([("row", _I4), ("gap_from", _I4), ("gap_to", _I4)], align=True)

LOG: Final = np.dtype(
    [
        ("start", _F8),
        ("pairs", _F8),
        ("tokens", _I8),
        ("chunks", _I8),
        ("decodes", _I8),
        ("context", _I8),
    ],
    align=True,
)

_FLOATS = (
    # clock
    "now busy_from cutoff d1 d2 end busy horizon lag1 lag2 next_open next_queue "
    # law
    "per_step per_token per_pair per_chunk per_decode per_context ingest finish stream "
    # the step being formed
    "pairs duration slope batch_time kv_time "
    # ranges over steps
    "least_tokens most_tokens least_pairs most_pairs least_decodes most_decodes "
    "least_context most_context least_new most_new"
).split()

_INTS = (
    # limits
    "max_seqs max_tokens max_total block kv_blocks caching chunked threshold priority lagged "
    # the law's table and the request table
    "n_table n_request closed timed logged "
    # totals
    "step phase free n_decode context n_active n_pending n_waiting n_skipped "
    "prefill_tokens cached_tokens preemptions max_batch min_free "
    # running list, slots, heaps and queues
    "head tail n_slot n_spare n_pre n_heap seq n_stack queue_head queue_tail next_row "
    "n_queue n_child n_wait_timer n_run_timer "
    # prefix cache
    "oldest youngest in_nodes node_free node_top n_stream ahead contested "
    # the step being formed
    "tokens chunks decodes decode_context preempted blocked walked "
    # gap bookkeeping
    "n_run n_odd n_span"
).split()

RUN: Final = np.dtype([(name, _F8) for name in _FLOATS] + [(name, _I8) for name in _INTS])


class Work(NamedTuple):
    """Everything one simulation reads and writes; a record array each unless said otherwise.

    `run` has one record. `item` and `fate` are by request, `slot` by running request. `stream` and
    `node` are the prefix cache. `hist` counts decodes by `SLOT.phase`. `slots`, `pre`, `pend`,
    `stack`, `heap` hold slots (stack: rows). `queue` holds waiting rows. The three heaps by time
    have float64 keys and int32 rows. Integer columns `first_child`, `sibling`, `priority` and
    float64 columns `arrival`, `think`, `timeout`, `parent` are the request table's.
    """

    run: Any
    item: Any
    fate: Any
    slot: Any
    stream: Any
    node: Any
    hist: Any
    table: Any
    slots: Any
    pre: Any
    pend: Any
    stack: Any
    heap: Any
    queue: Any
    child_key: Any
    child_row: Any
    wait_key: Any
    wait_row: Any
    busy_key: Any
    busy_row: Any
    first_child: Any
    sibling: Any
    arrival: Any
    think: Any
    timeout: Any
    parent: Any
    priority: Any
    steps: Any
    odd: Any
    span: Any
    log: Any
