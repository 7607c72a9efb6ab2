"""Posterior plus new evidence to posterior: the ledger grows, and all of it is fitted again."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tailcast.errors import InferenceError, InputError, UsageError
from tailcast.inference.approach import approached_design
from tailcast.inference.density import density
from tailcast.inference.density_kernel import UNFOLDED
from tailcast.inference.emulate import (
    DESIGN_SIZE,
    emulated_run,
    local_design,
    prior_design,
    run_map,
    with_odds,
)
from tailcast.inference.evidence import Evidence, RunEvidence, StepEvidence
from tailcast.inference.fit import (
    Fit,
    assembled,
    emulator_check,
    run_log_effective,
    thinned,
)
from tailcast.inference.forward import RunInput
from tailcast.inference.geometry import Geometry, laplace, learned, refolded, unfolding
from tailcast.inference.nuts import Sampler, nuts
from tailcast.inference.pointwise import flat_draws
from tailcast.inference.population import Population, free_names, prior_population
from tailcast.inference.sampling import Sampled, settled, with_parts
from tailcast.inference.trace_input import same_source
from tailcast.latency_model import LatencyModel

Array = NDArray[np.float64]

UPDATE = Sampler(draws=500, tune=200, chains=4, target_accept=0.9)
"""Size of an update: its metric comes from the parent, so little tuning is needed; the step that
little tuning finds is uncertain, so it aims low."""

_PILOT = 150


def update(
    model: LatencyModel,
    parent: xr.DataTree,
    population: Population,
    evidence: Evidence,
    runs: Sequence[RunInput],
    steps: Sequence[StepEvidence] = (),
    *,
    seed: int,
    sampler: Sampler = UPDATE,
    forget: float = 0.0,
    design_size: int = DESIGN_SIZE,
    threads: int = 2,
    patient: bool = False,
    report: Callable[[str], None] = lambda _: None,
) -> Fit:
    """Add runs and step timings to what a posterior was fitted to, and fit it all again.

    The posterior is a function of the ledger alone, so the order of updates does not matter and
    several in a row equal the joint fit, up to Monte Carlo error. The parent only lends the
    emulator designs and the sampler's metric.

    Parameters
    ----------
    model : LatencyModel
        Of the parent.
    parent : xarray.DataTree
        Stored posterior.
    population : Population
        Its draws.
    evidence : Evidence
        Its ledger.
    runs : sequence of RunInput
        New runs.
    steps : sequence of StepEvidence
        New step timings.
    seed : int
        Of designs, workloads and sampling.
    sampler : Sampler
        Sizes.
    forget : float
        Share of the parent's evidence to forget, in [0, 1): each of its likelihood terms is raised
        to the power ``1 - forget`` (power prior, 10.1214/ss/1009212673).
    design_size : int
        Engine runs per new run and wave.
    threads : int
        Engine threads.
    patient : bool
        Whether draws that fail their diagnostics are drawn once more, twice as many.
    report : callable
        Receives lines of progress.

    Returns
    -------
    Fit
        With the whole ledger.

    Raises
    ------
    UsageError
        If nothing new is given or `forget` is no share.
    InputError
        If a run is in the ledger already.
    InferenceError
        If sampling fails.
    """
    if not runs and not steps:
        raise UsageError("nothing to update with: no run and no step timing was given")
    if not 0 <= forget < 1:
        raise UsageError(f"forget must be at least 0 and below 1, got {forget:g}")
    for name in [*(run.name for run in runs), *(step.name for step in steps)]:
        if any(same_source(name, known.name) for known in evidence.items):
            raise InputError(f"{name}: already in the posterior's evidence; it counts once")
    kept = _forgotten(evidence, forget)
    rough = []
    for run in runs:
        mapping, design = prior_design(run, model, population, seed)
        rows = np.linspace(0, len(design) - 1, min(design_size, len(design))).round().astype(int)
        design = design[rows]
        if run.n_seed == 1:
            design = approached_design(run, mapping, design, seed, threads=threads)
        rough.append(
            emulated_run(run, model, mapping, design, seed, threads=threads, report=report)
        )
    grown = Evidence(runs=(*kept.runs, *rough), steps=(*kept.steps, *steps))
    report("first look at the updated posterior")
    near = _near(model, grown, parent["posterior"].to_dataset(), seed, sampler.cores, report)
    if runs:
        fine = [
            _refined(model, run, near.tree, grown, len(kept.runs) + k, seed, design_size, threads)
            for k, run in enumerate(runs)
        ]
        grown = Evidence(runs=(*kept.runs, *fine), steps=grown.steps)
    report("sampling the updated posterior")
    again = (replace(sampler, draws=2 * sampler.draws), seed) if patient else None
    sampled, found = settled(model, grown, sampler, seed, again=again, near=near, report=report)
    prior = prior_population(model, DESIGN_SIZE, seed)
    tree = assembled(model, (), grown, thinned(sampled.tree, sampler.stored), prior, seed, threads)
    if runs:
        fresh = Evidence(runs=grown.runs[len(kept.runs) :])
        checked = emulator_check(model, runs, fresh, tree, seed, threads).to_dataset()
        tree["emulator_check"] = xr.DataTree(dataset=_joined_check(parent, checked))
    return Fit(tree=tree, evidence=grown, diagnostics=found, sampled=sampled)


def _joined_check(parent: xr.DataTree, checked: xr.Dataset) -> xr.Dataset:
    """Emulator errors of the new runs beside those that the parent found of its own."""
    if "emulator_check" not in parent.children:
        return checked
    both: xr.Dataset = xr.concat([parent["emulator_check"].to_dataset(), checked], "summary")
    return both


def _forgotten(evidence: Evidence, forget: float) -> Evidence:
    keep = 1.0 - forget
    return Evidence(
        runs=tuple(replace(run, weight=run.weight * keep) for run in evidence.runs),
        steps=tuple(replace(source, weight=source.weight * keep) for source in evidence.steps),
    )


def _refined(
    model: LatencyModel,
    run: RunInput,
    tree: xr.DataTree,
    evidence: Evidence,
    index: int,
    seed: int,
    design_size: int,
    threads: int,
) -> RunEvidence:
    """Emulator of a new run around the posterior that has seen it."""
    design = local_design(
        run_log_effective(model, tree, evidence, index), design_size, seed + 1, run.name
    )
    mapping = run_map(run, model)
    effective = with_odds(run, mapping, np.exp(design))
    return emulated_run(run, model, mapping, effective, seed + 1, threads=threads)


def _near(
    model: LatencyModel,
    evidence: Evidence,
    parent: xr.Dataset,
    seed: int,
    cores: int,
    report: Callable[[str], None],
) -> Sampled:
    """Metric of the grown posterior from its mode, its parent and a short run; draws of that."""
    plain = density(model, evidence, unfolded=np.full(len(free_names(model)), UNFOLDED))
    rough = laplace(plain)
    before = flat_draws(model, evidence, plain, parent)
    start = _with_parent(rough, before, plain.size)
    short = Sampler(draws=_PILOT, tune=_PILOT, chains=4, cores=cores, target_accept=0.8)
    pilot, _ = nuts(plain, start, short, seed + 2, report, "first metric")
    settled = pilot[:, _PILOT // 3 :]
    flat = settled.reshape(-1, plain.size)
    if not np.isfinite(flat).all():
        raise InferenceError("the updated posterior has no finite draws")
    unfolded = unfolding(before, plain.blocks[0].size)  # many draws; the pilot's are few
    moved = refolded(flat, unfolded)
    around = laplace(density(model, evidence, unfolded=unfolded))
    tree = xr.DataTree.from_dict({"posterior": plain.named(settled)})
    return Sampled(
        tree=with_parts(tree, model, evidence, seed),
        geometry=learned(around, moved),
        unfolded=unfolded,
    )


def _with_parent(rough: Geometry, draws: Array, size: int) -> Geometry:
    """Laplace metric at the mode, averaged with the parent's where the parent has draws."""
    known = draws.std(axis=0) > 0
    covariance = rough.covariance.copy()
    block = np.ix_(known, known)
    covariance[block] = 0.5 * covariance[block] + 0.5 * np.cov(draws[:, known].T)
    values, vectors = np.linalg.eigh(covariance)
    floor = 1e-8 * max(float(values.max()), 1.0)
    covariance = (vectors * np.maximum(values, floor)) @ vectors.T
    return Geometry(centre=rough.centre, covariance=covariance.reshape(size, size))
