"""From latency model and evidence to posterior draws, and what their diagnostics say."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tailcast.inference.density import Density, density
from tailcast.inference.evidence import Evidence
from tailcast.inference.geometry import Geometry, laplace, learned, refolded, starts, unfolding
from tailcast.inference.graph import split
from tailcast.inference.nuts import Sampler, nuts
from tailcast.inference.population import free_names, varying
from tailcast.latency_model import LatencyModel

Array = NDArray[np.float64]

RHAT_LIMIT = 1.01
ESS_LIMIT = 400.0


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """Draws with the coordinates and the metric that they were made in.

    Parameters
    ----------
    tree : xarray.DataTree
        Groups posterior, sample_stats, observed_data.
    geometry : Geometry
        Metric for a later run on similar evidence.
    unfolded : ndarray, shape (n_free,)
        Fold of the excesses in that metric.
    """

    tree: xr.DataTree
    geometry: Geometry
    unfolded: Array


def sample(
    model: LatencyModel,
    evidence: Evidence,
    sampler: Sampler,
    seed: int,
    *,
    weight: Mapping[str, float] | None = None,
    near: Sampled | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> Sampled:
    """Sample the posterior of a latency model given evidence.

    Parameters
    ----------
    model : LatencyModel
        Priors, floors, hierarchy, discrepancy, noise.
    evidence : Evidence
        Runs with emulators, step timings.
    sampler : Sampler
        Sizes.
    seed : int
        Same seed, same draws.
    weight : mapping of str to float, optional
        Power of the likelihood by run or step source.
    near : Sampled, optional
        A posterior with the same coordinates whose metric serves here too: no pilot is run.
    report : callable
        Receives lines of progress.

    Returns
    -------
    Sampled
        With every variable of `tailcast.inference.graph.build_model`.

    Raises
    ------
    InferenceError
        If there is no mode or the sampler fails.
    """
    if near is None:
        plain = density(model, evidence, weight=weight)
        rough = laplace(plain)
        size = max(sampler.tune // 2, 150)
        short = replace(sampler, draws=size, tune=size, target_accept=0.8)
        pilot, _ = nuts(plain, rough, short, seed + 1, report, "first metric")
        flat = pilot[:, size // 4 :].reshape(-1, plain.size)
        unfolded = unfolding(flat, plain.blocks[0].size)
        own = density(model, evidence, weight=weight, unfolded=unfolded)
        spread = refolded(starts(rough, len(flat), seed), unfolded)
        rough = Geometry(centre=rough.centre, covariance=np.cov(spread.T))
        found = learned(rough, refolded(flat, unfolded))
    else:
        unfolded, found = near.unfolded, near.geometry
        own = density(model, evidence, weight=weight, unfolded=unfolded)
    draws, stats = nuts(own, found, sampler, seed, report)
    tree = xr.DataTree.from_dict(
        {
            "posterior": own.named(draws),
            "sample_stats": stats,
            "observed_data": observed(own, evidence),
        }
    )
    better = Geometry(
        centre=draws.reshape(-1, own.size).mean(axis=0),
        covariance=learned(found, draws.reshape(-1, own.size)).covariance,
    )
    return Sampled(tree=with_parts(tree, model, evidence, seed), geometry=better, unfolded=unfolded)


def settled(
    model: LatencyModel,
    evidence: Evidence,
    sampler: Sampler,
    seed: int,
    *,
    again: tuple[Sampler, int] | None,
    near: Sampled | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> tuple[Sampled, Diagnostics]:
    """Sample, and where the diagnostics fail once more in the metric of these draws.

    Parameters
    ----------
    model : LatencyModel
        As for `sample`.
    evidence : Evidence
        As for `sample`.
    sampler : Sampler
        Sizes of the first attempt.
    seed : int
        Of the first attempt.
    again : tuple of (Sampler, int), optional
        Sizes and seed of the second attempt; none is made where None.
    near : Sampled, optional
        As for `sample`.
    report : callable
        Receives lines of progress.

    Returns
    -------
    tuple
        The last draws, and what their diagnostics say.

    Raises
    ------
    InferenceError
        If there is no mode or the sampler fails.
    """
    sampled = sample(model, evidence, sampler, seed, near=near, report=report)
    found = diagnostics(sampled.tree)
    if again is not None and not found.passed:
        report(
            f"r-hat {found.rhat:.3f}, bulk ESS {found.ess_bulk:.0f}: sampling again in the metric "
            "of these draws"
        )
        longer, other = again
        sampled = sample(model, evidence, longer, other, near=sampled, report=report)
        found = diagnostics(sampled.tree)
    return sampled, found


def observed(own: Density, evidence: Evidence) -> xr.Dataset:
    """Observed logs of summaries and step timings, by name.

    Parameters
    ----------
    own : Density
        Of the evidence.
    evidence : Evidence
        Names of its items.

    Returns
    -------
    xarray.Dataset
        ``log_summary`` and ``log_timing``, log seconds.
    """
    summary = [f"{run.name}/{o.stage}/{o.key}" for run in evidence.runs for o in run.outputs]
    timing = [f"{s.name}/{k}" for s in evidence.steps for k in range(len(s.log_observed))]
    parts: dict[str, tuple[str, Array]] = {}
    coords: dict[str, list[str]] = {}
    if summary:
        parts["log_summary"], coords["summary"] = ("summary", own.tables.output_log), summary
    if timing:
        parts["log_timing"], coords["timing"] = ("timing", own.tables.row_log), timing
    return xr.Dataset(parts, coords=coords)


def with_parts(
    tree: xr.DataTree, model: LatencyModel, evidence: Evidence, seed: int
) -> xr.DataTree:
    """Add location, offsets by group and population values to a sampled posterior.

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
    location, offsets = split(model, evidence, data["excess"].values, data["offset"].values, seed)
    free = [model.coefficient(name) for name in free_names(model)]
    log_excess = (
        np.log([c.centre - c.floor for c in free]) + np.array([c.sd for c in free]) * location
    )
    dims = ("chain", "draw", "coefficient")
    data["location"] = (dims, location)
    data["value"] = (dims, np.array([c.floor for c in free]) + np.exp(log_excess))
    for group, values in offsets.items():
        data[f"offset_{group}"] = (
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
        divergences=int(stats["diverging"].sum()) if "diverging" in stats else 0,
        worst=worst,
        n_draw=tree["posterior"].sizes["chain"] * tree["posterior"].sizes["draw"],
    )


def _variables(data: Any) -> dict[str, xr.DataArray]:
    dataset = data.to_dataset() if isinstance(data, xr.DataTree) else data
    return {str(name): dataset[name] for name in dataset.data_vars}
