"""An evaluation for people."""

import math

from tailcast.evaluation_result import Evaluation
from tailcast.report.tables import render_rows
from tailcast.scoring.summary import Coverage, ScoreSummary

_COMPARED = ("mean", "p50", "p90", "p99")


def evaluation_rows(evaluation: Evaluation) -> tuple[list[str], list[list[str]]]:
    """Scores by metric and statistic.

    Parameters
    ----------
    evaluation : Evaluation
        Scored predictions.

    Returns
    -------
    tuple
        Header and rows of text.
    """
    header = [
        "metric",
        "stat",
        "n",
        "median error",
        "mean error",
        "bias",
        "in 50 %",
        "in 80 %",
        "in 90 %",
        "90 % width",
        "CRPS (log)",
        "CRPS",
        "pinball (log)",
        "PIT in fifths",
    ]
    return header, [_row(s) for s in evaluation.summary]


def _row(s: ScoreSummary) -> list[str]:
    return [
        s.metric,
        s.statistic,
        str(s.n),
        f"{s.median_ape:.1%}",
        f"{s.mean_ape:.1%}",
        f"{s.bias:+.1%}",
        *(_share(each) for each in s.coverage),
        _width(s.mean_log_width90),
        f"{s.crps_log:.3f}",
        _seconds(s.crps_seconds),
        f"{s.pinball_log:.4f}",
        " ".join(f"{v:.1f}" for v in s.pit),
    ]


def _share(coverage: Coverage) -> str:
    """Share with its exact range; a mark where nominal coverage lies outside."""
    mark = "" if coverage.holds_nominal else " !"
    return f"{coverage.share:.2f} ({coverage.low:.2f}-{coverage.high:.2f}){mark}"


def _width(log_width: float) -> str:
    return f"x{math.exp(log_width):.2f}" if math.isfinite(log_width) else "unbounded"


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value >= 1 else f"{1e3 * value:.3g} ms"


def method_rows(evaluation: Evaluation) -> tuple[list[str], list[list[str]]]:
    """Rivals beside the posterior, on the very same records of mean, P50, P90 and P99.

    Parameters
    ----------
    evaluation : Evaluation
        Scored predictions.

    Returns
    -------
    tuple
        Header and rows of text; JSON has all statistics.
    """
    header = [
        "method",
        "metric",
        "stat",
        "n",
        "median error",
        "bias",
        "in 50 %",
        "in 80 %",
        "in 90 %",
        "90 % width",
        "CRPS (log)",
        "posterior's error",
        "posterior's CRPS",
    ]
    rows = []
    for rival in evaluation.rivals:
        for theirs, ours in evaluation.beside(rival):
            if theirs.statistic not in _COMPARED:
                continue
            covered = ["-"] * 3 if theirs.is_point else [f"{c.share:.2f}" for c in theirs.coverage]
            rows.append(
                [
                    rival.name,
                    theirs.metric,
                    theirs.statistic,
                    str(theirs.n),
                    f"{theirs.median_ape:.1%}",
                    f"{theirs.bias:+.1%}",
                    *covered,
                    "-" if theirs.is_point else _width(theirs.mean_log_width90),
                    f"{theirs.crps_log:.3f}",
                    f"{ours.median_ape:.1%}",
                    f"{ours.crps_log:.3f}",
                ]
            )
    return header, rows


def regime_table(evaluation: Evaluation) -> tuple[list[str], list[list[str]]]:
    """Bias and coverage by regime.

    Parameters
    ----------
    evaluation : Evaluation
        Scored predictions.

    Returns
    -------
    tuple
        Header and rows of text.
    """
    header = ["regime", "level", "metric", "runs", "n", "bias", "median error", "in 90 %"]
    rows = [
        [
            row.kind,
            row.level,
            row.scores.metric,
            str(row.scores.n_experiment),
            str(row.scores.n),
            f"{row.scores.bias:+.1%}",
            f"{row.scores.median_ape:.1%}",
            _share(row.scores.coverage[-1]),
        ]
        for row in evaluation.regimes
    ]
    return header, rows


def evaluation_report(evaluation: Evaluation, style: str) -> str:
    """All tables and lines of an evaluation.

    Parameters
    ----------
    evaluation : Evaluation
        Scored predictions.
    style : {"table", "markdown", "csv"}
        csv holds the scores alone.

    Returns
    -------
    str
        Without a final newline.
    """
    parts = [render_rows(*evaluation_rows(evaluation), style)]
    if style != "csv":
        for header, rows in (method_rows(evaluation), regime_table(evaluation)):
            if rows:
                parts.append(render_rows(header, rows, style))
        parts.append(evaluation_text(evaluation))
    return "\n\n".join(parts)


def evaluation_text(evaluation: Evaluation) -> str:
    """Lines under the tables.

    Parameters
    ----------
    evaluation : Evaluation
        Scored predictions.

    Returns
    -------
    str
        What was counted, what the columns mean, and which way of stating intervals was sharpest.
    """
    runs = {r.experiment for r in evaluation.records}
    outside = {r.experiment for r in evaluation.records if r.extrapolates}
    lines = [
        f"{len(evaluation.records)} statistics of {len(runs)} experiments, posterior "
        f"{evaluation.posterior.name}. Error: |predictive median - observed| / observed; "
        "bias: median log ratio; width: ratio of the ends of the 90 % interval; CRPS (log) reads "
        "as a share of the observation. Coverage counts each experiment once, with its exact 95 % "
        "binomial range; ! where that range excludes the nominal level. Regimes and the pool: "
        "mean, P50, P90.",
    ]
    if evaluation.body is not None:
        lines += _body_lines(evaluation, evaluation.body)
    lines += _saturation_lines(evaluation)
    if outside:
        lines.append(f"Outside the fitted range: {', '.join(sorted(outside))}.")
    for rival in evaluation.rivals:
        if rival.n_left_out:
            lines.append(f"{rival.name}: {rival.n_left_out} records left out.")
    for same in evaluation.duplicates:
        lines.append(f"Counted once: {', '.join(same)} are the same run.")
    return "\n".join(lines)


def _body_lines(evaluation: Evaluation, body: ScoreSummary) -> list[str]:
    covered = ", ".join(f"{c.level} %: {_share(c)}" for c in body.coverage)
    pit = " ".join(f"{v:.1f}" for v in body.pit)
    lines = [
        f"Pool of {body.n} records of {body.n_experiment} experiments: covered {covered}; PIT in "
        f"fifths {pit}; CRPS (log) {body.crps_log:.4f}, 90 % width {_width(body.mean_log_width90)}."
    ]
    for rival in evaluation.rivals:
        pair = evaluation.pooled(rival)
        if pair is not None:
            theirs, ours = pair
            lines.append(
                f"{rival.name} on {theirs.n} of them: CRPS (log) {theirs.crps_log:.4f} against "
                f"{ours.crps_log:.4f} of the posterior"
                + (
                    "."
                    if theirs.is_point
                    else f", 90 % covers {theirs.coverage[-1].share:.2f} at width "
                    f"{_width(theirs.mean_log_width90)}."
                )
            )
    return lines


def _saturation_lines(evaluation: Evaluation) -> list[str]:
    found = evaluation.saturation_score
    if found is None:
        return []
    lines = [
        f"Saturation: {found.n_saturated} of {found.n} stages were; Brier {found.brier:.3f} "
        f"(always stating the share: {found.brier_base_rate:.3f})."
    ]
    lines += [
        f"Saturation of {m.experiment} stage {m.stage}: predicted {m.predicted:.2f}, "
        f"{'was' if m.observed else 'was not'} ({m.source})."
        for m in found.misses
    ]
    return lines
