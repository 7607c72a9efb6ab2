"""Counters of a replica as it is scraped, and the window between two scrapes."""

import math
from dataclasses import dataclass, fields

from tailcast.queueing.windows import Window

# of the arrivals: a larger change of the requests in flight is no steady state
TRANSIENT_ABOVE = 0.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Counters:
    """Totals of one replica since it started, at one instant.

    Parameters
    ----------
    time : float
        Seconds on any clock.
    first_tokens, ttft_sum : float
        Requests that have their first token, and their times to it in seconds.
    prompt_tokens : float
        Prompt tokens of these requests.
    gaps, gap_sum : float
        Gaps between tokens, and their seconds.
    finished, output_tokens : float
        Requests that ended, and the tokens they were given.
    waiting : float
        Requests that wait at this instant.
    """

    time: float
    first_tokens: float
    ttft_sum: float
    prompt_tokens: float
    gaps: float
    gap_sum: float
    finished: float
    output_tokens: float
    waiting: float = 0.0

    def restarted_since(self, before: "Counters") -> bool:
        """Whether a counter fell, as it does when the server starts again.

        Parameters
        ----------
        before : Counters
            Of an earlier instant.

        Returns
        -------
        bool
            True where the two cannot be subtracted.
        """
        totals = [f.name for f in fields(self) if f.name not in ("time", "waiting")]
        return any(getattr(self, name) < getattr(before, name) for name in totals)


@dataclass(frozen=True, slots=True, kw_only=True)
class CountedWindow:
    """What lies between two scrapes.

    Parameters
    ----------
    window : Window or None
        None where it cannot be used.
    reason : str
        Why not; empty for a window that can.
    n_request : float
        Requests that got their first token in it.
    duration : float
        Seconds.
    """

    window: Window | None
    reason: str
    n_request: float
    duration: float


def window_between(
    before: Counters,
    after: Counters,
    *,
    label: str = "",
    tokens_out: float = math.nan,
    transient_above: float = TRANSIENT_ABOVE,
) -> CountedWindow:
    """Window between two scrapes of one replica.

    Arrivals are first tokens plus what the waiting queue grew by. Throughput is given only where
    requests waited at both ends, so that the replica was busy in between; else it is no news.

    Parameters
    ----------
    before, after : Counters
        Of the same run of the same replica.
    label : str
        For the window.
    tokens_out : float
        Mean output tokens where no request ended in between.
    transient_above : float
        Largest imbalance of arrivals and departures, of the arrivals and beyond its own noise.

    Returns
    -------
    CountedWindow
        The window, or why there is none.
    """
    span = after.time - before.time
    n = after.first_tokens - before.first_tokens

    def without(reason: str) -> CountedWindow:
        return CountedWindow(window=None, reason=reason, n_request=max(n, 0.0), duration=span)

    if span <= 0:
        return without("no time between the scrapes")
    if after.restarted_since(before):
        return without("the server started again")
    finished = after.finished - before.finished
    growth = after.waiting - before.waiting
    arrivals = n + growth
    if n < 1 or arrivals < 1:
        return without("no request")
    mean_out = (after.output_tokens - before.output_tokens) / finished if finished else tokens_out
    if not mean_out >= 1:
        return without("no request ended, and the output tokens are not known")
    busy = before.waiting > 0 and after.waiting > 0
    imbalance = abs(n - finished)
    # arrivals and departures are counts: two of their own deviations are no transient
    if not busy and imbalance > transient_above * n + 2.0 * math.sqrt(n):
        return without("transient: requests in flight changed much")
    gaps = after.gaps - before.gaps
    gap = (after.gap_sum - before.gap_sum) / gaps if gaps > 0 else math.nan
    ttft = (after.ttft_sum - before.ttft_sum) / n
    window = Window(
        tokens_in=max(0.0, (after.prompt_tokens - before.prompt_tokens) / n),
        tokens_out=mean_out,
        rate=arrivals / span,
        ttft=ttft if ttft > 0 else math.nan,
        itl=gap if gap > 0 else math.nan,
        throughput=n / span if busy else math.nan,
        n_request=n,
        label=label,
    )
    return CountedWindow(window=window, reason="", n_request=n, duration=span)
