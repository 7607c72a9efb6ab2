"""BLIS's coefficients on the corrected engine: its numbers, our bases, seconds.

What carries over is the number that multiplies a time at the datasheet's peak, or a count. The
bases are ours: causal attention, the true head size, active experts, the output projection. Two
BLIS bases need another number to mean the same time: its all-reduce counts bytes at memory
bandwidth where ours counts them at the link's, and its MoE overhead was fitted on its own count of
MoE layers.
"""

from dataclasses import replace

import numpy as np

from tailcast.basis import ACTIVATION_BYTES
from tailcast.coefficients import Coefficients, step_law
from tailcast.deployment import Deployment
from tailcast.engine.blis.coefficients import BlisCoefficients, blis_coefficients
from tailcast.engine.blis.deployment import blis_llm
from tailcast.errors import InputError
from tailcast.latency_model import Coefficient, LatencyModel
from tailcast.step_law import StepLaw

_MICRO = 1e-6


def corrected_latency_model(model: LatencyModel, deployment: Deployment) -> LatencyModel:
    """A BLIS latency model on our bases, for one deployment.

    Parameters
    ----------
    model : LatencyModel
        In mode ``blis``.
    deployment : Deployment
        Decides the link's share of the memory bandwidth and BLIS's count of MoE layers.

    Returns
    -------
    LatencyModel
        In mode ``vllm``, all coefficients fixed, in seconds or dimensionless, without floors:
        several beat the datasheet.

    Raises
    ------
    InputError
        If `model` is not BLIS's, or leaves KV traffic to the larger-of-both rule, which is not
        linear in the batch.
    """
    c = blis_coefficients(model)
    if c.prefill_kv_write is None or c.decode_kv_read is None:
        raise InputError(
            f"latency model {model.name!r} has no prefill_kv_write or decode_kv_read: the larger "
            "of compute and traffic then counts, which only mode blis can do"
        )
    hardware = deployment.accelerator
    link_share = hardware.interconnect_bandwidth / hardware.memory_bandwidth
    values = {
        ("prefill_compute", "prefill_compute"): c.prefill_compute,
        ("decode_compute", "decode_compute"): c.decode_compute,
        ("decode_kv_read", "decode_kv_read"): c.decode_kv_read,
        ("weight_read", "weight_read"): c.weight_read,
        ("weight_read_quantised", "weight_read_quantised"): c.weight_read,
        ("tp_allreduce", "tp_allreduce"): c.tp_allreduce * link_share,
    }
    seconds = {
        ("per_layer", "layer_count"): c.per_layer,
        ("per_request", "request_count"): c.per_request,
        ("per_step", "step_count"): c.per_step,
        ("per_moe_layer", "step_count"): c.per_moe_layer * _counted_moe_layers(c, deployment),
        ("ingest", "ingest"): c.ingest,
        ("finish", "finish"): c.finish,
        ("stream", "stream"): c.stream,
    }
    entries = [(*key, value, "1") for key, value in values.items()]
    entries += [(*key, value * _MICRO, "s") for key, value in seconds.items()]
    return replace(
        model,
        mode="vllm",
        coefficients=tuple(
            Coefficient(
                name=name,
                basis=basis,
                unit=unit,
                floor=0.0,
                centre=value,
                sd=0.0,
                effects={},
                reference="",
            )
            for name, basis, value, unit in entries
        ),
    )


def corrected_law(model: LatencyModel, deployment: Deployment) -> StepLaw:
    """Step law of BLIS's coefficients on the corrected engine.

    Parameters
    ----------
    model : LatencyModel
        In mode ``blis``.
    deployment : Deployment
        LLM, accelerator, parallelism, engine limits.

    Returns
    -------
    StepLaw
        One draw.

    Raises
    ------
    InputError
        As for `corrected_latency_model`.
    """
    corrected = corrected_latency_model(model, deployment)
    values = {c.name: np.array([c.centre]) for c in corrected.coefficients}
    law = step_law(
        Coefficients(latency_model=corrected, values=values, speed=np.ones(1)), deployment
    )
    c = blis_coefficients(model)
    bandwidth = deployment.accelerator.memory_bandwidth
    write = (c.prefill_kv_write or 0.0) * deployment.kv_bytes_per_token_per_accelerator / bandwidth
    dispatch = _dispatch_per_token(c, deployment)
    return replace(
        law,
        per_prefill_token=law.per_prefill_token + write + dispatch,
        per_decode=law.per_decode + dispatch,
    )


def _counted_moe_layers(c: BlisCoefficients, deployment: Deployment) -> int:
    """MoE layers that the overhead was fitted on: BLIS's count, and only where they alternate."""
    if c.per_moe_layer == 0 or not deployment.llm.is_moe:
        return 0
    read = blis_llm(deployment)
    return read.n_moe_layers if read.is_interleaved else 0


def _dispatch_per_token(c: BlisCoefficients, deployment: Deployment) -> float:
    """Seconds a token of one rank adds by the all-gather of its activations between ranks."""
    if deployment.data_parallel == 1:
        return 0.0
    factor = c.tp_allreduce if c.expert_dispatch is None else c.expert_dispatch
    ranks = deployment.n_accelerators
    sent = (ranks - 1) / ranks * 2.0 * deployment.llm.hidden * ACTIVATION_BYTES
    seconds = deployment.llm.n_moe_layers * sent / deployment.accelerator.memory_bandwidth
    return factor * seconds
