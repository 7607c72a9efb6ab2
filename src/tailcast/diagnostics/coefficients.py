"""What each coefficient learned: prior beside posterior, contraction, physical floor."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tailcast.diagnostics.definition import UNIDENTIFIED
from tailcast.latency_model import LatencyModel

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoefficientCheck:
    """One coefficient of the population.

    Parameters
    ----------
    name, unit : str
        As in the latency model.
    prior, posterior : tuple of float
        5 %, 50 % and 95 % quantile.
    contraction : float
        Posterior over prior sd of the log excess at the best known level; 1 where nothing was
        learned.
    n_below_floor : int
        Draws that would beat the hardware.
    """

    name: str
    unit: str
    prior: tuple[float, float, float]
    posterior: tuple[float, float, float]
    contraction: float
    n_below_floor: int

    @property
    def identified(self) -> bool:
        """Whether the data moved it noticeably."""
        return self.contraction <= UNIDENTIFIED


def coefficient_checks(
    tree: xr.DataTree, model: LatencyModel, contraction: Mapping[str, float]
) -> tuple[CoefficientCheck, ...]:
    """Check the free coefficients.

    Parameters
    ----------
    tree : xarray.DataTree
        With groups posterior and prior.
    model : LatencyModel
        That was fitted.
    contraction : mapping of str to float
        By coefficient.

    Returns
    -------
    tuple of CoefficientCheck
        In the model's order.
    """
    posterior, prior = tree["posterior"].to_dataset(), tree["prior"].to_dataset()
    checks = []
    for name in (str(v) for v in posterior["coefficient"].values):
        now = posterior["value"].sel(coefficient=name).values
        c = model.coefficient(name)
        checks.append(
            CoefficientCheck(
                name=name,
                unit=c.unit,
                prior=_quantiles(prior["value"].sel(coefficient=name).values),
                posterior=_quantiles(now),
                contraction=float(contraction.get(name, 1.0)),
                n_below_floor=int(np.sum(now < c.floor)),
            )
        )
    return tuple(checks)


def _quantiles(values: Array) -> tuple[float, float, float]:
    low, middle, high = np.quantile(np.asarray(values, dtype=np.float64), [0.05, 0.5, 0.95])
    return float(low), float(middle), float(high)
