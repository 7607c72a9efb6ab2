"""A calibration for people and for programs."""

from dataclasses import asdict
from typing import Any

from tailcast.calibration import GATED, CalibratedRun, Calibration
from tailcast.drift import LEVEL, DriftCheck
from tailcast.report.tables import render_rows
from tailcast.scoring.record import EvaluationRecord
from tailcast.scoring.score import LEVELS
from tailcast.units import format_duration


def calibration_text(calibration: Calibration, style: str) -> str:
    """All of a calibration: statistics, summary, regimes, what does not match.

    Parameters
    ----------
    calibration : Calibration
        What to show.
    style : {"table", "markdown", "csv"}
        CSV is the first table alone.

    Returns
    -------
    str
        Without a final newline.
    """
    first = render_rows(*record_rows(calibration), style)
    if style == "csv":
        return first
    blocks = ["\n".join(_run_lines(run)) for run in calibration.runs]
    blocks.append(first)
    if any(row.n > 1 for row in calibration.summary):
        blocks.append("Over all runs and stages\n" + render_rows(*summary_rows(calibration), style))
    if calibration.regimes:
        blocks.append(
            "By regime: mean, P50, P90\n" + render_rows(*regime_table(calibration), style)
        )
    blocks.append("\n".join(_closing(calibration)))
    return "\n\n".join(blocks)


def record_rows(calibration: Calibration) -> tuple[list[str], list[list[str]]]:
    """One row an observed statistic.

    Parameters
    ----------
    calibration : Calibration
        What to show.

    Returns
    -------
    tuple
        Header and rows of text.
    """
    header = ["run", "stage", "metric", "stat", "observed", "replayed", "90 % interval"]
    header += ["error", "in 90 %", "PIT"]
    return header, [_record_row(record) for record in calibration.records]


def _record_row(record: EvaluationRecord) -> list[str]:
    own = record.score
    low, high = (format_duration(own.quantiles[q]) for q in LEVELS[GATED])
    return [
        record.experiment,
        str(record.stage),
        own.metric,
        own.statistic,
        format_duration(own.observed),
        format_duration(own.quantiles["q50"]),
        f"{low} - {high}",
        f"{own.quantiles['q50'] / own.observed - 1:+.1%}",
        "yes" if own.covered(GATED) else "no",
        f"{own.pit:.2f}",
    ]


def summary_rows(calibration: Calibration) -> tuple[list[str], list[list[str]]]:
    """Error, bias and coverage by metric and statistic.

    Parameters
    ----------
    calibration : Calibration
        What to show.

    Returns
    -------
    tuple
        Header and rows of text.
    """
    header = ["metric", "stat", "n", "median error", "bias", "in 50 %", "in 80 %", "in 90 %"]
    header += ["90 % width", "PIT in fifths"]
    rows = calibration.summary + ([calibration.body] if calibration.body else [])
    return header, [
        [
            s.metric,
            s.statistic if s.statistic != "body" else "mean, p50, p90",
            str(s.n),
            f"{s.median_ape:.1%}",
            f"{s.bias:+.1%}",
            f"{s.coverage50:.2f}",
            f"{s.coverage80:.2f}",
            f"{s.coverage90:.2f}",
            _factor(s.mean_log_width90),
            " ".join(f"{v:.1f}" for v in s.pit),
        ]
        for s in rows
    ]


def _factor(log_width: float) -> str:
    from math import exp, isfinite

    return f"x{exp(log_width):.2f}" if isfinite(log_width) else "unbounded"


def regime_table(calibration: Calibration) -> tuple[list[str], list[list[str]]]:
    """Error, bias and coverage by regime and metric.

    Parameters
    ----------
    calibration : Calibration
        What to show.

    Returns
    -------
    tuple
        Header and rows of text.
    """
    header = ["regime", "level", "metric", "n", "median error", "bias", "in 80 %", "in 90 %"]
    return header, [
        [
            row.kind,
            row.level,
            row.scores.metric,
            str(row.scores.n),
            f"{row.scores.median_ape:.1%}",
            f"{row.scores.bias:+.1%}",
            f"{row.scores.coverage80:.2f}",
            f"{row.scores.coverage90:.2f}",
        ]
        for row in calibration.regimes
    ]


def _run_lines(run: CalibratedRun) -> list[str]:
    what = f"{run.n_request} requests replayed" if run.n_request else "statistics alone"
    lines = [f"{run.name} ({run.format}, {what}): {run.mode} prediction of {run.deployment}"]
    if run.n_left_out:
        lines.append(f"  {run.n_left_out} requests never got a token and are left out")
    if run.n_uncounted:
        lines.append(
            f"  {run.n_uncounted} failed, aborted or warm-up requests load the server and count "
            "in no statistic"
        )
    lines += [f"  {'MISMATCH' if m.serious else 'differs'}: {m}" for m in run.mismatches]
    lines += [f"  warning: {text}" for text in run.warnings]
    for check in run.drift:
        first, *rest = drift_lines(check)
        which = f"{check.name}: " if len(run.drift) > 1 else ""
        lines += [f"  {which}{first}", *(f"    {line}" for line in rest)]
    return lines


def drift_lines(check: DriftCheck) -> list[str]:
    """What a drift check says, for people.

    Parameters
    ----------
    check : DriftCheck
        Of one run.

    Returns
    -------
    list of str
        One sentence each.
    """
    head = (
        f"all {check.n_statistic} statistics together: p {check.p:.3f} "
        f"(distance {check.distance:.1f}; one run in {1 / LEVEL:.0f} exceeds {check.usual:.1f})"
    )
    far = (
        f"farthest out: {check.farthest}, {format_duration(check.observed)} where "
        f"{format_duration(check.predicted)} was predicted ({check.z:+.1f} spreads)"
    )
    if not check.drifted:
        return [f"plausible; {head}", far]
    lines = [f"DRIFT; {head}", far]
    if check.suspects:
        first, *others = check.suspects
        lines.append(
            f"would have to move: {first.name} by a factor of {first.factor:.2f} "
            f"(explains {first.explained:.0%})"
        )
        if others:
            alike = ", ".join(f"{s.name} x{s.factor:.2f}" for s in others)
            lines.append(f"cannot be told from it on this deployment: {alike}")
    return lines


def _closing(calibration: Calibration) -> list[str]:
    lines = []
    if calibration.records:
        n = len(calibration.records)
        parts = [f"{calibration.coverage(level):.0%} of {level} %" for level in LEVELS]
        lines.append(
            f"posterior {calibration.posterior}: of {n} observed statistics the central intervals "
            f"hold {', '.join(parts)}"
        )
    lines += [f"{name} could not be replayed: {reason}" for name, reason in calibration.errors]
    return lines or ["nothing was compared"]


def calibration_json(calibration: Calibration) -> dict[str, Any]:
    """The contract ``tailcast/calibrate/1``; latencies in seconds.

    Parameters
    ----------
    calibration : Calibration
        What was found.

    Returns
    -------
    dict
        Ready for `json.dumps`.
    """
    return {
        "schema": "tailcast/calibrate/1",
        "posterior": calibration.posterior,
        "coverage": {str(level): calibration.coverage(level) for level in LEVELS},
        "runs": [
            {
                "name": run.name,
                "path": run.path,
                "format": run.format,
                "deployment": run.deployment,
                "mode": run.mode,
                "n_request": run.n_request,
                "left_out": run.n_left_out,
                "uncounted": run.n_uncounted,
                "drift": [drift_json(check) for check in run.drift],
                "mismatches": [asdict(m) for m in run.mismatches],
                "warnings": list(run.warnings),
                "notes": list(run.notes),
            }
            for run in calibration.runs
        ],
        "records": [_record_json(r) for r in calibration.records],
        "summary": [row.as_json() for row in calibration.summary],
        "regimes": [
            {"kind": row.kind, "level": row.level, **row.scores.as_json()}
            for row in calibration.regimes
        ],
        "errors": [{"name": name, "error": reason} for name, reason in calibration.errors],
    }


def drift_json(check: DriftCheck) -> dict[str, Any]:
    """A drift check for programs.

    Parameters
    ----------
    check : DriftCheck
        Of one run.

    Returns
    -------
    dict
        Ready for `json.dumps`; seconds.
    """
    return {**asdict(check), "drifted": check.drifted, "level": LEVEL}


def _record_json(record: EvaluationRecord) -> dict[str, Any]:
    own = record.score
    return {
        "run": record.experiment,
        "stage": record.stage,
        "metric": own.metric,
        "statistic": own.statistic,
        "observed": own.observed,
        "mean": own.mean,
        **own.quantiles,
        "pit": own.pit,
        "crps": own.crps,
        "crps_log": own.crps_log,
        "extrapolates": record.extrapolates,
        "mode": record.mode,
    }
