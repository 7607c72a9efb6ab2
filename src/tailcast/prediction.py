"""Posterior draws through the engine: predictive distributions of latency statistics."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tailcast.coefficients import step_law
from tailcast.deployment import Deployment
from tailcast.engine.deployment_limits import deployment_limits
from tailcast.engine.result import EngineResult
from tailcast.engine.run import simulate
from tailcast.errors import CapacityError, UsageError
from tailcast.inference.population import (
    DeploymentDraws,
    Population,
    deployment_draws,
    population_rows,
    prior_population,
)
from tailcast.inference.regimes import workload_regimes
from tailcast.inference.warm_up import warm_up_count
from tailcast.latency_model import NEAR_SATURATION, LatencyModel
from tailcast.posteriors import Posterior
from tailcast.prediction_notes import UNSERVED, prediction_notes
from tailcast.request import RequestTable
from tailcast.step_law import StepLaw

if TYPE_CHECKING:
    import xarray as xr

Array = NDArray[np.float64]

QUANTILES: Mapping[str, float] = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
"""Statistics over requests, beside the mean."""

METRICS = ("ttft", "itl", "tpot", "e2e", "queue_delay")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Predictive draws of every statistic of one deployment under one workload.

    Parameters
    ----------
    stat : ndarray, shape (n_draw, n_group + 1, n_metric, n_stat)
        Seconds, discrepancy included; the last group is all requests. NaN where nothing finished.
    metrics, stats : tuple of str
        Names along the last two axes.
    load : ndarray, shape (n_draw,)
        Offered work over capacity; 1 and more is beyond the stability boundary.
    counters : mapping of str to ndarray, shape (n_draw,)
        What became of the requests, by the engine's names.
    mode : str
        ``"transfer"`` where the posterior knows this deployment, else ``"cold"``.
    warnings : tuple of str
        What the answer leans on or extrapolates from, one sentence each.
    extrapolates : bool
        Whether a material basis leaves the fitted range or a level is new.
    posterior : str
        Name of the posterior.
    n_request : int
        Requests of one run.
    """

    stat: Array
    metrics: tuple[str, ...]
    stats: tuple[str, ...]
    load: Array
    counters: Mapping[str, NDArray[Any]]
    mode: str
    warnings: tuple[str, ...]
    extrapolates: bool
    posterior: str
    n_request: int

    @property
    def stable(self) -> NDArray[np.bool_]:
        """Which draws lie within the stability boundary, shape (n_draw,)."""
        return self.load < 1.0

    @property
    def p_saturated(self) -> float:
        """Share of draws in which the offered work exceeds the capacity."""
        return float(np.mean(~self.stable))

    def draws(self, metric: str, stat: str, group: int = -1) -> Array:
        """Predictive draws of one statistic.

        Parameters
        ----------
        metric, stat : str
            For example ``"ttft"`` and ``"p99"``.
        group : int
            Load stage or request class; -1 for all requests.

        Returns
        -------
        ndarray, shape (n_draw,)
            Seconds.

        Raises
        ------
        UsageError
            If there is no such metric or statistic.
        """
        if metric not in self.metrics or stat not in self.stats:
            raise UsageError(
                f"no statistic {metric}.{stat}; metrics {', '.join(self.metrics)}, "
                f"statistics {', '.join(self.stats)}"
            )
        column: Array = self.stat[:, group, self.metrics.index(metric), self.stats.index(stat)]
        return column

    def to_tree(self) -> "xr.DataTree":
        """Predictions as ArviZ reads them.

        Returns
        -------
        xarray.DataTree
            Group ``predictions``: one variable a metric with dims (chain, draw, group, stat) in
            seconds, and ``load`` with dims (chain, draw).
        """
        import xarray as xr

        n_group = self.stat.shape[1] - 1
        groups = [*(str(k) for k in range(n_group)), "all"]
        variables: dict[str, Any] = {
            name: (
                ("chain", "draw", "group", "stat"),
                self.stat[None, :, :, k, :],
                {"units": "s"},
            )
            for k, name in enumerate(self.metrics)
        }
        variables["load"] = (("chain", "draw"), self.load[None], {"units": "1"})
        data = xr.Dataset(
            variables,
            coords={
                "chain": [0],
                "draw": np.arange(len(self.load)),
                "group": groups,
                "stat": list(self.stats),
            },
            attrs={"mode": self.mode, "posterior": self.posterior, "n_request": self.n_request},
        )
        return xr.DataTree.from_dict({"predictions": data})


def predictive(
    posterior: Posterior | LatencyModel,
    deployment: Deployment,
    requests: Callable[[int], RequestTable],
    *,
    n_draw: int = 200,
    seed: int = 0,
    threads: int = 2,
    with_discrepancy: bool = True,
    warmup: int = 0,
    n_seed: int | None = None,
    horizon: float = float("inf"),
    quantiles: Mapping[str, float] = QUANTILES,
    cold_start: bool = False,
) -> Prediction:
    """Predict latency statistics of a deployment, one engine run a posterior draw.

    Every draw of the coefficients is paired with its own workload seed, the same pairs whatever
    the deployment, so candidates face the same arrivals.

    Parameters
    ----------
    posterior : Posterior or LatencyModel
        Fitted posterior; a latency model alone predicts from its prior.
    deployment : Deployment
        What to predict.
    requests : callable
        Workload seed to requests.
    n_draw : int
        Posterior draws, spread evenly over the stored ones.
    seed : int
        Of discrepancies, new levels and workloads.
    threads : int
        Engine threads.
    with_discrepancy : bool
        False trusts the law and omits deployment, run and TTFT discrepancies.
    warmup : int
        First requests left out of the statistics.
    n_seed : int, optional
        Number of different workload seeds; one per draw by default.
    horizon : float
        Seconds after which no step starts.
    quantiles : mapping of str to float
        Statistics over requests beside the mean, by name.
    cold_start : bool
        Whether the run begins on a server that has just started, so that its first requests wait
        for the latency model's warm-up, if it has one.

    Returns
    -------
    Prediction
        Draws with warnings and mode.

    Raises
    ------
    UsageError
        If `n_draw` is not positive.
    CapacityError
        If the deployment's weights do not fit.
    """
    if n_draw < 1:
        raise UsageError(f"draws must be at least 1, got {n_draw}")
    distinct = min(n_seed or n_draw, n_draw)
    tables = [requests(seed + k) for k in range(distinct)]
    own, law = predictive_law(
        posterior,
        deployment,
        n_draw=n_draw,
        seed=seed,
        with_discrepancy=with_discrepancy,
        regimes=workload_regimes(tables[0]),
    )
    result = simulate(
        tables[0],
        deployment_limits(deployment, horizon=horizon),
        law,
        quantiles=tuple(quantiles.values()),
        warmup=warmup,
        threads=threads,
        draw_requests=[tables[k % distinct] for k in range(n_draw)],
    )
    stat = np.array(result.stat)
    load = offered_load(law, deployment, result, tables)
    late = own.ttft + np.where(load >= NEAR_SATURATION, own.saturation, 0.0)
    stat[:, :, METRICS.index("ttft"), :] *= np.exp(late)[:, None, None]
    if cold_start:
        _add_warm_up(stat, own, tables[0], quantiles)
    notes, outside = prediction_notes(posterior, deployment, own, result)
    return Prediction(
        stat=stat,
        metrics=tuple(result.metrics),
        stats=("mean", *quantiles),
        load=load,
        counters=result.counters,
        mode="transfer" if own.known_deployment else "cold",
        warnings=notes,
        extrapolates=outside,
        posterior=posterior.name,
        n_request=len(tables[0]),
    )


def _add_warm_up(
    stat: Array, own: DeploymentDraws, requests: RequestTable, quantiles: Mapping[str, float]
) -> None:
    """Add the wait of a run's first requests to TTFT and E2E."""
    wait = own.coefficients.values.get("warm_up")
    if wait is None:
        return
    n_group = stat.shape[1] - 1
    for group in range(n_group + 1):
        stage = group if group < n_group else None
        for k, quantile in enumerate((None, *quantiles.values())):
            count = warm_up_count(requests, stage, quantile)
            for metric in ("ttft", "e2e"):
                stat[:, group, METRICS.index(metric), k] += count * wait


def predictive_law(
    posterior: Posterior | LatencyModel,
    deployment: Deployment,
    *,
    n_draw: int,
    seed: int = 0,
    with_discrepancy: bool = True,
    regimes: Sequence[str] = (),
) -> tuple[DeploymentDraws, StepLaw]:
    """Coefficients and step law of a deployment under the posterior, one row a draw.

    Parameters
    ----------
    posterior : Posterior or LatencyModel
        Fitted posterior, or a latency model for its prior.
    deployment : Deployment
        What to predict.
    n_draw : int
        Posterior draws, spread evenly over the stored ones.
    seed : int
        Of discrepancies and new levels.
    with_discrepancy : bool
        False trusts the law.
    regimes : sequence of str
        Discrepancies of this run beside those of every run.

    Returns
    -------
    tuple
        Draws of the deployment, and its step law.

    Raises
    ------
    UsageError
        If `n_draw` is not positive.
    """
    if n_draw < 1:
        raise UsageError(f"draws must be at least 1, got {n_draw}")
    population = _thinned(_population(posterior, n_draw, seed), n_draw)
    own = deployment_draws(
        population, deployment, seed, with_discrepancy=with_discrepancy, regimes=regimes
    )
    return own, step_law(own.coefficients, deployment)


def _population(posterior: Posterior | LatencyModel, n_draw: int, seed: int) -> Population:
    if isinstance(posterior, LatencyModel):
        return prior_population(posterior, n_draw, seed)
    return posterior.population


def _thinned(population: Population, n_draw: int) -> Population:
    """Evenly spread rows; with more draws than are stored, rows are used again in turn."""
    total = population.n_draw
    if n_draw <= total:
        rows = np.linspace(0, total - 1, n_draw).round().astype(int)
    else:
        rows = np.arange(n_draw) % total
    return population_rows(population, rows)


def offered_load(
    law: StepLaw, deployment: Deployment, result: EngineResult, tables: Sequence[RequestTable]
) -> Array:
    r"""Offered work over capacity of one replica, by draw.

    With at most :math:`B` sequences running (sequence cap or KV cache) the replica completes
    :math:`B / (m T(B))` requests a second, less the time that prefills take:

    .. math:: \rho = \lambda \left( w_p + m T(B) / B \right)

    Parameters
    ----------
    law : StepLaw
        One row a draw.
    deployment : Deployment
        For sequence cap and KV blocks.
    result : EngineResult
        For the prefill tokens that were computed.
    tables : sequence of RequestTable
        Requests of draw i are ``tables[i % len(tables)]``.

    Returns
    -------
    ndarray, shape (n_draw,)
        1 is the stability boundary; 0 for closed-loop workloads, which cannot saturate.
    """
    load = np.zeros(law.n_draw)
    shape = [_workload_shape(table) for table in tables]
    engine = deployment.engine
    kv_tokens = deployment.kv_block_count * engine.block_size
    for k in range(law.n_draw):
        rate, prompt, output, n = shape[k % len(tables)]
        if not rate:
            continue
        batch = max(1.0, min(float(engine.max_num_seqs), kv_tokens / (prompt + output / 2)))
        context = batch * (prompt + output / 2)
        one = law.draw(k)
        decode = float(one.duration(0, 0, 0, batch, context)[0])
        computed = float(result.counters["prefill_tokens"][k]) / max(n, 1)
        extra = one.per_prefill_token * computed + one.per_prefill_pair * computed * computed / 2
        load[k] = rate * (float(extra[0]) + output * decode / batch)
    return load


def _workload_shape(table: RequestTable) -> tuple[float, float, float, int]:
    n = len(table)
    open_loop = n > 1 and not np.any(table.parent >= 0)
    span = float(table.arrival[-1] - table.arrival[0]) if n else 0.0
    rate = (n - 1) / span if open_loop and span > 0 else 0.0
    return rate, float(table.input_tokens.mean()), float(table.output_tokens.mean()), n


def refuse_unserved(prediction: Prediction, deployment: Deployment) -> None:
    """Refuse to answer with latencies where no draw serves a single request.

    Parameters
    ----------
    prediction : Prediction
        Predictive draws.
    deployment : Deployment
        What was predicted.

    Raises
    ------
    CapacityError
        With what became of the requests, and the longest one that fits.
    """
    if prediction.counters["completed"].any():
        return
    counts = {text: int(prediction.counters[name].max()) for name, text in UNSERVED.items()}
    told = ", ".join(f"{count} {text}" for text, count in counts.items() if count)
    raise CapacityError(
        f"none of the {prediction.n_request} requests is served ({told}); a request of "
        f"{deployment.llm.name} here has at most {deployment.max_model_len} tokens, prompt and "
        "output together"
    )
