"""A sizing for people and for programs."""

from typing import Any

import numpy as np

from tailcast.autoscale.size import SizeAnswer
from tailcast.queueing.server import Floats
from tailcast.queueing.sizing import Targets
from tailcast.units import format_duration


def interval(values: Floats, ci_prob: float, unit: str) -> dict[str, Any]:
    """Median and equal-tailed interval.

    Parameters
    ----------
    values : ndarray
        Draws.
    ci_prob : float
        Mass.
    unit : str
        Of the values.

    Returns
    -------
    dict
        median, low, high, ci_prob, unit.
    """
    low, middle, high = np.quantile(values, [(1 - ci_prob) / 2, 0.5, (1 + ci_prob) / 2])
    return {
        "median": float(middle),
        "low": float(low),
        "high": float(high),
        "ci_prob": ci_prob,
        "unit": unit,
    }


def size_json(answer: SizeAnswer, inputs: dict[str, Any], ci_prob: float) -> dict[str, Any]:
    """Answer for programs, in SI units.

    Parameters
    ----------
    answer : SizeAnswer
        What was found.
    inputs : dict
        The question.
    ci_prob : float
        Mass of the intervals.

    Returns
    -------
    dict
        Schema ``tailcast/size/1``.
    """
    replicas = answer.replicas
    return {
        "schema": "tailcast/size/1",
        "inputs": inputs,
        "n_replica": replicas.n_replica,
        "p_miss": replicas.p_miss,
        "p_infeasible": replicas.p_infeasible,
        "binding": replicas.binding,
        "binding_shares": answer.binding_shares,
        "p_miss_by_replicas": [
            {"n_replica": n, "p_miss": p} for n, p in answer.p_miss_by_replicas.items()
        ],
        "capacity": interval(answer.capacity.rate, ci_prob, "requests/s"),
        "rate": interval(answer.rates, ci_prob, "requests/s"),
        "expected": {
            "replicas": replicas.n_replica,
            "ttft": interval(answer.ttft, ci_prob, "s"),
            "itl": interval(answer.itl, ci_prob, "s"),
        },
    }


def size_table(
    answer: SizeAnswer, targets: Targets, ci_prob: float
) -> tuple[list[str], list[list[str]]]:
    """Answer as rows.

    Parameters
    ----------
    answer : SizeAnswer
        What was found.
    targets : Targets
        On means.
    ci_prob : float
        Mass of the intervals.

    Returns
    -------
    tuple
        Header and rows of text.
    """
    replicas, low_high = answer.replicas, f"{ci_prob:.0%} interval"
    count = "none helps" if replicas.n_replica is None else str(replicas.n_replica)
    rows = [["replicas", count, ""], ["P(miss)", f"{replicas.p_miss:.3g}", ""]]
    for n, p_miss in answer.p_miss_by_replicas.items():
        if n != replicas.n_replica:
            rows.append([f"P(miss) with {n}", f"{p_miss:.3g}", ""])
    capacity = interval(answer.capacity.rate, ci_prob, "")
    rate = interval(answer.rates, ci_prob, "")
    share = answer.binding_shares[replicas.binding]
    rows += [
        ["binds", f"{replicas.binding} in {share:.0%} of the draws", ""],
        ["rate", f"{rate['median']:.4g} /s", _span(rate)],
        ["capacity of one", f"{capacity['median']:.4g} /s", _span(capacity)],
    ]
    alone = "alone, " if replicas.n_replica is None else ""
    for name, values, target in (
        ("ttft", answer.ttft, targets.ttft),
        ("itl", answer.itl, targets.itl),
    ):
        found = interval(values, ci_prob, "s")
        goal = f" (target {format_duration(target)})" if target else ""
        spread = f"{format_duration(found['low'])} .. {format_duration(found['high'])}"
        rows.append([f"mean {name}", f"{alone}{format_duration(found['median'])}{goal}", spread])
    return ["quantity", "value", low_high], rows


def _span(found: dict[str, Any]) -> str:
    return f"{found['low']:.4g} .. {found['high']:.4g} /s"


def infeasible_note(answer: SizeAnswer, targets: Targets) -> str:
    """Why no number of replicas can help.

    Parameters
    ----------
    answer : SizeAnswer
        Without replicas.
    targets : Targets
        On means.

    Returns
    -------
    str
        One sentence.
    """
    missed = []
    for name, values in (("ttft", answer.ttft), ("itl", answer.itl)):
        target = getattr(targets, name)
        if target:
            p_miss = float(np.mean(values > target))
            alone = format_duration(float(np.median(values)))
            missed.append(
                (p_miss, f"mean {name} alone is {alone}, target {format_duration(target)}")
            )
    worst = max(missed)[1] if missed else "no target"
    return (
        "No number of replicas can help: a request alone on a replica already misses with "
        f"probability {answer.replicas.p_infeasible:.3g} ({worst})."
    )
