"""Answers without intervals, and how they stand beside a posterior's."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tailcast.deployment import Deployment
from tailcast.engine.blis.coefficients import BLIS_LATENCY_MODEL
from tailcast.engine.point_model import ROOFLINE, PointModel, point_model
from tailcast.engine.point_run import PointRun, point_run
from tailcast.errors import TailcastError
from tailcast.posteriors import Posterior
from tailcast.prediction import QUANTILES, Prediction, offered_load, predictive
from tailcast.request import RequestTable

COMPARED = ((BLIS_LATENCY_MODEL, "blis"), (BLIS_LATENCY_MODEL, "vllm"), (ROOFLINE, "vllm"))
"""Latency models and modes that `compare` runs: parity, the same coefficients corrected, peaks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PointAnswer:
    """What one point model says, or why it says nothing.

    Parameters
    ----------
    model : PointModel
        Latency model and mode.
    run : PointRun or None
        None where it could not run.
    stats : tuple of str
        Names along the second axis of ``run.stat``.
    notes : tuple of str
        What to know before believing it, or the reason why there is no run.
    """

    model: PointModel
    run: PointRun | None
    stats: tuple[str, ...]
    notes: tuple[str, ...]

    def value(self, metric: str, stat: str) -> float:
        """One statistic.

        Parameters
        ----------
        metric, stat : str
            For example ``"ttft"`` and ``"p99"``.

        Returns
        -------
        float
            Seconds; NaN where there is none.
        """
        if self.run is None or metric not in self.run.metrics or stat not in self.stats:
            return float("nan")
        return float(self.run.stat[self.run.metrics.index(metric), self.stats.index(stat)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Point answers beside a predictive distribution, on the same deployment.

    Parameters
    ----------
    prediction : Prediction
        Of the posterior.
    points : tuple of PointAnswer
        One an entry of `COMPARED`.
    """

    prediction: Prediction
    points: tuple[PointAnswer, ...]


def point_answer(
    model: PointModel,
    deployment: Deployment,
    requests: RequestTable,
    *,
    quantiles: Mapping[str, float] = QUANTILES,
) -> PointAnswer:
    """Answer of a fixed latency model to one realisation of a workload.

    Parameters
    ----------
    model : PointModel
        Latency model and mode.
    deployment : Deployment
        What serves.
    requests : RequestTable
        What arrives.
    quantiles : mapping of str to float
        Statistics over requests beside the mean, by name.

    Returns
    -------
    PointAnswer
        One number a statistic.

    Raises
    ------
    TailcastError
        If the model cannot run on this deployment or on these requests.
    """
    run = point_run(model, deployment, requests, quantiles=tuple(quantiles.values()))
    notes = run.notes
    if run.law is not None and run.engine is not None:
        load = float(offered_load(run.law, deployment, run.engine, [requests])[0])
        if load >= 1:
            notes += (f"offered load {load:.2f} of capacity: the queue grows until the end",)
    return PointAnswer(model=model, run=run, stats=("mean", *quantiles), notes=notes)


def compare(
    posterior: Posterior,
    deployment: Deployment,
    requests: Callable[[int], RequestTable],
    *,
    n_draw: int = 200,
    seed: int = 0,
    quantiles: Mapping[str, float] = QUANTILES,
) -> Comparison:
    """Set BLIS and the roofline beside a posterior.

    The point models serve the requests of the first workload seed; the posterior pairs every draw
    with a seed of its own.

    Parameters
    ----------
    posterior : Posterior
        Fitted posterior.
    deployment : Deployment
        What to predict.
    requests : callable
        Workload seed to requests.
    n_draw, seed : int
        Posterior draws; seed of draws and workloads.
    quantiles : mapping of str to float
        Statistics over requests beside the mean, by name.

    Returns
    -------
    Comparison
        A point model that cannot run here has its reason in place of numbers.

    Raises
    ------
    UsageError
        If `n_draw` is not positive.
    """
    prediction = predictive(
        posterior, deployment, requests, n_draw=n_draw, seed=seed, quantiles=quantiles
    )
    table = requests(seed)
    points = [
        _answer_or_reason(point_model(name, mode), deployment, table, quantiles)
        for name, mode in COMPARED
    ]
    return Comparison(prediction=prediction, points=tuple(points))


def _answer_or_reason(
    model: PointModel,
    deployment: Deployment,
    requests: RequestTable,
    quantiles: Mapping[str, float],
) -> PointAnswer:
    try:
        return point_answer(model, deployment, requests, quantiles=quantiles)
    except TailcastError as error:
        return PointAnswer(
            model=model, run=None, stats=("mean", *quantiles), notes=(f"no answer: {error}",)
        )
