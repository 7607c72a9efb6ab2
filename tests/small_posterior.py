"""A posterior of the small problem, fitted in seconds and saved as `tailcast fit` would."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from small_problem import small_model, small_runs
from tailcast.inference.card import posterior_card
from tailcast.inference.effective import effective_map
from tailcast.inference.fit import fit
from tailcast.inference.forward import RunInput, run_engine
from tailcast.inference.nuts import Sampler
from tailcast.latency_model import LatencyModel
from tailcast.posteriors import Posterior, load_posterior, save_posterior
from tailcast.report.posterior import posterior_readme
from tailcast.streams import stream

SCATTER = {"ttft.mean": 0.03, "ttft.p90": 0.05, "e2e.mean": 0.01, "e2e.p90": 0.02}


def observed_runs(model: LatencyModel, excess: float = 0.0) -> list[RunInput]:
    """The small runs as the engine sees them at the prior's centre, with measurement noise.

    `excess` is added to the log of every mean E2E of the first run: an error the model cannot
    explain, since mean and P90 of a run go together.
    """
    made = []
    for run in small_runs(60):
        mapping = effective_map(model, run.deployment)
        centre = np.array([c.centre for c in model.coefficients])
        logs, _ = run_engine(run, mapping, (mapping.matrix @ centre)[None], 0, 1)
        rng = stream(9, "measured", run.name)
        outputs = []
        for output, log in zip(run.outputs, logs[0].tolist(), strict=True):
            wrong = excess if (run.name, output.key) == ("a", "e2e.mean") else 0.0
            noise = SCATTER[output.key] * rng.standard_normal()
            outputs.append(replace(output, log_observed=log + noise + wrong))
        made.append(replace(run, outputs=tuple(outputs)))
    return made


def small_posterior(folder: Path, excess: float = 0.0, draws: int = 300) -> Posterior:
    """Fit, save and load the small problem."""
    model = small_model(folder / "model")
    sampler = Sampler(draws=draws, tune=150, stored=100, chains=4, cores=1)
    fitted = fit(
        model,
        observed_runs(model, excess),
        seed=2,
        sampler=sampler,
        waves=2,
        design_size=64,
        threads=1,
    )
    card = posterior_card(
        "small",
        model,
        fitted,
        files={"made.yaml": "0" * 64},
        notes=[],
        seed=2,
        sampler=sampler,
    )
    card["latency_model"] = str(folder / "model")
    save_posterior(folder / "small", fitted.tree, card, posterior_readme(card))
    return load_posterior(str(folder / "small"))
