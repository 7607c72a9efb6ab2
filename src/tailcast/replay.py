"""Serve a recorded run's requests again: every posterior draw, or one fixed latency model."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailcast.comparison import PointAnswer
from tailcast.deployment import Deployment
from tailcast.engine.blis.replay import replay_horizon_us, requests_from_trace
from tailcast.engine.deployment_limits import deployment_limits
from tailcast.engine.point_model import PointModel
from tailcast.engine.point_run import PointRun, blis_point_run, horizon_us, point_run
from tailcast.engine.run import simulate
from tailcast.engine.run_export import blis_simulated_trace, simulated_trace
from tailcast.errors import InputError, UsageError
from tailcast.posteriors import Posterior
from tailcast.prediction import QUANTILES, Prediction, predictive, predictive_law
from tailcast.request import RequestTable
from tailcast.traces.trace_header import TraceHeader
from tailcast.traces.trace_latencies import trace_latencies, trace_observed
from tailcast.traces.trace_replay import replayed_rows, trace_requests
from tailcast.traces.trace_server import server_of, trace_deployment
from tailcast.traces.tracev2 import Trace

_BLIS_LIMITS = {"max_num_seqs": 256, "max_num_batched_tokens": 2048}
"""What BLIS assumes where the header says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """What became of a trace's requests the second time.

    Parameters
    ----------
    deployment : Deployment
        What served.
    answer : Prediction or PointAnswer
        Draws of a posterior, or one number a statistic.
    observed : mapping of (str, str) to float
        The trace's own latencies by metric and statistic, seconds; empty where it has none.
    n_left_out : int
        Rows that cannot be sent again because no output length is known.
    notes : tuple of str
        What else to know, one sentence each.
    exported : Trace or None
        The simulated run, when asked for.
    """

    deployment: Deployment
    answer: Prediction | PointAnswer
    observed: Mapping[tuple[str, str], float]
    n_left_out: int
    notes: tuple[str, ...]
    exported: Trace | None


def replay_deployment(
    header: TraceHeader,
    *,
    llm: str | None = None,
    gpu: str | None = None,
    tensor_parallel: int | None = None,
    mode: str = "vllm",
) -> Deployment:
    """Deployment to replay a trace on.

    Parameters
    ----------
    header : TraceHeader
        Of the trace.
    llm, gpu : str, optional
        In place of what the header says, or lacks.
    tensor_parallel : int, optional
        Likewise.
    mode : str
        Mode ``blis`` fills what is left out with BLIS's limits instead of vLLM's.

    Returns
    -------
    Deployment
        Figures that belong to another LLM or accelerator (KV blocks, weights) are dropped.

    Raises
    ------
    UsageError
        If LLM or accelerator stand neither in the header nor in the arguments.
    CatalogError, CapacityError
        If they are unknown or do not fit.
    """
    server = header.server
    given = {"model": llm, "accelerator": gpu, "tensor_parallel": tensor_parallel}
    changed: dict[str, Any] = {
        k: v for k, v in given.items() if v is not None and v != getattr(server, k)
    }
    told = any(getattr(server, key) is not None for key in changed)
    server = replace(server, **changed)
    if told:
        server = replace(server, kv_blocks=None)
    if llm is not None and "model" in changed:
        server = replace(server, dtype=None)
    for key, flag in (("model", "--model"), ("accelerator", "--gpu")):
        if not getattr(server, key):
            raise UsageError(f"the trace header has no server.{key}; give {flag}")
    if mode == "blis":
        missing: dict[str, Any] = {
            k: v for k, v in _BLIS_LIMITS.items() if getattr(server, k) is None
        }
        server = replace(server, **missing)
    return trace_deployment(replace(header, server=server))


def replay_draws(
    trace: Trace,
    deployment: Deployment,
    posterior: Posterior,
    *,
    n_draw: int = 200,
    seed: int = 0,
    sessions: str = "recorded",
    horizon: float = float("inf"),
    export: bool = False,
) -> Replay:
    """Serve a trace's requests once a posterior draw.

    Parameters
    ----------
    trace : Trace
        Recorded run.
    deployment : Deployment
        What serves.
    posterior : Posterior
        Fitted posterior.
    n_draw, seed : int
        Draws; seed of discrepancies and new levels.
    sessions : str
        ``recorded`` or ``closed-loop``.
    horizon : float
        Seconds; no step starts at or after it.
    export : bool
        Whether to return the run of the first draw as a trace.

    Returns
    -------
    Replay
        With a `Prediction`; the header's warm-up requests are left out of the statistics.

    Raises
    ------
    UsageError, InputError
        If an argument is unknown or nothing can be replayed.
    """
    table, notes = counted_requests(trace, sessions=sessions)
    prediction = predictive(
        posterior, deployment, lambda _: table, n_draw=n_draw, seed=seed, n_seed=1, horizon=horizon
    )
    prediction.stat[:, -1] = prediction.stat[:, 0]  # "all" are those that count
    exported = None
    if export:
        law = predictive_law(posterior, deployment, n_draw=n_draw, seed=seed)[1].draw(0)
        limits = deployment_limits(deployment, horizon=horizon)
        run = simulate(table, limits, law, records=True)
        if run.records is not None:
            names = trace["request_id"][replayed_rows(trace)]
            header = _export_header(trace, deployment)
            exported = simulated_trace(table, run.records[0], law, header, request_id=names)
        notes = (*notes, "the exported run is that of the first draw")
    return Replay(
        deployment=deployment,
        answer=prediction,
        observed=observed_statistics(trace),
        n_left_out=len(trace) - len(table),
        notes=notes,
        exported=exported,
    )


def replay_point(
    trace: Trace,
    deployment: Deployment,
    model: PointModel,
    *,
    sessions: str = "recorded",
    horizon: float = float("inf"),
    export: bool = False,
) -> Replay:
    """Serve a trace's requests once with a fixed latency model.

    Parameters
    ----------
    trace : Trace
        Recorded run.
    deployment : Deployment
        What serves.
    model : PointModel
        Latency model and mode.
    sessions : str
        ``recorded`` or, in mode ``vllm``, ``closed-loop``.
    horizon : float
        Seconds; no step starts at or after it.
    export : bool
        Whether to return the run as a trace.

    Returns
    -------
    Replay
        With a `PointAnswer`. Mode ``vllm`` leaves the header's warm-up requests out of the
        statistics, mode ``blis`` does not, like BLIS.

    Raises
    ------
    UsageError, InputError, CatalogError, CapacityError
        If the model cannot run on this deployment or nothing can be replayed.
    """
    header = _export_header(trace, deployment)
    exported = None
    if model.mode == "blis":
        if sessions != "recorded":
            raise UsageError("mode blis replays recorded times; leave --sessions out")
        run, notes = _blis_replay(trace, deployment, model, horizon)
        n_replayed = len(trace)
        if export and run.blis is not None:
            exported = blis_simulated_trace(run.blis, header)
    else:
        table, notes = counted_requests(trace, sessions=sessions)
        n_replayed = len(table)
        run = point_run(
            model,
            deployment,
            table,
            quantiles=tuple(QUANTILES.values()),
            group=0,
            horizon=horizon,
            records=export,
        )
        if export and run.records is not None and run.law is not None:
            names = trace["request_id"][replayed_rows(trace)]
            exported = simulated_trace(table, run.records, run.law, header, request_id=names)
    answer = PointAnswer(model=model, run=run, stats=("mean", *QUANTILES), notes=run.notes)
    return Replay(
        deployment=deployment,
        answer=answer,
        observed=observed_statistics(trace),
        n_left_out=len(trace) - n_replayed,
        notes=notes,
        exported=exported,
    )


def counted_requests(
    trace: Trace, *, sessions: str = "recorded"
) -> tuple[RequestTable, tuple[str, ...]]:
    """Requests of a trace to be sent again, those that count in group 0.

    Failed and aborted requests load the server with the tokens that they got, and warm-up requests
    with all of theirs; neither counts in a statistic.

    Parameters
    ----------
    trace : Trace
        Recorded run, or a workload without latencies: then all but warm-up counts.
    sessions : str
        ``recorded`` or ``closed-loop``.

    Returns
    -------
    requests : RequestTable
        The others are group 1.
    notes : tuple of str
        How many do not count.

    Raises
    ------
    UsageError, InputError
        If there is no such mode, or no row that can be replayed.
    """
    table = trace_requests(trace, sessions=sessions)
    rows = replayed_rows(trace)
    counted = trace_latencies(trace).counted[rows]
    if not counted.any():
        counted = rows >= trace.header.warm_up_requests
    if not counted.any():
        raise InputError("every request of the trace is a warm-up request, so none counts")
    n = int((~counted).sum())
    what = f"{n} failed, aborted or warm-up requests load the server and count in no statistic"
    return replace(table, group=(~counted).astype(np.int64)), (what,) if n else ()


def observed_statistics(trace: Trace) -> dict[tuple[str, str], float]:
    """Latencies on record, over all requests that count.

    Parameters
    ----------
    trace : Trace
        Recorded run.

    Returns
    -------
    dict of (str, str) to float
        Seconds by metric and statistic; empty where nothing succeeded or no times are recorded.
    """
    one = np.zeros(len(trace), dtype=np.int64)
    try:
        found = trace_observed(trace, groups=one, statistics=("mean", *QUANTILES))
    except InputError:
        return {}
    return {(o.metric, o.statistic): o.value for o in found}


def _blis_replay(
    trace: Trace, deployment: Deployment, model: PointModel, horizon: float
) -> tuple[PointRun, tuple[str, ...]]:
    """Run without BLIS's own default horizon, which cuts the tail off, but tell where it lies."""
    requests = requests_from_trace(trace)
    run = blis_point_run(
        model,
        deployment,
        requests,
        quantiles=tuple(QUANTILES.values()),
        horizon_us=horizon_us(horizon),
    )
    usual = replay_horizon_us(requests)
    if horizon == float("inf") and run.blis is not None and run.blis.ended_us > usual:
        return run, (
            f"blis replay would stop at {usual / 1e6:g} s unless told otherwise; this run went on "
            f"to {run.blis.ended_us / 1e6:g} s (--horizon {usual}us does the same)",
        )
    return run, ()


def _export_header(trace: Trace, deployment: Deployment) -> TraceHeader:
    return replace(
        trace.header,
        mode="replayed",
        created_at="",
        round_trip=0.0,
        server=server_of(deployment),
        other={},
    )
