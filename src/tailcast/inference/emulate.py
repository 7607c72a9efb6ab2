"""Engine runs over a design, emulators from them, kept in a cache on disk."""

import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tailcast.coefficients import Coefficients
from tailcast.inference.effective import EffectiveMap, effective_map
from tailcast.inference.emulator import fit_emulator
from tailcast.inference.evidence import RunEvidence, content_hash
from tailcast.inference.forward import (
    UNCACHED,
    RunInput,
    basis_range,
    checked_outputs,
    odds_grid,
    run_engine,
)
from tailcast.inference.population import (
    Population,
    deployment_draws,
    deployment_key,
    group_levels,
)
from tailcast.inference.regimes import run_regimes, saturated_stages
from tailcast.latency_model import LatencyModel
from tailcast.streams import stream

Array = NDArray[np.float64]

DESIGN_SIZE = 256
"""Engine runs per observed run and wave."""

ENGINE_REVISION = 1
"""Raised when the engine's semantics change, so that no stale emulator is used."""

_NEAR = 0.7
"""Log distance from the observed values at which a design run counts half."""


def cache_folder() -> Path:
    """Folder for emulator runs: ``$TAILCAST_CACHE``, else ``$XDG_CACHE_HOME/tailcast``.

    Returns
    -------
    pathlib.Path
        Not necessarily existing.
    """
    own = os.environ.get("TAILCAST_CACHE")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tailcast"


def effective_values(mapping: EffectiveMap, model: LatencyModel, draws: Coefficients) -> Array:
    """Effective numbers of coefficient draws.

    Parameters
    ----------
    mapping : EffectiveMap
        Of the deployment.
    model : LatencyModel
        Whose coefficients these are.
    draws : Coefficients
        Of the deployment, speed included.

    Returns
    -------
    ndarray, shape (n_draw, n_effective)
        With the speed in those that are in the step clock.
    """
    beta = np.array([draws.values[name] for name in model.names]).T
    speed = np.where(mapping.in_clock, draws.speed[:, None], 1.0)
    values: Array = (beta @ mapping.matrix.T) * speed
    return values


def run_map(run: RunInput, model: LatencyModel) -> EffectiveMap:
    """Map of a run: that of its deployment, and a number for what the run leaves unknown.

    Parameters
    ----------
    run : RunInput
        Observed run.
    model : LatencyModel
        Which coefficients there are.

    Returns
    -------
    EffectiveMap
        With ``uncached_odds`` last where the share of repeated prompts is unknown.
    """
    mapping = effective_map(model, run.deployment)
    if run.uncached is None or "uncached_share" not in model.latent:
        return mapping
    return replace(
        mapping,
        names=(*mapping.names, UNCACHED),
        matrix=np.vstack([mapping.matrix, np.zeros(len(model.names))]),
        in_clock=np.append(mapping.in_clock, False),
    )


def with_odds(run: RunInput, mapping: EffectiveMap, effective: Array) -> Array:
    """Design with the odds of an unshared prompt spread evenly over their prior.

    Parameters
    ----------
    run : RunInput
        With the prior of the odds.
    mapping : EffectiveMap
        From `run_map`.
    effective : ndarray, shape (n_draw, n_effective)
        Design of all else.

    Returns
    -------
    ndarray, shape (n_draw, n_effective)
        Unchanged where nothing is unknown.
    """
    if run.uncached is None or UNCACHED not in mapping.names:
        return effective
    grid = odds_grid(run.uncached)
    out = effective.copy()
    out[:, mapping.names.index(UNCACHED)] = grid[np.arange(len(out)) % len(grid)]
    return out


def prior_design(
    run: RunInput, model: LatencyModel, population: Population, seed: int
) -> tuple[EffectiveMap, Array]:
    """Design from a population that knows nothing of this run.

    Parameters
    ----------
    run : RunInput
        Observed run.
    model : LatencyModel
        Which coefficients there are.
    population : Population
        Prior or earlier posterior.
    seed : int
        Of the discrepancies.

    Returns
    -------
    EffectiveMap
        Of the run's deployment.
    ndarray, shape (n_draw, n_effective)
        Effective numbers.
    """
    mapping = run_map(run, model)
    draws = deployment_draws(population, run.deployment, seed)
    effective = effective_values(mapping, model, draws.coefficients)
    return mapping, with_odds(run, mapping, effective)


def local_design(centre: Array, n_run: int, seed: int, name: str) -> Array:
    """Second-wave design around posterior draws of one run's log effective numbers.

    Half are the draws themselves, half are spread twice as wide; both jittered by 3 %.

    Parameters
    ----------
    centre : ndarray, shape (n_draw, n_effective)
        Log effective numbers at posterior draws.
    n_run : int
        Size of the design.
    seed : int
        Of the random stream.
    name : str
        Names the stream.

    Returns
    -------
    ndarray, shape (n_run, n_effective)
        Log effective numbers.
    """
    rng = stream(seed, "local design", name)
    rows = centre[
        rng.permutation(len(centre))[:n_run]
        if len(centre) >= n_run
        else rng.integers(len(centre), size=n_run)
    ]
    middle = centre.mean(axis=0)
    stretch = np.where(np.arange(n_run) % 2 == 0, 1.0, 2.0)[:, None]
    design: Array = middle + (rows - middle) * stretch
    return design + 0.03 * rng.standard_normal(design.shape)


def emulated_run(
    run: RunInput,
    model: LatencyModel,
    mapping: EffectiveMap,
    effective: Array,
    seed: int,
    *,
    threads: int = 2,
    report: Callable[[str], None] = lambda _: None,
) -> RunEvidence:
    """Run the engine over a design and emulate the observed summaries.

    Parameters
    ----------
    run : RunInput
        Observed run.
    model : LatencyModel
        Which coefficients there are.
    mapping : EffectiveMap
        Of the deployment.
    effective : ndarray, shape (n_run, n_effective)
        Design.
    seed : int
        First workload seed.
    threads : int
        Engine threads.
    report : callable
        Receives one line of progress.

    Returns
    -------
    RunEvidence
        With its emulator.

    Raises
    ------
    InputError
        If the run has no usable summary.
    InferenceError
        If too few engine runs gave an output.
    """
    first = run.requests(seed)
    checked_outputs(run.name, run.outputs, first.n_group)
    key = content_hash(ENGINE_REVISION, run.content, mapping.names, effective, seed)
    path = cache_folder() / "emulators" / f"{key}.npz"
    kept = _load(path)
    if kept is None:
        logs, result = run_engine(run, mapping, effective, seed, threads)
        kept = {"logs": logs, "ranges": result.ranges}
        _store(path, kept)
        report(f"{run.name}: {len(effective)} engine runs")
    else:
        report(f"{run.name}: engine runs taken from the cache")
    observed = np.array([output.log_observed for output in run.outputs])
    off = np.nanmean(np.abs(kept["logs"] - observed), axis=1)
    weight = 1.0 / (1.0 + (np.nan_to_num(off, nan=10.0) / _NEAR) ** 2)
    emulator = fit_emulator(np.log(effective), kept["logs"], weight)
    near = np.argsort(off)[: max(16, len(off) // 4)]
    return RunEvidence(
        name=run.name,
        levels=group_levels(run.deployment),
        deployment=deployment_key(run.deployment),
        matrix=mapping.matrix,
        in_clock=mapping.in_clock,
        emulator=emulator,
        outputs=tuple(run.outputs),
        regimes=run_regimes(run, first),
        saturated=saturated_stages(run, mapping, effective[near], first),
        latent=mapping.names.index(UNCACHED) if UNCACHED in mapping.names else -1,
        batch_range=basis_range(model, run.deployment, kept["ranges"][near]),
    )


def _load(path: Path) -> dict[str, Array] | None:
    try:
        with np.load(path) as stored:
            return {name: stored[name] for name in ("logs", "ranges")}
    except (OSError, ValueError, KeyError):
        return None


def _store(path: Path, arrays: dict[str, Array]) -> None:
    """Write by a temporary file and a rename; a cache that cannot be written is no error."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "wb") as file:
            np.savez_compressed(file, logs=arrays["logs"], ranges=arrays["ranges"])
        os.replace(temporary, path)
    except OSError:
        return
