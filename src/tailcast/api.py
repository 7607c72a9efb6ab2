"""The Python API: what the command line answers, as DataTrees that ArviZ reads."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import xarray as xr

from tailcast import evaluation, posteriors
from tailcast.artifacts import DEFAULT_POSTERIOR
from tailcast.conformal import Conformal, load_conformal
from tailcast.evaluation_result import Evaluation
from tailcast.posteriors import Posterior
from tailcast.prediction import QUANTILES, Prediction, predictive
from tailcast.slo import miss_probabilities, parse_objective, stat_quantile, verdict
from tailcast.study import Study, deployment_from_mapping, load_study
from tailcast.workload.mapping import workload_from_mapping
from tailcast.workload.materialise import materialise


def load_posterior(name: str = DEFAULT_POSTERIOR) -> Posterior:
    """Load a posterior; its ``tree()`` is a DataTree for ArviZ.

    Parameters
    ----------
    name : str
        Shipped name, or the path of a folder.

    Returns
    -------
    Posterior
        Draws, latency model, card.

    Raises
    ------
    UsageError
        If there is no such posterior.
    InputError
        If it cannot be read or belongs to another latency model.
    """
    return posteriors.load_posterior(name)


def predict(
    model: str | Path,
    gpu: str | None = None,
    *,
    tensor_parallel: int = 1,
    rate: float | None = None,
    input_tokens: int | None = None,
    output_tokens: int | None = None,
    n_requests: int = 1000,
    slo: Sequence[str] = (),
    posterior: str = DEFAULT_POSTERIOR,
    draws: int = 200,
    seed: int = 0,
    threads: int = 2,
) -> xr.DataTree:
    """Predict latency statistics of a deployment under a workload.

    Parameters
    ----------
    model : str or pathlib.Path
        LLM name or ``config.json``; or a study file (``.toml``), which then says everything.
    gpu : str, optional
        Accelerator name.
    tensor_parallel : int
        Accelerators per replica.
    rate : float, optional
        Requests per second, Poisson.
    input_tokens, output_tokens : int, optional
        Constant lengths.
    n_requests : int
        Requests of one simulated run.
    slo : sequence of str
        Objectives such as ``"ttft.p99=300ms"``.
    posterior : str
        Shipped name or folder.
    draws : int
        Posterior draws, one engine run each.
    seed : int
        Same seed, same answer.
    threads : int
        Engine threads.

    Returns
    -------
    xarray.DataTree
        Group ``predictions``: variables ttft, itl, tpot, e2e, queue_delay in seconds with dims
        (chain, draw, group, stat). With objectives a group ``slo``: ``p_miss`` and ``mcse`` by
        objective, and the verdict in the attributes. Where the study names an evaluation for it,
        a group ``conformal``: each metric's interval in seconds by stat, prob (0.5, 0.8, 0.9) and
        end (low, high).

    Raises
    ------
    TailcastError
        One of its kinds for whatever cannot be answered, with one line that says why.
    """
    objectives = tuple(parse_objective(text) for text in slo)
    if str(model).endswith(".toml"):
        asked = load_study(Path(model))
        objectives = objectives or asked.objectives
    else:
        deployment = {"model": str(model), "gpu": gpu, "tensor_parallel": tensor_parallel}
        load = {"rate": rate, "input_tokens": input_tokens, "output_tokens": output_tokens}
        given = {key: value for key, value in load.items() if value is not None}
        asked = Study(
            deployment=deployment_from_mapping(deployment, "predict"),
            workload=workload_from_mapping({**given, "n_requests": n_requests}, "predict"),
            posterior=posterior,
        )
    extra = {o.stat: stat_quantile(o.stat) for o in objectives}
    known = posteriors.load_posterior(asked.posterior)
    prediction = predictive(
        known,
        asked.deployment,
        lambda s: materialise(asked.workload, s),
        n_draw=draws,
        seed=seed,
        threads=threads,
        quantiles={**QUANTILES, **{k: v for k, v in extra.items() if v is not None}},
    )
    tree = prediction.to_tree()
    if asked.conformal:
        tree["conformal"] = _conformal_tree(load_conformal(asked.conformal, known), prediction)
    if objectives:
        rows = miss_probabilities(prediction, objectives)
        answer = verdict(prediction, objectives, asked.risk)
        tree["slo"] = xr.DataTree(
            dataset=xr.Dataset(
                {
                    "p_miss": ("objective", np.array([row.p_miss for row in rows])),
                    "mcse": ("objective", np.array([row.mcse for row in rows])),
                },
                coords={"objective": [row.label for row in rows]},
                attrs={"verdict": answer.word, "reason": answer.reason, "advice": answer.advice},
            )
        )
    return tree


def _conformal_tree(conformal: Conformal, prediction: Prediction) -> xr.DataTree:
    probs = (0.5, 0.8, 0.9)
    variables = {
        metric: (
            ("stat", "prob", "end"),
            np.array(
                [
                    [conformal.interval(prediction, metric, stat, prob) for prob in probs]
                    for stat in prediction.stats
                ]
            ),
            {"units": "s"},
        )
        for metric in prediction.metrics
    }
    coords = {"stat": list(prediction.stats), "prob": list(probs), "end": ["low", "high"]}
    return xr.DataTree(dataset=xr.Dataset(variables, coords=coords))


def evaluate(
    paths: Iterable[Path | str],
    posterior: str = DEFAULT_POSTERIOR,
    *,
    draws: int = 200,
    seed: int = 0,
) -> Evaluation:
    """Predict experiments blind, then score them.

    Parameters
    ----------
    paths : iterable of path
        Experiment files and folders of them.
    posterior : str
        Shipped name or folder.
    draws : int
        Posterior draws, one engine run each.
    seed : int
        Same seed, same scores.

    Returns
    -------
    Evaluation
        Records, summary and what could not be simulated.

    Raises
    ------
    InputError
        If a path holds no experiment or a file is malformed.
    """
    found = posteriors.load_posterior(posterior)
    return evaluation.evaluate(paths, found, n_draw=draws, seed=seed)
