"""Windows of the three-number model from recorded runs."""

import math

import numpy as np

from tailcast.errors import InputError
from tailcast.queueing.windows import Window
from tailcast.traces.experiment import Experiment, experiment_requests
from tailcast.traces.trace_latencies import trace_latencies
from tailcast.traces.tracev2 import Trace

LEAST_REQUESTS = 10


def trace_windows(trace: Trace, width: float, *, least: int = LEAST_REQUESTS) -> list[Window]:
    """Windows of a trace by the time of sending.

    The time in which the first requests fill the batch is left out: as long as a request takes at
    the median. Failed requests arrive, but have no latencies.

    Parameters
    ----------
    trace : Trace
        Of one replica.
    width : float
        Seconds of a window.
    least : int
        Requests with latencies that a window needs; with fewer it is left out.

    Returns
    -------
    list of Window
        In order of time; the label is ``<start> s``.

    Raises
    ------
    InputError
        If no window has enough requests.
    """
    if not width > 0:
        raise InputError(f"trace windows: the width must be positive, got {width!r}")
    seen, injection = trace_latencies(trace), trace.injection
    gaps = np.maximum(trace["output_tokens"] - 1, 0)
    if not seen.counted.any():
        raise InputError("no request of the trace succeeded, so it has no windows")
    start = float(np.nanmin(injection)) + float(np.nanmedian(seen.e2e))
    windows = []
    while start + width <= float(np.nanmax(injection)) + 1e-9:
        arrived = (injection >= start) & (injection < start + width)
        mine = arrived & seen.counted
        n = int(mine.sum())
        if n >= least:
            ttft, span = seen.ttft[mine], (seen.e2e - seen.ttft)[mine]
            n_gap = float(gaps[mine].sum())
            windows.append(
                Window(
                    tokens_in=float(trace["input_tokens"][mine].mean()),
                    tokens_out=float(max(1.0, trace["output_tokens"][mine].mean())),
                    rate=float(arrived.sum()) / width,
                    ttft=float(ttft.mean()),
                    itl=float(span.sum()) / n_gap if n_gap and span.sum() > 0 else math.nan,
                    n_request=n,
                    ttft_cv=float(np.clip(ttft.std() / ttft.mean(), 0.05, 2.0)),
                    label=f"{start:.0f} s",
                )
            )
        start += width
    if not windows:
        raise InputError(
            f"the trace has no window of {width:g} s with {least} requests after its start"
        )
    return windows


def experiment_windows(experiment: Experiment, *, seed: int = 0) -> list[Window]:
    """Windows of a summarised run, one a stage.

    Prompts count whole, cached parts too; TPOT stands for ITL, which summaries seldom have.

    Parameters
    ----------
    experiment : Experiment
        With observed means.
    seed : int
        Of the realisation that rate and token means are taken from.

    Returns
    -------
    list of Window
        In order of the stages; the label is ``<id> stage <k>``.

    Raises
    ------
    InputError
        If no stage has a mean TTFT or TPOT.
    """
    requests = experiment_requests(experiment, seed)
    windows = []
    for stage in range(requests.n_group):
        means = {
            record.metric: record.value
            for record in experiment.observed
            if record.stage == stage and record.statistic == "mean"
        }
        mine = requests.group == stage
        itl = means.get("itl", means.get("tpot", math.nan))
        ttft = means.get("ttft", math.nan)
        arrival = requests.arrival[mine]
        span = float(arrival[-1] - arrival[0]) if mine.sum() > 1 else 0.0
        if span <= 0 or (math.isnan(ttft) and math.isnan(itl)):
            continue
        windows.append(
            Window(
                tokens_in=float(requests.input_tokens[mine].mean()),
                tokens_out=float(requests.output_tokens[mine].mean()),
                rate=(int(mine.sum()) - 1) / span,
                ttft=ttft,
                itl=itl,
                n_request=int(mine.sum()),
                label=f"{experiment.id} stage {stage}",
            )
        )
    if not windows:
        raise InputError(f"{experiment.path}: no stage has a mean of ttft or tpot")
    return windows
