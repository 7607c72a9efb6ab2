"""From a run that was recorded request by request to what is replayed, compared and fitted."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tailcast.deployment import Deployment
from tailcast.errors import InputError
from tailcast.inference.evidence import Output, content_hash
from tailcast.inference.forward import RunInput
from tailcast.inference.population import deployment_key
from tailcast.latency_model import LatencyModel
from tailcast.request import RequestTable
from tailcast.traces.observed import Observed
from tailcast.traces.token_times import TokenTimes, token_gaps
from tailcast.traces.trace_latencies import trace_latencies, trace_observed
from tailcast.traces.trace_replay import replayed_rows, trace_requests
from tailcast.traces.tracev2 import Trace

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

STATISTICS = ("mean", "p50", "p90", "p99")
"""Statistics of a trace that are compared and fitted."""

_LEAST_REQUESTS = {"mean": 1, "p50": 10, "p90": 20, "p99": 100}
"""A tail statistic of fewer requests than this is their largest value, not a tail."""

_FITTED = ("ttft", "e2e")
_PREFIX = "trace "
RECORDED = (_PREFIX, "step log ")
"""How the names of traces and step logs begin in a ledger."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedTrace:
    """A trace's requests to be sent again, by stage, and what was seen of each stage.

    Parameters
    ----------
    requests : RequestTable
        At the recorded times with the recorded lengths. Group i is stage i; the last group, where
        there is one more, holds requests that load the server but do not count: warm-up, failed
        and aborted ones, with the tokens that they got.
    observed : tuple of Observed
        Seconds by stage, metric and statistic.
    labels : tuple of int
        The trace's own number of each stage.
    n_left_out : int
        Rows that never got a token, so they cannot be sent again.
    n_uncounted : int
        Requests of the last group.
    """

    requests: RequestTable
    observed: tuple[Observed, ...]
    labels: tuple[int, ...]
    n_left_out: int
    n_uncounted: int

    @property
    def n_stage(self) -> int:
        """Number of stages with statistics."""
        return len(self.labels)


def staged_trace(
    trace: Trace, *, token_times: TokenTimes | None = None, groups: Ints | None = None
) -> StagedTrace:
    """Requests and statistics of a recorded run.

    Parameters
    ----------
    trace : Trace
        Recorded run.
    token_times : TokenTimes, optional
        Times of its tokens, for statistics of their gaps.
    groups : ndarray of int, shape (n_row,), optional
        Stage of each row; the trace's own column ``group`` or one stage where absent.

    Returns
    -------
    StagedTrace
        With ttft, e2e, tpot, and itl where token times are known.

    Raises
    ------
    InputError
        If no request succeeded or none can be sent again.
    """
    if groups is None:
        groups = trace.columns.get("group", np.zeros(len(trace), dtype=np.int64))
    counted = trace_latencies(trace).counted
    rows = replayed_rows(trace)
    usable = np.zeros(len(trace), dtype=np.bool_)
    usable[rows] = True
    if not (counted & usable).any():
        raise InputError("no request of the trace succeeded, so there is nothing to compare with")
    labels = np.unique(groups[counted & usable])
    stage = np.where(
        counted & usable, np.searchsorted(labels, np.minimum(groups, labels[-1])), len(labels)
    ).astype(np.int64)
    requests = replace(trace_requests(trace), group=stage[rows])
    records = trace_observed(trace, groups=stage, statistics=STATISTICS)
    if token_times is not None:
        records = (*records, *_gaps(token_times, stage, len(labels)))
    return StagedTrace(
        requests=requests,
        observed=tuple(o for o in records if _tells(o, len(labels))),
        labels=tuple(int(label) for label in labels),
        n_left_out=len(trace) - len(rows),
        n_uncounted=int((stage[rows] == len(labels)).sum()),
    )


def _tells(observed: Observed, n_stage: int) -> bool:
    enough = (observed.n_requests or 0) >= _LEAST_REQUESTS[observed.statistic]
    return enough and observed.stage < n_stage


def _gaps(times: TokenTimes, stage: Ints, n_stage: int) -> list[Observed]:
    row, gap = token_gaps(times)
    found = []
    for k in range(n_stage):
        mine = gap[stage[row] == k]
        n_request = int((stage == k).sum())
        for name in STATISTICS if len(mine) and mine.mean() > 0 else ():
            value = mine.mean() if name == "mean" else np.quantile(mine, float(name[1:]) / 100)
            if value > 0:
                found.append(
                    Observed(
                        stage=k,
                        metric="itl",
                        statistic=name,
                        value=float(value),
                        n_requests=n_request,
                    )
                )
    return found


def trace_run(
    staged: StagedTrace, deployment: Deployment, name: str, model: LatencyModel | None = None
) -> RunInput:
    """Run of a trace, with the statistics that enter a fit.

    The requests are the recorded ones, so there is one workload realisation and no seed.

    Parameters
    ----------
    staged : StagedTrace
        Requests and statistics.
    deployment : Deployment
        What served them.
    name : str
        Of the trace; the run's identity is this and a hash of its content.
    model : LatencyModel, optional
        Statistics that it has no noise scale for are left out; none by default.

    Returns
    -------
    RunInput
        Means, P50, P90 and P99 of ttft and e2e by stage; those of tpot and itl say the same again.
    """
    requests = staged.requests
    outputs = tuple(
        _output(o, requests)
        for o in staged.observed
        if o.metric in _FITTED and (model is None or f"{o.metric}.{o.statistic}" in model.noise)
    )
    values = np.array([output.log_observed for output in outputs])
    content = content_hash(
        *(getattr(requests, column) for column in RequestTable.__slots__),
        values,
        deployment_key(deployment),
        deployment.engine,
        deployment.kv_block_count,
        deployment.kv_dtype,
        deployment.data_parallel,
    )
    return RunInput(
        name=f"{_PREFIX}{name} {content[:12]}",
        deployment=deployment,
        requests=_constant(requests),
        outputs=outputs,
        content=content,
        n_seed=1,
    )


def trace_runs(
    staged: StagedTrace, deployment: Deployment, name: str, model: LatencyModel
) -> tuple[RunInput, ...]:
    """Runs of a trace: one a load phase where phases follow each other.

    A machine's speed drifts from one phase to the next, so each phase has the discrepancies of a
    run of its own; as one run, the drift would be taken for an effect of the load.

    Parameters
    ----------
    staged : StagedTrace
        Requests and statistics.
    deployment : Deployment
        What served them.
    name : str
        Of the trace.
    model : LatencyModel
        For the statistics that enter a fit.

    Returns
    -------
    tuple of RunInput
        One where phases overlap in time, share prompts or wait for each other.
    """
    requests = staged.requests
    edges = _phase_starts(staged)
    shared = (requests.prefix_stream >= 0) | (requests.content_stream >= 0)
    if edges is None or shared.any() or (requests.parent >= 0).any():
        return (trace_run(staged, deployment, name, model),)
    place = np.searchsorted(edges, requests.arrival, side="right") - 1
    order = np.argsort([requests.arrival[requests.group == k][0] for k in range(staged.n_stage)])
    return tuple(
        trace_run(_phase(staged, place == k, int(stage)), deployment, f"{name}/{label}", model)
        for k, stage in enumerate(order)
        for label in (staged.labels[int(stage)],)
    )


def _phase_starts(staged: StagedTrace) -> Array | None:
    """First arrival of each stage, the first from the beginning; None where stages overlap."""
    requests = staged.requests
    if staged.n_stage < 2:
        return None
    own = [requests.arrival[requests.group == k] for k in range(staged.n_stage)]
    own.sort(key=lambda arrival: float(arrival[0]))
    if any(before[-1] > after[0] for before, after in pairwise(own)):
        return None
    starts = np.array([float(arrival[0]) for arrival in own])
    starts[0] = -np.inf
    return starts


def _phase(staged: StagedTrace, rows: NDArray[np.bool_], stage: int) -> StagedTrace:
    """One stage by itself, with what loaded the server during it."""
    requests = staged.requests
    columns = {column: getattr(requests, column)[rows] for column in RequestTable.__slots__}
    columns["group"] = (columns["group"] != stage).astype(np.int64)
    columns["arrival"] = columns["arrival"] - columns["arrival"].min()
    return StagedTrace(
        requests=RequestTable(**columns),
        observed=tuple(replace(o, stage=0) for o in staged.observed if o.stage == stage),
        labels=(staged.labels[stage],),
        n_left_out=0,
        n_uncounted=int(columns["group"].sum()),
    )


def _constant(requests: RequestTable) -> Callable[[int], RequestTable]:
    return lambda seed: requests


def _output(observed: Observed, requests: RequestTable) -> Output:
    """One statistic; how many request overheads are in it is taken at the stage's mean length."""
    own = requests.output_tokens[requests.group == observed.stage].mean()
    finish = {"e2e": 1.0, "tpot": 1.0 / max(own - 1.0, 1.0)}.get(observed.metric, 0.0)
    return Output(
        stage=observed.stage,
        metric=observed.metric,
        stat=observed.statistic,
        log_observed=float(np.log(observed.value)),
        finish=float(finish),
        stream=float(own) if observed.metric == "e2e" else 1.0,
    )


def same_source(name: str, known: str) -> bool:
    """Whether two runs or step logs of a ledger are one recording, under whatever names.

    Parameters
    ----------
    name, known : str
        Names in a ledger; those of traces and step logs end in a hash of what was recorded.

    Returns
    -------
    bool
        Whether names, or these hashes, are equal.
    """
    kinds = [kind for kind in RECORDED if name.startswith(kind) and known.startswith(kind)]
    return name == known or (bool(kinds) and name.rsplit(" ", 1)[-1] == known.rsplit(" ", 1)[-1])
