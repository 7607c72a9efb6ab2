"""Two posteriors beside each other: which coefficients moved, and which became surer."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import UsageError
from tailcast.posteriors import Posterior

Array = NDArray[np.float64]

SCHEMA = "tailcast/posterior-compare/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class CoefficientShift:
    """One coefficient of the population under two posteriors.

    Parameters
    ----------
    name, unit : str
        As in the latency model of the first.
    first, second : tuple of float
        5 %, 50 % and 95 % quantile.
    shift : float
        Difference of the means of the log excess over the sd of the first.
    sd_ratio : float
        Sd of the second over that of the first; below 1 it became surer.
    """

    name: str
    unit: str
    first: tuple[float, float, float]
    second: tuple[float, float, float]
    shift: float
    sd_ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PosteriorComparison:
    """Two posteriors beside each other.

    Parameters
    ----------
    first, second : str
        Their names.
    shifts : tuple of CoefficientShift
        Coefficients that both have.
    only_first, only_second : tuple of str
        Coefficients that only one has.
    data_only_first, data_only_second : tuple of str
        Data files that only one has seen.
    related : str
        ``"second updates first"``, ``"first updates second"`` or ``""``.
    """

    first: str
    second: str
    shifts: tuple[CoefficientShift, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    data_only_first: tuple[str, ...]
    data_only_second: tuple[str, ...]
    related: str

    def as_json(self) -> dict[str, Any]:
        """The contract ``tailcast/posterior-compare/1``.

        Returns
        -------
        dict
            Ready for `json.dumps`.
        """
        names = ("first", "second", "related", "only_first", "only_second")
        return {
            "schema": SCHEMA,
            **{name: getattr(self, name) for name in names},
            "data_only_first": self.data_only_first,
            "data_only_second": self.data_only_second,
            "coefficients": [
                {name: getattr(s, name) for name in CoefficientShift.__slots__} for s in self.shifts
            ],
        }


def compare_posteriors(first: Posterior, second: Posterior) -> PosteriorComparison:
    """Compare the population coefficients of two posteriors.

    Parameters
    ----------
    first, second : Posterior
        Of one latency model, or of two that share coefficients.

    Returns
    -------
    PosteriorComparison
        Shift and contraction from the first to the second.

    Raises
    ------
    UsageError
        If they have no coefficient in common.
    """
    values = (_values(first), _values(second))
    common = [name for name in values[0] if name in values[1]]
    if not common:
        raise UsageError(
            f"{first.name} and {second.name} have no coefficient in common: latency models "
            f"{first.latency_model.name!r} and {second.latency_model.name!r}"
        )
    return PosteriorComparison(
        first=first.name,
        second=second.name,
        shifts=tuple(_shift(first, name, values[0][name], values[1][name]) for name in common),
        only_first=tuple(sorted(set(values[0]) - set(values[1]))),
        only_second=tuple(sorted(set(values[1]) - set(values[0]))),
        data_only_first=_data_beyond(first, second),
        data_only_second=_data_beyond(second, first),
        related=_relation(first, second),
    )


def _values(posterior: Posterior) -> dict[str, Array]:
    data = posterior.tree()["posterior"].to_dataset()
    return {
        str(name): np.asarray(data["value"].sel(coefficient=name).values, dtype=np.float64).reshape(
            -1
        )
        for name in data["coefficient"].values
    }


def _shift(posterior: Posterior, name: str, before: Array, after: Array) -> CoefficientShift:
    coefficient = posterior.latency_model.coefficient(name)
    logs = [np.log(np.maximum(v - coefficient.floor, 1e-12)) for v in (before, after)]
    sd = float(np.std(logs[0]))
    return CoefficientShift(
        name=name,
        unit=coefficient.unit,
        first=_quantiles(before),
        second=_quantiles(after),
        shift=float(np.mean(logs[1]) - np.mean(logs[0])) / sd,
        sd_ratio=float(np.std(logs[1])) / sd,
    )


def _quantiles(values: Array) -> tuple[float, float, float]:
    low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
    return float(low), float(middle), float(high)


def _data_beyond(one: Posterior, other: Posterior) -> tuple[str, ...]:
    """Files that only one has, by content: a file may have another name elsewhere."""
    known = set(dict(other.card.get("data_sha256", {})).values())
    own = dict(one.card.get("data_sha256", {}))
    return tuple(sorted(name for name, digest in own.items() if digest not in known))


def _relation(first: Posterior, second: Posterior) -> str:
    hashes = (first.card.get("posterior_sha256"), second.card.get("posterior_sha256"))
    if hashes[0] and second.card.get("parent") == hashes[0]:
        return "second updates first"
    if hashes[1] and first.card.get("parent") == hashes[1]:
        return "first updates second"
    return ""
