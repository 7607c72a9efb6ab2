"""Latencies of the chain and their slopes in the logs of the three numbers, compiled.

The chunk count is averaged over the busy states instead of taken at the rounded mean
occupancy, so that the latencies are smooth; where it does not vary both are the same.
"""

from dataclasses import dataclass

import numpy as np

from tailcast.queueing.chunked_work import chunk_count, shape_columns
from tailcast.queueing.server import Floats, RequestShape, ServerLimits, ThreeNumbers
from tailcast.queueing.windows import WindowColumns


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLatencies:
    """What the chain gives for draws of the three numbers in windows.

    Parameters
    ----------
    ttft, itl, throughput, in_service : ndarray, shape (n_draw, n_window)
        Logs of seconds, seconds, requests/s and requests.
    wait_share : ndarray, shape (n_draw, n_window)
        Part of TTFT spent waiting, within 0 and 1.
    slopes : ndarray, shape (n_draw, n_window, 4, 4)
        Derivatives of these four logs (in that order) in the logs of alpha, beta, gamma and the
        rate.
    """

    ttft: Floats
    itl: Floats
    throughput: Floats
    in_service: Floats
    wait_share: Floats
    slopes: Floats


def chunk_table(shape: RequestShape, limits: ServerLimits) -> Floats:
    """Prefill steps by window and by requests in the batch.

    Parameters
    ----------
    shape : RequestShape
        Fields of shape (n_window,).
    limits : ServerLimits
        Batch cap B and token budget.

    Returns
    -------
    ndarray, shape (n_window, B)
        Chunks with 1..B requests in the batch.
    """
    states = np.arange(1, limits.max_batch + 1, dtype=np.float64)
    counts = chunk_count(states, shape_columns(shape), limits.max_batched_tokens)
    return np.ascontiguousarray(counts)


def log_latencies(
    log_numbers: Floats,
    columns: WindowColumns,
    limits: ServerLimits,
    *,
    rate: Floats | None = None,
    chunks: Floats | None = None,
) -> LogLatencies:
    """Logs of TTFT, ITL, throughput and occupancy, and their slopes, under work model V2.

    Parameters
    ----------
    log_numbers : ndarray, shape (n_draw, 3)
        Logs of alpha, beta and gamma in seconds.
    columns : WindowColumns
        Request shapes and rates.
    limits : ServerLimits
        Of the replica.
    rate : ndarray, shape (n_draw, n_window), optional
        Requests/s, where they are not those of the windows.
    chunks : ndarray, shape (n_window, B), optional
        From `chunk_table`, where it is used again.

    Returns
    -------
    LogLatencies
        One row a draw.
    """
    # numba is slow to import, and the compiled loops are needed only here
    from tailcast.queueing.sensitivity_kernel import fill_latencies

    table = chunk_table(columns.shape, limits) if chunks is None else chunks
    draws = np.ascontiguousarray(np.atleast_2d(log_numbers), dtype=np.float64)
    size = (draws.shape[0], columns.n_window)
    rates = np.ascontiguousarray(np.broadcast_to(columns.rate if rate is None else rate, size))
    values, slopes = np.empty((*size, 5)), np.empty((*size, 4, 4))
    fill_latencies(
        draws,
        columns.tokens_in,
        columns.tokens_out,
        rates,
        table,
        limits.max_queue,
        values,
        slopes,
    )
    return LogLatencies(
        ttft=values[..., 0],
        itl=values[..., 1],
        throughput=values[..., 2],
        in_service=values[..., 3],
        wait_share=values[..., 4],
        slopes=slopes,
    )


def log_of_numbers(numbers: ThreeNumbers) -> Floats:
    """Three numbers as a vector of logs.

    Parameters
    ----------
    numbers : ThreeNumbers
        Scalars greater than zero.

    Returns
    -------
    ndarray, shape (3,)
        Logs of seconds.
    """
    return np.log(np.array([numbers.alpha, numbers.beta, numbers.gamma], dtype=np.float64))


def numbers_of_log(log_numbers: Floats) -> ThreeNumbers:
    """Three numbers from the last axis of their logs.

    Parameters
    ----------
    log_numbers : ndarray, shape (..., 3)
        Logs of seconds.

    Returns
    -------
    ThreeNumbers
        Scalars, or arrays of shape (...).
    """
    values = np.exp(np.asarray(log_numbers, np.float64))
    if values.ndim == 1:
        alpha, beta, gamma = (float(value) for value in values)
        return ThreeNumbers(alpha=alpha, beta=beta, gamma=gamma)
    return ThreeNumbers(alpha=values[..., 0], beta=values[..., 1], gamma=values[..., 2])
