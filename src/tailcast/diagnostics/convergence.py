"""Convergence of the draws that are stored."""

import warnings
from dataclasses import dataclass

import numpy as np
import xarray as xr


@dataclass(frozen=True, slots=True, kw_only=True)
class Convergence:
    """Convergence of stored draws over every variable.

    Parameters
    ----------
    rhat : float
        Largest r-hat.
    worst : str
        Variable it belongs to.
    ess_bulk : float
        Smallest bulk effective sample size.
    scarce : str
        Variable it belongs to.
    divergences, n_draw : int
        Divergent and all stored draws.
    """

    rhat: float
    worst: str
    ess_bulk: float
    scarce: str
    divergences: int
    n_draw: int


def stored_convergence(tree: xr.DataTree) -> Convergence:
    """Rank-normalised r-hat and bulk ESS of what is stored.

    Parameters
    ----------
    tree : xarray.DataTree
        With groups posterior and sample_stats.

    Returns
    -------
    Convergence
        Vehtari et al. (2021), 10.1214/20-BA1221. Stored draws are thinned: the card has the
        figures of all that were sampled.
    """
    from arviz_stats.base import array_stats

    rhat: dict[str, float] = {}
    ess: dict[str, float] = {}
    for name, variable in tree["posterior"].to_dataset().data_vars.items():
        values = np.asarray(variable.values, dtype=np.float64)
        if not values.size or np.ptp(values) == 0.0:
            continue
        flat = np.moveaxis(values.reshape(*values.shape[:2], -1), -1, 0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            r = np.asarray(array_stats.rhat(flat, chain_axis=1, draw_axis=2))
            n = np.asarray(array_stats.ess(flat, chain_axis=1, draw_axis=2))
        rhat[str(name)] = float(np.nanmax(r))
        ess[str(name)] = float(np.nanmin(n))
    worst = max(rhat, key=lambda k: rhat[k])
    scarce = min(ess, key=lambda k: ess[k])
    diverging = tree["sample_stats"].to_dataset()["diverging"].values
    return Convergence(
        rhat=rhat[worst],
        worst=worst,
        ess_bulk=ess[scarce],
        scarce=scarce,
        divergences=int(diverging.sum()),
        n_draw=int(diverging.size),
    )
