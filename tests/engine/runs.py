"""What both engines report, in one form, so that every law is asked of both."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.reference import reference_run
from engine.reference_summary import QUANTILES, counters, ranges, statistics
from tailcast.engine.limits import Limits
from tailcast.engine.result import Status
from tailcast.engine.run import simulate
from tailcast.request import RequestTable
from tailcast.step_law import StepLaw

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of one draw; arrays have a row a request, times are seconds, NaN for never."""

    status: list[str]
    arrival: Floats
    scheduled: Floats
    first_token: Floats
    finish: Floats
    cached_tokens: NDArray[np.int64]
    preemptions: NDArray[np.int64]
    stat: Floats
    counters: dict[str, float]
    completed_by_group: list[int]
    ranges: Floats
    steps: Floats
    """Start, duration, prefill tokens, pairs and chunks, decodes, context; shape (n_step, 7)."""


RunEngine = Callable[[RequestTable, Limits, StepLaw], Run]


def run_reference(requests: RequestTable, limits: Limits, law: StepLaw) -> Run:
    """Run the plain engine."""
    engine = reference_run(requests, limits, law)
    jobs = engine.jobs
    return Run(
        status=[job.status for job in jobs],
        arrival=np.array([job.arrival for job in jobs]),
        scheduled=np.array([job.scheduled for job in jobs]),
        first_token=np.array([(job.token_times or [np.nan])[0] for job in jobs]),
        finish=np.array(
            [job.token_times[-1] if job.status == "finished" else np.nan for job in jobs]
        ),
        cached_tokens=np.array([job.cached_tokens for job in jobs]),
        preemptions=np.array([job.preemptions for job in jobs]),
        stat=statistics(engine, QUANTILES),
        counters=counters(engine),
        completed_by_group=[
            sum(
                job.status == "finished" and requests.group[job.row] == group for job in engine.jobs
            )
            for group in range(requests.n_group)
        ],
        ranges=ranges(engine),
        steps=np.array(
            [(step.start, step.end - step.start, *step.work) for step in engine.steps]
        ).reshape(-1, 7),
    )


def run_compiled(requests: RequestTable, limits: Limits, law: StepLaw) -> Run:
    """Run the compiled engine."""
    result = simulate(requests, limits, law, quantiles=QUANTILES, records=True, steps=True)
    assert result.records is not None
    assert result.steps is not None
    records, steps = result.records[0], result.steps[0]
    names = {Status.COMPLETED: "finished"}
    columns = (
        steps.start,
        steps.duration,
        steps.prefill_tokens,
        steps.prefill_pairs,
        steps.prefill_requests,
        steps.decodes,
        steps.context,
    )
    return Run(
        status=[names.get(Status(s), Status(s).name.lower()) for s in records.status],
        arrival=records.arrival,
        scheduled=records.scheduled,
        first_token=records.first_token,
        finish=records.finish,
        cached_tokens=records.cached_tokens,
        preemptions=records.preemptions,
        stat=result.stat[0],
        counters={
            name: values[0].item()
            for name, values in result.counters.items()
            if name != "completed_by_group"
        },
        completed_by_group=result.counters["completed_by_group"][0].tolist(),
        ranges=result.ranges[0],
        steps=np.stack([np.asarray(c, dtype=np.float64) for c in columns], axis=1),
    )


ENGINES: dict[str, RunEngine] = {"reference": run_reference, "compiled": run_compiled}
