"""Runs of the control loop for people, for programs, and as a figure."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tailcast.autoscale.outcome import BIN, Outcome
from tailcast.queueing.server import Floats
from tailcast.queueing.sizing import Targets
from tailcast.report.figures import INSIDE, OUTSIDE, new_figure, save_figure
from tailcast.report.size import interval
from tailcast.units import format_duration

_HOUR = 3600.0
_SUMS = {
    "above_settled": ("time above target, no pod starting", "1"),
    "above": ("time above target, all", "1"),
    "missed": ("requests above target", "1"),
    "ttft": ("mean TTFT", "s"),
    "ttft_p99": ("P99 TTFT", "s"),
    "itl": ("mean ITL", "s"),
    "replica_hours": ("replica hours", "h"),
}


def shown_run(outcomes: Sequence[Outcome]) -> int:
    """Place of the run whose time above target is the median one, the first of equals.

    Parameters
    ----------
    outcomes : sequence of Outcome
        All runs.

    Returns
    -------
    int
        Place.
    """
    above = np.array([o.above_settled for o in outcomes])
    middle = float(np.quantile(above, 0.5, method="lower"))
    return int(np.flatnonzero(above == middle)[0])


def _values(outcomes: Sequence[Outcome], name: str) -> Floats:
    if name == "replica_hours":
        return np.array([o.replica_seconds / _HOUR for o in outcomes])
    if name == "missed":
        return np.array(
            [
                float(np.nansum(o.timeline.missed * o.timeline.n_request) / max(o.n_request, 1))
                for o in outcomes
            ]
        )
    return np.array([getattr(o, name) for o in outcomes])


def autoscale_json(
    outcomes: Sequence[Outcome], inputs: dict[str, Any], ci_prob: float
) -> dict[str, Any]:
    """All runs for programs, in SI units.

    Parameters
    ----------
    outcomes : sequence of Outcome
        One a draw.
    inputs : dict
        The question.
    ci_prob : float
        Mass of the intervals over draws.

    Returns
    -------
    dict
        Schema ``tailcast/autoscale/1``; timeline and decisions are those of the shown run.
    """
    shown = shown_run(outcomes)
    run = outcomes[shown]
    line = run.timeline
    columns = ("start", "n_request", "rate", "ready", "wanted", "ttft", "itl", "missed")
    return {
        "schema": "tailcast/autoscale/1",
        "inputs": inputs,
        "summary": {
            name: interval(_values(outcomes, name), ci_prob, unit)
            for name, (_, unit) in _SUMS.items()
        },
        "runs": [
            {
                "path": list(o.path),
                "path_times": list(o.path_times),
                "above_settled": o.above_settled,
                "above": o.above,
                "n_request": o.n_request,
                "n_answered": o.n_answered,
                "n_refused": o.n_refused,
                "replica_seconds": o.replica_seconds,
                "n_drift": o.n_drift,
            }
            for o in outcomes
        ],
        "shown_run": shown,
        "timeline": [
            {
                **{name: float(getattr(line, name)[k]) for name in columns},
                "starting": bool(line.starting[k]),
            }
            for k in range(line.start.size)
        ],
        "decisions": [
            {
                "time": entry.time,
                "n_replica": entry.n_replica,
                "rate": entry.decision.rate,
                "capacity": entry.decision.capacity,
                "capacity_low": entry.decision.capacity_low,
                "capacity_high": entry.decision.capacity_high,
                "p_miss": entry.decision.p_miss,
                "drift": entry.decision.drift,
                "windows": entry.n_window,
                "unusable_windows": entry.n_skipped,
            }
            for entry in run.decisions
        ],
    }


def summary_rows(outcomes: Sequence[Outcome], ci_prob: float) -> tuple[list[str], list[list[str]]]:
    """Sums of all runs as rows.

    Parameters
    ----------
    outcomes : sequence of Outcome
        One a draw.
    ci_prob : float
        Mass of the intervals over draws.

    Returns
    -------
    tuple
        Header and rows of text.
    """
    rows = []
    for name, (words, unit) in _SUMS.items():
        found = interval(_values(outcomes, name), ci_prob, unit)
        cells = [_text(found[place], unit) for place in ("median", "low", "high")]
        rows.append([words, *cells])
    return ["over runs", "median", "low", "high"], rows


def _text(value: float, unit: str) -> str:
    if unit == "s":
        return format_duration(value)
    return f"{value:.1%}" if unit == "1" else f"{value:.3g}"


def timeline_rows(run: Outcome) -> tuple[list[str], list[list[str]]]:
    """One run by time as rows.

    Parameters
    ----------
    run : Outcome
        Of one draw.

    Returns
    -------
    tuple
        Header and rows of text.
    """
    line = run.timeline
    header = ["time", "rate", "ready", "wanted", "ttft", "itl", "missed", "pod starting"]
    rows = [
        [
            f"{line.start[k] / 60:.3g} min",
            f"{line.rate[k]:.2f} /s",
            f"{line.ready[k]:.3g}",
            f"{line.wanted[k]:.3g}",
            format_duration(float(line.ttft[k])),
            format_duration(float(line.itl[k])),
            "n/a" if math.isnan(line.missed[k]) else f"{line.missed[k]:.1%}",
            "yes" if line.starting[k] else "",
        ]
        for k in range(line.start.size)
    ]
    return header, rows


def draw_plot(outcomes: Sequence[Outcome], targets: Targets, title: str, path: Path) -> None:
    """Draw load, replicas and latency by time; the median run in front, the others behind.

    Parameters
    ----------
    outcomes : sequence of Outcome
        One a draw.
    targets : Targets
        On means; drawn as lines.
    title : str
        Above the figure.
    path : pathlib.Path
        PNG, SVG or PDF by its ending.

    Raises
    ------
    UsageError
        If matplotlib is missing, there is no such format or the file cannot be written.
    """
    run = outcomes[shown_run(outcomes)]
    metrics = [name for name in ("ttft", "itl") if getattr(targets, name)]
    figure, grid = new_figure(2 + len(metrics), 1, (9.0, 5.0 + 2.2 * len(metrics)))
    axes = grid[:, 0]
    _draw_load(axes[0], run)
    _draw_replicas(axes[1], outcomes, run)
    for axis, name in zip(axes[2:], metrics, strict=True):
        _draw_latency(axis, outcomes, run, name, getattr(targets, name))
    end = _end(run) / 60.0
    for axis in axes:
        _shade_starts(axis, run)
        axis.grid(alpha=0.25)
        axis.set_xlim(0.0, end)
        axis.tick_params(labelbottom=axis is axes[-1])
    axes[-1].set_xlabel("minutes")
    figure.suptitle(title, fontsize=11)
    save_figure(figure, path)


_FRONT, _BACK, _BAD = INSIDE, "#9db8cc", OUTSIDE


def _end(run: Outcome) -> float:
    """End of the last bin, in seconds."""
    return float(run.timeline.start[-1]) + BIN


def _minutes(run: Outcome) -> Floats:
    return np.asarray((run.timeline.start + 0.5 * BIN) / 60.0)


def _draw_load(axis: Any, run: Outcome) -> None:
    axis.step(_minutes(run), run.timeline.rate, where="mid", color=_FRONT, label="arrivals")
    known = [entry for entry in run.decisions if math.isfinite(entry.decision.capacity)]
    if known:
        at = [entry.time / 60.0 for entry in known]
        low, middle, high = (
            np.array([entry.n_replica * getattr(entry.decision, name) for entry in known])
            for name in ("capacity_low", "capacity", "capacity_high")
        )
        axis.plot(at, middle, color="0.35", lw=1.2, label="believed capacity of wanted replicas")
        axis.fill_between(at, low, high, color="0.6", alpha=0.25, lw=0, label="89 %")
    axis.set_ylabel("requests/s")
    axis.set_ylim(0, 1.3 * axis.get_ylim()[1])
    axis.legend(fontsize=8, loc="upper left", ncols=3)


def _draw_replicas(axis: Any, outcomes: Sequence[Outcome], run: Outcome) -> None:
    end = _end(run) / 60.0
    for other in outcomes:
        front = other is run
        times = [t / 60.0 for t in other.path_times] + [end]
        axis.step(
            times, [*other.path, other.path[-1]], where="post", lw=2 if front else 0.8,
            color=_FRONT if front else _BACK, zorder=2 + front,
            label="ready" if front else None,
        )  # fmt: skip
    wanted = [(entry.time / 60.0, entry.n_replica) for entry in run.decisions]
    axis.step(*zip(*wanted, strict=True), where="post", color=_BAD, lw=1, ls="--", label="wanted")
    axis.set_ylabel("replicas")
    axis.set_ylim(0, max(max(o.path) for o in outcomes) + 1)
    axis.legend(fontsize=8, loc="upper left", ncols=2)


def _draw_latency(
    axis: Any, outcomes: Sequence[Outcome], run: Outcome, name: str, target: float
) -> None:
    for other in outcomes:
        front = other is run
        axis.plot(
            _minutes(other), 1e3 * getattr(other.timeline, name), lw=2 if front else 0.8,
            color=_FRONT if front else _BACK, zorder=2 + front,
        )  # fmt: skip
    values = np.concatenate([getattr(o.timeline, name) for o in outcomes])
    finite = 1e3 * values[np.isfinite(values)]
    if target:
        axis.axhline(1e3 * target, color=_BAD, lw=1.2, label=f"target {format_duration(target)}")
        axis.legend(fontsize=8, loc="upper left")
        if finite.max() > 5e3 * target:
            axis.set_yscale("log")
        else:
            axis.set_ylim(0, max(1.3e3 * target, 1.05 * float(finite.max())))
    axis.set_ylabel(f"mean {name.upper()} by minute, ms")


def _shade_starts(axis: Any, run: Outcome) -> None:
    line = run.timeline
    for start in line.start[line.starting]:
        axis.axvspan(start / 60.0, (start + BIN) / 60.0, color="#f2c14e", alpha=0.18, lw=0)
