"""The trapezoid of the three-number model's authors: 120 -> 480 rpm, mean TTFT below 50 ms.

Llama-3.1-8B on an H100, 90 s until a pod is ready. The plant is the engine with the public fit's
three numbers; the controller starts from the datasheet and sees only what Prometheus would.

    python examples/autoscale_trapezoid.py [figure.svg] > examples/autoscale_trapezoid.out
"""

import sys
from dataclasses import replace
from pathlib import Path

from tailcast.autoscale.experiment import AutoscaleQuestion, first_belief, make_plant, run_draws
from tailcast.autoscale.load import parse_load
from tailcast.autoscale.loop import LoopSettings
from tailcast.autoscale.replica import Source
from tailcast.queueing.server import RequestShape, ServerLimits
from tailcast.queueing.sizing import Targets
from tailcast.report.autoscale import draw_plot
from tailcast.report.tables import render_rows

TRUTH = Source(numbers="6.678ms,20.08us,55.16ns", llm_name="llama-3.1-8b", gpu="h100-sxm")
QUESTION = AutoscaleQuestion(
    load=parse_load("trapezoid:120rpm,480rpm/38min"),
    shape=RequestShape(tokens_in=1024, tokens_out=1300),
    targets=Targets(ttft=0.050),
    loop=LoopSettings(pod_start=90.0),
    limits=ServerLimits(),
)
TITLE = "Trapezoid 120 to 480 rpm on Llama-3.1-8B, H100: tuner"


def main(figure: str | None) -> None:
    """Run each controller on the same arrivals and print a row for each run."""
    plant = make_plant(TRUTH, QUESTION.limits, 3, schedule_lag=0.0, seed=0)
    belief = first_belief(TRUTH, QUESTION.limits, seed=0)
    rows = []
    for name in ("tuner", "wva", "fixed:3", "fixed:4"):
        runs = list(run_draws(replace(QUESTION, controller=name), plant, belief))
        if figure and name == "tuner":
            draw_plot(runs, QUESTION.targets, TITLE, Path(figure))
        for run in runs:
            shares = f"{run.above_settled:.1%}", f"{run.above:.1%}"
            hours = f"{run.replica_seconds / 3600:.2f}"
            ttft = f"{1e3 * run.ttft:.1f} ms"
            rows.append([name, run.path_text, *shares, ttft, hours, str(run.n_answered)])
    header = ["controller", "ready replicas", "above target, settled", "all", "ttft", "hours", "n"]
    print(render_rows(header, rows, "table"))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else None)
