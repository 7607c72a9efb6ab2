"""One BLIS run: requests, settings and a latency model in; microseconds out."""

import numpy as np
from numpy.typing import NDArray

from tailcast.engine.blis.columns import Count, Entry, Fact, KvCount, Live, Rule, Run
from tailcast.engine.blis.kernel import STALLED_PREEMPTIONS, run_events
from tailcast.engine.blis.kv_blocks import new_kv_blocks
from tailcast.engine.blis.latency_model import BlisLatencyModel
from tailcast.engine.blis.replica import Replica, StepLog, new_live, new_step_log, roomier_log
from tailcast.engine.blis.requests import BlisRequests
from tailcast.engine.blis.result import BlisResult, DecodeRuns
from tailcast.engine.blis.settings import BlisSettings
from tailcast.engine.blis.step_time import MAX_INT64
from tailcast.errors import CapacityError


def simulate_blis(
    requests: BlisRequests, settings: BlisSettings, model: BlisLatencyModel
) -> BlisResult:
    """Simulate one instance exactly as BLIS does.

    Parameters
    ----------
    requests : BlisRequests
        What arrives; rows in any order.
    settings : BlisSettings
        Limits, policies and horizon.
    model : BlisLatencyModel
        Step times and overheads.

    Returns
    -------
    BlisResult
        One entry a request in the order given, counters and step durations.

    Raises
    ------
    CapacityError
        If a request could never finish because it needs more KV blocks than there are, which BLIS
        would preempt for ever.
    """
    _refuse_endless(requests, settings)
    by_arrival = np.argsort(requests.arrival_us, kind="stable")
    queue_us = _queue_us(requests, model)
    order = by_arrival[np.argsort(queue_us[by_arrival], kind="stable")]
    replica = _new_replica(requests, settings, model, order, queue_us)
    deadline_us = replica.facts[:, Fact.DEADLINE_US]
    timeouts = np.argsort(deadline_us, kind="stable")
    leaves = (deadline_us[timeouts] > 0) & (deadline_us[timeouts] <= settings.horizon_us)
    log = _run(replica, model, timeouts[leaves], settings.horizon_us)
    counts = replica.counts
    if counts[Count.PREEMPTIONS_SINCE_PROGRESS] >= STALLED_PREEMPTIONS:
        raise CapacityError(
            f"{STALLED_PREEMPTIONS} preemptions without a finished request: BLIS would go on for "
            "ever; give more kv_blocks, a max_model_len, deadlines or a horizon"
        )
    arrived = requests.arrival_us[requests.arrival_us <= settings.horizon_us]
    runs = log.runs[: counts[Count.RUNS]]
    capped = np.zeros(len(requests), dtype=np.bool_)
    capped[order] = replica.live[:, Live.LENGTH_CAPPED] != 0
    return BlisResult(
        requests=requests,
        model=model,
        ended_us=max(int(counts[Count.CLOCK]), int(arrived.max(initial=0))),
        counters=_counters(replica),
        step_duration_us=log.duration_us[: counts[Count.STEPS]].copy(),
        decode_runs=DecodeRuns(
            row=order[runs[:, Run.ROW]],
            first=runs[:, Run.FIRST].copy(),
            length=runs[:, Run.LENGTH].copy(),
        ),
        length_capped=capped,
        **_in_given_order(replica, order),
    )


def _run(
    replica: Replica, model: BlisLatencyModel, timeouts: NDArray[np.int64], horizon_us: int
) -> StepLog:
    batch = np.zeros((len(replica.running), len(Entry)), dtype=np.int64)
    log = new_step_log(1024, 1024 + 2 * len(batch))
    while not run_events(replica, log, batch, model.step_model, timeouts, horizon_us):
        log = roomier_log(log)
    return log


def _queue_us(requests: BlisRequests, model: BlisLatencyModel) -> NDArray[np.int64]:
    """When each request reaches the queue; a delay beyond all time means never."""
    lengths, which = np.unique(requests.input_tokens, return_inverse=True)
    delays = np.array([model.ingest_us(int(n)) for n in lengths], dtype=np.int64)[which]
    beyond = delays > MAX_INT64 - requests.arrival_us
    return np.where(beyond, MAX_INT64, requests.arrival_us + np.where(beyond, 0, delays))


def _refuse_endless(requests: BlisRequests, settings: BlisSettings) -> None:
    """A request that outgrows the KV cache and has no way out would be preempted for ever."""
    if settings.max_model_len > 0 or settings.horizon_us < MAX_INT64:
        return
    size = settings.block_size
    tokens = requests.input_tokens + np.maximum(requests.output_tokens, 1) - 1
    fits = -(-requests.input_tokens // size) <= settings.kv_blocks  # otherwise it is dropped
    # A block-aligned prompt is readmitted for free and may finish without owning its blocks.
    endless = fits & (tokens > settings.kv_blocks * size) & (requests.input_tokens % size != 0)
    endless &= requests.deadline_us == 0
    if endless.any():
        row = int(np.flatnonzero(endless)[0])
        raise CapacityError(
            f"request row {row} needs {-(-int(tokens[row]) // size)} KV blocks of "
            f"{settings.kv_blocks}: BLIS would preempt it for ever; set max_model_len, a deadline "
            "or a horizon"
        )


def _new_replica(
    requests: BlisRequests,
    settings: BlisSettings,
    model: BlisLatencyModel,
    order: NDArray[np.int64],
    queue_us: NDArray[np.int64],
) -> Replica:
    n = len(requests)
    facts, n_key = _facts(requests, settings, queue_us)
    n_slot = max(1, min(settings.max_num_seqs, n))
    counts = np.zeros(len(Count), dtype=np.int64)
    counts[Count.FREE_SLOTS] = n_slot
    counts[Count.STEP_US] = MAX_INT64  # none pending
    return Replica(
        rules=_rules(settings, model),
        facts=facts[order],
        live=new_live(n),
        kv=new_kv_blocks(
            settings.kv_blocks, settings.block_size, n_key, n_slot, _width(requests, settings)
        ),
        heap=np.zeros((max(1, n), 2), dtype=np.int64),
        running=np.zeros(n_slot, dtype=np.int64),
        free_slots=np.arange(n_slot, dtype=np.int64),
        counts=counts,
    )


def _rules(settings: BlisSettings, model: BlisLatencyModel) -> NDArray[np.int64]:
    rules = np.zeros(len(Rule), dtype=np.int64)
    rules[Rule.MAX_NUM_SEQS] = settings.max_num_seqs
    rules[Rule.MAX_NUM_BATCHED_TOKENS] = settings.max_num_batched_tokens
    rules[Rule.LONG_PREFILL] = settings.long_prefill_token_threshold
    rules[Rule.MAX_MODEL_LEN] = settings.max_model_len
    rules[Rule.FIRST_COME_FIRST_SERVED] = settings.scheduler == "fcfs"
    rules[Rule.PREEMPT_BY_PRIORITY] = settings.preemption_policy == "priority"
    rules[Rule.STREAM_US] = model.stream_us
    rules[Rule.FINISH_US] = model.finish_us
    return rules


def _facts(
    requests: BlisRequests, settings: BlisSettings, queue_us: NDArray[np.int64]
) -> tuple[NDArray[np.int64], int]:
    """Request columns by `Fact`, and the number of block keys in use."""
    facts = np.zeros((len(requests), len(Fact)), dtype=np.int64)
    facts[:, Fact.ARRIVAL_US] = requests.arrival_us
    facts[:, Fact.QUEUE_US] = queue_us
    facts[:, Fact.DEADLINE_US] = requests.deadline_us
    facts[:, Fact.INPUT_TOKENS] = requests.input_tokens
    facts[:, Fact.OUTPUT_TOKENS] = requests.output_tokens
    facts[:, Fact.BUDGET] = requests.max_output_tokens
    facts[:, Fact.PRIORITY] = requests.priority
    facts[:, Fact.PLACE] = _places(requests, settings.scheduler)
    facts[:, Fact.SESSION_OUTPUT] = requests.session_output
    return facts, _number_keys(requests, settings.block_size, facts)


def _width(requests: BlisRequests, settings: BlisSettings) -> int:
    """Most blocks that one request can own."""
    if not len(requests):
        return 1
    tokens = int((requests.input_tokens + np.maximum(requests.output_tokens, 1)).max())
    if settings.max_model_len > 0:
        tokens = min(tokens, settings.max_model_len + 1)
    return min(-(-tokens // settings.block_size) + 1, settings.kv_blocks)


def _places(requests: BlisRequests, scheduler: str) -> NDArray[np.int64]:
    """Each request's place in the waiting queue; names compare as strings, as in BLIS."""
    n = len(requests)
    name_rank = np.zeros(n, dtype=np.int64)
    name_rank[sorted(range(n), key=requests.request_id.__getitem__)] = np.arange(n)
    if scheduler == "sjf":
        first = requests.input_tokens
    elif scheduler == "reverse-priority":
        first = -requests.priority
    else:
        first = requests.priority
    place = np.zeros(n, dtype=np.int64)
    place[np.lexsort((name_rank, requests.arrival_us, first))] = np.arange(n)
    return place


def _number_keys(requests: BlisRequests, block_size: int, facts: NDArray[np.int64]) -> int:
    """Number the keys of all blocks that can be found again, one stream after the other."""
    n = len(requests)
    grouped = requests.prefix_group >= 0
    prefix_blocks = np.where(grouped, requests.prefix_length // block_size, 0)
    tokens = requests.input_tokens + np.where(requests.session_output, requests.output_tokens, 0)
    n_stream = int(requests.content_stream.max(initial=-1)) + 1
    own = n_stream + np.arange(n)
    content = np.where(requests.content_stream < 0, own, requests.content_stream)
    prefix_key, n_prefix = _stream_starts(
        np.where(grouped, requests.prefix_group, -1), prefix_blocks
    )
    content_key, n_content = _stream_starts(content, tokens // block_size + 1)
    facts[:, Fact.PREFIX_KEY] = prefix_key
    facts[:, Fact.PREFIX_BLOCKS] = prefix_blocks
    facts[:, Fact.CONTENT_KEY] = n_prefix + content_key
    return max(1, n_prefix + n_content)


def _stream_starts(
    stream: NDArray[np.int64], blocks: NDArray[np.int64]
) -> tuple[NDArray[np.int64], int]:
    """First key of each row's stream, and the number of keys of all streams."""
    if not len(stream):
        return np.zeros(0, dtype=np.int64), 0
    _, which = np.unique(stream, return_inverse=True)
    longest = np.zeros(int(which.max()) + 1, dtype=np.int64)
    np.maximum.at(longest, which, blocks)
    ends = np.cumsum(longest)
    return (ends - longest)[which], int(ends[-1])


def _in_given_order(replica: Replica, order: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    """Per-request results in the row order of the input."""
    columns = {
        "status": Live.STATUS,
        "ttft_us": Live.TTFT_US,
        "e2e_us": Live.E2E_US,
        "itl_sum_us": Live.ITL_SUM_US,
        "n_itl": Live.N_ITL,
        "scheduled_us": Live.SCHEDULED_US,
        "finished_us": Live.FINISHED_US,
        "preemptions": Live.PREEMPTIONS,
        "cached_tokens": Live.CACHED_TOKENS,
    }
    given = np.empty_like(replica.live)
    given[order] = replica.live
    return {name: given[:, column].copy() for name, column in columns.items()}


def _counters(replica: Replica) -> dict[str, int]:
    names = {
        "steps": Count.STEPS,
        "preemptions": Count.PREEMPTIONS,
        "dropped_unservable": Count.DROPPED,
        "timed_out": Count.TIMED_OUT,
        "completed": Count.COMPLETED,
        "length_capped": Count.LENGTH_CAPPED,
        "kv_allocation_failures": Count.ALLOCATION_FAILURES,
        "input_tokens": Count.INPUT_TOKENS,
        "output_tokens": Count.OUTPUT_TOKENS,
        "prefill_tokens": Count.PREFILL_TOKENS,
        "peak_kv_blocks": Count.PEAK_BLOCKS,
        "peak_batch": Count.PEAK_BATCH,
        "still_queued": Count.WAITING,
        "still_running": Count.RUNNING,
    }
    counters = {name: int(replica.counts[place]) for name, place in names.items()}
    counters["free_kv_blocks"] = int(replica.kv.counts[KvCount.FREE])
    counters["cache_hits"] = int(replica.kv.counts[KvCount.HITS])
    counters["cache_misses"] = int(replica.kv.counts[KvCount.MISSES])
    return counters
