"""Observed against predicted intervals, from the JSON of `tailcast evaluate`.

tailcast evaluate DATA --format json -o evaluation.json
python examples/plot_evaluation.py evaluation.json evaluation.svg
"""

import json
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt

SHOWN = (("e2e", "mean"), ("tpot", "mean"), ("ttft", "mean"), ("ttft", "p90"))
INSIDE, OUTSIDE = "#1b6ca8", "#c8452f"


def panel(axis: plt.Axes, records: list[dict], metric: str, statistic: str) -> None:
    """One metric: each run's 90 % interval and median against its observation, in ms."""
    own = sorted(
        (r for r in records if (r.get("metric"), r.get("statistic")) == (metric, statistic)),
        key=lambda r: r["observed"],
    )
    for r in own:
        x, low, middle, high = (1e3 * r[k] for k in ("observed", "q05", "q50", "q95"))
        colour = INSIDE if low <= x <= high else OUTSIDE
        axis.plot([x, x], [low, high], color=colour, lw=2, alpha=0.8)
        axis.plot(x, middle, "o", color=colour, ms=4)
    ends = np.array([1e3 * min(r["observed"] for r in own), 1e3 * max(r["observed"] for r in own)])
    ends *= [0.8, 1.25]
    axis.plot(ends, ends, color="0.5", lw=1, zorder=0)
    hits = sum(r["q05"] <= r["observed"] <= r["q95"] for r in own)
    error = np.median([abs(r["q50"] / r["observed"] - 1) for r in own])
    axis.set(xscale="log", yscale="log", xlabel="observed, ms", ylabel="predicted, ms")
    axis.set_title(
        f"{metric} {statistic}: median error {error:.1%}, {hits} of {len(own)} inside", fontsize=10
    )


def main(source: str, target: str) -> None:
    """Read an evaluation and write its figure."""
    records = json.loads(Path(source).read_text())["records"]
    figure, axes = plt.subplots(2, 2, figsize=(9, 8), layout="constrained")
    for axis, (metric, statistic) in zip(axes.flat, SHOWN, strict=True):
        panel(axis, records, metric, statistic)
    figure.suptitle("Predicted 90 % intervals against runs that no fit has seen", fontsize=12)
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    main(*sys.argv[1:3])
