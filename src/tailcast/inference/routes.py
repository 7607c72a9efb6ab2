"""The routes from a latency model and data to a posterior, behind one signature."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tailcast.errors import InferenceError, UsageError, near_name
from tailcast.inference.evidence import StepEvidence
from tailcast.inference.fit import Fit, fit
from tailcast.inference.forward import RunInput
from tailcast.inference.smc_abc import fit_smc_abc
from tailcast.latency_model import LatencyModel

DEFAULT_ROUTE = "emulator-nuts"


def fit_steps(
    model: LatencyModel,
    runs: Sequence[RunInput],
    steps: Sequence[StepEvidence] = (),
    *,
    seed: int,
    **options: Any,
) -> Fit:
    """Fit to step timings alone: the step law is linear given the batch, so no emulator is needed.

    Parameters
    ----------
    model : LatencyModel
        With priors.
    runs : sequence of RunInput
        Must be empty.
    steps : sequence of StepEvidence
        Timings of steps with known batches, lone-prompt sweeps.
    seed : int
        Same inputs and seed give the same posterior.
    **options : object
        As for `tailcast.inference.fit.fit`.

    Returns
    -------
    Fit
        Exact up to Monte Carlo error.

    Raises
    ------
    InferenceError
        If runs are given or the model has nothing to fit.
    """
    if runs:
        raise InferenceError(
            f"route steps takes step timings only, got {len(runs)} runs; use {DEFAULT_ROUTE}"
        )
    return fit(model, (), steps, seed=seed, **options)


ROUTES: Mapping[str, Callable[..., Fit]] = {
    DEFAULT_ROUTE: fit,
    "smc-abc": fit_smc_abc,
    "steps": fit_steps,
}
"""By the names that ``tailcast fit --route`` takes."""


def fit_by(
    route: str,
    model: LatencyModel,
    runs: Sequence[RunInput],
    steps: Sequence[StepEvidence] = (),
    *,
    seed: int,
    **options: Any,
) -> Fit:
    """Fit by a named route.

    Parameters
    ----------
    route : str
        One of `ROUTES`.
    model : LatencyModel
        With priors.
    runs : sequence of RunInput
        Observed runs.
    steps : sequence of StepEvidence
        Step timings.
    seed : int
        Same inputs and seed give the same posterior.
    **options : object
        Sampler, design size, threads, report.

    Returns
    -------
    Fit
        The same groups whatever the route.

    Raises
    ------
    UsageError
        If there is no such route.
    InferenceError
        If the route cannot take these data, or sampling fails.
    """
    if route not in ROUTES:
        raise UsageError(f"no route {route!r}; {near_name(route, tuple(ROUTES))}")
    return ROUTES[route](model, runs, steps, seed=seed, **options)
