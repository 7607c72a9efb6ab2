"""A prediction for people and for programs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.conformal import Conformal
from tailcast.prediction import Prediction
from tailcast.slo import MAX_SATURATED, Objective, miss_probabilities, verdict
from tailcast.units import format_duration

Array = NDArray[np.float64]

SHOWN_METRICS = ("ttft", "tpot", "itl", "e2e")


def interval(draws: Array, ci_prob: float) -> tuple[float, float, float]:
    """Median and equal-tailed interval.

    Parameters
    ----------
    draws : ndarray, shape (n_draw,)
        NaN is left out.
    ci_prob : float
        Mass between the ends.

    Returns
    -------
    tuple of float
        Median, lower and upper end; NaN without a finite draw.
    """
    finite = draws[np.isfinite(draws)]
    if not len(finite):
        return (float("nan"),) * 3
    tail = (1 - ci_prob) / 2
    low, middle, high = np.quantile(finite, [tail, 0.5, 1 - tail])
    return float(middle), float(low), float(high)


def prediction_rows(
    prediction: Prediction,
    objectives: Sequence[Objective],
    ci_prob: float,
    conformal: Conformal | None = None,
) -> tuple[list[str], list[list[str]]]:
    """Table of metric by statistic with median, interval and P(miss).

    Parameters
    ----------
    prediction : Prediction
        Predictive draws; only those within the stability boundary enter the latencies.
    objectives : sequence of Objective
        May be empty.
    ci_prob : float
        Mass of the interval.
    conformal : Conformal, optional
        For conformal intervals beside the posterior's own.

    Returns
    -------
    tuple
        Header and rows of text.
    """
    by_key = {
        (o.metric, o.stat): (o, row)
        for o, row in zip(objectives, _missed(prediction, objectives), strict=True)
    }
    header = ["metric", "stat", "median", f"{100 * ci_prob:g} % interval"]
    if conformal:
        header.append(f"conformal {100 * ci_prob:g} %")
    if objectives:
        header += ["objective", "P(miss)"]
    rows = []
    for metric in SHOWN_METRICS:
        for stat in prediction.stats:
            middle, low, high = interval(_shown(prediction, metric, stat), ci_prob)
            row = [
                metric,
                stat,
                format_duration(middle),
                f"{format_duration(low)} .. {format_duration(high)}",
            ]
            if conformal:
                row.append(_conformal_text(conformal, prediction, metric, stat, ci_prob))
            if objectives:
                known = by_key.get((metric, stat))
                row += [
                    f"<= {format_duration(known[0].target)}" if known else "",
                    f"{known[1]:.1%}" if known else "",
                ]
            rows.append(row)
    return header, rows


def _conformal_text(
    conformal: Conformal, prediction: Prediction, metric: str, stat: str, prob: float
) -> str:
    low, high = conformal.interval(prediction, metric, stat, prob)
    if not np.isfinite(low) or not np.isfinite(high) or prediction.p_saturated > MAX_SATURATED:
        return "unknown"
    return f"{format_duration(low)} .. {format_duration(high)}"


def _shown(prediction: Prediction, metric: str, stat: str) -> Array:
    """Draws that may be stated: none where most are saturated, else the stable ones."""
    draws = prediction.draws(metric, stat)
    if prediction.p_saturated > MAX_SATURATED:
        return np.full(len(draws), np.nan)
    return draws[prediction.stable]


def _missed(prediction: Prediction, objectives: Sequence[Objective]) -> list[float]:
    if not objectives:
        return []
    return [row.p_miss for row in miss_probabilities(prediction, objectives)[: len(objectives)]]


def prediction_text(
    prediction: Prediction, objectives: Sequence[Objective], ci_prob: float, risk: float
) -> list[str]:
    """Lines that stand around the table: verdict, mode, saturation, warnings.

    Parameters
    ----------
    prediction : Prediction
        Predictive draws.
    objectives : sequence of Objective
        May be empty.
    ci_prob : float
        Mass of the interval.
    risk : float
        Accepted P(miss).

    Returns
    -------
    list of str
        One sentence each.
    """
    lines = []
    if objectives:
        answer = verdict(prediction, objectives, risk)
        lines.append(f"{answer.word.upper()}: {answer.reason}; {answer.advice}.")
        rows = miss_probabilities(prediction, objectives)
        if len(rows) > 1:
            lines.append(f"P(any objective missed) {rows[-1].p_miss:.1%} +- {rows[-1].mcse:.1%}.")
    load = np.median(prediction.load)
    if prediction.p_saturated > MAX_SATURATED:
        lines.append(
            f"Beyond the stability boundary in {prediction.p_saturated:.0%} of the draws "
            f"(offered load {load:.2f} of capacity): no latency is stated."
        )
    elif prediction.p_saturated > 0:
        lines.append(
            f"P(saturated) {prediction.p_saturated:.1%}; those draws are not in the latencies "
            "and count as missed."
        )
    lines.append(
        f"{prediction.mode} prediction by posterior {prediction.posterior}: "
        f"{len(prediction.load)} draws x {prediction.n_request} requests, "
        f"{100 * ci_prob:g} % equal-tailed intervals, load {load:.2f} of capacity."
    )
    lines += [f"Note: {note}." for note in prediction.warnings]
    return lines


def prediction_json(
    prediction: Prediction,
    objectives: Sequence[Objective],
    ci_prob: float,
    risk: float,
    inputs: dict[str, Any],
    conformal: Conformal | None = None,
) -> dict[str, Any]:
    """The contract ``tailcast/predict/1``; seconds.

    Parameters
    ----------
    prediction : Prediction
        Predictive draws.
    objectives : sequence of Objective
        May be empty.
    ci_prob : float
        Mass of the interval.
    risk : float
        Accepted P(miss).
    inputs : dict
        What was asked.
    conformal : Conformal, optional
        For conformal intervals beside the posterior's own.

    Returns
    -------
    dict
        Ready for `json.dumps`.
    """
    results = []
    targets = {(o.metric, o.stat): o for o in objectives}
    missed = dict(zip(targets, _missed(prediction, list(targets.values())), strict=True))
    for metric in prediction.metrics:
        for stat in prediction.stats:
            middle, low, high = interval(_shown(prediction, metric, stat), ci_prob)
            entry: dict[str, Any] = {
                "metric": metric,
                "statistic": stat,
                "median": middle,
                "low": low,
                "high": high,
            }
            if conformal:
                ends = conformal.interval(prediction, metric, stat, ci_prob)
                entry["conformal"] = [end if np.isfinite(end) else None for end in ends]
            if (metric, stat) in targets:
                entry["target"] = targets[metric, stat].target
                entry["p_miss"] = missed[metric, stat]
            results.append(entry)
    answer = None
    if objectives:
        found = verdict(prediction, objectives, risk)
        joint = miss_probabilities(prediction, objectives)[-1]
        answer = {
            "word": found.word,
            "reason": found.reason,
            "advice": found.advice,
            "p_miss": joint.p_miss,
            "mcse": joint.mcse,
            "risk": risk,
        }
    return {
        "schema": "tailcast/predict/1",
        "inputs": inputs,
        "results": results,
        "verdict": answer,
        "p_saturated": prediction.p_saturated,
        "load": float(np.median(prediction.load)),
        "mode": prediction.mode,
        "ci_prob": ci_prob,
        "ci_kind": "eti",
        "warnings": list(prediction.warnings),
        "extrapolates": prediction.extrapolates,
    }
