"""Memory layout of one simulation, as records.

Kernel functions share one record, `RUN`: the scalars of the run and the addresses of the arrays,
which are allocated before the loop starts.
"""

from typing import Final

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
NO_ROOM: Final = 2

# What the kernel is asked to do, and what it answers.
START: Final = 0
RESUME: Final = 1
WEIGH: Final = 2
DONE: Final = 0
GROW: Final = 1

# Bins of a histogram over bit patterns.
N_BIT: Final = 12
N_BIN: Final = 1 << N_BIT

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
        ("row", _I8),
        ("state", _I4),
        ("prev", _I8),
        ("next", _I8),
        ("heap", _I8),  # position in the finish heap
        ("phase", _I4),  # needs a block whenever run.phase equals it
        ("progress", _I8),  # computed tokens: of a prefill, and frozen at the finish
        ("target", _I8),
        ("granted", _I8),
        ("gap_from", _I4),
        ("sp", _I8),  # streams and how many leading blocks of each it holds
        ("sc", _I8),
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
        ("low", _I8),  # its lowest free range
    ],
    align=True,
)

WORDS_OF_STREAM: Final = STREAM.itemsize // 8

NODE: Final = np.dtype(
    [
        ("stream", _I8),  # NONE for garbage
        ("lo", _I8),
        ("hi", _I8),
        ("older", _I8),
        ("younger", _I8),
        ("up", _I8),  # next higher range of the stream
        ("down", _I8),
    ],
    align=True,
)

STEP_RUN: Final = np.dtype([("first", _F8), ("slope", _F8), ("count", _I8)], align=True)

# A gap (not negative) outside the step runs, or a stretch of step runs whose gaps are regular.
LOOSE: Final = np.dtype(
    [("gap", _F8), ("row", _I4), ("gap_from", _I4), ("gap_to", _I4)], align=True
)

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

# Lists of slots (`stacked`: of rows), all by position.
PLACE: Final = np.dtype(
    [(name, _I8) for name in ("spare", "prefill", "pending", "stacked", "heap", "key")]
)

KIN: Final = np.dtype([("first_child", _I8), ("sibling", _I8)])
TIMED: Final = np.dtype([("key", _F8), ("row", _I8)])

# Rows by the time at which their clients leave: those in ascending order, and the others.
TIMER: Final = np.dtype(
    [
        ("state", _I8),  # of the requests whose clients it watches
        ("bit", _I8),  # its mark in `FATE.timed`
        ("last", _F8),  # time of the last row of the ring
        ("first", _I8),  # place of its first row
        ("n_ring", _I8),
        ("n_heap", _I8),
        ("ring", _I8),
        ("heap", _I8),
    ]
)

ROW: Final = np.dtype([("row", _I4)])
REAL: Final = np.dtype([("value", _F8)])
WHOLE: Final = np.dtype([("value", _I8)])

LAW_FIELDS: Final = (
    *("per_step", "per_token", "per_pair", "per_chunk", "per_decode", "per_context"),
    *("ingest", "finish", "stream", "lag"),
)

_FLOATS = (
    *LAW_FIELDS,
    # clock
    *("now", "busy_from", "cutoff", "fixed", "end", "busy", "horizon"),
    # starts of the last step and of the one before
    *("start1", "start2"),
    *("next_open", "next_queue"),
    # the step being formed
    *("pairs", "duration", "slope"),
    # totals and ranges over steps
    *("batch_time", "kv_time", "least_tokens", "most_tokens", "least_pairs", "most_pairs"),
    *("least_decodes", "most_decodes", "least_context", "most_context", "least_new", "most_new"),
)

_INTS = (
    # limits
    *("max_seqs", "max_tokens", "max_total", "block", "kv_blocks", "caching", "chunked"),
    *("threshold", "priority", "lagged"),
    # the law's table, the request table, room for gaps
    *("n_table", "n_shared", "n_request", "closed", "timed", "logged", "run_room", "loose_room"),
    # totals
    *("step", "phase", "free", "n_decode", "context", "n_active", "n_pending", "n_waiting"),
    *("n_skipped", "prefill_tokens", "cached_tokens", "preemptions", "max_batch", "min_free"),
    # running list, slots, heaps and queues
    *("head", "tail", "n_slot", "n_spare", "n_pre", "n_heap", "seq", "n_stack", "n_queue"),
    *("queue_head", "queue_tail", "next_row", "n_child"),
    # prefix cache
    *("oldest", "youngest", "in_nodes", "node_free", "node_top", "n_stream", "ahead", "contested"),
    # the step being formed
    *(
        "tokens",
        "chunks",
        "decodes",
        "decode_context",
        "preempted",
        "blocked",
        "lost_hit",
        "walked",
    ),
    # gap bookkeeping
    *("n_run", "n_loose"),
    # how requests ended, in the order of `Status`
    *("unfinished", "completed", "rejected", "unsent", "timed_out"),
)

ADDRESSES: Final = (
    *("items", "fates", "slots", "places", "streams", "nodes", "phases", "table", "queue"),
    *("child_heap", "wait_timer", "run_timer", "kins", "arrivals", "thinks", "timeouts", "parents"),
    *("priorities", "step_runs", "looses", "logs"),
    # laws and tables of all draws, and the streams as they are before a run
    *("laws", "tables", "shared"),
)

RUN: Final = np.dtype(
    [(name, _F8) for name in _FLOATS] + [(name, _I8) for name in (*_INTS, *ADDRESSES)]
)

_ASK_INTS = (
    *("n_group", "n_quantile", "warmup", "n_extra", "n_distinct"),
    # the search for a gap of some rank: histogram, bin and what was gathered from it
    *("origin", "shift", "bin", "below", "gathered", "within"),
)

ASK_ADDRESSES: Final = (
    *("rows", "bounds", "groups", "quantiles", "values", "scratch", "histogram", "finer"),
    *("keys", "counts", "weights", "extras"),
    # answers of all draws
    *("stats", "completed", "runs"),
)

N_RUN: Final = len(RUN.names or ())
N_LAW: Final = len(LAW_FIELDS)

# What the statistics are to be: request rows ordered by group, group g at bounds g..g+1; ascending
# quantiles; memory for values by request, a histogram and a finer one, the `n_distinct` distinct
# gaps of one bin with their counts, weights by step run, gaps outside step runs. The answers hold
# all draws: statistics of shape (n_group + 1, n_metric, 1 + n_quantile), completed requests by
# group, the final record of the run.
ASK: Final = np.dtype([(name, _I8) for name in (*_ASK_INTS, *ASK_ADDRESSES)])
