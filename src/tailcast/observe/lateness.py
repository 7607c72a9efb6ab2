"""Whether the client kept up: a late client flatters the server it measures."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tailcast.observe.record import RequestRecord
from tailcast.units import format_duration

# A client is the bottleneck where it was late by more than this and by a fifth of what it measures.
_TOLERATED = 5e-3
_SHARE = 0.2
_BUSY_CPU = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLateness:
    """How late the client was.

    Parameters
    ----------
    send_p50, send_p99, send_max : float
        Sending minus due, in seconds; opening a connection does not count.
    read_p50, read_p99, read_max : float
        Delay of the event loop in seconds: how late the client may have noticed a token.
    cpu_share : float
        CPU seconds of the client per second of the run; 1 is all that one Python process has.
    out_of_files : int
        Requests that failed because the client may not open more connections.
    reasons : tuple of str
        Why the client was the bottleneck; empty where it was not.
    """

    send_p50: float
    send_p99: float
    send_max: float
    read_p50: float
    read_p99: float
    read_max: float
    cpu_share: float
    out_of_files: int = 0
    reasons: tuple[str, ...] = ()

    @property
    def bottleneck(self) -> bool:
        """Whether the figures of this run are the client's rather than the server's."""
        return bool(self.reasons)


def client_lateness(
    records: Sequence[RequestRecord],
    loop_lags: Sequence[float],
    *,
    cpu_share: float = 0.0,
    out_of_files: int = 0,
) -> ClientLateness:
    """Judge the client of one run.

    Parameters
    ----------
    records : sequence of RequestRecord
        Requests of the run.
    loop_lags : sequence of float
        Delays of the event loop in seconds, one a look.
    cpu_share : float
        CPU seconds of the client per second of the run.
    out_of_files : int
        Requests that failed for want of file descriptors.

    Returns
    -------
    ClientLateness
        Quantiles are NaN where nothing was sent.
    """
    late = np.array([r.lateness for r in records if np.isfinite(r.lateness)])
    lags = np.asarray(loop_lags, dtype=np.float64)
    ttft = np.array([r.ttft for r in records if np.isfinite(r.ttft)])
    gaps = [np.diff(np.array(r.token_times)) for r in records if len(r.token_times) > 1]
    gap = float(np.median(np.concatenate(gaps))) if gaps else np.nan
    send, read = _quantiles(late), _quantiles(lags)
    reasons = []
    first = float(np.median(ttft)) if len(ttft) else np.nan
    if send[1] > max(_TOLERATED, _SHARE * np.nan_to_num(first)):
        reasons.append(
            f"1 % of the requests were sent over {format_duration(send[1])} late "
            f"(median TTFT {format_duration(first)})"
        )
    if read[1] > max(_TOLERATED, _SHARE * np.nan_to_num(gap)):
        reasons.append(
            f"tokens may have been noticed {format_duration(read[1])} late "
            f"(median gap between events {format_duration(gap)})"
        )
    if cpu_share > _BUSY_CPU:
        reasons.append(f"the client used {cpu_share:.0%} of the one core it can use")
    if out_of_files:
        reasons.append(f"{out_of_files} requests found no free file descriptor (ulimit -n)")
    return ClientLateness(
        send_p50=send[0],
        send_p99=send[1],
        send_max=send[2],
        read_p50=read[0],
        read_p99=read[1],
        read_max=read[2],
        cpu_share=cpu_share,
        out_of_files=out_of_files,
        reasons=tuple(reasons),
    )


def _quantiles(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> tuple[float, float, float]:
    if not len(values):
        return (np.nan, np.nan, np.nan)
    return (float(np.median(values)), float(np.quantile(values, 0.99)), float(values.max()))
