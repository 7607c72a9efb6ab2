"""Evidence as padded arrays, as the PyMC form and the compiled form of the density take it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.inference.emulator import pair_indices
from tailcast.inference.evidence import Evidence, Output, RunEvidence, StepEvidence
from tailcast.inference.population import free_names, varying
from tailcast.latency_model import GROUPS, LatencyModel

Array = NDArray[np.float64]

OUTPUT_OVERHEADS = ("finish", "stream", "warm_up")
"""Overheads that are added to a summary after the engine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """Evidence as padded arrays: runs first, then step sources.

    Parameters
    ----------
    level : dict of str to ndarray, shape (n_item,)
        Level index by group.
    deployment : ndarray, shape (n_item,)
        Index of the deployment.
    matrix, pad, in_clock, centre, spread : ndarray, shape (n_run, n_effective, ...)
        Map to effective numbers, and the emulators' standardisation.
    weights : ndarray, shape (n_output, n_feature)
        Emulator weights.
    residual, is_ttft, output_observed : ndarray, shape (n_output,)
        Emulator error, whether a TTFT, observed log seconds.
    output_overhead : ndarray, shape (n_output, n_coefficient)
        How often each request overhead enters a summary.
    latent : ndarray, shape (n_run, n_effective)
        1 at the effective number that a run leaves unknown.
    run_of_output, output_noise : ndarray, shape (n_output,)
        Indices of run and noise scale.
    clock, overhead : ndarray, shape (n_row, n_coefficient)
        Basis values and overhead counts of step timings.
    source_of_row, row_noise, row_observed : ndarray, shape (n_row,)
        Index of step source and noise scale, observed log seconds.
    noise_names : tuple of str
        Noise scales in use.
    """

    level: dict[str, NDArray[np.int64]]
    deployment: NDArray[np.int64]
    matrix: Array
    pad: Array
    in_clock: Array
    centre: Array
    spread: Array
    weights: Array
    residual: Array
    run_of_output: NDArray[np.int64]
    output_overhead: Array
    latent: Array
    is_ttft: Array
    output_noise: NDArray[np.int64]
    output_observed: Array
    clock: Array
    overhead: Array
    source_of_row: NDArray[np.int64]
    row_noise: NDArray[np.int64]
    row_observed: Array
    noise_names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """Which level offsets are sampled, and which are summed with the location.

    A coefficient that enters only evidence of one level of a group cannot tell that level's offset
    from its location: the sum is sampled, and `tailcast.inference.graph.split` draws the parts
    given the sum, which is exact for normal offsets. Offsets of levels that it does not enter at
    all keep their prior and are drawn afterwards.

    Parameters
    ----------
    terms : tuple of (str, str, str)
        Sampled offsets: group, coefficient, level.
    collapsed : mapping of str to mapping of str to str
        By coefficient: group to the one level whose offset is summed with the location.
    """

    terms: tuple[tuple[str, str, str], ...]
    collapsed: Mapping[str, Mapping[str, str]]


def level_offsets(model: LatencyModel, evidence: Evidence) -> Offsets:
    """Sampled and collapsed offsets of a latency model given evidence.

    Parameters
    ----------
    model : LatencyModel
        With the hierarchy.
    evidence : Evidence
        With the levels.

    Returns
    -------
    Offsets
        In the order of groups, coefficients, levels.
    """
    enters = [_enters(model, item) for item in evidence.items]
    terms: list[tuple[str, str, str]] = []
    collapsed: dict[str, dict[str, str]] = {name: {} for name in free_names(model)}
    for group in GROUPS:
        for name in varying(model, group):
            column = model.names.index(name)
            levels = sorted(
                {
                    item.levels[group]
                    for item, own in zip(evidence.items, enters, strict=True)
                    if own[column]
                }
            )
            if len(levels) == 1:
                collapsed[name][group] = levels[0]
            elif levels:
                terms += [(group, name, level) for level in levels]
    return Offsets(terms=tuple(terms), collapsed=collapsed)


def _enters(model: LatencyModel, item: RunEvidence | StepEvidence) -> NDArray[np.bool_]:
    """Which coefficients an item of evidence depends on at all."""
    if isinstance(item, StepEvidence):
        found: NDArray[np.bool_] = (item.clock != 0).any(axis=0) | (item.overhead != 0).any(axis=0)
        return found
    used: NDArray[np.bool_] = (item.matrix != 0).any(axis=0)
    for name in OUTPUT_OVERHEADS:
        if name in model.names:
            used[model.names.index(name)] |= any(getattr(o, name) != 0 for o in item.outputs)
    return used


def total_scales(model: LatencyModel, offsets: Offsets) -> Array:
    """Prior sd of each free coefficient's log excess with its collapsed offsets in it.

    Parameters
    ----------
    model : LatencyModel
        With the hierarchy.
    offsets : Offsets
        Which are sampled together with the location.

    Returns
    -------
    ndarray, shape (n_free,)
        Log units.
    """
    free = [model.coefficient(name) for name in free_names(model)]
    return np.array(
        [
            np.hypot(c.sd, np.linalg.norm([c.effects[g] for g in offsets.collapsed[c.name]]))
            for c in free
        ]
    )


def stacked(model: LatencyModel, evidence: Evidence) -> Stack:
    """Padded arrays of evidence.

    Parameters
    ----------
    model : LatencyModel
        Which coefficients and noise scales there are.
    evidence : Evidence
        Runs with emulators, step timings.

    Returns
    -------
    Stack
        Ready for both forms of the density.
    """
    items = evidence.items
    outputs = [(r, o) for r, run in enumerate(evidence.runs) for o in run.outputs]
    rows = [(s, k) for s, source in enumerate(evidence.steps) for k in range(len(source.noise))]
    used = {o.key for _, o in outputs} | {evidence.steps[s].noise[k] for s, k in rows}
    names = tuple(name for name in model.noise if name in used)
    level = {
        g: np.array([evidence.levels(g).index(item.levels[g]) for item in items], dtype=np.int64)
        for g in GROUPS
    }
    return Stack(
        level=level,
        deployment=np.array([evidence.deployments.index(i.deployment) for i in items]),
        **_stacked_runs(model, evidence),
        run_of_output=np.array([r for r, _ in outputs], dtype=np.int64),
        output_overhead=_output_overhead(model, [o for _, o in outputs]),
        is_ttft=np.array([float(o.metric == "ttft") for _, o in outputs]),
        output_noise=np.array([names.index(o.key) for _, o in outputs], dtype=np.int64),
        output_observed=np.array([o.log_observed for _, o in outputs]),
        clock=_rows(evidence, "clock", len(model.names)),
        overhead=_rows(evidence, "overhead", len(model.names)),
        source_of_row=np.array([s for s, _ in rows], dtype=np.int64),
        row_noise=np.array(
            [names.index(evidence.steps[s].noise[k]) for s, k in rows], dtype=np.int64
        ),
        row_observed=np.array([evidence.steps[s].log_observed[k] for s, k in rows]),
        noise_names=names,
    )


def _output_overhead(model: LatencyModel, outputs: Sequence[Output]) -> Array:
    counts = np.zeros((len(outputs), len(model.names)))
    for name in OUTPUT_OVERHEADS:
        if name in model.names:
            counts[:, model.names.index(name)] = [getattr(o, name) for o in outputs]
    return counts


def _rows(evidence: Evidence, field: str, width: int) -> Array:
    parts = [getattr(source, field) for source in evidence.steps]
    return np.concatenate(parts) if parts else np.zeros((0, width))


def _stacked_runs(model: LatencyModel, evidence: Evidence) -> dict[str, Array]:
    """Pad every run to the same number of effective numbers; a padded one stands at its centre."""
    runs = evidence.runs
    n_effective = max((len(run.matrix) for run in runs), default=0)
    rows, columns = pair_indices(n_effective)
    shape = (len(runs), n_effective)
    out = {
        "matrix": np.zeros((*shape, len(model.names))),
        "pad": np.ones(shape),
        "in_clock": np.zeros(shape),
        "latent": np.zeros(shape),
        "centre": np.zeros(shape),
        "spread": np.ones(shape),
    }
    weights, residual = [], []
    for r, run in enumerate(runs):
        n = len(run.matrix)
        out["matrix"][r, :n] = run.matrix
        out["pad"][r, :n] = 0.0
        out["in_clock"][r, :n] = run.in_clock
        if run.latent >= 0:
            out["latent"][r, run.latent] = 1.0
            out["pad"][r, run.latent] = model.latent["uncached_share"].centre
        out["centre"][r, :n] = run.emulator.centre
        out["spread"][r, :n] = run.emulator.spread
        own_rows, own_columns = pair_indices(n)
        own = {(i, j): k for k, (i, j) in enumerate(zip(own_rows, own_columns, strict=True))}
        for o in range(len(run.outputs)):
            full = np.zeros(1 + n_effective + len(rows))
            full[: 1 + n] = run.emulator.weights[o, : 1 + n]
            for k, pair in enumerate(zip(rows, columns, strict=True)):
                if pair in own:
                    full[1 + n_effective + k] = run.emulator.weights[o, 1 + n + own[pair]]
            weights.append(full)
            residual.append(run.emulator.residual[o])
    out["weights"] = np.array(weights).reshape(len(weights), 1 + n_effective + len(rows))
    out["residual"] = np.array(residual)
    return out
