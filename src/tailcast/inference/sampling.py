"""NUTS over a built model, and what its diagnostics say."""

import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from tailcast.errors import InferenceError
from tailcast.inference.evidence import Evidence
from tailcast.inference.geometry import Geometry, geometry, learned_geometry, starts
from tailcast.inference.graph import OFFSET_PREFIX, split
from tailcast.inference.population import free_names, varying
from tailcast.latency_model import LatencyModel

RHAT_LIMIT = 1.01
ESS_LIMIT = 400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampler:
    """How a posterior is sampled.

    Parameters
    ----------
    draws, tune : int
        Sampled and discarded draws of each chain; diagnostics are of all that were sampled.
    stored : int
        Draws of each chain that are stored, evenly thinned.
    chains, cores : int
        Number of chains and of processes.
    target_accept : float
        Step-size adaptation target.
    """

    draws: int = 1500
    tune: int = 1500
    stored: int = 200
    chains: int = 4
    cores: int = 2
    target_accept: float = 0.85


@dataclass(frozen=True, slots=True, kw_only=True)
class Diagnostics:
    """Convergence of a fit.

    Parameters
    ----------
    rhat : float
        Largest r-hat over all parameters.
    ess_bulk, ess_tail : float
        Smallest effective sample sizes.
    divergences : int
        Divergent transitions after tuning.
    worst : str
        Parameter with the largest r-hat.
    n_draw : int
        Kept draws over all chains.
    """

    rhat: float
    ess_bulk: float
    ess_tail: float
    divergences: int
    worst: str
    n_draw: int

    @property
    def passed(self) -> bool:
        """Whether the draws may be used: r-hat, effective sizes, at most 0.5 % divergences."""
        return (
            self.rhat <= RHAT_LIMIT
            and self.ess_bulk >= ESS_LIMIT
            and self.divergences <= 0.005 * self.n_draw
        )


def sample(
    graph: Any, density: Any, sampler: Sampler, seed: int, report: Callable[[str], None]
) -> xr.DataTree:
    """Sample a built model with NUTS.

    Parameters
    ----------
    graph : pymc.Model
        From `tailcast.inference.graph.build_model`.
    density : object
        From `tailcast.inference.geometry.compiled_density`.
    sampler : Sampler
        Sizes.
    seed : int
        Same seed, same draws.
    report : callable
        Receives a line of progress now and then.

    Returns
    -------
    xarray.DataTree
        Groups posterior, sample_stats, observed_data.

    Raises
    ------
    InferenceError
        If the sampler fails.
    """
    logging.getLogger("pymc").setLevel(logging.ERROR)
    found = geometry(graph, density)
    short = Sampler(
        draws=max(sampler.tune // 4, 100),
        tune=max(sampler.tune // 4, 100),
        chains=sampler.chains,
        cores=sampler.cores,
        target_accept=0.8,
    )
    pilot = _nuts(graph, density, found, short, seed + 1, report, "first metric")
    return _nuts(graph, density, learned_geometry(found, pilot), sampler, seed, report, "sampling")


def _nuts(
    graph: Any,
    density: Any,
    found: Geometry,
    sampler: Sampler,
    seed: int,
    report: Callable[[str], None],
    label: str,
) -> xr.DataTree:
    """NUTS with a fixed dense metric; an adapted one would learn the way in, not the posterior."""
    import pymc as pm

    total = sampler.chains * (sampler.draws + sampler.tune)
    seen = [0]

    def tick(**_: Any) -> None:
        seen[0] += 1
        if seen[0] % max(total // 10, 1) == 0:
            report(f"{label}: {100 * seen[0] // total} % of {total} draws")

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            step = pm.NUTS(
                scaling=found.covariance,
                is_cov=True,
                target_accept=sampler.target_accept,
                logp_dlogp_func=density,
                model=graph,
            )
            tree: xr.DataTree = pm.sample(
                draws=sampler.draws,
                tune=sampler.tune,
                chains=sampler.chains,
                cores=sampler.cores,
                step=step,
                initvals=starts(found, sampler.chains, seed),
                random_seed=seed,
                progressbar=False,
                compute_convergence_checks=False,
                mp_ctx="fork" if sampler.cores > 1 else None,
                callback=tick,
                model=graph,
            )
    except (RuntimeError, ValueError, FloatingPointError, pm.SamplingError) as error:
        raise InferenceError(f"sampling failed: {str(error).splitlines()[0]}") from error
    return tree


def with_parts(
    tree: xr.DataTree, model: LatencyModel, evidence: Evidence, seed: int
) -> xr.DataTree:
    """Add location, collapsed offsets and population values to a sampled posterior.

    Parameters
    ----------
    tree : xarray.DataTree
        From `sample`.
    model : LatencyModel
        That was built.
    evidence : Evidence
        It was built with.
    seed : int
        Of the random stream of `tailcast.inference.graph.split`.

    Returns
    -------
    xarray.DataTree
        The same tree with more variables in its posterior.
    """
    data = tree["posterior"].to_dataset()
    location, offsets = split(model, evidence, data["excess"].values, seed)
    free = [model.coefficient(name) for name in free_names(model)]
    log_excess = (
        np.log([c.centre - c.floor for c in free]) + np.array([c.sd for c in free]) * location
    )
    dims = ("chain", "draw", "coefficient")
    data["location"] = (dims, location)
    data["value"] = (dims, np.array([c.floor for c in free]) + np.exp(log_excess))
    for group, values in offsets.items():
        data[f"{OFFSET_PREFIX}{group}"] = (
            ("chain", "draw", f"{group}_coefficient", group),
            values,
        )
        data = data.assign_coords(
            {
                group: list(evidence.levels(group)),
                f"{group}_coefficient": list(varying(model, group)),
            }
        )
    tree["posterior"] = xr.DataTree(dataset=data)
    return tree


def diagnostics(tree: xr.DataTree) -> Diagnostics:
    """Convergence of a sampled posterior over every stored variable.

    Parameters
    ----------
    tree : xarray.DataTree
        With groups posterior and sample_stats.

    Returns
    -------
    Diagnostics
        Worst values.
    """
    import arviz as az

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rhat = az.rhat(tree["posterior"])
        bulk = az.ess(tree["posterior"], method="bulk")
        tail = az.ess(tree["posterior"], method="tail")
    worst, value = "", -np.inf
    for name, variable in _variables(rhat).items():
        top = float(np.nanmax(variable.values)) if variable.size else -np.inf
        if top > value:
            worst, value = str(name), top
    stats = tree["sample_stats"].to_dataset()
    return Diagnostics(
        rhat=value,
        ess_bulk=min(float(np.nanmin(v.values)) for v in _variables(bulk).values() if v.size),
        ess_tail=min(float(np.nanmin(v.values)) for v in _variables(tail).values() if v.size),
        divergences=int(stats["diverging"].sum()),
        worst=worst,
        n_draw=int(stats["diverging"].size),
    )


def _variables(data: Any) -> dict[str, xr.DataArray]:
    dataset = data.to_dataset() if isinstance(data, xr.DataTree) else data
    return {str(name): dataset[name] for name in dataset.data_vars}
