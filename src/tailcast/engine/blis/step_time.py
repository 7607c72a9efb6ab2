"""Duration of one step under BLIS's two backends, truncated to whole microseconds like BLIS.

Every product and sum keeps BLIS's order: the result is truncated, so the last bit matters.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailcast.engine.blis.columns import Entry
from tailcast.engine.blis.compiled import compiled, compiled_part

MAX_INT64 = 2**63 - 1
"""What BLIS makes of a duration that is NaN or too large."""

_KV_BYTES = 2.0  # trained physics always counts KV in 16 bits


class PhysicsTerms(NamedTuple):
    """Trained physics for one deployment: shapes as floats, then coefficients.

    Rates are FLOP per microsecond and bytes per microsecond.
    """

    n_layers: float
    n_moe_layers: float
    n_dense_layers: float
    hidden: float
    heads_per_gpu: float
    head_dim: float
    kv_dim: float
    expert_width: float
    dense_width: float
    shared_width: float
    n_experts: float
    experts_per_token: float
    tensor_parallel: float
    data_parallel: float
    expert_group: float
    bytes_per_element: float
    bytes_per_weight: float
    peak_flops: float
    memory_bandwidth: float
    moe_allreduce: bool
    expert_dispatch_copies: float
    prefill_compute: float
    prefill_kv_write: float
    prefill_is_split: bool
    decode_compute: float
    decode_kv_read: float
    decode_is_split: bool
    weight_read: float
    tp_allreduce: float
    expert_dispatch: float
    per_layer: float
    per_request: float
    per_step: float
    per_moe_layer: float


class RooflineTerms(NamedTuple):
    """Roofline for one deployment; rates are FLOP/s and bytes/s, times are seconds."""

    n_layers: float
    n_moe_layers: float
    n_dense_layers: float
    hidden: float
    n_heads: float
    head_dim: float
    n_kv_heads: float
    expert_width: float
    dense_width: float
    n_experts: float
    experts_per_token: float
    tensor_parallel: float
    bytes_per_element: float
    bytes_per_weight: float
    prefill_flops: float
    decode_flops: float
    memory_bandwidth: float


class StepModel(NamedTuple):
    """What the compiled engine needs to time a step."""

    is_roofline: bool
    physics: PhysicsTerms
    roofline: RooflineTerms


@compiled
def truncated_us(value: float) -> int:
    """Whole microseconds of a float, cut towards zero.

    Parameters
    ----------
    value : float
        Microseconds.

    Returns
    -------
    int
        Truncated; the largest int64 for NaN or overflow.
    """
    if math.isnan(value) or value >= 9.223372036854775e18:
        return MAX_INT64
    return int(value)


@compiled
def step_time_us(model: StepModel, batch: NDArray[np.int64], n: int) -> int:
    """Duration of a step.

    Parameters
    ----------
    model : StepModel
        Deployment and coefficients.
    batch : ndarray of int64, shape (n_row, 4)
        Requests with new tokens in running order; columns by `Entry`.
    n : int
        How many leading rows of `batch` count.

    Returns
    -------
    int
        Microseconds, at least 1.
    """
    if n == 0:
        return 1
    if model.is_roofline:
        duration = _roofline_us(model.roofline, batch, n)
    else:
        duration = _physics_us(model.physics, batch, n)
    return max(1, truncated_us(duration))


@compiled_part
def _forward_us(m: PhysicsTerms, tokens: float, attention_flops: float) -> float:
    """Compute time of `tokens` at peak: projections, attention and FFN."""
    shards = m.tensor_parallel * m.data_parallel
    flops = m.n_layers * 2 * tokens * m.hidden * (2 * m.hidden + 2 * m.kv_dim) / shards
    flops += attention_flops / m.data_parallel
    ffn = 0.0
    if m.n_moe_layers > 0:
        routed = tokens * m.experts_per_token / m.expert_group
        ffn += m.n_moe_layers * routed * 6 * m.hidden * m.expert_width
        ffn += m.n_moe_layers * tokens * 6 * m.hidden * m.shared_width / shards
    if m.n_dense_layers > 0:
        ffn += m.n_dense_layers * tokens * 6 * m.hidden * m.dense_width / shards
    return (flops + ffn) / m.peak_flops


@compiled_part
def _weights_us(m: PhysicsTerms) -> float:
    """Time to read the weights once, all experts included."""
    width = m.bytes_per_weight
    tp = m.tensor_parallel
    attention = m.n_layers * m.hidden * (2 * m.hidden + 2 * m.kv_dim) * width / tp
    ffn = 0.0
    if m.n_moe_layers > 0:
        experts = m.n_experts / m.expert_group
        ffn += m.n_moe_layers * experts * 3 * m.hidden * m.expert_width * width
        ffn += m.n_moe_layers * 3 * m.hidden * m.shared_width * width / tp
    if m.n_dense_layers > 0:
        ffn += m.n_dense_layers * 3 * m.hidden * m.dense_width * width / tp
    return (attention + ffn) / m.memory_bandwidth


@compiled_part
def _allreduce_us(m: PhysicsTerms, units: float, tokens: float) -> float:
    """Ring all-reduce of `units` activations of `tokens`, at memory bandwidth as in BLIS."""
    if m.tensor_parallel <= 1:
        return 0.0
    share = (m.tensor_parallel - 1) / m.tensor_parallel
    volume = units * tokens * m.hidden * m.bytes_per_element * 2.0 * share
    return volume / m.memory_bandwidth


@compiled_part
def _dispatch_us(m: PhysicsTerms, tokens: float) -> float:
    """Expert dispatch and combine; zero without data parallelism."""
    if m.n_experts < 2 or m.data_parallel <= 1:
        return 0.0
    rows = tokens / m.data_parallel * m.expert_dispatch_copies
    volume = rows * (m.expert_group - 1) / m.expert_group * 2 * m.hidden * m.bytes_per_element
    return volume / m.memory_bandwidth * m.n_moe_layers


@compiled_part
def _prefill_term(m: PhysicsTerms, tokens: float, attention_flops: float) -> float:
    compute = 0.0
    kv = 0.0
    if tokens > 0:
        compute = _forward_us(m, tokens, m.n_layers * attention_flops)
        shards = m.tensor_parallel * m.data_parallel
        kv = m.n_layers * 2 * (m.kv_dim / shards) * tokens * _KV_BYTES / m.memory_bandwidth
    if m.prefill_is_split:
        return m.prefill_compute * compute + m.prefill_kv_write * kv
    return m.prefill_compute * max(compute, kv)


@compiled_part
def _decode_term(m: PhysicsTerms, tokens: float, context: float) -> float:
    compute = 0.0
    kv = 0.0
    if tokens > 0:
        attention = m.n_layers * 4 * m.heads_per_gpu * context * m.head_dim
        compute = _forward_us(m, tokens, attention)
        shards = m.tensor_parallel * m.data_parallel
        volume = m.n_layers * 2 * (m.kv_dim / shards) * _KV_BYTES * (context + tokens)
        kv = volume / m.memory_bandwidth
    if m.decode_is_split:
        return m.decode_compute * compute + m.decode_kv_read * kv
    return m.decode_compute * max(compute, kv)


@compiled_part
def _physics_us(m: PhysicsTerms, batch: NDArray[np.int64], n: int) -> float:
    prefill_tokens = 0.0
    attention_flops = 0.0
    decodes = 0.0
    context = 0.0
    for i in range(n):
        prompt = batch[i, Entry.INPUT_TOKENS]
        if batch[i, Entry.PROGRESS] < prompt:
            t = float(batch[i, Entry.NEW_TOKENS])
            prefill_tokens += t
            # The whole prompt, not the progress: every chunk is charged against all of it.
            attention_flops += 4 * m.heads_per_gpu * t * (prompt + t / 2) * m.head_dim
        elif batch[i, Entry.OUTPUT_TOKENS] > 0:
            decodes += 1.0
            context += float(batch[i, Entry.PROGRESS])
    tokens = prefill_tokens + decodes
    allreduce = _allreduce_us(m, m.n_layers, tokens) / m.data_parallel
    allreduce += _allreduce_us(m, m.n_dense_layers, tokens) / m.data_parallel
    if m.moe_allreduce:
        allreduce += _allreduce_us(m, m.n_moe_layers, tokens)
    return (
        _prefill_term(m, prefill_tokens, attention_flops)
        + _decode_term(m, decodes, context)
        + m.weight_read * _weights_us(m)
        + m.tp_allreduce * allreduce
        + m.expert_dispatch * _dispatch_us(m, tokens)
        + m.per_layer * m.n_layers
        + m.per_request * n
        + m.per_step
        + m.per_moe_layer * m.n_moe_layers
    )


@compiled_part
def _request_flops(m: RooflineTerms, context: float, new: float) -> float:
    kv_dim = m.n_kv_heads * m.head_dim
    seen = context + (new - 1) / 2.0 if new > 1 else context
    projections = 2 * new * (m.hidden * m.hidden + 2 * m.hidden * kv_dim)
    projections += 2 * new * m.hidden * m.hidden
    attention = 4 * m.n_heads * new * seen * m.head_dim
    vector = 5 * m.n_heads * new * seen + 2 * new * m.hidden
    experts = m.n_moe_layers * m.experts_per_token * 2 * new * (2 * m.hidden * m.expert_width)
    dense = m.n_dense_layers * 2 * new * (2 * m.hidden * m.dense_width)
    matrix = projections * m.n_layers + attention * m.n_layers + (experts + dense)
    return matrix + vector * m.n_layers


@compiled_part
def _request_bytes(m: RooflineTerms, context: float, new: float) -> float:
    kv = 2 * m.n_layers * m.n_kv_heads * m.head_dim * m.bytes_per_element
    return kv * (new + context) + m.n_layers * m.hidden * m.bytes_per_element * new


@compiled_part
def _roofline_us(m: RooflineTerms, batch: NDArray[np.int64], n: int) -> float:
    compute = 0.0
    traffic = 0.0
    total = 0.0
    for i in range(n):  # BLIS sums prefills first, then decodes
        if batch[i, Entry.PROGRESS] < batch[i, Entry.INPUT_TOKENS]:
            new = float(batch[i, Entry.NEW_TOKENS])
            context = float(batch[i, Entry.PROGRESS])
            compute += _request_flops(m, context, new) / m.tensor_parallel / m.prefill_flops
            traffic += _request_bytes(m, context, new) / m.tensor_parallel
            total += new
    for i in range(n):
        if (
            batch[i, Entry.PROGRESS] >= batch[i, Entry.INPUT_TOKENS]
            and batch[i, Entry.OUTPUT_TOKENS] > 0
        ):
            context = float(batch[i, Entry.PROGRESS])
            compute += _request_flops(m, context, 1.0) / m.tensor_parallel / m.decode_flops
            traffic += _request_bytes(m, context, 1.0) / m.tensor_parallel
            total += 1.0
    kv_dim = m.n_kv_heads * m.head_dim
    attention = m.hidden * (m.hidden + 2 * kv_dim) + m.hidden * m.hidden
    weights = m.n_layers * attention + m.n_dense_layers * 2 * m.hidden * m.dense_width
    if m.n_moe_layers > 0:
        missed = ((m.n_experts - m.experts_per_token) / m.n_experts) ** total
        active = m.n_experts * (1 - missed)
        weights += m.n_moe_layers * 2 * m.hidden * m.expert_width * active
    memory = (weights * m.bytes_per_weight / m.tensor_parallel + traffic) / m.memory_bandwidth
    return max(compute, memory) * 1e6
