"""What both engines report, in one form, so that every law is asked of both."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from engine.reference import reference_run
from engine.reference_summary import QUANTILES, counters, ranges, statistics
from tailcast.engine.limits import Limits
from tailcast.request import RequestTable
from tailcast.step_law import StepLaw

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run of one draw; arrays have a row a request, times are seconds, NaN for never."""

    status: list[str]
    scheduled: Floats
    first_token: Floats
    finish: Floats
    cached_tokens: NDArray[np.int64]
    preemptions: NDArray[np.int64]
    stat: Floats
    counters: dict[str, float]
    ranges: Floats


RunEngine = Callable[[RequestTable, Limits, StepLaw], Run]


def run_reference(requests: RequestTable, limits: Limits, law: StepLaw) -> Run:
    """Run the plain engine."""
    engine = reference_run(requests, limits, law)
    jobs = engine.jobs
    return Run(
        status=[job.status for job in jobs],
        scheduled=np.array([job.scheduled for job in jobs]),
        first_token=np.array([(job.token_times or [np.nan])[0] for job in jobs]),
        finish=np.array(
            [job.token_times[-1] if job.status == "finished" else np.nan for job in jobs]
        ),
        cached_tokens=np.array([max(0, job.cached_tokens) for job in jobs]),
        preemptions=np.array([job.preemptions for job in jobs]),
        stat=statistics(engine, QUANTILES),
        counters=counters(engine),
        ranges=ranges(engine),
    )


ENGINES: dict[str, RunEngine] = {"reference": run_reference}
