"""What a per-request trace says about latency."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import InputError
from tailcast.traces.observed import Observed, statistic_name, statistic_quantile
from tailcast.traces.tracev2 import Trace

STATISTICS = ("mean", "p50", "p90", "p95", "p99")


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceLatencies:
    """Latencies of a trace's requests, client side; every array has shape (n_row,).

    Parameters
    ----------
    ttft : ndarray
        First chunk minus sending, in seconds.
    e2e : ndarray
        Last chunk minus sending, in seconds.
    tpot : ndarray
        (e2e - ttft)/(output - 1) in seconds; NaN for a single token.
    lateness : ndarray
        Sending minus intended arrival, in seconds; counts from the earliest of each where the file
        has two clocks.
    counted : ndarray of bool
        Rows that succeeded and are no warm-up; all latencies of the others are NaN.
    """

    ttft: NDArray[np.float64]
    e2e: NDArray[np.float64]
    tpot: NDArray[np.float64]
    lateness: NDArray[np.float64]
    counted: NDArray[np.bool_]


def trace_latencies(trace: Trace) -> TraceLatencies:
    """Latencies of the requests that succeeded.

    Parameters
    ----------
    trace : Trace
        Recorded run.

    Returns
    -------
    TraceLatencies
        Rows as in the trace. ``(~counted).sum()`` rows are left out: failed ones, those without
        times, and the header's leading warm-up requests.
    """
    injection = trace.injection
    ttft = trace["first_chunk_time"] - injection
    e2e = trace["last_chunk_time"] - injection
    warm = np.arange(len(trace)) < trace.header.warm_up_requests
    counted = (trace["status"] == "ok") & np.isfinite(ttft) & np.isfinite(e2e) & ~warm
    ttft, e2e = np.where(counted, ttft, np.nan), np.where(counted, e2e, np.nan)
    gaps = trace["output_tokens"] - 1
    tpot = np.where(gaps > 0, (e2e - ttft) / np.maximum(gaps, 1), np.nan)
    return TraceLatencies(
        ttft=ttft,
        e2e=e2e,
        tpot=tpot,
        lateness=injection - trace["arrival_time"],
        counted=counted,
    )


def trace_observed(
    trace: Trace,
    *,
    groups: NDArray[np.int64] | None = None,
    statistics: Sequence[str] = STATISTICS,
) -> tuple[Observed, ...]:
    """Statistics of a trace, in the form that experiments have.

    Parameters
    ----------
    trace : Trace
        Recorded run.
    groups : ndarray of int, shape (n_row,), optional
        Stage or class of each row; the trace's own column ``group`` or one group where absent.
    statistics : sequence of str
        ``mean``, ``min``, ``max`` and percentiles, interpolated linearly.

    Returns
    -------
    tuple of Observed
        ttft, e2e and tpot by group, where at least one request counts.

    Raises
    ------
    InputError
        If no request of the trace counts, or a statistic is unknown.
    """
    names = [statistic_name(name) for name in statistics]
    latencies = trace_latencies(trace)
    if not latencies.counted.any():
        raise InputError("no request of the trace succeeded, so it has no latencies")
    if groups is None:
        groups = trace.columns.get("group", np.zeros(len(trace), dtype=np.int64))
    records = []
    for group in np.unique(groups[latencies.counted]).tolist():
        mine = latencies.counted & (groups == group)
        for metric in ("ttft", "e2e", "tpot"):
            values = getattr(latencies, metric)[mine]
            values = values[np.isfinite(values)]
            for name in names if len(values) else ():
                q = statistic_quantile(name)
                records.append(
                    Observed(
                        stage=group,
                        metric=metric,
                        statistic=name,
                        value=float(values.mean() if q is None else np.quantile(values, q)),
                        n_requests=int(mine.sum()),
                    )
                )
    return tuple(records)
