"""Sweep of Llama-3.1-8B with one request shape left out: `leave_one_shape_out.py [SHAPE ...]`.

The shipped posterior is updated with the public sweep (one H100, evenly spaced arrivals); then
every shape is left out in turn by an exact refit, and its runs are predicted: mean TTFT and ITL,
the error as mean |error| over mean, and how many 90 % intervals hold. Emulators are made once, from
all runs: they say what the engine does, not what was measured.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tailcast.errors import TailcastError
from tailcast.evaluation import blind_prediction
from tailcast.inference.cross_validation import REFIT
from tailcast.inference.sampling import sample
from tailcast.inference.sources import run_input
from tailcast.inference.tree import population_of
from tailcast.inference.update import update
from tailcast.measurement import measured_draws
from tailcast.posteriors import Posterior, load_posterior
from tailcast.traces.experiment import Experiment
from tailcast.traces.public_sets import load_public_set

SWEEP = Path(__file__).resolve().parents[2] / "shared" / "data" / "public"
STATS = (("ttft", "mean"), ("itl", "mean"))


def shape_of(experiment: Experiment) -> str:
    """Prompt and output length, as the run is named."""
    return experiment.id.split("-")[1]


def say(line: str) -> None:
    """Progress."""
    print(line, file=sys.stderr, flush=True)


def left_out(
    posterior: Posterior, experiments: Sequence[Experiment]
) -> dict[tuple[str, str], np.ndarray]:
    """Observed, predicted median and ends of the 90 % interval, shape (n, 4), by statistic."""
    rows: dict[tuple[str, str], list[tuple[float, ...]]] = {key: [] for key in STATS}
    for experiment in experiments:
        try:
            prediction = blind_prediction(experiment, posterior, n_draw=100, seed=3, threads=2)
        except TailcastError as error:
            say(f"{experiment.id}: {error}")
            continue
        for item in experiment.observed:
            key = (item.metric, item.statistic)
            if key in rows:
                shown = measured_draws(prediction, posterior, *key, item.stage, 3)
                low, middle, high = np.nanquantile(shown, [0.05, 0.5, 0.95])
                rows[key].append((item.value, middle, low, high))
    return {key: np.array(value).reshape(-1, 4) for key, value in rows.items()}


def scores(rows: np.ndarray) -> str:
    """Error, coverage and width of one statistic."""
    observed, middle, low, high = rows.T
    error = np.abs(middle - observed).mean() / observed.mean()
    held = (low <= observed) & (observed <= high)
    return (
        f"error {error:.3f}, 90 % hold {held.mean():.3f}, x{np.exp(np.log(high / low).mean()):.2f}"
    )


def main() -> None:
    """Print a line a shape, then all."""
    posterior = load_posterior()
    model = posterior.latency_model
    experiments = load_public_set(SWEEP / "inferno-guidellm-llama31-8b").experiments
    start = time.perf_counter()
    runs = [run_input(experiment, model) for experiment in experiments]
    whole = update(
        model,
        posterior.tree(),
        posterior.population,
        posterior.evidence(),
        [run for run in runs if run.outputs],
        seed=1,
        report=say,
    )
    say(f"fit with all: r-hat {whole.diagnostics.rhat:.3f}, {time.perf_counter() - start:.0f} s")
    shapes = sys.argv[1:] or sorted({shape_of(e) for e in experiments})
    found: dict[tuple[str, str], list[np.ndarray]] = {key: [] for key in STATS}
    for shape in shapes:
        own = [e for e in experiments if shape_of(e) == shape]
        refit = sample(
            model,
            whole.evidence,
            REFIT,
            seed=5,
            weight={e.id: 0.0 for e in own},
            near=whole.sampled,
        )
        without = replace(posterior, population=population_of(refit.tree, model))
        rows = left_out(without, own)
        for key, values in rows.items():
            found[key].append(values)
        told = "; ".join(f"{'.'.join(key)} {scores(values)}" for key, values in rows.items())
        print(f"without {shape}: {told}", flush=True)
    for key, parts in found.items():
        rows_of_all = np.concatenate(parts)
        print(f"all shapes, {'.'.join(key)}: {scores(rows_of_all)} ({len(rows_of_all)} runs)")


if __name__ == "__main__":
    main()
