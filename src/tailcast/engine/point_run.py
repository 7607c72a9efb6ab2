"""One run of a fixed latency model, in either mode, with the same names for what comes out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.deployment import Deployment
from tailcast.engine.blis.coefficients import blis_coefficients
from tailcast.engine.blis.columns import Status as BlisStatus
from tailcast.engine.blis.deployment import blis_latency_model, blis_settings
from tailcast.engine.blis.metrics import percentile_ms, pooled_percentile_ms
from tailcast.engine.blis.requests import BlisRequests, requests_from_table
from tailcast.engine.blis.result import BlisResult
from tailcast.engine.blis.run import simulate_blis
from tailcast.engine.blis.step_time import MAX_INT64
from tailcast.engine.deployment_limits import deployment_limits
from tailcast.engine.fixed_law import fixed_law
from tailcast.engine.point_model import ROOFLINE, PointModel
from tailcast.engine.result import METRICS, EngineResult, RequestRecords
from tailcast.engine.run import simulate
from tailcast.request import RequestTable
from tailcast.step_law import StepLaw

Array = NDArray[np.float64]

_BLIS_SETS = (
    "statistics are BLIS's: TTFT of every request that reached a first token, E2E of completed ones"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PointRun:
    """What one run of a fixed latency model gave.

    Parameters
    ----------
    model : PointModel
        What was run.
    stat : ndarray, shape (n_metric, 1 + n_quantile)
        Mean, then the quantiles asked for, in seconds; NaN where there is nothing.
    metrics : tuple of str
        Names along the first axis.
    outcome : mapping of str to int
        requests, completed, rejected, unsent, timed_out, unfinished, preemptions, steps.
    kv_blocks : int
        KV blocks that it ran with.
    notes : tuple of str
        What to know before believing it, one sentence each.
    law : StepLaw or None
        The law in mode ``vllm``.
    engine : EngineResult or None
        Everything else in mode ``vllm``.
    blis : BlisResult or None
        Everything else in mode ``blis``, in microseconds.
    """

    model: PointModel
    stat: Array
    metrics: tuple[str, ...]
    outcome: Mapping[str, int]
    kv_blocks: int
    notes: tuple[str, ...]
    law: StepLaw | None = None
    engine: EngineResult | None = None
    blis: BlisResult | None = None

    @property
    def records(self) -> RequestRecords | None:
        """Every request of a run in mode ``vllm`` that was asked for its records."""
        if self.engine is None or self.engine.records is None:
            return None
        return self.engine.records[0]


def point_run(
    model: PointModel,
    deployment: Deployment,
    requests: RequestTable,
    *,
    quantiles: Sequence[float] = (0.5, 0.9, 0.95, 0.99),
    warmup: int = 0,
    group: int = -1,
    horizon: float = float("inf"),
    records: bool = False,
) -> PointRun:
    """Run a fixed latency model once.

    Parameters
    ----------
    model : PointModel
        Latency model and mode.
    deployment : Deployment
        What serves.
    requests : RequestTable
        What arrives; mode ``blis`` rounds times to microseconds and knows no closed loop.
    quantiles : sequence of float
        Over requests (over gaps for ``itl``), each in 0..1.
    warmup : int
        First rows left out of the statistics; mode ``blis`` leaves none out.
    group : int
        Requests that the statistics are of; -1 for all. Mode ``blis`` knows no groups.
    horizon : float
        Seconds; no step starts at or after it.
    records : bool
        Whether mode ``vllm`` keeps every request; mode ``blis`` always does.

    Returns
    -------
    PointRun
        Statistics and counts.

    Raises
    ------
    UsageError, InputError, CatalogError, CapacityError
        If the model cannot run on this deployment or on these requests.
    """
    if model.mode == "blis":
        return blis_point_run(
            model,
            deployment,
            requests_from_table(requests),
            quantiles=quantiles,
            horizon_us=horizon_us(horizon),
        )
    found = fixed_law(model.latency_model, deployment)
    limits = deployment_limits(deployment, horizon=horizon)
    result = simulate(
        requests, limits, found.law, quantiles=quantiles, warmup=warmup, records=records
    )
    names = ("completed", "rejected", "unsent", "timed_out", "unfinished", "preemptions", "steps")
    counts = {name: int(result.counters[name][0]) for name in names}
    return PointRun(
        model=model,
        stat=result.stat[0, group],
        metrics=tuple(result.metrics),
        outcome={"requests": len(requests), **counts},
        kv_blocks=limits.kv_blocks,
        notes=found.notes,
        law=found.law,
        engine=result,
    )


def blis_point_run(
    model: PointModel,
    deployment: Deployment,
    requests: BlisRequests,
    *,
    quantiles: Sequence[float] = (0.5, 0.9, 0.95, 0.99),
    horizon_us: int = MAX_INT64,
) -> PointRun:
    """Run BLIS once, on requests in BLIS's terms.

    Parameters
    ----------
    model : PointModel
        In mode ``blis``.
    deployment : Deployment
        What serves.
    requests : BlisRequests
        What arrives.
    quantiles : sequence of float
        As for `point_run`.
    horizon_us : int
        No event after this microsecond is executed.

    Returns
    -------
    PointRun
        BLIS's statistics in seconds.

    Raises
    ------
    InputError, CatalogError, CapacityError
        If BLIS could not run it.
    """
    roofline = model.backend == ROOFLINE
    coefficients = None if roofline else blis_coefficients(model.latency_model)
    timed = blis_latency_model(deployment, backend=model.backend, coefficients=coefficients)
    settings = blis_settings(deployment, timed, horizon_us=horizon_us)
    result = simulate_blis(requests, settings, timed)
    count = result.counters
    return PointRun(
        model=model,
        stat=_blis_stat(result, quantiles),
        metrics=METRICS,
        outcome={
            "requests": len(requests),
            "completed": count["completed"],
            "rejected": count["dropped_unservable"],
            "unsent": int((result.status == BlisStatus.PENDING).sum()),
            "timed_out": count["timed_out"],
            "unfinished": count["still_queued"] + count["still_running"],
            "preemptions": count["preemptions"],
            "steps": count["steps"],
        },
        kv_blocks=settings.kv_blocks,
        notes=(*_counted_blocks(deployment), _BLIS_SETS),
        blis=result,
    )


def horizon_us(horizon: float) -> int:
    """Horizon of mode ``blis``.

    Parameters
    ----------
    horizon : float
        Seconds, inf for none.

    Returns
    -------
    int
        Whole microseconds.

    Examples
    --------
    >>> horizon_us(1.5)
    1500000
    """
    return MAX_INT64 if horizon * 1e6 >= MAX_INT64 else int(horizon * 1e6)


def _counted_blocks(deployment: Deployment) -> tuple[str, ...]:
    if deployment.kv_blocks is not None:
        return ()
    tp = deployment.tensor_parallel
    excess = f", about {tp} times too many (inference-sim issue 1545)" if tp > 1 else ""
    return (f"the KV blocks are BLIS's own count{excess}",)


def _blis_stat(result: BlisResult, quantiles: Sequence[float]) -> Array:
    """Mean and quantiles by metric in seconds, in BLIS's sets and by BLIS's interpolation."""
    done = result.completed
    admitted = result.scheduled_us >= 0
    spread = done & (result.n_itl > 0)
    rows = {
        "ttft": _spread(result.ttft_us[result.ttft_us >= 0], quantiles),
        "itl": _pooled(*result.pooled_itl_us(), quantiles),
        "tpot": _spread(result.itl_mean_us[spread], quantiles),
        "e2e": _spread(result.e2e_us[done], quantiles),
        "queue_delay": _spread(
            (result.scheduled_us - result.requests.arrival_us)[admitted], quantiles
        ),
    }
    return np.array([rows[name] for name in METRICS])


def _spread(values_us: NDArray[np.int64] | Array, quantiles: Sequence[float]) -> list[float]:
    if not len(values_us):
        return [float("nan")] * (1 + len(quantiles))
    if values_us.dtype.kind == "f":
        return [float(values_us.mean()) / 1e6, *(np.quantile(values_us, quantiles) / 1e6).tolist()]
    ordered = np.sort(values_us).astype(np.int64)
    mean = int(ordered.sum()) / len(ordered) / 1e6
    return [mean, *(percentile_ms(ordered, 100 * q) / 1e3 for q in quantiles)]


def _pooled(
    values_us: NDArray[np.int64], counts: NDArray[np.int64], quantiles: Sequence[float]
) -> list[float]:
    n = int(counts.sum())
    if not n:
        return [float("nan")] * (1 + len(quantiles))
    mean = int((values_us * counts).sum()) / n / 1e6
    return [mean, *(pooled_percentile_ms(values_us, counts, 100 * q) / 1e3 for q in quantiles)]
