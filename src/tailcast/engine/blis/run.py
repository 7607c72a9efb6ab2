"""One BLIS run: requests, settings and a latency model in; microseconds out."""

import numpy as np
from numpy.typing import NDArray

from tailcast.engine.blis.kernel import STALLED_PREEMPTIONS, run_events
from tailcast.engine.blis.kv_blocks import PromptKeys, new_kv_blocks
from tailcast.engine.blis.latency_model import BlisLatencyModel
from tailcast.engine.blis.requests import BlisRequests
from tailcast.engine.blis.result import BlisResult, DecodeRuns
from tailcast.engine.blis.settings import BlisSettings
from tailcast.engine.blis.state import Columns, Count, Replica, Rules, new_progress
from tailcast.engine.blis.step_time import MAX_INT64
from tailcast.engine.blis.wait_queue import new_wait_queue
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
    queue_us = requests.arrival_us + _ingest_us(requests, model)
    order = by_arrival[np.argsort(queue_us[by_arrival], kind="stable")]
    replica = _new_replica(requests, settings, model, order, queue_us)
    deadline_us = replica.rows.deadline_us
    timeouts = np.argsort(deadline_us, kind="stable")
    leaves = (deadline_us[timeouts] > 0) & (deadline_us[timeouts] <= settings.horizon_us)
    log = run_events(replica, model.step_model, timeouts[leaves], settings.horizon_us)
    counts = replica.counts
    if counts[Count.PREEMPTIONS_SINCE_PROGRESS] >= STALLED_PREEMPTIONS:
        raise CapacityError(
            f"{STALLED_PREEMPTIONS} preemptions without a finished request: BLIS would go on for "
            "ever; give more kv_blocks, a max_model_len, deadlines or a horizon"
        )
    arrived = requests.arrival_us[requests.arrival_us <= settings.horizon_us]
    clock_us = max([int(counts[Count.CLOCK]), *arrived[-1:], *_last(arrived)])
    steps, segments = int(counts[Count.STEPS]), int(counts[Count.SEGMENTS])
    return BlisResult(
        requests=requests,
        model=model,
        ended_us=min(clock_us, settings.horizon_us),
        counters=_counters(replica),
        step_duration_us=log.duration_us[:steps].copy(),
        decode_runs=DecodeRuns(
            row=order[log.row[:segments]],
            first=log.first[:segments].copy(),
            length=log.length[:segments].copy(),
        ),
        **_in_given_order(replica, order),
    )


def _last(arrived: NDArray[np.int64]) -> list[int]:
    return [int(arrived.max())] if arrived.size else []


def _ingest_us(requests: BlisRequests, model: BlisLatencyModel) -> NDArray[np.int64]:
    lengths, which = np.unique(requests.input_tokens, return_inverse=True)
    delays = np.array([model.ingest_us(int(n)) for n in lengths], dtype=np.int64)
    return delays[which] if len(lengths) else np.zeros(0, dtype=np.int64)


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
    keys, n_key = _prompt_keys(requests, settings.block_size, order)
    n_slot = max(1, min(settings.max_num_seqs, n))
    counts = np.zeros(len(Count), dtype=np.int64)
    counts[Count.FREE_SLOTS] = n_slot
    return Replica(
        rules=Rules(
            max_num_seqs=settings.max_num_seqs,
            max_num_batched_tokens=settings.max_num_batched_tokens,
            long_prefill=settings.long_prefill_token_threshold,
            max_model_len=settings.max_model_len,
            first_come_first_served=settings.scheduler == "fcfs",
            preempt_by_priority=settings.preemption_policy == "priority",
            stream_us=model.stream_us,
            finish_us=model.finish_us,
        ),
        rows=Columns(
            arrival_us=requests.arrival_us[order],
            queue_us=queue_us[order],
            deadline_us=requests.deadline_us[order],
            input_tokens=requests.input_tokens[order],
            output_tokens=requests.output_tokens[order],
            budget=requests.max_output_tokens[order],
            priority=requests.priority[order],
            place=_places(requests, settings.scheduler)[order],
            session_output=requests.session_output[order],
        ),
        state=new_progress(n),
        kv=new_kv_blocks(
            settings.kv_blocks, settings.block_size, n_key, n_slot, _width(requests, settings)
        ),
        keys=keys,
        queue=new_wait_queue(max(1, n)),
        running=np.zeros(n_slot, dtype=np.int64),
        free_slots=np.arange(n_slot, dtype=np.int64),
        counts=counts,
    )


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


def _prompt_keys(
    requests: BlisRequests, block_size: int, order: NDArray[np.int64]
) -> tuple[PromptKeys, int]:
    """Number the keys of all blocks that can be found again, streams one after the other."""
    n = len(requests)
    grouped = requests.prefix_group >= 0
    prefix_blocks = np.where(grouped, requests.prefix_length // block_size, 0)
    tokens = requests.input_tokens + np.where(requests.session_output, requests.output_tokens, 0)
    own = requests.content_stream < 0
    n_stream = int(requests.content_stream.max(initial=-1)) + 1
    content = np.where(own, n_stream + np.arange(n), requests.content_stream)
    prefix_start, end = _stream_starts(np.where(grouped, requests.prefix_group, -1), prefix_blocks)
    content_start, n_key = _stream_starts(content, tokens // block_size + 1)
    keys = PromptKeys(
        prefix_key=prefix_start[order],
        prefix_blocks=prefix_blocks[order],
        content_key=content_start[order] + end,
        input_tokens=requests.input_tokens[order],
    )
    return keys, max(1, end + n_key)


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
    state = replica.state
    columns = {
        "status": state.status,
        "ttft_us": state.ttft_us,
        "e2e_us": state.e2e_us,
        "itl_sum_us": state.itl_sum_us,
        "n_itl": state.n_itl,
        "scheduled_us": state.scheduled_us,
        "finished_us": state.finished_us,
        "preemptions": state.preemptions,
        "cached_tokens": state.cached_tokens,
        "length_capped": state.length_capped,
    }
    given = {}
    for name, column in columns.items():
        given[name] = np.empty_like(column)
        given[name][order] = column
    return given


def _counters(replica: Replica) -> dict[str, int]:
    counts = replica.counts
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
    counters = {name: int(counts[place]) for name, place in names.items()}
    free, hits, misses = (int(c) for c in replica.kv.counts)
    counters.update(free_kv_blocks=free, cache_hits=hits, cache_misses=misses)
    return counters
