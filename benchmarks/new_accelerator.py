"""A run on an accelerator that the posterior has not seen: `new_accelerator.py EXPERIMENT ...`.

Predicts every stage cold, updates with the first stage alone, predicts the others again: for any
server of that deployment, and for the very one that was observed.
"""

import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np

from tailcast.inference.population import Server, deployment_key
from tailcast.inference.sources import plausible_requests, run_input
from tailcast.inference.tree import population_of
from tailcast.inference.update import update
from tailcast.measurement import measured_draws
from tailcast.posteriors import load_posterior
from tailcast.prediction import QUANTILES, predictive
from tailcast.traces.experiment import load_experiment

STATS = (("ttft", "mean"), ("ttft", "p90"), ("e2e", "mean"), ("e2e", "p90"))


def main() -> None:
    """Print error and 90 % interval of each statistic before and after."""
    posterior = load_posterior()
    model = posterior.latency_model
    for name in sys.argv[1:]:
        experiment = load_experiment(Path(name))
        run = run_input(experiment, model)
        own = replace(run, outputs=tuple(o for o in run.outputs if o.stage == 0))
        start = time.perf_counter()
        found = update(
            model, posterior.tree(), posterior.population, posterior.evidence(), [own], seed=1
        )
        seconds = time.perf_counter() - start
        after = replace(posterior, population=population_of(found.tree, model))
        server = Server(run=run.name, deployment=deployment_key(experiment.deployment))
        same = replace(after, population=replace(after.population, server=server))
        gpu = experiment.deployment.accelerator.name
        print(
            f"{experiment.id} on {gpu}: update {seconds:.0f} s, r-hat {found.diagnostics.rhat:.3f}"
        )
        draws = [
            predictive(
                who,
                experiment.deployment,
                plausible_requests(experiment, model),
                n_draw=200,
                quantiles=QUANTILES,
                n_seed=20,
                cold_start=True,
            )
            for who in (posterior, after, same)
        ]
        seen = {(o.stage, o.metric, o.statistic): o.value for o in experiment.observed}
        for (stage, metric, stat), value in sorted(seen.items()):
            if (metric, stat) not in STATS:
                continue
            line = f"  stage {stage} {metric}.{stat:5s}"
            for prediction in draws:
                shown = measured_draws(prediction, posterior, metric, stat, stage, 0)
                low, middle, high = np.quantile(shown, [0.05, 0.5, 0.95])
                held = "in" if low <= value <= high else "OUT"
                line += f"  {100 * (middle / value - 1):+6.1f} % (x{high / low:.2f}, {held})"
            print(line + ("" if stage else "  <- updated with this stage"))


if __name__ == "__main__":
    main()
