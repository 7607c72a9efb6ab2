"""Between the server block of a trace and a deployment."""

from collections.abc import Mapping
from typing import Any

from tailcast.catalog.accelerators import accelerator
from tailcast.catalog.llms import llm
from tailcast.deployment import Deployment, EngineSettings, engine_defaults
from tailcast.errors import InputError
from tailcast.llm import llm_from_config
from tailcast.traces.trace_header import TraceHeader, TraceServer

_FURTHER = (
    "long_prefill_token_threshold",
    "scheduler",
    "async_scheduling",
    "kv_cpu_offload",
    "enforce_eager",
)
"""Engine settings that TraceV2 has no place for: kept among the header's other server keys."""

_WIDE = ("fp32", "float32")
"""Counted as 16 bits: coefficients take up the factor of two, see models/cpu-engine."""


def trace_deployment(header: TraceHeader) -> Deployment:
    """Deployment that a trace was recorded on.

    Parameters
    ----------
    header : TraceHeader
        Header whose server block names at least the LLM and the accelerator.

    Returns
    -------
    Deployment
        Limits that the header leaves out are vLLM's defaults on that accelerator.

    Raises
    ------
    InputError
        If LLM or accelerator are missing, as in traces of BLIS.
    CatalogError, CapacityError
        If they are unknown or do not fit.
    """
    server = header.server
    for name in ("model", "accelerator"):
        if not getattr(server, name):
            raise InputError(
                f"the trace header has no server.{name}; add it or give the deployment yourself"
            )
    hardware = accelerator(str(server.accelerator))
    defaults = engine_defaults(hardware)
    given = {
        "name": server.type,
        "version": server.version,
        "max_num_seqs": server.max_num_seqs,
        "max_num_batched_tokens": server.max_num_batched_tokens,
        "max_model_len": server.max_model_len,
        "block_size": server.block_size,
        "gpu_memory_utilization": server.gpu_memory_utilization,
        "prefix_caching": server.prefix_caching,
        "chunked_prefill": server.chunked_prefill,
        **{key: server.other.get(key) for key in _FURTHER},
    }
    settings = {key: getattr(defaults, key) for key in ("max_num_seqs", "max_num_batched_tokens")}
    settings.update({key: value for key, value in given.items() if value is not None})
    return Deployment(
        llm=llm(str(server.model)),
        accelerator=hardware,
        tensor_parallel=server.tensor_parallel or 1,
        data_parallel=server.data_parallel or 1,
        engine=EngineSettings(**settings),
        weights=None if server.dtype in _WIDE else server.dtype,
        kv_blocks=server.kv_blocks,
        kv_dtype=str(server.other.get("kv_dtype", "auto")),
    )


def server_of(deployment: Deployment) -> TraceServer:
    """Server block that describes a deployment.

    Parameters
    ----------
    deployment : Deployment
        What serves.

    Returns
    -------
    TraceServer
        `trace_deployment` gives an equal deployment back for LLMs of the catalogue.
    """
    engine, usual = deployment.engine, EngineSettings()
    other: Mapping[str, Any] = {
        key: getattr(engine, key) for key in _FURTHER if getattr(engine, key) != getattr(usual, key)
    }
    if deployment.kv_dtype != "auto":
        other = {**other, "kv_dtype": deployment.kv_dtype}
    return TraceServer(
        type=engine.name,
        model=deployment.llm.name,
        tensor_parallel=deployment.tensor_parallel,
        max_num_seqs=engine.max_num_seqs,
        block_size=engine.block_size,
        gpu_memory_utilization=engine.gpu_memory_utilization,
        max_model_len=engine.max_model_len,
        accelerator=deployment.accelerator.name,
        max_num_batched_tokens=engine.max_num_batched_tokens,
        kv_blocks=deployment.kv_blocks,
        dtype=_stated_weights(deployment),
        version=engine.version,
        data_parallel=deployment.data_parallel,
        prefix_caching=engine.prefix_caching,
        chunked_prefill=engine.chunked_prefill,
        other=other,
    )


def _stated_weights(deployment: Deployment) -> str | None:
    """Format of the weights where the LLM's own configuration does not say it."""
    llm = deployment.llm
    if deployment.weights is not None or not llm.config:
        return deployment.weights
    published = llm_from_config(llm.config, llm.name).quantisation
    return None if published == llm.quantisation else llm.quantisation.scheme
