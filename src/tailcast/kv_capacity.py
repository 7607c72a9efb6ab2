"""Memory of one accelerator of an engine: weights, profiling peak, and what is left for KV blocks.

The engine is vLLM's V1: before serving it runs one dummy step of ``max_num_batched_tokens`` tokens
and one dummy sampling of ``max_num_seqs`` rows, and gives the KV cache whatever its memory share
leaves beside the weights, the peak of that run, and memory taken outside of PyTorch.
"""

import math

from tailcast.errors import CapacityError
from tailcast.llm import Llm

_GIBI = 2.0**30
# Memory outside of PyTorch: CUDA modules and, between accelerators, NCCL and all-reduce buffers.
# Both are what logged block counts of vLLM 0.15 on H100 leave (0.16 at TP 1, 0.52-0.65 at TP 2-4).
_OUTSIDE_ALONE = 0.16 * _GIBI
_OUTSIDE_SHARDED = 0.6 * _GIBI
# Bytes for each logit while sampling with top-k and top-p. Until vLLM 0.16 PyTorch sorts them:
# 16-bit logits 2, 32-bit copy 4, sorted values 4, their indices 8, segment indices 8, buffers 12.
# Later a kernel masks in place: 2 + 4, probabilities 4, exponential noise 4.
_SORTED_LOGIT_BYTES = 38.0
_MASKED_LOGIT_BYTES = 14.0
_FIRST_WITHOUT_SORT = (0, 16)


def check_heads(llm: Llm, tensor_parallel: int) -> None:
    """Refuse a tensor parallelism that cannot split the heads.

    Parameters
    ----------
    llm : Llm
        What is served.
    tensor_parallel : int
        Accelerators that share each layer.

    Raises
    ------
    CapacityError
        If heads cannot be split evenly, with the values that work.
    """
    if splits_heads(llm, tensor_parallel):
        return
    good = [str(tp) for tp in range(1, 65) if splits_heads(llm, tp)]
    raise CapacityError(
        f"{llm.name}: its {llm.n_heads} heads ({llm.n_kv_heads} for keys and values) cannot be "
        f"split by tensor_parallel {tensor_parallel}; use {', '.join(good)}"
    )


def splits_heads(llm: Llm, tensor_parallel: int) -> bool:
    """Whether heads split evenly; key/value heads are repeated where there are too few.

    Parameters
    ----------
    llm : Llm
        What is served.
    tensor_parallel : int
        Accelerators that share each layer.

    Returns
    -------
    bool
        True if vLLM would start.
    """
    if llm.n_heads % tensor_parallel:
        return False
    if llm.is_mla:
        return True
    more, fewer = max(llm.n_kv_heads, tensor_parallel), min(llm.n_kv_heads, tensor_parallel)
    return more % fewer == 0


def weight_bytes_per_accelerator(llm: Llm, tensor_parallel: int, data_parallel: int = 1) -> float:
    """Bytes of weights and constant tables resident on one accelerator.

    Parameters
    ----------
    llm : Llm
        What is served.
    tensor_parallel, data_parallel : int
        Parallelism. Routed experts are spread over both, everything else over the first.

    Returns
    -------
    float
        Bytes. Routers, norms and MLA's down-projections are repeated on every accelerator, and
        key/value projections where there are fewer heads than accelerators.
    """
    experts = llm.n_experts * llm.expert_weight_bytes
    router_and_norms = 2.0 * (llm.router_parameters + llm.norm_parameters)
    repeated = llm.kv_projection_parameters * llm.quantisation.attention
    copies = tensor_parallel if llm.is_mla else _kv_copies(llm, tensor_parallel)
    rest = llm.total_weight_bytes - experts - router_and_norms - repeated
    sharded = (rest + repeated * copies) / tensor_parallel
    return (
        sharded
        + router_and_norms
        + experts / (tensor_parallel * data_parallel)
        + rotary_table_bytes(llm)
    )


def rotary_table_bytes(llm: Llm) -> float:
    """Bytes of the cosine and sine table, kept whole on every accelerator.

    Parameters
    ----------
    llm : Llm
        What is served. The table covers all positions it was made for, whatever the engine's
        ``max_model_len``: 2.5 GiB for the ten million of Llama 4 Scout.

    Returns
    -------
    float
        Bytes at 16 bits.
    """
    dimension = llm.qk_rope_head_dim if llm.is_mla else llm.head_dim
    return 2.0 * llm.max_position * dimension


def activation_peak(
    llm: Llm,
    *,
    tensor_parallel: int,
    max_num_batched_tokens: int,
    max_num_seqs: int,
    version: tuple[int, ...],
) -> float:
    """Peak bytes of the profiling run above the weights, on one accelerator.

    Parameters
    ----------
    llm : Llm
        What is served.
    tensor_parallel : int
        Accelerators that share each layer.
    max_num_batched_tokens, max_num_seqs : int
        Engine limits.
    version : tuple of int
        Version of vLLM.

    Returns
    -------
    float
        Hidden states and residual of all tokens, plus the larger of one FFN and the sampler.
    """
    states = 2 * 2.0 * llm.hidden * max_num_batched_tokens
    inner = (3 if llm.gated_ffn else 2) / tensor_parallel
    dense = inner * max(llm.dense_intermediate, llm.shared_intermediate)
    routed = llm.experts_per_token * (inner * llm.moe_intermediate + llm.hidden)
    ffn = 2.0 * max(dense, routed) * max_num_batched_tokens
    per_logit = _SORTED_LOGIT_BYTES if version < _FIRST_WITHOUT_SORT else _MASKED_LOGIT_BYTES
    sampler = per_logit * llm.vocab * max_num_seqs
    return states + max(ffn, sampler)


def kv_memory(
    llm: Llm,
    *,
    memory: float,
    gpu_memory_utilization: float,
    tensor_parallel: int,
    data_parallel: int,
    max_num_batched_tokens: int,
    max_num_seqs: int,
    version: tuple[int, ...],
) -> float:
    """Bytes of one accelerator left for the KV cache; negative where the weights do not fit.

    Parameters
    ----------
    llm : Llm
        What is served.
    memory : float
        Bytes of the accelerator, as its driver reports them.
    gpu_memory_utilization : float
        Share of it that the engine may use.
    tensor_parallel, data_parallel : int
        Parallelism.
    max_num_batched_tokens, max_num_seqs : int
        Engine limits.
    version : tuple of int
        Version of vLLM.

    Returns
    -------
    float
        Bytes.
    """
    sharded = tensor_parallel * data_parallel > 1
    return (
        memory * gpu_memory_utilization
        - weight_bytes_per_accelerator(llm, tensor_parallel, data_parallel)
        - activation_peak(
            llm,
            tensor_parallel=tensor_parallel,
            max_num_batched_tokens=max_num_batched_tokens,
            max_num_seqs=max_num_seqs,
            version=version,
        )
        - (_OUTSIDE_SHARDED if sharded else _OUTSIDE_ALONE)
    )


def kv_share(llm: Llm, tensor_parallel: int) -> float:
    """Part of a token's KV bytes that one accelerator holds.

    Parameters
    ----------
    llm : Llm
        What is served.
    tensor_parallel : int
        Accelerators that share each layer.

    Returns
    -------
    float
        ``1/tensor_parallel`` for split heads; more where heads are repeated; 1 for MLA's latent.
    """
    if llm.is_mla:
        return 1.0
    return _kv_copies(llm, tensor_parallel) / tensor_parallel


def n_kv_blocks(
    llm: Llm,
    memory: float,
    *,
    kv_bytes_per_value: float,
    tensor_parallel: int,
    block_size: int,
    max_num_seqs: int,
    max_num_batched_tokens: int,
) -> int:
    """Blocks of tokens that fit into a KV cache.

    Where some layers are windowed and others not, blocks count the latter, and the windows of
    `max_num_seqs` sequences are set aside, if that gives more than all tokens in all layers.
    Chunked attention (Llama 4) is stored whole, as vLLM does by default.

    Parameters
    ----------
    llm : Llm
        What is served.
    memory : float
        Bytes of KV cache on one accelerator.
    kv_bytes_per_value : float
        2 for a 16-bit cache, 1 for FP8.
    tensor_parallel : int
        Accelerators that share each layer.
    block_size : int
        Tokens of a block.
    max_num_seqs, max_num_batched_tokens : int
        Engine limits.

    Returns
    -------
    int
        Blocks; 0 where there is no memory.
    """
    scale = kv_share(llm, tensor_parallel) * kv_bytes_per_value / 2.0
    full, window = llm.kv_bytes_per_token * scale, llm.window_kv_bytes_per_token * scale
    blocks = memory / (block_size * (full + window))
    if full and window and not llm.family.startswith("llama4"):
        window_blocks = math.ceil(llm.sliding_window / block_size) + 1
        aside = max_num_seqs * window_blocks * block_size + max_num_batched_tokens
        blocks = max(blocks, (memory - aside * window) / (block_size * full))
    return max(0, math.floor(blocks))


def _kv_copies(llm: Llm, tensor_parallel: int) -> float:
    return max(1.0, tensor_parallel / llm.n_kv_heads)
