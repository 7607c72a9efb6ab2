"""A point answer for people and for programs: one number a statistic, said to be one."""

from collections.abc import Mapping, Sequence
from typing import Any

from tailcast.comparison import Comparison, PointAnswer
from tailcast.engine.point_run import PointRun
from tailcast.report.prediction import (
    SHOWN_METRICS,
    prediction_json,
    prediction_rows,
    prediction_text,
)
from tailcast.slo import Objective
from tailcast.units import format_duration


def point_rows(
    answer: PointAnswer, objectives: Sequence[Objective]
) -> tuple[list[str], list[list[str]]]:
    """Table of metric by statistic.

    Parameters
    ----------
    answer : PointAnswer
        What the point model says.
    objectives : sequence of Objective
        May be empty.

    Returns
    -------
    tuple
        Header and rows of text.
    """
    targets = {(o.metric, o.stat): o for o in objectives}
    header = ["metric", "stat", "point answer"]
    if objectives:
        header += ["objective", "held"]
    rows = []
    for metric in SHOWN_METRICS:
        for stat in answer.stats:
            row = [metric, stat, format_duration(answer.value(metric, stat))]
            if objectives:
                target = targets.get((metric, stat))
                held = _held(answer, target) if target else None
                row += [
                    f"<= {format_duration(target.target)}" if target else "",
                    "" if held is None else "yes" if held else "no",
                ]
            rows.append(row)
    return header, rows


def point_text(answer: PointAnswer) -> list[str]:
    """Lines under the table of a point answer.

    Parameters
    ----------
    answer : PointAnswer
        What the point model says.

    Returns
    -------
    list of str
        One sentence each.
    """
    lines = [
        f"Point answer of {answer.model.label}: one run, no interval; it says nothing about its "
        "own error."
    ]
    if answer.run is not None:
        lines.append(outcome_line(answer.run))
    return lines + [f"Note: {note}." for note in answer.notes]


def outcome_line(run: PointRun) -> str:
    """What became of the requests of a run.

    Parameters
    ----------
    run : PointRun
        Any run.

    Returns
    -------
    str
        One sentence.
    """
    count = run.outcome
    rest = [
        f"{count[name]} {name.replace('_', ' ')}"
        for name in ("rejected", "unsent", "timed_out", "unfinished", "preemptions")
        if count[name]
    ]
    done = f"{count['completed']} of {count['requests']} requests completed"
    return ", ".join([f"{done} in {count['steps']} steps", *rest]) + "."


def point_json(
    answer: PointAnswer, objectives: Sequence[Objective], inputs: Mapping[str, Any]
) -> dict[str, Any]:
    """A point answer under the contract ``tailcast/predict/1``; seconds.

    Parameters
    ----------
    answer : PointAnswer
        What the point model says.
    objectives : sequence of Objective
        May be empty.
    inputs : mapping
        What was asked.

    Returns
    -------
    dict
        Ready for `json.dumps`; ``value`` in place of ``median``, ``low``, ``high``.
    """
    targets = {(o.metric, o.stat): o for o in objectives}
    results = []
    metrics = () if answer.run is None else answer.run.metrics
    for metric in metrics:
        for stat in answer.stats:
            entry: dict[str, Any] = {
                "metric": metric,
                "statistic": stat,
                "value": answer.value(metric, stat),
            }
            if (metric, stat) in targets:
                entry["target"] = targets[metric, stat].target
                entry["held"] = _held(answer, targets[metric, stat])
            results.append(entry)
    return {
        "schema": "tailcast/predict/1",
        "inputs": {**inputs, "mode": answer.model.mode},
        "results": results,
        "kind": "point",
        "latency_model": answer.model.latency_model.name,
        "mode": answer.model.mode,
        "outcome": {} if answer.run is None else dict(answer.run.outcome),
        "warnings": ["a point answer: no interval", *answer.notes],
    }


def comparison_rows(
    comparison: Comparison, objectives: Sequence[Objective], ci_prob: float
) -> tuple[list[str], list[list[str]]]:
    """Point answers, then the posterior's median and interval, by metric and statistic.

    Parameters
    ----------
    comparison : Comparison
        What to show.
    objectives : sequence of Objective
        May be empty.
    ci_prob : float
        Mass of the interval.

    Returns
    -------
    tuple
        Header and rows of text.
    """
    header, rows = prediction_rows(comparison.prediction, objectives, ci_prob)
    labels = [_short(answer) for answer in comparison.points]
    return (
        [*header[:2], *labels, *header[2:]],
        [
            [
                *row[:2],
                *(format_duration(answer.value(row[0], row[1])) for answer in comparison.points),
                *row[2:],
            ]
            for row in rows
        ],
    )


def comparison_text(
    comparison: Comparison, objectives: Sequence[Objective], ci_prob: float, risk: float
) -> list[str]:
    """Lines under the table of a comparison.

    Parameters
    ----------
    comparison : Comparison
        What is shown.
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
    lines = prediction_text(comparison.prediction, objectives, ci_prob, risk)
    lines.append("The other columns are point answers on one realisation of the workload.")
    for answer in comparison.points:
        lines += [f"Note: {_short(answer)}: {note}." for note in answer.notes]
    return lines


def comparison_json(
    comparison: Comparison,
    objectives: Sequence[Objective],
    ci_prob: float,
    risk: float,
    inputs: dict[str, Any],
) -> dict[str, Any]:
    """The contract ``tailcast/predict/1`` with the point answers beside; seconds.

    Parameters
    ----------
    comparison : Comparison
        What is shown.
    objectives : sequence of Objective
        May be empty.
    ci_prob : float
        Mass of the interval.
    risk : float
        Accepted P(miss).
    inputs : dict
        What was asked.

    Returns
    -------
    dict
        As for a prediction; each result has ``compared`` with one value a point model.
    """
    content = prediction_json(comparison.prediction, objectives, ci_prob, risk, inputs)
    for entry in content["results"]:
        entry["compared"] = {
            _short(answer): answer.value(entry["metric"], entry["statistic"])
            for answer in comparison.points
        }
    content["compared"] = [
        {
            "label": _short(answer),
            "latency_model": answer.model.latency_model.name,
            "mode": answer.model.mode,
            "kind": "point",
            "outcome": None if answer.run is None else dict(answer.run.outcome),
            "notes": list(answer.notes),
        }
        for answer in comparison.points
    ]
    return content


def _short(answer: PointAnswer) -> str:
    return f"{answer.model.latency_model.name}:{answer.model.mode}"


def _held(answer: PointAnswer, objective: Objective) -> bool:
    return answer.value(objective.metric, objective.stat) <= objective.target
