"""Answers of the three-number model for people."""

from collections.abc import Mapping

import numpy as np

from tailcast.queueing.capacity import CapacityDraws, Replicas
from tailcast.queueing.server import Floats
from tailcast.queueing.steady_state import SteadyState
from tailcast.units import format_duration

_SECONDS = ("ttft", "itl", "wait", "prefill", "service", "response")
_RATES = ("throughput", "lost", "max_rate")
_COUNTS = ("in_service", "in_system", "utilisation")
_UNITS = {
    **dict.fromkeys(_SECONDS, "s"),
    **dict.fromkeys(_RATES, "requests/s"),
    "in_service": "requests",
    "in_system": "requests",
    "utilisation": "1",
}
_WORDS = {"max_rate": "stability boundary", "in_service": "in service", "in_system": "in system"}


def state_quantiles(state: SteadyState, ci_prob: float) -> dict[str, dict[str, object]]:
    """Median and interval of every mean of a replica, over draws.

    Parameters
    ----------
    state : SteadyState
        Arrays of shape (n_draw,).
    ci_prob : float
        Mass of the equal-tailed interval.

    Returns
    -------
    dict
        By quantity: unit, median, low and high in SI.
    """
    tails = [(1 - ci_prob) / 2, 0.5, (1 + ci_prob) / 2]
    found: dict[str, dict[str, object]] = {}
    for name in (*_SECONDS, *_RATES, *_COUNTS):
        low, middle, high = np.quantile(np.asarray(getattr(state, name)), tails)
        found[name] = {
            "unit": _UNITS[name],
            "median": float(middle),
            "low": float(low),
            "high": float(high),
        }
    return found


def _text(value: object, unit: object) -> str:
    number = float(value)  # type: ignore[arg-type]
    if unit == "s":
        return format_duration(number)
    if unit == "requests/s":
        return f"{number:.4g} /s"
    return f"{number:.1%}" if unit == "1" else f"{number:.4g}"


def state_rows(
    quantiles: Mapping[str, Mapping[str, object]], exact: bool
) -> tuple[list[str], list[list[str]]]:
    """Means of a replica as rows.

    Parameters
    ----------
    quantiles : mapping
        From `state_quantiles`.
    exact : bool
        Whether the three numbers are taken as known, so that there is no interval.

    Returns
    -------
    tuple
        Header and rows of text.
    """
    header = ["mean", "value"] if exact else ["mean", "median", "low", "high"]
    rows = []
    for name, entry in quantiles.items():
        places = ("median",) if exact else ("median", "low", "high")
        cells = [_text(entry[place], entry["unit"]) for place in places]
        rows.append([_WORDS.get(name, name), *cells])
    return header, rows


def size_rows(
    replicas: Replicas, capacity: CapacityDraws, ci_prob: float
) -> tuple[list[str], list[list[str]]]:
    """A sizing as rows.

    Parameters
    ----------
    replicas : Replicas
        Answer.
    capacity : CapacityDraws
        Of one replica.
    ci_prob : float
        Mass of the equal-tailed interval.

    Returns
    -------
    tuple
        Header and rows of text.
    """
    tails = [0.5, (1 - ci_prob) / 2, (1 + ci_prob) / 2]
    middle, low, high = _quantiles(capacity.rate, tails)
    count = "none helps" if replicas.n_replica is None else str(replicas.n_replica)
    return ["quantity", "value"], [
        ["replicas", count],
        ["P(miss)", f"{replicas.p_miss:.3g}"],
        ["capacity of one", f"{middle:.4g} /s"],
        [f"{ci_prob:.0%} interval", f"{low:.4g} .. {high:.4g} /s"],
        ["binds", replicas.binding],
        ["P(no number helps)", f"{replicas.p_infeasible:.3g}"],
    ]


def _quantiles(values: Floats, tails: list[float]) -> list[float]:
    return [float(q) for q in np.quantile(values, tails)]
