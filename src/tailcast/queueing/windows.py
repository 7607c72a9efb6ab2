"""Measured windows: what arrived at a replica for a while, and the latencies it had."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tailcast.errors import UsageError
from tailcast.queueing.server import Floats, RequestShape


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One measurement window of one replica.

    Parameters
    ----------
    tokens_in, tokens_out : float
        Mean prompt and output tokens of its requests.
    rate : float
        Arrivals in requests/s.
    ttft, itl : float
        Mean time to first token and mean inter-token latency in seconds; NaN where unknown.
    throughput : float
        Completions in requests/s; NaN where unknown.
    n_request : float
        Requests behind the means; infinite means that sampling error is negligible.
    ttft_cv, itl_cv : float
        Standard deviation over mean, between requests.
    label : str
        Where the window comes from.
    """

    tokens_in: float
    tokens_out: float
    rate: float
    ttft: float = math.nan
    itl: float = math.nan
    throughput: float = math.nan
    n_request: float = math.inf
    ttft_cv: float = 0.24
    itl_cv: float = 0.035
    label: str = ""

    def __post_init__(self) -> None:
        for field in ("rate", "ttft", "itl", "throughput", "n_request"):
            value = getattr(self, field)
            if value <= 0 or (math.isinf(value) and field != "n_request"):
                raise UsageError(f"window {self.label}: {field} must be positive, got {value!r}")
        if math.isnan(self.rate):
            raise UsageError(f"window {self.label}: rate is missing")
        self.shape.check_served()

    @property
    def shape(self) -> RequestShape:
        """Mean size of the requests."""
        return RequestShape(tokens_in=self.tokens_in, tokens_out=self.tokens_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowColumns:
    """Many windows as columns, each of shape (n_window,) and in the unit of `Window`.

    Parameters
    ----------
    tokens_in, tokens_out, rate, ttft, itl, throughput : ndarray, shape (n_window,)
        See `Window`.
    ttft_error, itl_error : ndarray, shape (n_window,)
        Sampling error of the log means, cv / sqrt(n).
    """

    tokens_in: Floats
    tokens_out: Floats
    rate: Floats
    ttft: Floats
    itl: Floats
    throughput: Floats
    ttft_error: Floats
    itl_error: Floats

    @property
    def shape(self) -> RequestShape:
        """Mean sizes of the requests, by window."""
        return RequestShape(tokens_in=self.tokens_in, tokens_out=self.tokens_out)

    @property
    def n_window(self) -> int:
        """Number of windows."""
        return int(self.rate.size)


def window_columns(windows: Sequence[Window]) -> WindowColumns:
    """Turn windows into columns.

    Parameters
    ----------
    windows : sequence of Window
        At least one.

    Returns
    -------
    WindowColumns
        In the same order.

    Raises
    ------
    UsageError
        If there is no window.
    """
    if not windows:
        raise UsageError("no window is given")

    def column(values: Iterable[float]) -> Floats:
        return np.fromiter(values, np.float64, len(windows))

    n_request = column(w.n_request for w in windows)
    return WindowColumns(
        tokens_in=column(w.tokens_in for w in windows),
        tokens_out=column(w.tokens_out for w in windows),
        rate=column(w.rate for w in windows),
        ttft=column(w.ttft for w in windows),
        itl=column(w.itl for w in windows),
        throughput=column(w.throughput for w in windows),
        ttft_error=column(w.ttft_cv for w in windows) / np.sqrt(n_request),
        itl_error=column(w.itl_cv for w in windows) / np.sqrt(n_request),
    )
