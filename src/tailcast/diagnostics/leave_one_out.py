"""Leave-one-out predictions of each datum by Pareto-smoothed importance sampling."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.diagnostics.fitted import FittedData
from tailcast.scoring.binomial import clopper_pearson
from tailcast.scoring.summary import Coverage

Array = NDArray[np.float64]

KHAT_LIMIT = 0.7
"""Pareto shape above which importance sampling is not to be trusted."""

_STILL = 1e-9
"""Spread of a log likelihood over draws below which a datum moves nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaveOneOut:
    """Each datum predicted without it.

    Parameters
    ----------
    data : FittedData
        Likelihood of the data.
    elpd : ndarray, shape (n_datum,)
        Log density of each datum without it.
    pit : ndarray, shape (n_datum,)
        Chance of a smaller datum without it.
    khat : ndarray, shape (n_datum,)
        Pareto shape; above `KHAT_LIMIT` that datum's numbers are not to be trusted.
    """

    data: FittedData
    elpd: Array
    pit: Array
    khat: Array

    @property
    def good(self) -> NDArray[np.bool_]:
        """Which data have a Pareto shape to be trusted, shape (n_datum,)."""
        return self.khat <= KHAT_LIMIT

    @property
    def bad_by_kind(self) -> dict[str, int]:
        """How many data have a bad Pareto shape, by kind; kinds without one are left out."""
        bad = [k for k, good in zip(self.data.kinds, self.good, strict=True) if not good]
        return {kind: bad.count(kind) for kind in dict.fromkeys(bad)}

    def coverage(self, level: int) -> Coverage:
        """Share of data inside their central leave-one-out interval; every source weighs one.

        Parameters
        ----------
        level : int
            Nominal percent.

        Returns
        -------
        Coverage
            Over the data whose Pareto shape is to be trusted, with the exact range by source.
        """
        inside: dict[str, list[bool]] = {}
        for name, pit, good in zip(self.data.sources, self.pit, self.good, strict=True):
            if good:
                inside.setdefault(name, []).append(abs(2 * pit - 1) <= level / 100)
        n = len(inside)
        hits = round(sum(float(np.mean(own)) for own in inside.values()), 9)
        low, high = clopper_pearson(hits, n)
        return Coverage(level=level, share=hits / n if n else 0.0, low=low, high=high)

    @property
    def uniformity(self) -> float:
        """Kolmogorov-Smirnov p-value of the trusted PITs against a uniform law.

        The data of one run share its effects, so the PITs hang together and the test is a rough
        one: it is for finding gross misfit.
        """
        from scipy.special import kolmogorov

        pit = np.sort(self.pit[self.good])
        n = len(pit)
        if n == 0:
            return 0.0
        rank = np.arange(1, n + 1) / n
        distance = float(max(np.max(rank - pit), np.max(pit - rank + 1 / n)))
        return float(kolmogorov(distance * np.sqrt(n)))


def leave_one_out(data: FittedData, relative_efficiency: float = 1.0) -> LeaveOneOut:
    """Predict each datum without it, from the draws that saw it.

    Parameters
    ----------
    data : FittedData
        Likelihood of the data.
    relative_efficiency : float
        Effective over nominal number of draws.

    Returns
    -------
    LeaveOneOut
        Vehtari, Gelman and Gabry (2017), 10.1007/s11222-016-9696-4; Pareto smoothing as in Vehtari
        et al. (2024), arXiv:1507.02646.
    """
    from arviz_stats.base import array_stats

    log = data.log_likelihood.T
    told = data.weight[:, None] * log
    weight, khat = np.zeros_like(log), np.zeros(len(log))
    moves = np.ptp(told, axis=1) > _STILL
    if moves.any():
        smoothed, shape = array_stats.psislw(told[moves], r_eff=relative_efficiency)
        weight[moves], khat[moves] = np.asarray(smoothed), np.asarray(shape)
    weight -= _log_sum(weight)[:, None]
    elpd = _log_sum(weight + log)
    pit = np.sum(np.exp(weight) * data.probability.T, axis=1)
    return LeaveOneOut(
        data=data,
        elpd=elpd,
        pit=np.clip(pit, 0.0, 1.0),
        khat=khat,
    )


def _log_sum(values: Array) -> Array:
    top = values.max(axis=1)
    total: Array = top + np.log(np.sum(np.exp(values - top[:, None]), axis=1))
    return total
