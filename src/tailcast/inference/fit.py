"""Prior to posterior: engine runs over a prior design, emulators, NUTS, a second wave, NUTS."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tailcast.errors import InferenceError
from tailcast.inference.approach import approached_design
from tailcast.inference.effective import effective_map
from tailcast.inference.emulate import (
    DESIGN_SIZE,
    effective_values,
    emulated_run,
    local_design,
    prior_design,
    run_map,
    with_odds,
)
from tailcast.inference.evidence import Evidence, RunEvidence, StepEvidence
from tailcast.inference.forward import RunInput, run_engine
from tailcast.inference.nuts import Sampler
from tailcast.inference.population import (
    Population,
    deployment_draws,
    prior_population,
)
from tailcast.inference.sampling import Diagnostics, Sampled, sample, settled
from tailcast.inference.tree import evidence_tree, population_of
from tailcast.latency_model import LatencyModel

Array = NDArray[np.float64]
Report = Callable[[str], None]

_UNSTORED = ("excess", "log_noise", "offset")
_STATS = (
    "diverging",
    "energy",
    "lp",
    "n_steps",
    "tree_depth",
    "step_size",
    "acceptance_rate",
    "log_marginal_likelihood",
)

_N_CHECK = 24
"""Posterior draws at which each emulator is compared with the engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A fitted posterior.

    Parameters
    ----------
    tree : xarray.DataTree
        Groups posterior, prior, sample_stats, observed_data, evidence, emulator_check.
    evidence : Evidence
        What it was conditioned on.
    diagnostics : Diagnostics
        Convergence.
    sampled : Sampled
        Every draw, with the metric that refits can use.
    """

    tree: xr.DataTree
    evidence: Evidence
    diagnostics: Diagnostics
    sampled: Sampled


def fit(
    model: LatencyModel,
    runs: Sequence[RunInput],
    steps: Sequence[StepEvidence] = (),
    *,
    seed: int,
    sampler: Sampler | None = None,
    waves: int = 2,
    design_size: int = DESIGN_SIZE,
    threads: int = 2,
    report: Report = lambda _: None,
) -> Fit:
    """Fit a latency model to runs and step timings by emulators and NUTS.

    Parameters
    ----------
    model : LatencyModel
        With priors.
    runs : sequence of RunInput
        Observed runs.
    steps : sequence of StepEvidence
        Timings of steps with known batches.
    seed : int
        Same inputs and seed give the same posterior.
    sampler : Sampler, optional
        Sizes of the final sampling.
    waves : int
        1: emulators over the prior only; 2: again around the first posterior.
    design_size : int
        Engine runs per observed run and wave.
    threads : int
        Engine threads.
    report : callable
        Receives lines of progress.

    Returns
    -------
    Fit
        Posterior with evidence and diagnostics; the caller decides whether it may be used.

    Raises
    ------
    InputError
        If a run has no usable summary.
    InferenceError
        If emulation or sampling fails, or the model has nothing to fit.
    """
    if model.is_fixed:
        raise InferenceError(f"latency model {model.name!r} has fixed coefficients: nothing to fit")
    final = sampler or Sampler()
    first = Sampler(draws=200, tune=200, chains=2, cores=final.cores, target_accept=0.8)
    prior = prior_population(model, design_size, seed)
    emulated = []
    for run in runs:
        mapping, effective = prior_design(run, model, prior, seed)
        if run.n_seed == 1:  # a trace, from any machine: the data may lie far out in the prior
            effective = approached_design(run, mapping, effective, seed, threads=threads)
        emulated.append(
            emulated_run(run, model, mapping, effective, seed, threads=threads, report=report)
        )
    evidence = Evidence(runs=tuple(emulated), steps=tuple(steps))
    for wave in range(1, waves if runs else 1):
        report(f"first look at the posterior (wave {wave})")
        look = sample(model, evidence, first, seed + wave, report=report)
        evidence = _refined(
            model, runs, evidence, look.tree, seed + wave, design_size, threads, report
        )
    report("sampling the posterior")
    sampled, found = settled(model, evidence, final, seed, again=(final, seed + 7), report=report)
    tree = thinned(sampled.tree, final.stored)
    tree = assembled(model, runs, evidence, tree, prior, seed, threads)
    return Fit(tree=tree, evidence=evidence, diagnostics=found, sampled=sampled)


def run_log_effective(
    model: LatencyModel, tree: xr.DataTree, evidence: Evidence, index: int
) -> Array:
    """Log effective numbers of one observed run at the posterior draws.

    Parameters
    ----------
    model : LatencyModel
        That was fitted.
    tree : xarray.DataTree
        Posterior.
    evidence : Evidence
        What it was conditioned on.
    index : int
        Which run of the evidence.

    Returns
    -------
    ndarray, shape (n_draw, n_effective)
        The run's own speed included.
    """
    run = evidence.runs[index]
    population = population_of(tree, model)
    data = tree["posterior"].to_dataset()
    beta = _run_coefficients(population, run)
    speed = np.zeros(population.n_draw)
    if "deployment" in population.scale:
        own = population.deployment[:, list(population.deployments).index(run.deployment)]
        speed = speed + own
    if "run_speed" in data:
        values = data["run_speed"].sel(run=run.name).values.reshape(-1)
        speed = speed + values
    effective = beta @ run.matrix.T
    if run.latent >= 0:
        effective[:, run.latent] = 1.0
    log: Array = np.log(effective) + np.where(run.in_clock, speed[:, None], 0.0)
    if run.latent >= 0:
        own = data["run_uncached"].sel(uncached_run=run.name).values.reshape(-1)
        log[:, run.latent] = np.log(model.latent["uncached_share"].centre) + own
    return log


def _run_coefficients(population: Population, run: RunEvidence) -> Array:
    from tailcast.inference.population import free_names, varying
    from tailcast.latency_model import GROUPS

    model = population.latency_model
    names = free_names(model)
    log_excess = {}
    for k, name in enumerate(names):
        c = model.coefficient(name)
        log_excess[name] = np.log(c.centre - c.floor) + c.sd * population.location[:, k]
    for group in GROUPS:
        varied = varying(model, group)
        if not varied:
            continue
        level = list(population.levels[group]).index(run.levels[group])
        for k, name in enumerate(varied):
            effect = model.coefficient(name).effects[group]
            log_excess[name] = log_excess[name] + effect * population.offsets[group][:, k, level]
    columns = [
        np.full(population.n_draw, c.centre) if c.fixed else c.floor + np.exp(log_excess[c.name])
        for c in model.coefficients
    ]
    return np.array(columns).T


def _refined(
    model: LatencyModel,
    runs: Sequence[RunInput],
    evidence: Evidence,
    tree: xr.DataTree,
    seed: int,
    design_size: int,
    threads: int,
    report: Report,
) -> Evidence:
    refined = []
    for k, run in enumerate(runs):
        log_effective = run_log_effective(model, tree, evidence, k)
        design = local_design(log_effective, design_size, seed, run.name)
        mapping = run_map(run, model)
        effective = with_odds(run, mapping, np.exp(design))
        refined.append(
            emulated_run(run, model, mapping, effective, seed, threads=threads, report=report)
        )
    return Evidence(runs=tuple(refined), steps=evidence.steps)


def assembled(
    model: LatencyModel,
    runs: Sequence[RunInput],
    evidence: Evidence,
    tree: xr.DataTree,
    prior: Population,
    seed: int,
    threads: int,
) -> xr.DataTree:
    """Everything that is stored of a fit.

    Parameters
    ----------
    model : LatencyModel
        That was fitted.
    runs : sequence of RunInput
        Whose emulators are checked.
    evidence : Evidence
        What the posterior was conditioned on.
    tree : xarray.DataTree
        Posterior, sample statistics and observed data.
    prior : Population
        Draws of the prior.
    seed : int
        Of the random streams.
    threads : int
        Engine threads.

    Returns
    -------
    xarray.DataTree
        With the prior, the evidence and, where there are runs, the emulator check.
    """
    children = {
        name: tree.children[name] for name in ("posterior", "sample_stats", "observed_data")
    }
    children["prior"] = _prior_group(model, prior)
    children["evidence"] = evidence_tree(evidence)
    if runs:
        children["emulator_check"] = emulator_check(model, runs, evidence, tree, seed, threads)
    return xr.DataTree.from_dict(
        {
            f"{name}/{path.strip('/')}".rstrip("/"): node.to_dataset(inherit=False)
            for name, child in children.items()
            for path, node in _nodes(child)
        }
    )


def thinned(tree: xr.DataTree, stored: int) -> xr.DataTree:
    """What predictions need, at evenly spread draws of each chain.

    Parameters
    ----------
    tree : xarray.DataTree
        As sampled.
    stored : int
        Draws of each chain to keep.

    Returns
    -------
    xarray.DataTree
        Posterior, sample statistics and observed data.
    """
    posterior = tree["posterior"].to_dataset()
    rows = np.linspace(0, posterior.sizes["draw"] - 1, min(stored, posterior.sizes["draw"]))
    rows = rows.round().astype(int)
    keep = [
        name
        for name in posterior.data_vars
        if str(name) not in _UNSTORED and not str(name).startswith("log_scale_")
    ]
    stats = tree["sample_stats"].to_dataset()
    return xr.DataTree.from_dict(
        {
            "posterior": posterior[keep].drop_vars("offset_term", errors="ignore").isel(draw=rows),
            "sample_stats": stats[[n for n in _STATS if n in stats]].isel(
                draw=rows, missing_dims="ignore"
            ),
            "observed_data": tree["observed_data"].to_dataset(),
        }
    )


def _nodes(tree: xr.DataTree) -> list[tuple[str, xr.DataTree]]:
    nodes = [("", tree)]
    for name, child in tree.children.items():
        nodes += [(f"{name}/{path}".rstrip("/"), node) for path, node in _nodes(child)]
    return nodes


def _prior_group(model: LatencyModel, prior: Population) -> xr.DataTree:
    from tailcast.inference.population import free_names

    names = free_names(model)
    free = [model.coefficient(name) for name in names]
    value = np.array([c.floor for c in free]) + np.exp(
        np.log([c.centre - c.floor for c in free]) + np.array([c.sd for c in free]) * prior.location
    )
    data = xr.Dataset(
        {"value": (("chain", "draw", "coefficient"), value[None])},
        coords={"coefficient": list(names)},
    )
    for name, scale in prior.scale.items():
        data[f"scale_{name}"] = (("chain", "draw"), scale[None])
    return xr.DataTree(dataset=data)


def emulator_check(
    model: LatencyModel,
    runs: Sequence[RunInput],
    evidence: Evidence,
    tree: xr.DataTree,
    seed: int,
    threads: int,
) -> xr.DataTree:
    """Emulators against fresh engine runs at posterior draws, on workload seeds not used before.

    Parameters
    ----------
    model : LatencyModel
        That was fitted.
    runs : sequence of RunInput
        In the order of the evidence's runs.
    evidence : Evidence
        With their emulators.
    tree : xarray.DataTree
        Posterior.
    seed : int
        Of the fit.
    threads : int
        Engine threads.

    Returns
    -------
    xarray.DataTree
        Bias, root mean square error and claimed residual by summary, log units.
    """
    names, bias, rmse, residual = [], [], [], []
    for k, (run, item) in enumerate(zip(runs, evidence.runs, strict=True)):
        points = run_log_effective(model, tree, evidence, k)
        chosen = points[np.linspace(0, len(points) - 1, _N_CHECK).astype(int)]
        mapping = run_map(run, model)
        logs, _ = run_engine(run, mapping, np.exp(chosen), seed + 10_000, threads)
        error = item.emulator.mean(chosen) - logs
        names += [f"{run.name}/{o.stage}/{o.key}" for o in item.outputs]
        bias += list(np.nanmean(error, axis=0))
        rmse += list(np.sqrt(np.nanmean(error**2, axis=0)))
        residual += list(item.emulator.residual)
    return xr.DataTree(
        dataset=xr.Dataset(
            {
                "bias": ("summary", np.array(bias)),
                "rmse": ("summary", np.array(rmse)),
                "residual": ("summary", np.array(residual)),
            },
            coords={"summary": names},
        )
    )


def posterior_effective(
    model: LatencyModel, population: Population, run: RunInput, seed: int
) -> Array:
    """Log effective numbers of a run that the posterior does not know.

    Parameters
    ----------
    model : LatencyModel
        That was fitted.
    population : Population
        Posterior.
    run : RunInput
        New run.
    seed : int
        Of the discrepancies.

    Returns
    -------
    ndarray, shape (n_draw, n_effective)
        With fresh discrepancies.
    """
    mapping = effective_map(model, run.deployment)
    draws = deployment_draws(population, run.deployment, seed)
    return np.log(effective_values(mapping, model, draws.coefficients))
