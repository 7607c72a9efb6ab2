"""An assessment of objectives for people and for programs."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tailcast.report.prediction import interval
from tailcast.risk.assessment import Assessment
from tailcast.risk.curve import Curve, Edge, curve_points, fewest_held, largest_held
from tailcast.risk.split import PARTS
from tailcast.slo import MAX_SATURATED, Miss

SCHEMA = "tailcast/slo/1"

_PART_WORDS = {
    "coefficients": "coefficients",
    "discrepancy": "discrepancy",
    "workload": "which requests arrive",
    "finite_run": "one finite run",
}


def slo_rows(found: Assessment, ci_prob: float) -> tuple[list[str], list[list[str]]]:
    """Table of objectives with both kinds of P(miss).

    Parameters
    ----------
    found : Assessment
        Simulated.
    ci_prob : float
        Mass of the interval of the value.

    Returns
    -------
    tuple
        Header and rows of text.
    """
    header = [
        "objective",
        f"P(next {found.n_request} miss)",
        "P(long run misses)",
        "median",
        f"{100 * ci_prob:g} % interval",
        f"holds at {found.risk:.0%} risk",
    ]
    rows = []
    targets = found.least_targets()
    for k, objective in enumerate(found.question.objectives):
        middle, low, high = _value(found, k, ci_prob)
        rows.append(
            [
                str(objective),
                _chance(found.window[k]),
                _chance(found.process[k]),
                objective.show(middle),
                f"{objective.show(low)} .. {objective.show(high)}",
                "" if objective.is_goodput else _target(targets[k], objective.show),
            ]
        )
    if len(found.question.objectives) > 1:
        last = [_chance(found.window[-1]), _chance(found.process[-1])]
        rows.append(["all of them", *last, "", "", ""])
    return header, rows


def _target(value: float, show: Any) -> str:
    return f"<= {show(value)}" if np.isfinite(value) else "no target"


def _chance(miss: Miss) -> str:
    return f"{miss.p_miss:.1%} +- {miss.mcse:.1%}"


def _value(found: Assessment, index: int, ci_prob: float) -> tuple[float, float, float]:
    """Median and interval over stable blocks; none where most are saturated."""
    values = found.outcomes.value[:, index]
    if found.p_saturated > MAX_SATURATED:
        return interval(np.full(1, np.nan), ci_prob)
    return interval(values[found.outcomes.stable], ci_prob)


def slo_text(found: Assessment, ci_prob: float) -> list[str]:
    """Lines that stand under the table: verdict, where the spread comes from, curves, warnings.

    Parameters
    ----------
    found : Assessment
        Simulated.
    ci_prob : float
        Mass of intervals.

    Returns
    -------
    list of str
        One sentence each.
    """
    answer = found.verdict()
    about = (
        f"the next run of {found.n_request} requests"
        if found.horizon == "window"
        else "the long run (pooled exceedances)"
    )
    lines = [f"{answer.word.upper()}: {answer.reason}; {answer.advice}. Decided on {about}."]
    load = float(np.median(found.outcomes.load))
    if found.p_saturated > MAX_SATURATED:
        lines.append(
            f"Beyond the stability boundary in {found.p_saturated:.0%} of the draws "
            f"(offered load {load:.2f} of capacity): no latency is stated."
        )
    elif found.p_saturated > 0:
        lines.append(
            f"P(saturated) {found.p_saturated:.1%}; those draws are not in the latencies "
            "and count as missed."
        )
    if found.p_saturated <= MAX_SATURATED:
        shares = found.splits()["all"].shares()
        parts = ", ".join(f"{_PART_WORDS[name]} {shares[name]:.0%}" for name in PARTS)
        lines.append(f"Where the spread of the worst objective comes from: {parts}.")
    lines.append(
        f"By the latency law alone, without discrepancy, P(miss) would be {_chance(found.law[-1])}."
    )
    lines += _curve_lines(found, ci_prob)
    failed = float(np.mean(found.outcomes.failed))
    if failed > 0:
        lines.append(f"{failed:.1%} of the requests are rejected or leave; latencies omit them.")
    lines.append(
        f"{found.mode} prediction by posterior {found.posterior}: {len(found.outcomes)} draws x "
        f"{found.n_request} requests, {100 * ci_prob:g} % equal-tailed intervals, "
        f"load {load:.2f} of capacity."
    )
    return [*lines, *(f"Note: {note}." for note in found.warnings)]


def _curve_lines(found: Assessment, ci_prob: float) -> list[str]:
    lines = []
    if "rate" in found.curves:
        edge = largest_held(found.curves["rate"], found.risk, ci_prob=ci_prob)
        if edge.value > 0:
            more = "" if edge.bounded else " or more"
            lines.append(
                f"Largest rate with P(miss) <= {found.risk:.0%}: {edge.value:.3g} req/s{more} "
                f"[{edge.low:.3g}, {edge.high:.3g}] (Monte Carlo error; asked: "
                f"{found.rate:.3g} req/s)."
            )
        else:
            least = float(found.curves["rate"].at[0])
            lines.append(
                f"No rate down to {least:.3g} req/s has P(miss) <= {found.risk:.0%}: "
                "a lone request is too slow already."
            )
    if "replicas" in found.curves:
        fewest = fewest_held(found.curves["replicas"], found.risk)
        most = int(found.curves["replicas"].at[-1])
        lines.append(
            f"Fewest replicas with P(miss) <= {found.risk:.0%}: {fewest:.0f}."
            if np.isfinite(fewest)
            else f"No number of replicas up to {most} has P(miss) <= {found.risk:.0%}."
        )
    return lines


def slo_json(found: Assessment, ci_prob: float, inputs: dict[str, Any]) -> dict[str, Any]:
    """The contract ``tailcast/slo/1``; seconds, requests/s, shares.

    Parameters
    ----------
    found : Assessment
        Simulated.
    ci_prob : float
        Mass of intervals.
    inputs : dict
        What was asked.

    Returns
    -------
    dict
        Ready for `json.dumps`.
    """
    answer = found.verdict()
    splits = found.splits()
    objectives = []
    for k, objective in enumerate(found.question.objectives):
        middle, low, high = _value(found, k, ci_prob)
        objectives.append(
            {
                "objective": str(objective),
                "metric": objective.metric,
                "statistic": objective.stat,
                "group": objective.group,
                "target": objective.target,
                "median": middle,
                "low": low,
                "high": high,
                "least_target": found.least_targets()[k],
                "log_variance": _parts(splits[str(objective)]),
                **_misses(found, k),
            }
        )
    return {
        "schema": SCHEMA,
        "inputs": inputs,
        "verdict": {
            "word": answer.word,
            "reason": answer.reason,
            "advice": answer.advice,
            "p_miss": found.decisive.p_miss,
            "mcse": found.decisive.mcse,
            "horizon": found.horizon,
            "risk": found.risk,
        },
        "objectives": objectives,
        "joint": {
            **_misses(found, -1),
            "log_variance": _parts(splits["all"]),
            "miss_variance": _parts(splits["missed"]),
        },
        "curves": [
            _curve_json(name, curve, found, ci_prob) for name, curve in found.curves.items()
        ],
        "p_saturated": found.p_saturated,
        "load": float(np.median(found.outcomes.load)),
        "mode": found.mode,
        "n_request": found.n_request,
        "draws": len(found.outcomes),
        "ci_prob": ci_prob,
        "ci_kind": "eti",
        "warnings": list(found.warnings),
        "extrapolates": found.extrapolates,
    }


def _parts(split: Any) -> dict[str, Any]:
    return {name: getattr(split, name) for name in PARTS}


def _misses(found: Assessment, index: int) -> dict[str, Any]:
    return {
        f"p_miss_{name}": {"p_miss": rows[index].p_miss, "mcse": rows[index].mcse}
        for name, rows in (
            ("window", found.window),
            ("process", found.process),
            ("window_law_only", found.law),
        )
    }


def _curve_json(name: str, curve: Curve, found: Assessment, ci_prob: float) -> dict[str, Any]:
    content: dict[str, Any] = {"over": curve.over, "points": list(curve_points(curve))}
    if name == "rate":
        edge = largest_held(curve, found.risk, ci_prob=ci_prob)
        content["largest"] = _edge(edge)
    if name == "replicas":
        content["fewest"] = fewest_held(curve, found.risk)
    return content


def _edge(edge: Edge) -> dict[str, Any]:
    return {
        "value": edge.value,
        "low": edge.low,
        "high": edge.high,
        "bounded": edge.bounded,
    }


def slo_csv(found: Assessment, ci_prob: float) -> tuple[list[str], list[list[str]]]:
    """Objectives as plain numbers in SI units.

    Parameters
    ----------
    found : Assessment
        Simulated.
    ci_prob : float
        Mass of the interval of the value.

    Returns
    -------
    tuple
        Header and rows of text.
    """
    header = ["objective", "target", "p_miss_window", "mcse_window", "p_miss_process"]
    header += ["mcse_process", "median", "low", "high", "least_target"]
    rows = []
    for k, objective in enumerate(found.question.objectives):
        numbers: Sequence[float] = (
            objective.target,
            found.window[k].p_miss,
            found.window[k].mcse,
            found.process[k].p_miss,
            found.process[k].mcse,
            *_value(found, k, ci_prob),
            found.least_targets()[k],
        )
        rows.append([objective.name, *(f"{number:.6g}" for number in numbers)])
    joint = (
        found.window[-1].p_miss,
        found.window[-1].mcse,
        found.process[-1].p_miss,
        found.process[-1].mcse,
    )
    return header, [*rows, ["all", "", *(f"{number:.6g}" for number in joint), "", "", "", ""]]
