"""The card of a fitted posterior: where it comes from, what it covers, what was checked."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.inference.evidence import Evidence, content_hash
from tailcast.inference.fit import Fit
from tailcast.inference.nuts import Sampler
from tailcast.inference.population import Population, free_names, varying
from tailcast.inference.tree import population_of
from tailcast.latency_model import GROUPS, LatencyModel

Array = NDArray[np.float64]

SCHEMA = "tailcast/card/1"


def posterior_card(
    name: str,
    model: LatencyModel,
    fitted: Fit,
    *,
    files: Mapping[str, str],
    notes: Sequence[str],
    seed: int,
    sampler: Sampler,
    method: str = "emulator-nuts",
    parent: str | None = None,
    settings: Mapping[str, Sequence[Any]] | None = None,
) -> dict[str, Any]:
    """Card of a fit.

    Parameters
    ----------
    name : str
        Of the posterior.
    model : LatencyModel
        That was fitted.
    fitted : Fit
        Posterior, evidence, diagnostics.
    files : mapping of str to str
        SHA-256 of the data by file name.
    notes : sequence of str
        What was left out of the data.
    seed : int
        Of the fit.
    sampler : Sampler
        Sizes.
    method : str
        Route.
    parent : str, optional
        Hash of the posterior that was updated.
    settings : mapping of str to sequence, optional
        Engine settings that the runs had, from `tailcast.inference.scope.settings_of`.

    Returns
    -------
    dict
        Ready for `json.dumps`, keys in no order.
    """
    population = population_of(fitted.tree, model)
    found = fitted.diagnostics
    return {
        "schema": SCHEMA,
        "name": name,
        "latency_model": model.name,
        "model_version": model.version,
        "model_sha256": model.sha256,
        "data_sha256": dict(sorted(files.items())),
        "notes": list(notes),
        "scope": scope(fitted.evidence),
        "settings": dict(settings or {}),
        "method": {
            "route": method,
            "draws": sampler.draws,
            "tune": sampler.tune,
            "chains": sampler.chains,
            "target_accept": sampler.target_accept,
            "n_run": len(fitted.evidence.runs),
            "n_summary": sum(len(run.outputs) for run in fitted.evidence.runs),
            "n_timing": sum(len(source.noise) for source in fitted.evidence.steps),
        },
        "seed": seed,
        "diagnostics": {
            "rhat": round(found.rhat, 4),
            "ess_bulk": round(found.ess_bulk, 1),
            "ess_tail": round(found.ess_tail, 1),
            "divergences": found.divergences,
            "n_draw": found.n_draw,
        },
        "checks_made": checks(model, fitted, population),
        "contraction": {
            k: round(v, 3) for k, v in contraction(population, fitted.evidence).items()
        },
        "basis_range": basis_ranges(model, fitted.evidence),
        "parent": parent,
        "posterior_sha256": content_hash(
            population.location.astype(np.float32), population.deployment.astype(np.float32)
        ),
    }


def scope(evidence: Evidence) -> dict[str, Any]:
    """Levels and deployments that a posterior has seen.

    Parameters
    ----------
    evidence : Evidence
        What it was conditioned on.

    Returns
    -------
    dict
        Level names by group, deployment keys, names of runs and step sources.
    """
    return {
        **{group: list(evidence.levels(group)) for group in GROUPS},
        "deployments": list(evidence.deployments),
        "runs": [run.name for run in evidence.runs],
        "step_sources": [source.name for source in evidence.steps],
    }


def contraction(population: Population, evidence: Evidence) -> dict[str, float]:
    """Posterior over prior sd of each coefficient's log excess, at the best known level.

    Parameters
    ----------
    population : Population
        Posterior.
    evidence : Evidence
        Whose level combinations are tried.

    Returns
    -------
    dict of str to float
        1 means nothing was learned, 0 everything.
    """
    model = population.latency_model
    items = evidence.items
    out = {}
    for k, name in enumerate(free_names(model)):
        coefficient = model.coefficient(name)
        prior = math.hypot(coefficient.sd, *coefficient.effects.values())
        best = 1.0
        for item in items:
            draws = coefficient.sd * population.location[:, k]
            for group, effect in coefficient.effects.items():
                row = varying(model, group).index(name)
                level = list(population.levels[group]).index(item.levels[group])
                draws = draws + effect * population.offsets[group][:, row, level]
            best = min(best, float(np.std(draws)) / prior)
        out[name] = best
    return out


def basis_ranges(model: LatencyModel, evidence: Evidence) -> dict[str, list[float]]:
    """Least and largest basis value of a step in the data, by step coefficient.

    Parameters
    ----------
    model : LatencyModel
        Which coefficients there are.
    evidence : Evidence
        What was fitted.

    Returns
    -------
    dict of str to [float, float]
        Seconds at datasheet peak or counts.
    """
    parts = [run.batch_range for run in evidence.runs]
    parts += [np.stack([s.clock.min(axis=0), s.clock.max(axis=0)], axis=1) for s in evidence.steps]
    stacked = np.array(parts)
    low, high = stacked[:, :, 0].min(axis=0), stacked[:, :, 1].max(axis=0)
    return {
        c.name: [float(f"{low[k]:.6g}"), float(f"{high[k]:.6g}")]
        for k, c in enumerate(model.coefficients)
        if not c.is_overhead
    }


def checks(model: LatencyModel, fitted: Fit, population: Population) -> dict[str, Any]:
    """What was verified about the draws.

    Parameters
    ----------
    model : LatencyModel
        That was fitted.
    fitted : Fit
        With its emulator check.
    population : Population
        Posterior.

    Returns
    -------
    dict
        Convergence, physical floors, largest emulator errors.
    """
    values = np.asarray(fitted.tree["posterior"].to_dataset()["value"].values)
    floors = np.array([model.coefficient(n).floor for n in free_names(model)])
    below = int(np.sum(values.reshape(-1, len(floors)) < floors))
    out: dict[str, Any] = {
        "converged": fitted.diagnostics.passed,
        "draws_below_physical_floor": below,
        "n_draw": population.n_draw,
    }
    if "emulator_check" in fitted.tree.children:
        check = fitted.tree["emulator_check"].to_dataset()
        for stat in ("ttft.mean", "e2e.mean", "ttft.p99", "e2e.p99"):
            own = [str(s).endswith(stat) for s in check["summary"].values]
            if any(own):
                rmse = check["rmse"].values[own]
                out[f"emulator_rmse_{stat}"] = round(float(np.nanmax(rmse)), 4)
    return out
