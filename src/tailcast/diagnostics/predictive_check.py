"""Could the fitted model have made the data it was fitted to."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.diagnostics.fitted import FittedData
from tailcast.streams import stream

Array = NDArray[np.float64]


def _bias(residual: Array) -> Array:
    mean: Array = residual.mean(axis=1)
    return mean


def _spread(residual: Array) -> Array:
    """Mean absolute residual: unlike the square it exists for heavy tails."""
    size: Array = np.abs(residual).mean(axis=1)
    return size


def _worst(residual: Array) -> Array:
    top: Array = np.abs(residual).max(axis=1)
    return top


MEASURES: dict[str, Callable[[Array], Array]] = {
    "bias": _bias,
    "spread": _spread,
    "worst": _worst,
}
"""Discrepancy measures over the standardised residuals of one kind of datum."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictiveCheck:
    """Posterior predictive p-values of one kind of datum.

    Parameters
    ----------
    kind : str
        For example ``"ttft.p90"``.
    n : int
        Data of this kind.
    p : dict of str to float
        Share of replications with a larger measure than the data, by name in `MEASURES`; near 0
        or 1 the model does not make such data. Gelman, Meng and Stern (1996).
    """

    kind: str
    n: int
    p: dict[str, float]

    @property
    def extreme(self) -> float:
        """Smallest two-sided p-value of the measures."""
        return min(min(1.0, 2 * min(p, 1 - p)) for p in self.p.values())


def predictive_checks(data: FittedData, seed: int = 0) -> tuple[PredictiveCheck, ...]:
    """Compare the residuals of data with those of replications, kind by kind.

    Parameters
    ----------
    data : FittedData
        Likelihood of the data.
    seed : int
        Of the replications.

    Returns
    -------
    tuple of PredictiveCheck
        In order of first appearance.
    """
    made = stream(seed, "replication").standard_t(data.nu, size=data.mean.shape)
    residual = data.residual
    checks = []
    for kind in dict.fromkeys(data.kinds):
        own = np.array([k == kind for k in data.kinds])
        p = {}
        for name, measure in MEASURES.items():
            again, seen = measure(made[:, own]), measure(residual[:, own])
            p[name] = float(np.mean(again > seen) + 0.5 * np.mean(again == seen))
        checks.append(PredictiveCheck(kind=kind, n=int(own.sum()), p=p))
    return tuple(checks)
