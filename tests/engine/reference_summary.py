"""Statistics of a plain run, from plain lists of token times."""

from collections import Counter
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from engine.reference import Engine, Job

METRICS = ("ttft", "itl", "tpot", "e2e", "queue_delay")
QUANTILES = (0.5, 0.9, 0.95, 0.99)


def request_metrics(engine: Engine, job: Job) -> dict[str, list[float]]:
    """Values that one finished request adds to each metric, seconds."""
    stream, times = engine.seconds("stream"), job.token_times
    ttft = times[0] - job.arrival + stream
    e2e = times[-1] - job.arrival + stream * len(times) + engine.seconds("finish")
    gaps = [later - sooner + stream for sooner, later in pairwise(times)]
    return {
        "ttft": [ttft],
        "itl": gaps,
        "tpot": [(e2e - ttft) / len(gaps)] if gaps else [],
        "e2e": [e2e],
        "queue_delay": [job.scheduled - job.arrival],
    }


def statistics(
    engine: Engine, quantiles: tuple[float, ...] = QUANTILES, warmup: int = 0
) -> NDArray[np.float64]:
    """Mean and quantiles by group and metric; the last group holds all requests.

    Returns
    -------
    ndarray, shape (n_group + 1, n_metric, 1 + n_quantile)
        Seconds, NaN where no request finished.
    """
    n_group = engine.requests.n_group
    out = np.full((n_group + 1, len(METRICS), 1 + len(quantiles)), np.nan)
    finished = [job for job in engine.jobs[warmup:] if job.status == "finished"]
    metrics = [(int(engine.requests.group[j.row]), request_metrics(engine, j)) for j in finished]
    for group in range(n_group + 1):
        for column, metric in enumerate(METRICS):
            values = [
                value
                for owner, values_by_metric in metrics
                if group in (owner, n_group)
                for value in values_by_metric[metric]
            ]
            if values:
                out[group, column] = [np.mean(values), *np.quantile(values, quantiles)]
    return out


def counters(engine: Engine) -> dict[str, float]:
    """Counts and totals of a run."""
    status = Counter(job.status for job in engine.jobs)
    work = [step.work for step in engine.steps]
    return {
        "n": len(engine.jobs),
        "completed": status["finished"],
        "rejected": status["rejected"],
        "unsent": status["unsent"],
        "timed_out": status["timed_out"],
        "unfinished": status["unfinished"],
        "preemptions": engine.preemptions,
        "steps": len(engine.steps),
        "prefill_tokens": sum(w[0] for w in work),
        "cached_tokens": engine.cached_tokens,
        "busy_time": sum(step.end - step.start for step in engine.steps),
        "end_time": engine.steps[-1].end if engine.steps else 0.0,
        "max_batch": max((w[2] + w[3] for w in work), default=0),
        "peak_kv_blocks": max((step.used_blocks for step in engine.steps), default=0),
    }


def ranges(engine: Engine) -> NDArray[np.float64]:
    """Least and most over the steps of prefill tokens, pairs, decodes, context and new tokens.

    Returns
    -------
    ndarray, shape (5, 2)
        NaN where there was no step.
    """
    rows = [
        (tokens, pairs, decodes, context, tokens + decodes)
        for tokens, pairs, _, decodes, context in (step.work for step in engine.steps)
    ]
    if not rows:
        return np.full((5, 2), np.nan)
    array = np.array(rows, dtype=np.float64)
    return np.stack([array.min(axis=0), array.max(axis=0)], axis=1)
