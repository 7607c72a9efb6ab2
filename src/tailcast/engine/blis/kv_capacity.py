"""KV blocks that BLIS computes for a deployment, with its over-count for tensor parallelism kept.

BLIS divides the free memory of *all* GPUs by the bytes a block takes on *one*, so the count is too
large by a factor of about the tensor-parallel degree (inference-sim issue 1545).
"""

import math
from dataclasses import dataclass

from tailcast.engine.blis.accelerators import BlisAccelerator
from tailcast.engine.blis.model_config import BlisModelConfig
from tailcast.errors import CapacityError, InputError, UsageError

_GIB = float(1 << 30)
_GATED_ACTIVATIONS = ("silu", "swiglu", "geglu", "situ", "")
_ACTIVATION_GIB_DENSE = 5.5
_ACTIVATION_GIB_MOE = 8.0
_NON_TORCH_GIB_SINGLE = 0.15
_NON_TORCH_GIB_MULTI = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class KvCapacity:
    """Where BLIS sees the memory go; GiB over all GPUs of a replica.

    Parameters
    ----------
    blocks : int
        KV blocks, times the data-parallel degree for MoE.
    bytes_per_token : float
        KV bytes of one token on one GPU.
    available, weights, activation, non_torch, reserved : float
        GiB: usable memory and what is taken from it.
    """

    blocks: int
    bytes_per_token: float
    available: float
    weights: float
    activation: float
    non_torch: float
    reserved: float


def kv_bytes_per_token(llm: BlisModelConfig, tensor_parallel: int = 1) -> float:
    """KV bytes that one token takes on one GPU, as BLIS counts them.

    Parameters
    ----------
    llm : BlisModelConfig
        Model.
    tensor_parallel : int
        Tensor-parallel degree. Fewer KV heads than GPUs are still divided by it.

    Returns
    -------
    float
        Bytes; compressed attention (MLA) is not divided over GPUs.

    Raises
    ------
    CapacityError
        If the KV heads cannot be split evenly, or the head size is not whole.
    """
    if llm.kv_lora_rank > 0:
        return llm.n_layers * (llm.kv_lora_rank + llm.qk_rope_head_dim) * llm.bytes_per_element
    if not llm.head_dim and llm.hidden % llm.n_heads:
        raise CapacityError(f"width {llm.hidden} is not a multiple of {llm.n_heads} heads")
    if llm.n_kv_heads >= tensor_parallel and llm.n_kv_heads % tensor_parallel:
        raise CapacityError(
            f"{llm.n_kv_heads} KV heads cannot be split over tensor parallelism {tensor_parallel}"
        )
    whole = llm.n_layers * 2.0 * _head_dim(llm) * llm.n_kv_heads * llm.bytes_per_element
    return whole / tensor_parallel


def weight_bytes(llm: BlisModelConfig) -> int:
    """Bytes of all resident weights, as BLIS counts them.

    Parameters
    ----------
    llm : BlisModelConfig
        Model; interleaving is not applied here, `first_dense` is.

    Returns
    -------
    int
        Bytes over all GPUs.
    """
    d, kv_dim = llm.hidden, llm.n_kv_heads * _head_dim(llm)
    attention_and_norms = d * (d + 2 * kv_dim) + d * d + 2 * d
    dense = 3 * d * llm.intermediate
    if llm.is_moe:
        experts = 3 * d * llm.expert_width * llm.n_experts
        moe = experts + 3 * d * llm.shared_intermediate + llm.n_experts * d
        n_dense = min(llm.first_dense, llm.n_layers)
        ffn = (llm.n_layers - n_dense) * moe + n_dense * 3 * d * llm.dense_width
    else:
        ffn = llm.n_layers * dense
    embeddings = llm.vocab * d * (1 if llm.tied_embeddings else 2)
    parameters = embeddings + llm.n_layers * attention_and_norms + ffn + d
    return int(parameters * llm.bytes_per_weight)


def kv_capacity(
    llm: BlisModelConfig,
    accelerator: BlisAccelerator,
    *,
    tensor_parallel: int = 1,
    data_parallel: int = 1,
    block_size: int = 16,
    gpu_memory_utilization: float = 0.9,
    reserved_bytes: int = 0,
) -> KvCapacity:
    """KV blocks that fit, by BLIS's arithmetic.

    Parameters
    ----------
    llm : BlisModelConfig
        Model.
    accelerator : BlisAccelerator
        Row of BLIS's hardware table.
    tensor_parallel, data_parallel : int
        Parallel degrees; blocks are multiplied by the latter for MoE models.
    block_size : int
        Tokens per block.
    gpu_memory_utilization : float
        Usable share of memory, in (0, 1].
    reserved_bytes : int
        Static reservation, for example LoRA adapters.

    Returns
    -------
    KvCapacity
        Blocks and the memory account behind them.

    Raises
    ------
    CapacityError
        If weights and overheads do not fit; the text names the smallest number of GPUs.
    InputError
        If the model lacks what the count needs, or has an FFN without a gate.
    UsageError
        If an argument is out of range.
    """
    _check_arguments(llm, tensor_parallel, data_parallel, block_size, gpu_memory_utilization)
    per_token = kv_bytes_per_token(llm, tensor_parallel)
    per_block = int(per_token * block_size)
    if per_block <= 0:
        raise InputError(f"a KV block of {block_size} tokens takes no whole byte on one GPU")
    single = tensor_parallel == 1
    account = KvCapacity(
        blocks=0,
        bytes_per_token=per_token,
        available=accelerator.memory * gpu_memory_utilization * tensor_parallel,
        weights=weight_bytes(llm) / _GIB,
        activation=_ACTIVATION_GIB_MOE if llm.is_moe else _ACTIVATION_GIB_DENSE,
        non_torch=(_NON_TORCH_GIB_SINGLE if single else _NON_TORCH_GIB_MULTI) * tensor_parallel,
        reserved=reserved_bytes / _GIB,
    )
    taken = account.weights + account.activation + account.non_torch + account.reserved
    if taken >= account.available:
        per_gpu = accelerator.memory * gpu_memory_utilization
        raise CapacityError(_too_large(account, taken, per_gpu, tensor_parallel))
    blocks = int((account.available - taken) * _GIB) // per_block
    if blocks <= 0:
        raise CapacityError(
            f"not one KV block of {per_block} bytes fits in {account.available - taken:.2f} GiB"
        )
    return KvCapacity(
        blocks=blocks * (data_parallel if llm.is_moe else 1),
        bytes_per_token=per_token,
        available=account.available,
        weights=account.weights,
        activation=account.activation,
        non_torch=account.non_torch,
        reserved=account.reserved,
    )


def capped_model_len(max_model_len: int, kv_blocks: int, block_size: int = 16) -> int:
    """Automatic sequence limit that one sequence can fill.

    Parameters
    ----------
    max_model_len : int
        Limit from the model configuration; 0 for none.
    kv_blocks, block_size : int
        Blocks and tokens per block.

    Returns
    -------
    int
        The limit, or the whole KV cache in tokens where that is less.
    """
    if max_model_len > 0 and math.ceil(max_model_len / block_size) > kv_blocks:
        return kv_blocks * block_size
    return max_model_len


def _head_dim(llm: BlisModelConfig) -> int:
    return llm.head_dim or llm.hidden // llm.n_heads


def _check_arguments(
    llm: BlisModelConfig, tp: int, dp: int, block_size: int, utilization: float
) -> None:
    for name, value in (
        ("tensor_parallel", tp),
        ("data_parallel", dp),
        ("block_size", block_size),
    ):
        if value < 1:
            raise UsageError(f"{name} must be positive, got {value}")
    if not 0 < utilization <= 1:
        raise UsageError(f"gpu_memory_utilization must lie in (0, 1], got {utilization!r}")
    if llm.intermediate <= 0 or llm.vocab <= 0:
        raise InputError("KV capacity needs intermediate_size and vocab_size of the model")
    if llm.activation not in _GATED_ACTIVATIONS:
        raise InputError(
            f"KV capacity knows gated FFNs only (silu, swiglu, geglu, situ), got {llm.activation!r}"
        )
    if not llm.is_moe and (llm.experts_per_token > 0 or llm.shared_intermediate > 0):
        raise InputError("the model names active or shared experts but not how many there are")


def _too_large(account: KvCapacity, taken: float, per_gpu: float, tp: int) -> str:
    text = (
        f"model overhead {taken:.2f} GiB ({account.weights:.2f} weights, "
        f"{account.activation:.2f} activation, {account.non_torch:.2f} non-torch, "
        f"{account.reserved:.2f} reserved) exceeds {account.available:.2f} GiB on {tp} GPU(s)"
    )
    room = per_gpu - _NON_TORCH_GIB_MULTI
    if room <= 0:
        return f"{text}; no number of GPUs would do"
    fixed = account.weights + account.activation + account.reserved
    return f"{text}; minimum GPUs per instance: {math.ceil(fixed / room)}"
