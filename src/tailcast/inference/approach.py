"""A first design that lies where the data are, however far the prior's middle is from them."""

import numpy as np
from numpy.typing import NDArray

from tailcast.inference.effective import EffectiveMap
from tailcast.inference.forward import RunInput, run_engine
from tailcast.streams import stream

Array = NDArray[np.float64]

_ROUNDS = 3
_ERROR = 0.15
"""Log error that a summary is given on the way; the fit has its own."""

_KEPT_PRIOR = 4
"""One design point in so many stays where the prior put it."""

_SPREAD = 1.5


def approached_design(
    run: RunInput, mapping: EffectiveMap, effective: Array, seed: int, *, threads: int = 2
) -> Array:
    """Move a design toward what was observed, before emulators are fitted to it.

    A quadratic emulator of a wide prior is poor where the data are if these lie at its edge. An
    ensemble smoother with multiple data assimilation (Emerick and Reynolds,
    10.1016/j.cageo.2012.03.011) finds the region in a few rounds of engine runs. It chooses where
    the engine is run and nothing else: prior and likelihood stay what they are.

    Parameters
    ----------
    run : RunInput
        Observed run.
    mapping : EffectiveMap
        Of the run.
    effective : ndarray, shape (n_run, n_effective)
        Design from the prior.
    seed : int
        Of workloads and perturbations.
    threads : int
        Engine threads.

    Returns
    -------
    ndarray, shape (n_run, n_effective)
        The ensemble, spread wider than it converged, with some of the prior's points.
    """
    rng = stream(seed, "approach", run.name)
    observed = np.array([output.log_observed for output in run.outputs])
    x = np.log(effective)
    noise = _ERROR * np.sqrt(_ROUNDS)
    for _ in range(_ROUNDS):
        logs, _ = run_engine(run, mapping, np.exp(x), seed, threads)
        good = np.isfinite(logs).all(axis=1)
        if good.sum() < 2 * x.shape[1]:
            break
        if not good.all():  # members that gave nothing start again as copies of others
            rows = np.where(good, np.arange(len(x)), rng.choice(np.flatnonzero(good), len(x)))
            x, logs = x[rows], logs[rows]
        dx, dy = x - x.mean(axis=0), logs - logs.mean(axis=0)
        n = len(x) - 1
        gain = np.linalg.solve(dy.T @ dy / n + noise**2 * np.eye(len(observed)), (dx.T @ dy / n).T)
        moved = observed + noise * rng.standard_normal(logs.shape) - logs
        x = x + moved @ gain
    middle, spread = x.mean(axis=0), np.maximum(x.std(axis=0), 0.05)
    wide = middle + _SPREAD * (x - middle) + 0.3 * spread * rng.standard_normal(x.shape)
    keep = np.arange(len(wide)) % _KEPT_PRIOR == 0
    design: Array = np.exp(wide)
    design[keep] = effective[keep]
    return design
