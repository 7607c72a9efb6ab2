"""Limits and policies of one BLIS instance, with BLIS's flag names and defaults."""

from dataclasses import dataclass

from tailcast.engine.blis.kv_capacity import capped_model_len, kv_capacity
from tailcast.engine.blis.latency_model import BlisLatencyModel
from tailcast.engine.blis.step_time import MAX_INT64
from tailcast.errors import UsageError, near_name

SCHEDULERS = ("fcfs", "priority-fcfs", "sjf", "reverse-priority")
"""Orders of the waiting queue; the first is BLIS's default."""

PREEMPTION_POLICIES = ("fcfs", "priority")
"""Who is preempted: the last admitted, or the least urgent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlisSettings:
    """One instance's settings.

    Parameters
    ----------
    max_num_seqs : int
        Most requests that run at a time.
    max_num_batched_tokens : int
        Token budget of a step.
    long_prefill_token_threshold : int
        Most prompt tokens of one request in a step, 0 for no limit.
    max_model_len : int
        Longest sequence, 0 for no limit. BLIS derives it from the model and the KV blocks
        (`BlisModelConfig.max_model_len`, `capped_model_len`).
    block_size : int
        Tokens per KV block.
    kv_blocks : int
        KV blocks; BLIS's fallback of a million stands for "plenty".
    scheduler : {"fcfs", "priority-fcfs", "sjf", "reverse-priority"}
        Order of the waiting queue.
    preemption_policy : {"fcfs", "priority"}
        Choice of the victim when blocks run out.
    horizon_us : int
        No event after this microsecond is executed.
    """

    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    long_prefill_token_threshold: int = 0
    max_model_len: int = 0
    block_size: int = 16
    kv_blocks: int = 1_000_000
    scheduler: str = "fcfs"
    preemption_policy: str = "fcfs"
    horizon_us: int = MAX_INT64

    def __post_init__(self) -> None:
        for name, least in (
            ("max_num_seqs", 1),
            ("max_num_batched_tokens", 1),
            ("long_prefill_token_threshold", 0),
            ("max_model_len", 0),
            ("block_size", 1),
            ("kv_blocks", 1),
            ("horizon_us", 0),
        ):
            value = getattr(self, name)
            if value < least:
                raise UsageError(f"{name} must be at least {least}, got {value!r}")
        for name, known in (("scheduler", SCHEDULERS), ("preemption_policy", PREEMPTION_POLICIES)):
            value = getattr(self, name)
            if value not in known:
                raise UsageError(f"no BLIS {name} {value!r}; {near_name(value, known)}")


def automatic_settings(
    model: BlisLatencyModel,
    *,
    kv_blocks: int | None = None,
    max_model_len: int | None = None,
    gpu_memory_utilization: float = 0.9,
    block_size: int = 16,
    max_num_seqs: int = 256,
    max_num_batched_tokens: int = 2048,
) -> BlisSettings:
    """Settings of ``blis run`` where KV blocks and sequence limit are left to it.

    Parameters
    ----------
    model : BlisLatencyModel
        Deployment.
    kv_blocks : int, optional
        KV blocks; computed from the memory by default.
    max_model_len : int, optional
        Sequence limit; by default the model's, capped by the KV blocks.
    gpu_memory_utilization : float
        Usable share of memory, in (0, 1].
    block_size, max_num_seqs, max_num_batched_tokens : int
        As in `BlisSettings`; other fields can be replaced afterwards.

    Returns
    -------
    BlisSettings
        Complete.

    Raises
    ------
    CapacityError
        If blocks are to be computed and the weights do not fit.
    """
    if kv_blocks is None:
        kv_blocks = kv_capacity(
            model.llm,
            model.accelerator,
            tensor_parallel=model.tensor_parallel,
            data_parallel=model.data_parallel,
            block_size=block_size,
            gpu_memory_utilization=gpu_memory_utilization,
        ).blocks
    if max_model_len is None:
        max_model_len = capped_model_len(model.llm.max_model_len, kv_blocks, block_size)
    return BlisSettings(
        max_num_seqs=max_num_seqs,
        max_num_batched_tokens=max_num_batched_tokens,
        max_model_len=max_model_len,
        block_size=block_size,
        kv_blocks=kv_blocks,
    )
