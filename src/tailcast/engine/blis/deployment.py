"""A deployment of the catalogue in BLIS's terms: hardware row, reading of the LLM, limits."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from tailcast.deployment import Deployment
from tailcast.engine.blis.accelerators import BlisAccelerator, blis_accelerator
from tailcast.engine.blis.coefficients import BlisCoefficients
from tailcast.engine.blis.latency_model import BlisLatencyModel
from tailcast.engine.blis.model_config import BlisModelConfig, blis_model_config
from tailcast.engine.blis.settings import BlisSettings, automatic_settings
from tailcast.engine.blis.step_time import MAX_INT64
from tailcast.errors import CatalogError, InputError

BLIS_NAMES: Mapping[str, str] = MappingProxyType(
    {"h100-sxm-80gb": "H100", "a100-sxm-80gb": "A100-SXM", "l40s-48gb": "L40S"}
)
"""BLIS's name of each accelerator that it knows, by catalogue name."""

_WEIGHT_BYTES: Mapping[str, float] = MappingProxyType(
    {"fp8": 1.0, "int8": 1.0, "int4": 0.5, "mxfp4": 0.5, "nvfp4": 0.5}
)
_SCHEDULERS: Mapping[str, str] = MappingProxyType({"fcfs": "fcfs", "priority": "priority-fcfs"})


def blis_hardware(deployment: Deployment) -> BlisAccelerator:
    """BLIS's hardware row of a deployment's accelerator.

    Parameters
    ----------
    deployment : Deployment
        With an accelerator of the catalogue.

    Returns
    -------
    BlisAccelerator
        BLIS's own figures.

    Raises
    ------
    CatalogError
        If BLIS has no row for it.
    """
    name = deployment.accelerator.name
    if name not in BLIS_NAMES:
        raise CatalogError(f"BLIS knows no accelerator {name!r}; known: {', '.join(BLIS_NAMES)}")
    return blis_accelerator(BLIS_NAMES[name])


def blis_llm(deployment: Deployment) -> BlisModelConfig:
    """A deployment's LLM as BLIS reads it from the same configuration.

    Parameters
    ----------
    deployment : Deployment
        Its LLM must have been read from a configuration.

    Returns
    -------
    BlisModelConfig
        Weight width from the configuration or the name, as in BLIS, unless the deployment itself
        says in which format the weights are served.

    Raises
    ------
    InputError
        If the LLM carries no configuration, or one that BLIS cannot read.
    """
    llm = deployment.llm
    if not llm.config:
        raise InputError(
            f"{llm.name}: no configuration is known, which BLIS reads by its own rules"
        )
    found = blis_model_config(llm.config, name=llm.name)
    scheme = deployment.weight_dtype
    if scheme == "bf16":
        width = found.bytes_per_element
    elif deployment.weights is None and found.bytes_per_weight != found.bytes_per_element:
        return found
    else:
        width = _WEIGHT_BYTES[scheme]
    return replace(found, bytes_per_weight=width)


def blis_latency_model(
    deployment: Deployment,
    *,
    backend: str = "trained-physics",
    coefficients: BlisCoefficients | None = None,
) -> BlisLatencyModel:
    """Step times of a deployment in mode ``blis``.

    Parameters
    ----------
    deployment : Deployment
        LLM, accelerator, parallelism.
    backend : str
        ``"trained-physics"`` or ``"roofline"``.
    coefficients : BlisCoefficients, optional
        BLIS's defaults of the backend where absent.

    Returns
    -------
    BlisLatencyModel
        Exactly what BLIS would time.

    Raises
    ------
    CatalogError, CapacityError, InputError
        If BLIS does not know the accelerator, or could not serve the LLM like that.
    """
    return BlisLatencyModel(
        llm=blis_llm(deployment),
        accelerator=blis_hardware(deployment),
        tensor_parallel=deployment.tensor_parallel,
        data_parallel=deployment.data_parallel,
        backend=backend,
        coefficients=coefficients,
    )


def blis_settings(
    deployment: Deployment, model: BlisLatencyModel, *, horizon_us: int = MAX_INT64
) -> BlisSettings:
    """Limits of a deployment in mode ``blis``.

    KV blocks that the deployment states are kept; otherwise BLIS computes its own, which are too
    many by about the tensor-parallel degree. The sequence limit is BLIS's too unless it is stated.

    Parameters
    ----------
    deployment : Deployment
        For engine limits and stated KV blocks.
    model : BlisLatencyModel
        The same deployment in BLIS's terms.
    horizon_us : int
        No event after this microsecond is executed.

    Returns
    -------
    BlisSettings
        Complete.

    Raises
    ------
    CapacityError
        If BLIS finds that the weights do not fit.
    """
    engine = deployment.engine
    settings = automatic_settings(
        model,
        kv_blocks=deployment.kv_blocks,
        max_model_len=engine.max_model_len,
        gpu_memory_utilization=engine.gpu_memory_utilization,
        block_size=engine.block_size,
        max_num_seqs=engine.max_num_seqs,
        max_num_batched_tokens=engine.max_num_batched_tokens,
    )
    return replace(
        settings,
        long_prefill_token_threshold=engine.long_prefill_token_threshold,
        scheduler=_SCHEDULERS[engine.scheduler],
        preemption_policy=engine.scheduler,
        horizon_us=horizon_us,
    )
