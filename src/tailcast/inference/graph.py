"""From a latency model and evidence to an unsampled `pm.Model`."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.inference.density_kernel import UNFOLDED
from tailcast.inference.effects import EffectBlock, effect_blocks
from tailcast.inference.emulator import REACH, pair_indices
from tailcast.inference.evidence import Evidence
from tailcast.inference.population import free_names, varying
from tailcast.inference.stack import Stack, level_offsets, stacked, total_scales
from tailcast.latency_model import GROUPS, LatencyModel
from tailcast.streams import stream

Array = NDArray[np.float64]

SCALE_PREFIX = "scale_"


def build_model(model: LatencyModel, evidence: Evidence) -> Any:
    r"""PyMC model of a latency model given evidence.

    Coefficients are ``floor + exp(location + sum of level offsets)``, non-centred; emulated and
    linear predictions meet the observations in a Student-t likelihood of logs.

    .. math:: \log y = \log f_q(\theta, e, s) + d(e, m) + \varepsilon

    Parameters
    ----------
    model : LatencyModel
        Priors, floors, hierarchy, discrepancy, noise.
    evidence : Evidence
        Runs with emulators, and step timings.

    Returns
    -------
    pymc.Model
        Unsampled, with named coords and dims on every variable.
    """
    import pymc as pm

    stack = stacked(model, evidence)
    with pm.Model(coords=_coords(model, evidence, stack)) as graph:
        for name, (value, dims) in _wave_arrays(stack).items():
            pm.Data(name, value, dims=dims)
        log_excess = _log_excess(model, evidence, stack)
        beta = _coefficients(model, log_excess)
        blocks = effect_blocks(model, evidence)
        effects = _effects(model, evidence, blocks)
        n_run, n_item, n_output = len(evidence.runs), len(evidence.items), len(stack.residual)
        speed = _placed(blocks, effects, "item", n_item)
        log_scale = pm.Normal("log_noise", 0.0, 1.0, dims="noise")
        centre = np.array([model.noise[name].centre for name in stack.noise_names])
        width = np.array([model.noise[name].sd for name in stack.noise_names])
        sigma = pm.Deterministic(
            "noise_scale", centre * pm.math.exp(width * log_scale), dims="noise"
        )
        if evidence.runs:
            added = _placed(blocks, effects, "output", n_output)
            unknown = _placed(blocks, effects, "latent", n_run)
            _run_likelihood(graph, model, stack, beta, speed, unknown, added, sigma)
        if evidence.steps:
            _step_likelihood(model, evidence, stack, beta, speed, sigma)
    return graph


def _coords(model: LatencyModel, evidence: Evidence, stack: Stack) -> dict[str, list[str]]:
    coords = {
        "coefficient": list(free_names(model)),
        "run": [run.name for run in evidence.runs],
        **{block.dim: list(block.units) for block in effect_blocks(model, evidence)},
        "noise": list(stack.noise_names),
        "summary": [f"{run.name}/{o.stage}/{o.key}" for run in evidence.runs for o in run.outputs],
        "timing": [f"{s.name}/{k}" for s in evidence.steps for k in range(len(s.log_observed))],
    }
    if evidence.runs:
        n_effective = stack.centre.shape[1]
        coords["effective"] = [str(k) for k in range(n_effective)]
        coords["emulator_feature"] = [str(k) for k in range(stack.weights.shape[1])]
    coords["offset_term"] = [":".join(term) for term in level_offsets(model, evidence).terms]
    return coords


def _log_excess(model: LatencyModel, evidence: Evidence, stack: Stack) -> Any:
    """Log of coefficient over floor by item of evidence.

    What is sampled is the excess itself, folded by a softplus only near zero: step times are
    linear in it, so the posterior is a straight tube instead of a bent one.
    """
    import pymc as pm
    import pytensor.tensor as pt
    from pymc.distributions.transforms import log_exp_m1

    names = free_names(model)
    free = [model.coefficient(name) for name in names]
    offsets = level_offsets(model, evidence)
    excess = pm.LogNormal(
        "excess",
        np.log(UNFOLDED),
        total_scales(model, offsets),
        dims="coefficient",
        default_transform=log_exp_m1,
    )
    base = np.log([(c.centre - c.floor) / UNFOLDED for c in free]) + pt.log(excess)
    total = pt.tile(base[None, :], (len(stack.deployment), 1))
    z = pm.Normal("offset", 0.0, 1.0, dims="offset_term")
    for k, (group, name, level) in enumerate(offsets.terms):
        share = np.zeros((len(stack.deployment), len(names)))
        here = [item.levels[group] == level for item in evidence.items]
        share[here, names.index(name)] = model.coefficient(name).effects[group]
        total = total + share * z[k]
    return total


def split(
    model: LatencyModel, evidence: Evidence, excess: Array, offset: Array, seed: int
) -> tuple[Array, dict[str, Array]]:
    """Location and all level offsets given what was sampled.

    Sums are split by conditional normal draws; levels that a coefficient does not enter are drawn
    from the prior.

    Parameters
    ----------
    model : LatencyModel
        With the hierarchy.
    evidence : Evidence
        With the levels.
    excess : ndarray, shape (..., n_free)
        Draws of the variable ``excess``.
    offset : ndarray, shape (..., n_term)
        Draws of the variable ``offset``.
    seed : int
        Of the random stream.

    Returns
    -------
    location : ndarray, shape (..., n_free)
        Standardised.
    offsets : dict of str to ndarray, shape (..., n_varying, n_level)
        Standardised, by group.
    """
    rng = stream(seed, "split")
    names = free_names(model)
    found = level_offsets(model, evidence)
    location, shape = np.empty(excess.shape), excess.shape[:-1]
    offsets = {
        g: rng.standard_normal(
            (*excess.shape[:-1], len(varying(model, g)), len(evidence.levels(g)))
        )
        for g in GROUPS
        if varying(model, g)
    }
    for k, name in enumerate(names):
        c, groups = model.coefficient(name), found.collapsed[name]
        parts = np.array([c.sd, *(c.effects[g] for g in groups)])
        own = rng.standard_normal((*shape, len(parts)))
        gap = np.log(excess[..., k] / UNFOLDED) - own @ parts
        own = own + gap[..., None] * parts / (parts**2).sum()
        location[..., k] = own[..., 0]
        for j, (group, level) in enumerate(groups.items(), start=1):
            row = varying(model, group).index(name)
            offsets[group][..., row, evidence.levels(group).index(level)] = own[..., j]
    for z, (group, name, level) in enumerate(found.terms):
        row = varying(model, group).index(name)
        offsets[group][..., row, evidence.levels(group).index(level)] = offset[..., z]
    return location, offsets


def _coefficients(model: LatencyModel, log_excess: Any) -> Any:
    import pytensor.tensor as pt

    names = free_names(model)
    place = np.zeros((len(names), len(model.names)))
    for k, name in enumerate(names):
        place[k, model.names.index(name)] = 1.0
    fixed = np.array([c.centre if c.fixed else c.floor for c in model.coefficients])
    return fixed + pt.dot(pt.exp(log_excess), place)


def _effects(
    model: LatencyModel, evidence: Evidence, blocks: Sequence[EffectBlock]
) -> dict[str, Any]:
    """Random effects by block; a unit's variance is the sum of those that apply to it."""
    import pymc as pm
    import pytensor.tensor as pt

    scale = []
    for name, prior in model.discrepancy.items():
        z = pm.Normal(f"log_scale_{name}", 0.0, 1.0)
        scale.append(pm.Deterministic(f"{SCALE_PREFIX}{name}", prior.centre * pt.exp(prior.sd * z)))
    effects = {}
    for block in blocks:
        variance = block.own**2 + sum(
            (block.part[:, k] * s**2 for k, s in enumerate(scale)), pt.zeros(len(block.units))
        )
        width = pt.sqrt(variance)
        effects[block.name] = (
            pm.StudentT(block.name, nu=block.nu, mu=0.0, sigma=width, dims=block.dim)
            if block.nu
            else pm.Normal(block.name, 0.0, width, dims=block.dim)
        )
    return effects


def _placed(blocks: Sequence[EffectBlock], effects: dict[str, Any], field: str, n: int) -> Any:
    """Sum of the effects that act on each item, summary or run."""
    import pytensor.tensor as pt

    total = pt.zeros(n)
    for block in blocks:
        index = getattr(block, field)
        if (index >= 0).any():
            chosen = np.eye(len(block.units))[np.maximum(index, 0)] * (index >= 0)[:, None]
            total = total + pt.dot(_fixed(chosen), effects[block.name])
    return total


def _one_hot(index: NDArray[np.int64], size: int) -> Any:
    """Selection as a matrix: products are compiled well, gradients of indexing are not."""
    return _fixed(np.eye(size)[index])


def _fixed(value: Array) -> Any:
    """Array that the compiled code takes as an input: a constant would be compiled into it."""
    import pytensor

    return pytensor.shared(np.ascontiguousarray(value, dtype=np.float64))


def _wave_arrays(stack: Stack) -> dict[str, tuple[Array, tuple[str, ...]]]:
    if not len(stack.residual):
        return {}
    return {
        "emulator_centre": (stack.centre, ("run", "effective")),
        "emulator_spread": (stack.spread, ("run", "effective")),
        "emulator_weights": (stack.weights, ("summary", "emulator_feature")),
        "emulator_residual": (stack.residual, ("summary",)),
    }


def _run_likelihood(
    graph: Any,
    model: LatencyModel,
    stack: Stack,
    beta: Any,
    speed: Any,
    unknown: Any,
    added: Any,
    sigma: Any,
) -> None:
    import pymc as pm
    import pytensor.tensor as pt

    n_run, n_effective = stack.pad.shape
    effective = (_fixed(stack.matrix) * beta[:n_run, None, :]).sum(axis=-1) + _fixed(stack.pad)
    log_effective = pt.log(effective) + _fixed(stack.in_clock) * speed[:n_run, None]
    log_effective = log_effective + _fixed(stack.latent) * unknown[:, None]
    centre, spread = graph["emulator_centre"], graph["emulator_spread"]
    z = REACH * pt.tanh((log_effective - centre) / spread / REACH)
    rows, columns = (_one_hot(index, n_effective) for index in pair_indices(n_effective))
    pairs = pt.dot(z, rows.T) * pt.dot(z, columns.T)
    features = pt.concatenate([pt.ones((n_run, 1)), z, pairs], axis=1)
    of_run = _one_hot(stack.run_of_output, n_run)
    mean = (graph["emulator_weights"] * pt.dot(of_run, features)).sum(axis=-1)
    extra = (_fixed(stack.output_overhead) * pt.dot(of_run, beta[:n_run])).sum(axis=-1)
    mean = pt.log(pt.exp(mean) + extra) + added
    noise = pt.dot(_one_hot(stack.output_noise, len(stack.noise_names)), sigma)
    width = pt.sqrt(noise**2 + graph["emulator_residual"] ** 2)
    pm.StudentT(
        "log_summary",
        nu=model.noise_nu,
        mu=mean,
        sigma=width,
        observed=stack.output_observed,
        dims="summary",
    )


def _step_likelihood(
    model: LatencyModel, evidence: Evidence, stack: Stack, beta: Any, speed: Any, sigma: Any
) -> None:
    import pymc as pm
    import pytensor.tensor as pt

    item = _one_hot(len(evidence.runs) + stack.source_of_row, len(stack.deployment))
    own = pt.dot(item, beta)
    seconds = pt.exp(pt.dot(item, speed)) * (_fixed(stack.clock) * own).sum(axis=-1)
    seconds = seconds + (_fixed(stack.overhead) * own).sum(axis=-1)
    pm.StudentT(
        "log_timing",
        nu=model.noise_nu,
        mu=pt.log(seconds),
        sigma=pt.dot(_one_hot(stack.row_noise, len(stack.noise_names)), sigma),
        observed=stack.row_observed,
        dims="timing",
    )
