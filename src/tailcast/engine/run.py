"""Simulate one replica on a table of requests, for one or many draws of the step law."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tailcast.engine._memory import Asked, KernelLaw, Memory
from tailcast.engine._output import Output
from tailcast.engine._plan import Plan, plan_requests
from tailcast.engine.limits import Limits
from tailcast.engine.result import METRICS, EngineResult, GapRuns, RequestRecords, StepLog
from tailcast.errors import UsageError
from tailcast.request import RequestTable
from tailcast.step_law import StepLaw


@dataclass(frozen=True, slots=True, kw_only=True)
class _Extras:
    """What is returned by draw beyond statistics; empty where it was not asked for."""

    records: list[RequestRecords]
    gaps: list[GapRuns]
    steps: list[StepLog]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """Draws that one thread simulates on one request table, and where the answers go."""

    plan: Plan
    draws: range
    limits: Limits
    law: KernelLaw
    asked: Asked
    records: bool
    gaps: bool


def _simulate_draws(job: _Job) -> _Extras:
    records: list[RequestRecords] = []
    gaps: list[GapRuns] = []
    steps: list[StepLog] = []
    memory = Memory(job.plan, job.limits, job.law, job.asked)
    for draw in job.draws:
        memory.serve(draw)
        if job.records:
            records.append(memory.records())
        if job.gaps:
            gaps.append(memory.gap_runs())
        if job.asked.steps:
            steps.append(memory.step_log())
    return _Extras(records=records, gaps=gaps, steps=steps)


def _checked_quantiles(quantiles: Sequence[float]) -> NDArray[np.float64]:
    values = np.asarray(quantiles, dtype=np.float64)
    if values.ndim != 1 or not ((values >= 0) & (values <= 1)).all():
        raise UsageError(f"quantiles must be a list of numbers in 0..1, got {quantiles!r}")
    return values


def _checked_tables(
    requests: RequestTable, law: StepLaw, draw_requests: Sequence[RequestTable] | None
) -> list[RequestTable]:
    if draw_requests is None:
        return [requests]
    if len(draw_requests) != law.n_draw:
        raise UsageError(f"draw_requests has {len(draw_requests)} tables for {law.n_draw} draws")
    if any(table.n_group != requests.n_group for table in draw_requests):
        raise UsageError("every table of draw_requests must have the groups of requests")
    if all(table is draw_requests[0] for table in draw_requests):
        return [draw_requests[0]]  # one plan and one memory serve all draws
    return list(draw_requests)


def _all_draws(jobs: Sequence[_Job], threads: int) -> list[_Extras]:
    if threads == 1 or len(jobs) == 1:
        return [_simulate_draws(job) for job in jobs]
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(_simulate_draws, jobs))


def _jobs(
    tables: Sequence[RequestTable], n_chunk: int, limits: Limits, law: StepLaw
) -> list[tuple[Plan, range]]:
    """Plans, each with the draws that use it: chunks of one table, or one table a draw."""
    if len(tables) > 1:
        return [(plan_requests(t, limits), range(i, i + 1)) for i, t in enumerate(tables)]
    plan = plan_requests(tables[0], limits)
    edges = np.linspace(0, law.n_draw, min(n_chunk, law.n_draw) + 1).astype(int)
    return [(plan, range(a, b)) for a, b in pairwise(edges)]


def simulate(
    requests: RequestTable,
    limits: Limits,
    law: StepLaw,
    *,
    quantiles: Sequence[float] = (0.5, 0.9, 0.95, 0.99),
    warmup: int = 0,
    records: bool = False,
    gaps: bool = False,
    steps: bool = False,
    threads: int = 1,
    draw_requests: Sequence[RequestTable] | None = None,
) -> EngineResult:
    """Serve requests on one replica with continuous batching, once a draw of the step law.

    Parameters
    ----------
    requests : RequestTable
        What arrives, the same for every draw (common random numbers).
    limits : Limits
        Scheduler and KV cache.
    law : StepLaw
        Step durations and overheads by draw.
    quantiles : sequence of float
        Quantiles over requests (over gaps for ``itl``), each in 0..1; exact, with numpy's linear
        interpolation.
    warmup : int
        First rows that are simulated but enter no statistic.
    records, gaps, steps : bool
        Whether to return every request, the token gaps, every step.
    threads : int
        Draws simulated at once; the result does not depend on it.
    draw_requests : sequence of RequestTable, optional
        One table a draw in place of `requests`, with the same number of groups.

    Returns
    -------
    EngineResult
        Statistics, counters and ranges by draw.

    Raises
    ------
    UsageError
        If an argument is out of range or `draw_requests` does not match the draws.

    Examples
    --------
    >>> import numpy as np
    >>> from tailcast.request import request_table
    >>> table = request_table(np.array([0.0, 5.0]), 100, 20)
    >>> result = simulate(table, Limits(), StepLaw.single(per_step=0.01))
    >>> float(result.stat[0, -1, METRICS.index("ttft"), 0].round(6))
    0.01
    """
    values = _checked_quantiles(quantiles)
    if warmup < 0 or threads < 1:
        raise UsageError(f"warmup must be >= 0 and threads >= 1, got {warmup!r} and {threads!r}")
    tables = _checked_tables(requests, law, draw_requests)
    output = Output.empty(law.n_draw, requests.n_group, len(values))
    asked = Asked(quantiles=np.sort(values), warmup=warmup, steps=steps, output=output)
    kernel_law = KernelLaw.of(law)
    jobs = [
        _Job(
            plan=plan,
            draws=draws,
            limits=limits,
            law=kernel_law,
            asked=asked,
            records=records,
            gaps=gaps,
        )
        for plan, draws in _jobs(tables, 4 * threads, limits, law)
    ]
    extras = _all_draws(jobs, threads)
    order = np.concatenate([[0], 1 + np.argsort(np.argsort(values, kind="stable"))])
    return EngineResult(
        stat=output.stat[..., order.astype(int)],
        quantiles=tuple(float(q) for q in values),
        metrics=METRICS,
        counters=output.counters(),
        ranges=output.ranges(),
        records=tuple(r for e in extras for r in e.records) if records else None,
        gaps=tuple(g for e in extras for g in e.gaps) if gaps else None,
        steps=tuple(s for e in extras for s in e.steps) if steps else None,
    )
