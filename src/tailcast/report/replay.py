"""A replay for people and for programs: simulated beside recorded."""

from collections.abc import Mapping
from typing import Any

from tailcast.comparison import PointAnswer
from tailcast.prediction import Prediction
from tailcast.replay import Replay
from tailcast.report.point import point_json, point_rows, point_text
from tailcast.report.prediction import prediction_json, prediction_rows
from tailcast.units import format_duration


def replay_rows(replay: Replay, ci_prob: float) -> tuple[list[str], list[list[str]]]:
    """Table of metric by statistic, with the recorded value where there is one.

    Parameters
    ----------
    replay : Replay
        What to show.
    ci_prob : float
        Mass of the interval; a point answer has none.

    Returns
    -------
    tuple
        Header and rows of text.
    """
    if isinstance(replay.answer, Prediction):
        header, rows = prediction_rows(replay.answer, (), ci_prob)
    else:
        header, rows = point_rows(replay.answer, ())
    if not replay.observed:
        return header, rows
    nothing = float("nan")
    return (
        [*header, "recorded"],
        [
            [*row, format_duration(replay.observed.get((row[0], row[1]), nothing))]
            if (row[0], row[1]) in replay.observed
            else [*row, ""]
            for row in rows
        ],
    )


def replay_text(replay: Replay, ci_prob: float) -> list[str]:
    """Lines under the table.

    Parameters
    ----------
    replay : Replay
        What is shown.
    ci_prob : float
        Mass of the interval.

    Returns
    -------
    list of str
        One sentence each.
    """
    answer = replay.answer
    if isinstance(answer, PointAnswer):
        lines = point_text(answer)
    else:
        lines = [
            f"{answer.mode} prediction by posterior {answer.posterior}: {len(answer.load)} draws x "
            f"{answer.n_request} recorded requests, {100 * ci_prob:g} % equal-tailed intervals."
        ]
        lines += [f"Note: {note}." for note in answer.warnings]
    if replay.n_left_out:
        lines.append(f"{replay.n_left_out} rows left out: no output length is known.")
    return lines + [f"Note: {note}." for note in replay.notes]


def replay_json(replay: Replay, ci_prob: float, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The contract ``tailcast/replay/1``; seconds.

    Parameters
    ----------
    replay : Replay
        What is shown.
    ci_prob : float
        Mass of the interval.
    inputs : mapping
        What was asked.

    Returns
    -------
    dict
        As for a prediction, with ``observed`` in each result that was recorded.
    """
    answer = replay.answer
    if isinstance(answer, Prediction):
        content = prediction_json(answer, (), ci_prob, 0.5, dict(inputs))
        content["warnings"] += list(replay.notes)
        del content["verdict"]
    else:
        content = point_json(answer, (), inputs)
        content["warnings"] += list(replay.notes)
    for entry in content["results"]:
        key = (entry["metric"], entry["statistic"])
        if key in replay.observed:
            entry["observed"] = replay.observed[key]
    return {**content, "schema": "tailcast/replay/1", "left_out": replay.n_left_out}
