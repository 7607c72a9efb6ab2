"""PyMC's NUTS on the compiled density, with a fixed dense metric learned from a short run."""

import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tailcast.errors import InferenceError
from tailcast.inference.density import Density
from tailcast.inference.geometry import Geometry, starts

Array = NDArray[np.float64]

_STATS = ("diverging", "energy", "lp", "n_steps", "tree_depth", "step_size", "acceptance_rate")


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

    draws: int = 1000
    tune: int = 400
    stored: int = 200
    chains: int = 4
    cores: int = 2
    target_accept: float = 0.85


class _Compiled:
    """A density under the names by which PyMC's step methods call a compiled function."""

    dtype = "float64"
    _raveled_inputs = True
    _extra_are_set = True

    def __init__(self, density: Density) -> None:
        self._pytensor_function = density
        self._extra_vars_shared: dict[str, Any] = {}


def nuts(
    density: Density,
    found: Geometry,
    sampler: Sampler,
    seed: int,
    report: Callable[[str], None] = lambda _: None,
    label: str = "sampling",
) -> tuple[Array, xr.Dataset]:
    """Sample a compiled density.

    Parameters
    ----------
    density : Density
        To be sampled.
    found : Geometry
        Metric and starts. It stays fixed: an adapted one would learn the way in.
    sampler : Sampler
        Sizes.
    seed : int
        Same seed, same draws.
    report : callable
        Receives a line of progress now and then.
    label : str
        Begins those lines.

    Returns
    -------
    draws : ndarray, shape (n_chain, n_draw, n_parameter)
        Unconstrained.
    stats : xarray.Dataset
        Sampler statistics, dims (chain, draw).

    Raises
    ------
    InferenceError
        If the sampler fails.
    """
    import pymc as pm

    logging.getLogger("pymc").setLevel(logging.ERROR)
    total = sampler.chains * (sampler.draws + sampler.tune)
    seen = [0]

    def tick(**_: Any) -> None:
        seen[0] += 1
        if seen[0] % max(total // 10, 1) == 0:
            report(f"{label}: {100 * seen[0] // total} % of {total} draws")

    try:
        with warnings.catch_warnings(), pm.Model(coords={"parameter": range(density.size)}):
            warnings.simplefilter("ignore")
            pm.Normal("x", 0.0, 1.0, dims="parameter")  # a place to put draws: never evaluated
            step = pm.NUTS(
                scaling=found.covariance,
                is_cov=True,
                target_accept=sampler.target_accept,
                logp_dlogp_func=_Compiled(density),
            )
            tree = pm.sample(
                draws=sampler.draws,
                tune=sampler.tune,
                chains=sampler.chains,
                cores=sampler.cores,
                step=step,
                initvals=[{"x": x} for x in starts(found, sampler.chains, seed)],
                random_seed=seed,
                progressbar=False,
                compute_convergence_checks=False,
                mp_ctx="fork" if sampler.cores > 1 else None,
                callback=tick,
            )
    except (RuntimeError, ValueError, FloatingPointError, pm.SamplingError) as error:
        raise InferenceError(f"sampling failed: {str(error).splitlines()[0]}") from error
    stats = tree["sample_stats"].to_dataset()
    draws: Array = np.asarray(tree["posterior"]["x"].values, dtype=np.float64)
    return draws, stats[[name for name in _STATS if name in stats]]
