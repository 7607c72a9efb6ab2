"""An evaluation as a figure: coverage curve, PIT, predicted against observed."""

from pathlib import Path
from typing import Any

import numpy as np

from tailcast.evaluation_result import Evaluation
from tailcast.report.figures import (
    INSIDE,
    NEUTRAL,
    OUTSIDE,
    new_figure,
    plain_log_ticks,
    save_figure,
)
from tailcast.scoring.record import BODY, EvaluationRecord
from tailcast.scoring.summary import N_PIT_BIN, coverage, summary_of

_SHOWN = (("e2e", "mean"), ("e2e", "p90"), ("ttft", "mean"), ("ttft", "p90"))


def plot_evaluation(evaluation: Evaluation, path: Path) -> None:
    """Write the figure of an evaluation.

    Parameters
    ----------
    evaluation : Evaluation
        Scored predictions.
    path : pathlib.Path
        File; its suffix chooses PNG, SVG or PDF.

    Raises
    ------
    UsageError
        If the plots extra is missing, the suffix unknown or the file cannot be written.
    """
    figure, axes = new_figure(2, 3, (13, 8))
    body = [r for r in evaluation.records if r.score.statistic in BODY]
    _coverage(axes[0, 0], body)
    _pit(axes[1, 0], body)
    for axis, (metric, stat) in zip(axes[:, 1:].flat, _SHOWN, strict=True):
        _scatter(axis, evaluation, metric, stat)
    n = len({r.experiment for r in evaluation.records})
    figure.suptitle(f"{evaluation.posterior.name}: predicted blind, then compared, {n} experiments")
    save_figure(figure, path)


def _coverage(axis: Any, records: list[EvaluationRecord]) -> None:
    axis.plot([0, 1], [0, 1], color=NEUTRAL, lw=1)
    levels = np.linspace(0.02, 0.98, 49)
    for metric in dict.fromkeys(r.score.metric for r in records):
        pit = np.array([r.score.pit for r in records if r.score.metric == metric])
        axis.plot(levels, [np.mean(np.abs(2 * pit - 1) <= v) for v in levels], lw=1, label=metric)
    if records:
        found = [coverage(records, level) for level in (50, 80, 90)]
        share = np.array([c.share for c in found])
        reach = np.abs(np.array([[c.low for c in found], [c.high for c in found]]) - share)
        x = [c.level / 100 for c in found]
        axis.errorbar(
            x, share, reach, fmt="o", color="black", capsize=3, label="all, by experiment"
        )
    axis.set(xlabel="nominal coverage", ylabel="observed coverage", xlim=(0, 1), ylim=(0, 1.02))
    axis.set_title("central intervals, exact 95 % ranges", fontsize=10)
    axis.legend(fontsize=8, loc="lower right")


def _pit(axis: Any, records: list[EvaluationRecord]) -> None:
    if records:
        pooled = summary_of(records, "all", "body")
        expected = pooled.n_experiment / N_PIT_BIN
        edges = np.arange(N_PIT_BIN) / N_PIT_BIN
        axis.bar(edges, pooled.pit, 1 / N_PIT_BIN, align="edge", color=INSIDE, alpha=0.7, ec="w")
        axis.axhline(expected, color=NEUTRAL, lw=1)
    axis.set(xlabel="PIT", ylabel="experiments", xlim=(0, 1))
    axis.set_title("PIT; flat when calibrated", fontsize=10)


def _scatter(axis: Any, evaluation: Evaluation, metric: str, stat: str) -> None:
    own = sorted(
        (
            r.score
            for r in evaluation.records
            if (r.score.metric, r.score.statistic) == (metric, stat)
        ),
        key=lambda s: s.observed,
    )
    for s in own:
        x, low, middle, high = (
            1e3 * v
            for v in (s.observed, s.quantiles["q05"], s.quantiles["q50"], s.quantiles["q95"])
        )
        colour = INSIDE if s.covered(90) else OUTSIDE
        axis.plot([x, x], [low, high], color=colour, lw=2, alpha=0.8)
        axis.plot(x, middle, "o", color=colour, ms=4)
    if own:
        ends = np.array([0.8e3 * own[0].observed, 1.25e3 * own[-1].observed])
        axis.plot(ends, ends, color=NEUTRAL, lw=1, zorder=0)
        axis.set(xscale="log", yscale="log")
        plain_log_ticks(axis)
    axis.set(xlabel="observed, ms", ylabel="predicted, ms")
    hits = sum(s.covered(90) for s in own)
    axis.set_title(f"{metric} {stat}: {hits} of {len(own)} in the 90 % interval", fontsize=10)
