"""A benchmark run of which only statistics are known, stage by stage."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.traces.observed import Observed
from tailcast.traces.trace_header import TraceServer


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """What is known of the lengths of prompts or answers, in tokens.

    Parameters
    ----------
    mean : float
        Over requests; NaN where unknown.
    sd : float
        Over requests; NaN where unknown.
    low, high : float
        Smallest and largest; NaN where unknown.
    quantiles : mapping of float to float
        Tokens by probability, between 0 and 1.
    values : ndarray of int, optional
        Every length, where they are known one by one.
    """

    mean: float = float("nan")
    sd: float = float("nan")
    low: float = float("nan")
    high: float = float("nan")
    quantiles: Mapping[float, float] = field(default_factory=dict)
    values: NDArray[np.int64] | None = None

    @property
    def known(self) -> bool:
        """Whether at least the mean is known."""
        return bool(np.isfinite(self.mean))


def lengths_of(values: NDArray[np.int64]) -> Lengths:
    """Lengths that are known one by one.

    Parameters
    ----------
    values : ndarray of int, shape (n,)
        Tokens.

    Returns
    -------
    Lengths
        Nothing known where `values` is empty.
    """
    if not len(values):
        return Lengths()
    return Lengths(
        mean=float(values.mean()),
        sd=float(values.std()),
        low=float(values.min()),
        high=float(values.max()),
        values=values,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantileBounds:
    """Bucket of a histogram that a quantile lies in; nothing finer is known.

    Parameters
    ----------
    metric, statistic : str
        As in `Observed`.
    low, high : float
        Edges of the bucket in seconds; inf for the last one.
    n : int
        Observations in the histogram.
    """

    metric: str
    statistic: str
    low: float
    high: float
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One load of a run.

    Parameters
    ----------
    name : str
        What the tool calls it; empty where it has no name.
    rate : float
        Requests/s offered; NaN for a closed loop.
    rate_is_offered : bool
        False where only the rate achieved is known, and stands in for the one offered.
    concurrency : int, optional
        Users of a closed loop.
    arrivals : mapping or str
        ``arrivals`` of an experiment file.
    duration : float
        Seconds; NaN where unknown.
    n_requests, n_failed : int
        Requests that succeeded, and that did not.
    input_tokens, output_tokens : Lengths
        Of the requests that succeeded.
    observed : tuple of Observed
        Statistics in this project's terms; their `stage` is 0.
    bounds : tuple of QuantileBounds
        Quantiles known by bucket only.
    """

    name: str = ""
    rate: float = float("nan")
    rate_is_offered: bool = True
    concurrency: int | None = None
    arrivals: Mapping[str, Any] | str = "conditioned-poisson"
    duration: float = float("nan")
    n_requests: int
    n_failed: int = 0
    input_tokens: Lengths = field(default_factory=Lengths)
    output_tokens: Lengths = field(default_factory=Lengths)
    observed: tuple[Observed, ...] = ()
    bounds: tuple[QuantileBounds, ...] = ()

    @property
    def metrics(self) -> tuple[str, ...]:
        """Metrics that something is known of, each once."""
        exact = [record.metric for record in self.observed]
        return tuple(dict.fromkeys([*exact, *(bound.metric for bound in self.bounds)]))

    def value(self, metric: str, statistic: str) -> float:
        """One observed statistic.

        Parameters
        ----------
        metric, statistic : str
            As in `Observed`.

        Returns
        -------
        float
            Seconds; NaN where it was not observed.
        """
        found = (o for o in self.observed if (o.metric, o.statistic) == (metric, statistic))
        record = next(found, None)
        return float("nan") if record is None else record.value


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """One run: stages on the same server.

    Parameters
    ----------
    id : str
        Name of the run.
    server : TraceServer
        What served, as far as the file says.
    stages : tuple of Stage
        In the order they were run.
    """

    id: str
    server: TraceServer
    stages: tuple[Stage, ...]
