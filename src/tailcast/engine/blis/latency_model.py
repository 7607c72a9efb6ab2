"""A deployment as BLIS times it: model, accelerator, parallelism, backend and coefficients."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from tailcast.engine.blis.accelerators import BlisAccelerator
from tailcast.engine.blis.coefficients import BlisCoefficients, load_blis_coefficients
from tailcast.engine.blis.columns import Entry
from tailcast.engine.blis.model_config import BlisModelConfig
from tailcast.engine.blis.step_time import (
    PhysicsTerms,
    RooflineTerms,
    StepModel,
    step_time_us,
    truncated_us,
)
from tailcast.errors import CapacityError, InputError, UsageError, near_name

BACKENDS = ("trained-physics", "roofline")
"""BLIS's latency backends; the first is its default."""

_ALL_GATHER = ("naive", "allgather_reducescatter")
_ALL_TO_ALL = (
    "pplx",
    "deepep_high_throughput",
    "deepep_low_latency",
    "mori",
    "flashinfer_all2allv",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchEntry:
    """One request's share of a step.

    Parameters
    ----------
    input_tokens : int
        Whole prompt.
    progress : int
        Tokens computed before the step, prompt and generated.
    new_tokens : int
        Tokens computed in the step, at least 1.
    output_tokens : int
        Tokens to generate; only whether it is positive matters.
    """

    input_tokens: int
    progress: int
    new_tokens: int = 1
    output_tokens: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class BlisLatencyModel:
    """Step times and request overheads of one deployment.

    Parameters
    ----------
    llm : BlisModelConfig
        Model as BLIS reads it.
    accelerator : BlisAccelerator
        Row of BLIS's hardware table.
    tensor_parallel, data_parallel : int
        Parallel degrees; data parallelism needs a MoE model.
    backend : {"trained-physics", "roofline"}
        Which formulas time a step.
    coefficients : BlisCoefficients or None
        None: BLIS's defaults of the backend (roofline: no overheads).
    expert_communication : str
        ``--moe-comm-backend``; matters with experts and data parallelism only.
    """

    llm: BlisModelConfig
    accelerator: BlisAccelerator
    tensor_parallel: int = 1
    data_parallel: int = 1
    backend: str = "trained-physics"
    coefficients: BlisCoefficients | None = None
    expert_communication: str = "allgather_reducescatter"
    step_model: StepModel = field(init=False, repr=False)
    overheads: BlisCoefficients = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if self.backend not in BACKENDS:
            raise UsageError(
                f"no BLIS backend {self.backend!r}; {near_name(self.backend, BACKENDS)}"
            )
        known = (*_ALL_GATHER, *_ALL_TO_ALL)
        if self.expert_communication not in known:
            hint = near_name(self.expert_communication, known)
            raise UsageError(f"no expert communication {self.expert_communication!r}; {hint}")
        _check_parallelism(self)
        coefficients = self.coefficients
        if coefficients is None:
            roofline = self.backend == "roofline"
            coefficients = BlisCoefficients() if roofline else load_blis_coefficients()
        object.__setattr__(self, "overheads", coefficients)
        terms = StepModel(
            is_roofline=self.backend == "roofline",
            physics=_physics_terms(self, coefficients),
            roofline=_roofline_terms(self),
        )
        object.__setattr__(self, "step_model", terms)

    @property
    def stream_us(self) -> int:
        """Microseconds added to each token's delivery."""
        return int(truncated_us(self.overheads.stream))

    @property
    def finish_us(self) -> int:
        """Microseconds added once to a finished request; roofline has none."""
        return 0 if self.backend == "roofline" else int(truncated_us(self.overheads.finish))

    def ingest_us(self, input_tokens: int) -> int:
        """Delay between arrival and queue.

        Parameters
        ----------
        input_tokens : int
            Whole prompt; matters to roofline alone.

        Returns
        -------
        int
            Microseconds.
        """
        delay = self.overheads.ingest
        if self.backend == "roofline":
            delay = delay + self.overheads.ingest_per_token * input_tokens
        return int(truncated_us(delay))

    def step_time_us(self, batch: Sequence[BatchEntry]) -> int:
        """Duration of one step.

        Parameters
        ----------
        batch : sequence of BatchEntry
            Requests with new tokens, in running order.

        Returns
        -------
        int
            Microseconds, at least 1.
        """
        rows = [[e.input_tokens, e.output_tokens, e.progress, e.new_tokens] for e in batch]
        columns = np.array(rows, dtype=np.int64).reshape(-1, len(Entry))
        return int(step_time_us(self.step_model, columns, len(batch)))


def _check_parallelism(model: BlisLatencyModel) -> None:
    llm, tp = model.llm, model.tensor_parallel
    if tp < 1 or model.data_parallel < 1:
        raise UsageError(
            f"parallel degrees must be positive, got tp {tp} and dp {model.data_parallel}"
        )
    if model.data_parallel > 1 and not llm.is_moe:
        raise CapacityError("BLIS takes data parallelism for mixture-of-experts models only")
    if model.backend == "roofline":
        if llm.experts_per_token > llm.n_experts and llm.is_moe:
            raise InputError(
                f"{llm.experts_per_token} experts per token exceed {llm.n_experts} experts"
            )
        return
    for name, heads in (("attention heads", llm.n_heads), ("KV heads", llm.n_kv_heads)):
        if heads % tp:
            raise CapacityError(f"{heads} {name} cannot be split over tensor parallelism {tp}")
    if llm.intermediate <= 0:
        raise InputError("trained physics needs intermediate_size (or ffn_hidden_size)")


def _physics_terms(model: BlisLatencyModel, c: BlisCoefficients) -> PhysicsTerms:
    llm, tp, dp = model.llm, model.tensor_parallel, model.data_parallel
    head_dim = llm.hidden // llm.n_heads
    gathers = model.expert_communication in _ALL_GATHER
    top_k = max(1, llm.experts_per_token)
    return PhysicsTerms(
        n_layers=float(llm.n_layers),
        n_moe_layers=float(llm.n_moe_layers),
        n_dense_layers=float(llm.n_dense_layers),
        hidden=float(llm.hidden),
        heads_per_gpu=llm.n_heads / tp,
        head_dim=float(head_dim),
        kv_dim=float(llm.n_kv_heads * head_dim),
        expert_width=float(llm.expert_width),
        dense_width=float(llm.dense_width),
        shared_width=float(llm.shared_intermediate),
        n_experts=float(llm.n_experts),
        experts_per_token=float(top_k),
        tensor_parallel=float(tp),
        data_parallel=float(dp),
        expert_group=float(tp * dp if llm.is_moe else tp),
        bytes_per_element=float(llm.bytes_per_element),
        bytes_per_weight=float(llm.bytes_per_weight),
        peak_flops=model.accelerator.peak_tflops(llm.bytes_per_weight) * 1e6,
        memory_bandwidth=model.accelerator.memory_bandwidth * 1e6,
        moe_allreduce=llm.is_moe and dp == 1 and tp > 1,
        expert_dispatch_copies=1.0 if gathers else float(top_k),
        prefill_compute=c.prefill_compute,
        prefill_kv_write=c.prefill_kv_write or 0.0,
        prefill_is_split=c.prefill_kv_write is not None,
        decode_compute=c.decode_compute,
        decode_kv_read=c.decode_kv_read or 0.0,
        decode_is_split=c.decode_kv_read is not None,
        weight_read=c.weight_read,
        tp_allreduce=c.tp_allreduce,
        expert_dispatch=c.tp_allreduce if c.expert_dispatch is None else c.expert_dispatch,
        per_layer=c.per_layer,
        per_request=c.per_request,
        per_step=c.per_step,
        per_moe_layer=c.per_moe_layer if llm.is_interleaved else 0.0,
    )


def _roofline_terms(model: BlisLatencyModel) -> RooflineTerms:
    llm, gpu = model.llm, model.accelerator
    peak = gpu.peak_tflops(llm.bytes_per_weight) * 1e12
    default_width = 4.0 * llm.hidden
    return RooflineTerms(
        n_layers=float(llm.n_layers),
        n_moe_layers=float(llm.n_moe_layers),
        n_dense_layers=float(llm.n_dense_layers),
        hidden=float(llm.hidden),
        n_heads=float(llm.n_heads),
        head_dim=llm.hidden / llm.n_heads,
        n_kv_heads=float(llm.n_kv_heads),
        expert_width=float(llm.expert_width) or default_width,
        dense_width=float(llm.dense_width) or default_width,
        n_experts=float(llm.n_experts),
        experts_per_token=float(llm.experts_per_token),
        tensor_parallel=float(model.tensor_parallel),
        bytes_per_element=float(llm.bytes_per_element),
        bytes_per_weight=float(llm.bytes_per_weight),
        prefill_flops=peak * gpu.mfu_prefill,
        decode_flops=peak * gpu.mfu_decode,
        memory_bandwidth=gpu.memory_bandwidth * 1e12,
    )
