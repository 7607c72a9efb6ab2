"""A posterior of the small problem, fitted in seconds and saved as `tailcast fit` would."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import xarray as xr

from deployments import deployment
from small_problem import small_model, small_runs
from tailcast.basis import FEATURES
from tailcast.inference.card import posterior_card
from tailcast.inference.effective import effective_map
from tailcast.inference.evidence import StepEvidence, step_evidence
from tailcast.inference.fit import Fit, fit
from tailcast.inference.forward import RunInput, run_engine
from tailcast.inference.nuts import Sampler
from tailcast.inference.tree import evidence_tree
from tailcast.latency_model import LatencyModel
from tailcast.posteriors import Posterior, load_posterior, save_posterior
from tailcast.report.posterior import posterior_readme
from tailcast.streams import stream

SAMPLER = Sampler(draws=500, tune=200, stored=100, chains=4, cores=1)
SCATTER = {"ttft.mean": 0.03, "ttft.p90": 0.05, "e2e.mean": 0.01, "e2e.p90": 0.02}


def observed_runs(model: LatencyModel) -> list[RunInput]:
    """The small runs as the engine sees them at the prior's centre, with measurement noise."""
    made = []
    centre = np.array([c.centre for c in model.coefficients])
    for run in small_runs(60):
        mapping = effective_map(model, run.deployment)
        logs, _ = run_engine(run, mapping, (mapping.matrix @ centre)[None], 0, 1)
        noise = stream(9, "measured", run.name).standard_normal(len(run.outputs))
        outputs = [
            replace(o, log_observed=float(log + SCATTER[o.key] * z))
            for o, log, z in zip(run.outputs, logs[0], noise, strict=True)
        ]
        made.append(replace(run, outputs=tuple(outputs)))
    return made


def observed_steps(model: LatencyModel) -> StepEvidence:
    """Decode steps of one deployment at the prior's centre, with 2 % of noise."""
    batches = [(n, n * context) for n in (1, 4, 16, 64, 128) for context in (64, 256, 1024, 4096)]
    shape = {"step": np.ones(len(batches)), "decode": [n for n, _ in batches]}
    shape["context_token"] = [total for _, total in batches]
    columns = [np.asarray(shape.get(name, np.zeros(len(batches)))) for name in FEATURES]
    features = np.array(columns, dtype=np.float64).T
    served = deployment("llama-3.1-8b")
    bare = step_evidence("steps", model, served, [(row, 1.0, "step.decode") for row in features])
    centre = np.array([c.centre for c in model.coefficients])
    noise = 0.02 * stream(9, "steps").standard_normal(len(batches))
    return replace(bare, log_observed=np.log(bare.clock @ centre) + noise)


def small_fit(folder: Path) -> tuple[LatencyModel, Fit]:
    """Fit the small problem; the latency model stands in the folder."""
    model = small_model(folder / "model")
    sources = observed_runs(model), [observed_steps(model)]
    return model, fit(model, *sources, seed=2, sampler=SAMPLER, waves=1, design_size=40, threads=1)


def saved(folder: Path, model: LatencyModel, fitted: Fit) -> Posterior:
    """Save and load a fit of the small problem."""
    card = posterior_card(
        "small",
        model,
        fitted,
        files={"made.yaml": "0" * 64},
        notes=[],
        seed=2,
        sampler=SAMPLER,
    )
    card["latency_model"] = str(folder / "model")
    save_posterior(folder / "small", fitted.tree, card, posterior_readme(card))
    return load_posterior(str(folder / "small"))


def with_error(fitted: Fit, excess: float) -> Fit:
    """The same draws beside data they cannot explain: one mean E2E far above its own P90."""
    first, *others = fitted.evidence.runs
    outputs = [
        replace(o, log_observed=o.log_observed + excess * (o.key == "e2e.mean"))
        for o in first.outputs
    ]
    runs = (replace(first, outputs=tuple(outputs)), *others)
    evidence = replace(fitted.evidence, runs=runs)
    children = {
        name: child.copy() for name, child in fitted.tree.children.items() if name != "evidence"
    }
    tree = xr.DataTree(children={**children, "evidence": evidence_tree(evidence)})
    return replace(fitted, tree=tree, evidence=evidence)
