"""What a posterior says about the very data it was fitted to, draw by draw."""

from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tailcast.inference.evidence import Evidence
from tailcast.inference.pointwise import Pointwise, pointwise
from tailcast.latency_model import LatencyModel

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedData:
    """Every datum of a fit with its likelihood: Student-t in the log of the seconds.

    Parameters
    ----------
    names : tuple of str
        ``run/stage/metric.stat`` of summaries, ``source/row`` of step timings.
    sources : tuple of str
        Run or step source of each datum.
    kinds : tuple of str
        Noise scale of each datum, for example ``"ttft.p99"`` or ``"step.prefill"``.
    observed : ndarray, shape (n_datum,)
        Log seconds.
    mean, scale : ndarray, shape (n_draw, n_datum)
        Location and scale of the likelihood; emulator error included.
    nu : float
        Degrees of freedom.
    weight : ndarray, shape (n_datum,)
        Power of each likelihood; below 1 where neighbours say nearly the same.
    """

    names: tuple[str, ...]
    sources: tuple[str, ...]
    kinds: tuple[str, ...]
    observed: Array
    mean: Array
    scale: Array
    nu: float
    weight: Array

    @property
    def residual(self) -> Array:
        """Standardised residuals, shape (n_draw, n_datum)."""
        standard: Array = (self.observed - self.mean) / self.scale
        return standard

    @property
    def log_likelihood(self) -> Array:
        """Log density of each datum, shape (n_draw, n_datum)."""
        return Pointwise(
            item=self.sources,
            label=self.names,
            observed=self.observed,
            location=self.mean,
            scale=self.scale,
            nu=self.nu,
        ).log_likelihood()

    @property
    def probability(self) -> Array:
        """Chance of a smaller datum, shape (n_draw, n_datum)."""
        from scipy.special import stdtr

        chance: Array = stdtr(self.nu, self.residual)
        return chance


def fitted_data(model: LatencyModel, tree: xr.DataTree, evidence: Evidence) -> FittedData:
    """Likelihood of every datum at every stored draw.

    Parameters
    ----------
    model : LatencyModel
        That was fitted.
    tree : xarray.DataTree
        With the group posterior.
    evidence : Evidence
        What was fitted.

    Returns
    -------
    FittedData
        Runs first, then step sources.

    Raises
    ------
    InputError
        If the posterior is none of this latency model.
    """
    found = pointwise(model, evidence, tree["posterior"].to_dataset())
    kinds = [o.key for run in evidence.runs for o in run.outputs]
    kinds += [noise for source in evidence.steps for noise in source.noise]
    weight = [1.0 for run in evidence.runs for _ in run.outputs]
    weight += [source.weight for source in evidence.steps for _ in source.noise]
    return FittedData(
        names=found.label,
        sources=found.item,
        kinds=tuple(kinds),
        observed=found.observed,
        mean=found.location,
        scale=found.scale,
        nu=found.nu,
        weight=np.array(weight),
    )
