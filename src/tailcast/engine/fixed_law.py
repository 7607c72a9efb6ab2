"""Step law of a latency model without priors: one number a coefficient, so one answer."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tailcast.coefficients import Coefficients, step_law
from tailcast.deployment import Deployment
from tailcast.engine.blis.translation import corrected_latency_model, corrected_law
from tailcast.errors import InputError, UsageError
from tailcast.latency_model import LatencyModel
from tailcast.step_law import StepLaw

PEAK_BASES: Mapping[str, str] = {
    "prefill_compute": "the tensor cores",
    "decode_kv_read": "the memory",
    "weight_read": "the memory",
    "weight_read_quantised": "the memory",
    "tp_allreduce": "the link",
}
"""Bases that bind at the datasheet's peak, and whose peak it is: below 1 no hardware can go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedLaw:
    """Step law of a point model.

    Parameters
    ----------
    law : StepLaw
        One draw.
    notes : tuple of str
        What to know before believing it, one sentence each.
    """

    law: StepLaw
    notes: tuple[str, ...]


def fixed_law(model: LatencyModel, deployment: Deployment) -> FixedLaw:
    """Step law of a latency model with values instead of priors, in mode ``vllm``.

    Parameters
    ----------
    model : LatencyModel
        All coefficients fixed. One of mode ``blis`` is brought to our bases and may beat the
        datasheet, which the notes then say; any other may not.
    deployment : Deployment
        LLM, accelerator, parallelism, engine limits.

    Returns
    -------
    FixedLaw
        Law and notes.

    Raises
    ------
    UsageError
        If a coefficient has a prior.
    InputError
        If a value would beat the datasheet's peak and the model is not BLIS's.
    """
    free = [c.name for c in model.coefficients if not c.fixed]
    if free:
        raise UsageError(
            f"latency model {model.name!r} has priors ({', '.join(free[:3])}, ...), not values; "
            "use a posterior of it"
        )
    if model.mode == "blis":
        corrected = corrected_latency_model(model, deployment)
        return FixedLaw(law=corrected_law(model, deployment), notes=_faster(corrected, deployment))
    impossible = _faster(model, deployment)
    if impossible:
        raise InputError(f"latency model {model.name!r}: {impossible[0]}")
    values = {c.name: np.array([c.centre]) for c in model.coefficients}
    coefficients = Coefficients(latency_model=model, values=values, speed=np.ones(1))
    return FixedLaw(law=step_law(coefficients, deployment), notes=())


def _faster(model: LatencyModel, deployment: Deployment) -> tuple[str, ...]:
    """Coefficients in use that beat the datasheet, one sentence each."""
    return tuple(
        f"{c.name} {c.centre:.3g} beats the datasheet's peak: {1 / c.centre:.1f} times what "
        f"{PEAK_BASES[c.basis]} can do"
        if c.centre > 0
        else f"{c.name} is 0: {PEAK_BASES[c.basis]} would take no time at all"
        for c in model.coefficients
        if c.basis in PEAK_BASES and c.centre < 1 and _in_use(c.basis, deployment)
    )


def _in_use(basis: str, deployment: Deployment) -> bool:
    return basis != "tp_allreduce" or deployment.tensor_parallel > 1
