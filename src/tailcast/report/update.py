"""What an update learned, for people and for programs."""

from typing import Any

import numpy as np

from tailcast.posterior_update import Assessment, Move, Updated
from tailcast.report.calibration import drift_json, drift_lines
from tailcast.report.tables import render_rows
from tailcast.units import format_duration


def assessment_text(assessment: Assessment) -> str:
    """What the posterior thought of the new sources before it used them.

    Parameters
    ----------
    assessment : Assessment
        Of the sources.

    Returns
    -------
    str
        Without a final newline; empty where there is nothing to say.
    """
    lines = []
    for key, mismatch in assessment.mismatches:
        lines.append(f"{'MISMATCH' if mismatch.serious else 'differs'}: {key}: {mismatch}")
    for check in assessment.checks:
        first, *rest = drift_lines(check)
        lines += [f"{check.name}: {first}", *(f"  {line}" for line in rest)]
    return "\n".join(lines)


def update_text(updated: Updated, assessment: Assessment, style: str, ci_prob: float) -> str:
    """Checks, then contraction by coefficient and of the statistic asked for.

    Parameters
    ----------
    updated : Updated
        New posterior.
    assessment : Assessment
        Of its new sources.
    style : {"table", "markdown", "csv"}
        CSV is the table of contraction alone.
    ci_prob : float
        Mass of the intervals.

    Returns
    -------
    str
        Without a final newline.
    """
    table = render_rows(*contraction_rows(updated, ci_prob), style)
    if style == "csv":
        return table
    found = updated.fitted.diagnostics
    closing = (
        f"contraction is the spread of the log after over before; {100 * ci_prob:g} % equal-tailed "
        f"intervals. r-hat {found.rhat:.3f}, bulk ESS {found.ess_bulk:.0f}, "
        f"{found.divergences} divergences of {found.n_draw} draws."
    )
    parent = updated.card["update"]
    origin = (
        f"parent {parent['parent']} ({str(parent['parent_sha256'])[:12]}), new: "
        f"{', '.join(parent['sources'])}"
        + (f"; {parent['forget']:.0%} of the parent's evidence forgotten" * (parent["forget"] > 0))
    )
    blocks = [assessment_text(assessment), table, closing, origin]
    return "\n\n".join(block for block in blocks if block)


def contraction_rows(updated: Updated, ci_prob: float) -> tuple[list[str], list[list[str]]]:
    """One row a coefficient, then one a run for the statistic asked for.

    Parameters
    ----------
    updated : Updated
        New posterior.
    ci_prob : float
        Mass of the intervals.

    Returns
    -------
    tuple
        Header and rows of text.
    """
    header = [
        "where",
        "what",
        "before",
        "interval before",
        "after",
        "interval after",
        "contraction",
    ]
    rows = [_row(move, ci_prob, seconds=False) for move in updated.coefficients]
    rows += [_row(move, ci_prob, seconds=True) for move in updated.statistics]
    return header, rows


def _row(move: Move, ci_prob: float, *, seconds: bool) -> list[str]:
    def show(value: float) -> str:
        return format_duration(value) if seconds else f"{value:.3g}"

    cells = [move.where, move.what]
    for draws in (move.before, move.after):
        low, high = np.quantile(draws, [(1 - ci_prob) / 2, (1 + ci_prob) / 2])
        cells += [show(float(np.median(draws))), f"{show(float(low))} - {show(float(high))}"]
    return [*cells, f"{move.contraction:.2f}"]


def update_json(updated: Updated, assessment: Assessment, ci_prob: float) -> dict[str, Any]:
    """The contract ``tailcast/update/1``.

    Parameters
    ----------
    updated : Updated
        New posterior.
    assessment : Assessment
        Of its new sources.
    ci_prob : float
        Mass of the intervals.

    Returns
    -------
    dict
        Ready for `json.dumps`; coefficients in their units, statistics in seconds.
    """
    return {
        "schema": "tailcast/update/1",
        "update": dict(updated.card["update"]),
        "diagnostics": dict(updated.card["diagnostics"]),
        "drift": [drift_json(check) for check in assessment.checks],
        "mismatches": [
            {"deployment": key, "what": m.what, "given": m.given, "serious": m.serious}
            for key, m in assessment.mismatches
        ],
        "ci_prob": ci_prob,
        "coefficients": [_move_json(move, ci_prob) for move in updated.coefficients],
        "statistics": [_move_json(move, ci_prob) for move in updated.statistics],
    }


def _move_json(move: Move, ci_prob: float) -> dict[str, Any]:
    content: dict[str, Any] = {"where": move.where, "what": move.what}
    for when, draws in (("before", move.before), ("after", move.after)):
        low, high = np.quantile(draws, [(1 - ci_prob) / 2, (1 + ci_prob) / 2])
        content[when] = {
            "median": float(np.median(draws)),
            "low": float(low),
            "high": float(high),
        }
    return {**content, "contraction": move.contraction}
