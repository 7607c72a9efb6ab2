"""What to know before believing a prediction: what it leaves out, and what it leans on."""

import numpy as np

from tailcast.basis import FEATURES
from tailcast.coefficients import deployment_basis
from tailcast.deployment import Deployment
from tailcast.engine.result import EngineResult
from tailcast.inference.forward import basis_range
from tailcast.inference.population import DeploymentDraws, group_levels
from tailcast.latency_model import LatencyModel
from tailcast.posteriors import Posterior

UNSERVED = {
    "rejected": "rejected as too long",
    "timed_out": "timed out",
    "unsent": "never sent",
    "unfinished": "unfinished at the horizon",
}
"""What becomes of requests that have no latency, by the engine's counter."""

_REACH = 1.25
"""A step basis beyond this multiple of the fitted range counts as extrapolation."""

_MATERIAL = 0.15
"""Share of the step time from which a coefficient matters to the answer."""

_UNLEARNED = 0.8
"""Posterior sd over prior sd from which a coefficient counts as still at its prior."""


def prediction_notes(
    posterior: Posterior | LatencyModel,
    deployment: Deployment,
    own: DeploymentDraws,
    result: EngineResult,
) -> tuple[tuple[str, ...], bool]:
    """What a prediction leaves out, extrapolates from and leans on.

    Parameters
    ----------
    posterior : Posterior or LatencyModel
        Fitted posterior, or a latency model for its prior.
    deployment : Deployment
        What is predicted.
    own : DeploymentDraws
        Coefficients of the deployment.
    result : EngineResult
        The engine's runs.

    Returns
    -------
    tuple
        One sentence each, and whether a material basis leaves the fitted range or a level is new.
    """
    notes = _unserved(result)
    if isinstance(posterior, LatencyModel):
        notes.append(f"no posterior: this is the prior of latency model {posterior.name!r}")
        return tuple(notes), True
    if not result.counters["steps"].any():
        return tuple(notes), False
    model = posterior.latency_model
    new = [f"{g.replace('_', ' ')} {group_levels(deployment)[g]}" for g in own.new_levels]
    if new:
        notes.append(f"not in the posterior's data: {', '.join(new)}; the interval is wider for it")
    if own.server is not None:
        notes.append(f"for the very server of run {own.server}; another one may differ")
    elif posterior.population.server is not None:
        other = posterior.population.server
        notes.append(f"run {other.run} was of another deployment: this is any server of this one")
    share = step_shares(own, deployment, result)
    evidence = posterior.card.get("basis_range", {})
    ranges = basis_range(model, deployment, result.ranges)
    outside = [
        name
        for k, name in enumerate(model.names)
        if name in evidence
        and share.get(name, 0.0) > _MATERIAL
        and ranges[k, 1] > _REACH * evidence[name][1] > 0
    ]
    if outside:
        notes.append(f"extrapolates: steps leave the range of the data in {', '.join(outside)}")
    contraction = posterior.card.get("contraction", {})
    leaning = [
        f"{name} ({100 * share[name]:.0f} % of the step time)"
        for name in model.names
        if share.get(name, 0.0) > _MATERIAL and contraction.get(name, 0.0) > _UNLEARNED
    ]
    if leaning:
        notes.append(f"leans on the prior of {', '.join(leaning)}")
    return tuple(notes), bool(outside or {"accelerator", "engine_version"} & set(own.new_levels))


def _unserved(result: EngineResult) -> list[str]:
    """What share of the requests, over all draws, is in no latency, and why."""
    n = sum(result.counters[name].sum() for name in ("completed", *UNSERVED))
    shares = {text: result.counters[name].sum() / max(n, 1) for name, text in UNSERVED.items()}
    told = [f"{share:.2%} {text}" for text, share in shares.items() if share > 0]
    return [f"latencies leave out requests that are not served: {', '.join(told)}"] if told else []


def step_shares(
    own: DeploymentDraws, deployment: Deployment, result: EngineResult
) -> dict[str, float]:
    """Share of a busy step's time by coefficient, at the largest batch of the run.

    Parameters
    ----------
    own : DeploymentDraws
        Coefficients of the deployment.
    deployment : Deployment
        Whose bases are meant.
    result : EngineResult
        For the ranges of its steps.

    Returns
    -------
    dict of str to float
        Medians over draws, sum about 1.
    """
    basis = deployment_basis(own.coefficients.latency_model, deployment)
    high = np.nanmax(result.ranges[:, :, 1], axis=0)
    features = np.zeros(len(FEATURES))
    features[FEATURES.index("step")] = 1.0
    features[FEATURES.index("decode")] = high[2]
    features[FEATURES.index("context_token")] = high[3]
    parts = {}
    for k, name in enumerate(basis.names):
        value = float(basis.features[k] @ features)
        if name in basis.tables:
            table = basis.tables[name]
            value += float(table[min(int(high[2]), len(table) - 1)])
        parts[name] = own.coefficients.values[name] * value
    total = np.maximum(sum(parts.values(), np.zeros(own.coefficients.n_draw)), 1e-12)
    return {name: float(np.median(part / total)) for name, part in parts.items()}
