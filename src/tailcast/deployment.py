"""An LLM on accelerators behind an engine: parallelism, formats, limits and KV capacity."""

import math
import re
from dataclasses import dataclass, field, replace

from tailcast.errors import CapacityError, UsageError
from tailcast.hardware import Accelerator
from tailcast.kv_capacity import (
    check_heads,
    kv_memory,
    kv_share,
    n_kv_blocks,
    splits_heads,
    weight_bytes_per_accelerator,
)
from tailcast.llm import Llm, quantised

_GIBI = 2.0**30
_SCHEDULERS = ("fcfs", "priority")
_WEIGHTS = ("bf16", "fp16", "fp8", "int8", "int4")
_KV_DTYPES = ("auto", "bf16", "fp8")
_ASYNC_SINCE = (0, 14)
_LONG_WINDOW = 4096
_MOST, _MOST_BLOCKS = 10**9, 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Limits and switches of a serving engine, spelt as vLLM spells them.

    Parameters
    ----------
    name, version : str
        Engine and its version, for example ``"vllm"`` and ``"0.15.1"``.
    max_num_seqs, max_num_batched_tokens : int
        Sequences and tokens of one step at most; `engine_defaults` has vLLM's values for an
        accelerator.
    max_model_len : int, optional
        Tokens of one request at most, prompt and output together; by default what the LLM was made
        for.
    block_size : int
        Tokens of a KV block.
    gpu_memory_utilization : float
        Share of the accelerator's memory that the engine may use, in (0, 1].
    prefix_caching, chunked_prefill : bool
        Whether computed prompt blocks are kept, and whether prompts may be split over steps.
    long_prefill_token_threshold : int
        Prompt tokens of one request in one step at most; 0 for no limit.
    scheduler : str
        ``"fcfs"`` or ``"priority"``.
    async_scheduling : bool, optional
        Whether a step is scheduled while the one before runs; by default as the version has it.
    kv_cpu_offload : bool
        Whether evicted KV blocks go to host memory.
    enforce_eager : bool
        Whether CUDA graphs are off.
    """

    name: str = "vllm"
    version: str = "0.15.1"
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048
    max_model_len: int | None = None
    block_size: int = 16
    gpu_memory_utilization: float = 0.9
    prefix_caching: bool = True
    chunked_prefill: bool = True
    long_prefill_token_threshold: int = 0
    scheduler: str = "fcfs"
    async_scheduling: bool | None = None
    kv_cpu_offload: bool = False
    enforce_eager: bool = False

    def __post_init__(self) -> None:
        for name, least in (
            ("max_num_seqs", 1),
            ("max_num_batched_tokens", 1),
            ("block_size", 1),
            ("long_prefill_token_threshold", 0),
        ):
            _whole(name, getattr(self, name), least)
        if self.max_model_len is not None:
            _whole("max_model_len", self.max_model_len, 2)
        for name in ("prefix_caching", "chunked_prefill", "kv_cpu_offload", "enforce_eager"):
            if not isinstance(getattr(self, name), bool):
                raise UsageError(f"{name} must be true or false, got {getattr(self, name)!r}")
        if not isinstance(self.async_scheduling, bool | None):
            raise UsageError(
                f"async_scheduling must be true or false, got {self.async_scheduling!r}"
            )
        share = self.gpu_memory_utilization
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
            raise UsageError(f"gpu_memory_utilization must lie in (0, 1], got {share!r}")
        if self.scheduler not in _SCHEDULERS:
            raise UsageError(
                f"scheduler {self.scheduler!r} must be one of {', '.join(_SCHEDULERS)}"
            )
        if not self.name:
            raise UsageError("the engine needs a name, for example 'vllm'")
        self.version_numbers  # noqa: B018  (refuses a malformed version)
        if self.max_num_seqs > self.max_num_batched_tokens:
            raise UsageError(
                f"max_num_seqs {self.max_num_seqs} exceeds max_num_batched_tokens "
                f"{self.max_num_batched_tokens}: a step has at least one token for each sequence"
            )
        if not self.chunked_prefill and self.max_num_batched_tokens < (self.max_model_len or 0):
            raise UsageError(
                f"without chunked prefill max_num_batched_tokens {self.max_num_batched_tokens} "
                f"must reach max_model_len {self.max_model_len}"
            )

    @property
    def version_numbers(self) -> tuple[int, ...]:
        """Leading numbers of the version, for example ``(0, 15, 1)``."""
        found = re.match(r"v?(\d+(?:\.\d+)*)", str(self.version))
        if found is None:
            raise UsageError(f"engine version {self.version!r} does not begin with a number")
        return tuple(int(part) for part in found[1].split("."))

    @property
    def schedules_ahead(self) -> bool:
        """Whether a step is scheduled while the one before runs; vLLM's default since 0.14."""
        if self.async_scheduling is not None:
            return self.async_scheduling
        return self.name == "vllm" and self.version_numbers >= _ASYNC_SINCE


def engine_defaults(accelerator: Accelerator) -> EngineSettings:
    """Settings that ``vllm serve`` chooses when told nothing.

    Accelerators of at least 70 GiB other than the A100 get 8192 tokens and 1024 sequences a step,
    the others 2048 and 256 (vLLM 0.15, ``EngineArgs.get_batch_defaults``).

    Parameters
    ----------
    accelerator : Accelerator
        What the engine runs on.

    Returns
    -------
    EngineSettings
        Of vLLM 0.15.1.
    """
    if accelerator.memory >= 70 * _GIBI and "a100" not in accelerator.name.lower():
        return EngineSettings(max_num_batched_tokens=8192, max_num_seqs=1024)
    return EngineSettings(max_num_batched_tokens=2048, max_num_seqs=256)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """One replica: an LLM served by one engine on ``tensor_parallel * data_parallel`` accelerators.

    Parameters
    ----------
    llm : Llm
        The LLM as published; `served_llm` is what the engine really runs.
    accelerator : Accelerator
        What it runs on.
    tensor_parallel : int
        Accelerators that share each layer.
    data_parallel : int
        Ranks with a scheduler and a KV cache of their own; mixture of experts only, whose routed
        experts are spread over all ranks.
    engine : EngineSettings
        Limits and switches.
    weights : str, optional
        Format of the weights where it differs from the LLM's own: ``"bf16"`` or ``"fp16"`` (both
        mean 16 bits), ``"fp8"``, ``"int8"``, ``"int4"``.
    kv_dtype : str
        ``"auto"`` (as the checkpoint says, else 16 bits), ``"bf16"`` or ``"fp8"``.
    kv_blocks : int, optional
        Blocks of the KV cache of one rank, where they are known; computed by default.
    """

    llm: Llm
    accelerator: Accelerator
    tensor_parallel: int = 1
    data_parallel: int = 1
    engine: EngineSettings = field(default_factory=EngineSettings)
    weights: str | None = None
    kv_dtype: str = "auto"
    kv_blocks: int | None = None

    def __post_init__(self) -> None:
        _whole("tensor_parallel", self.tensor_parallel, 1)
        _whole("data_parallel", self.data_parallel, 1)
        if self.weights is not None and self.weights not in _WEIGHTS:
            raise UsageError(f"weights {self.weights!r} must be one of {', '.join(_WEIGHTS)}")
        if self.kv_dtype not in _KV_DTYPES:
            raise UsageError(f"kv_dtype {self.kv_dtype!r} must be one of {', '.join(_KV_DTYPES)}")
        if self.data_parallel > 1 and not self.llm.is_moe:
            raise UsageError(
                f"data_parallel {self.data_parallel} needs a mixture of experts and "
                f"{self.llm.name} is dense; serve it by that many replicas instead"
            )
        if (self.engine.max_model_len or 0) > self.llm.max_position:
            raise UsageError(
                f"max_model_len {self.engine.max_model_len} exceeds the {self.llm.max_position} "
                f"positions that {self.llm.name} was made for"
            )
        check_heads(self.llm, self.tensor_parallel)
        if self.kv_blocks is None:
            self.kv_block_count  # noqa: B018  (refuses weights that do not fit)
        else:
            _whole("kv_blocks", self.kv_blocks, 1, most=_MOST_BLOCKS)

    @property
    def served_llm(self) -> Llm:
        """The LLM as served: weights in their format, windows that hide little as full attention.

        Those are windows that no request outgrows, and all of 4096 tokens or more: step times are
        linear in the context, so a window is charged whole or not at all, and most contexts are
        shorter than that.
        """
        longest = self.engine.max_model_len or self.llm.max_position
        if self.llm.sliding_window >= _LONG_WINDOW:
            longest = min(longest, self.llm.sliding_window)
        llm = replace(self.llm, longest_context=longest)
        if self.weights is None:
            return llm
        return quantised(llm, "bf16" if self.weights == "fp16" else self.weights)

    @property
    def n_accelerators(self) -> int:
        """Accelerators of the replica."""
        return self.tensor_parallel * self.data_parallel

    @property
    def weight_dtype(self) -> str:
        """Format of the weights as served, for example ``"fp8"``."""
        return self.served_llm.quantisation.scheme

    @property
    def peak_flops(self) -> float:
        """Peak FLOP/s of one accelerator in the format that quantised products are computed in.

        FP8 only where weights and activations are FP8 and the accelerator has it.
        """
        return self.accelerator.peak_flops(self.served_llm.quantisation.compute)

    @property
    def attention_peak_flops(self) -> float:
        """Peak FLOP/s of one accelerator for attention and lm_head, which stay at 16 bits."""
        return self.accelerator.peak_flops(self.llm.dtype)

    @property
    def matmul_seconds_per_token(self) -> float:
        """Seconds of the layers' matrix products for one token at peak, on the whole replica.

        Each product counts at the peak of its own format, and is shared by `tensor_parallel`.
        """
        flops = self.served_llm.matmul_flops_by_dtype
        seconds = sum(flop / self.accelerator.peak_flops(dtype) for dtype, flop in flops.items())
        return seconds / self.tensor_parallel

    @property
    def kv_bytes_per_value(self) -> float:
        """Bytes of one number in the KV cache."""
        asked = self.kv_dtype if self.kv_dtype != "auto" else self.llm.quantisation.kv_cache
        return 1.0 if asked == "fp8" else 2.0

    @property
    def kv_bytes_per_token_per_accelerator(self) -> float:
        """KV bytes of one token in the full-attention layers, on one accelerator."""
        return self.served_llm.kv_bytes_per_token * self._kv_scale

    @property
    def window_kv_bytes_per_token_per_accelerator(self) -> float:
        """KV bytes of one token in the windowed layers, on one accelerator."""
        return self.served_llm.window_kv_bytes_per_token * self._kv_scale

    @property
    def weight_bytes_per_accelerator(self) -> float:
        """Bytes of weights resident on one accelerator."""
        return weight_bytes_per_accelerator(
            self.served_llm, self.tensor_parallel, self.data_parallel
        )

    @property
    def kv_block_count(self) -> int:
        """Blocks of the KV cache of one rank: as given, else computed from memory."""
        if self.kv_blocks is not None:
            return self.kv_blocks
        blocks = self._computed_blocks(self.served_llm, self.tensor_parallel)
        if blocks < 1:
            raise CapacityError(self._does_not_fit())
        return blocks

    @property
    def max_model_len(self) -> int:
        """Tokens of one request at most, never more than the KV cache holds."""
        asked = self.engine.max_model_len or self.llm.max_position
        return min(asked, self.kv_block_count * self.engine.block_size)

    @property
    def _kv_scale(self) -> float:
        return kv_share(self.llm, self.tensor_parallel) * self.kv_bytes_per_value / 2.0

    def _computed_blocks(self, llm: Llm, tensor_parallel: int) -> int:
        engine = self.engine
        memory = kv_memory(
            llm,
            memory=self.accelerator.memory,
            gpu_memory_utilization=engine.gpu_memory_utilization,
            tensor_parallel=tensor_parallel,
            data_parallel=self.data_parallel,
            max_num_batched_tokens=engine.max_num_batched_tokens,
            max_num_seqs=engine.max_num_seqs,
            version=engine.version_numbers,
        )
        return n_kv_blocks(
            llm,
            memory,
            kv_bytes_per_value=self.kv_bytes_per_value,
            tensor_parallel=tensor_parallel,
            block_size=engine.block_size,
            max_num_seqs=engine.max_num_seqs,
            max_num_batched_tokens=engine.max_num_batched_tokens,
        )

    def _does_not_fit(self) -> str:
        llm, tp = self.served_llm, self.tensor_parallel
        usable = self.accelerator.memory * self.engine.gpu_memory_utilization / _GIBI
        text = (
            f"{llm.name} ({llm.quantisation.scheme} weights, "
            f"{self.weight_bytes_per_accelerator / _GIBI:.1f} GiB on each of "
            f"{self.n_accelerators}) leaves no memory for a KV cache on {self.accelerator.name} "
            f"({usable:.1f} GiB usable)"
        )
        powers = (2**k for k in range(1, math.floor(math.log2(llm.n_heads)) + 1))
        larger = (p for p in powers if p > tp and splits_heads(llm, p))
        ways = [f"tensor_parallel {p}" for p in larger if self._computed_blocks(llm, p) >= 1][:1]
        ways += [
            f"weights {form}"
            for form in ("fp8", "int4")
            if self._computed_blocks(quantised(llm, form), tp) >= 1
        ][:1]
        return f"{text}; use {' or '.join(ways)}" if ways else f"{text}; nothing here makes it fit"


def _whole(name: str, value: object, least: int, most: int = _MOST) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise UsageError(f"{name} must be a whole number of at least {least}, got {value!r:.40}")
    if value > most:
        raise UsageError(f"{name} must be at most {most}, got {value!r:.40}")
