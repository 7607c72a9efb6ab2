"""A recorded run in a page: how much, how fast, how well measured."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.traces.token_times import TokenTimes, token_gaps
from tailcast.traces.trace_latencies import trace_latencies
from tailcast.traces.tracev2 import Trace

QUANTILES: Mapping[str, float] = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Statistics of one quantity over requests (or gaps) of one group.

    Parameters
    ----------
    group : int
        Load stage or request class; -1 for all.
    quantity : str
        ``ttft tpot itl e2e lateness`` in seconds, ``input_tokens output_tokens`` in tokens.
    n : int
        Requests, or gaps for ``itl``.
    mean, p50, p90, p95, p99, max : float
        NaN where there is nothing.
    """

    group: int
    quantity: str
    n: int
    mean: float
    p50: float
    p90: float
    p95: float
    p99: float
    max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSummary:
    """What a trace holds.

    Parameters
    ----------
    n_by_status : mapping of str to int
        Requests by status.
    n_counted : int
        Requests that latencies are of: succeeded, not warm-up.
    duration : float
        Seconds from the first arrival to the last token.
    request_rate : float
        Arrivals per second, between the first and the last one; NaN for fewer than two.
    input_rate, output_rate : float
        Prompt tokens and generated tokens per second of `duration`.
    concurrency : float
        Mean number of requests in flight.
    cached_share : float
        Share of the prompt tokens that the server had cached; NaN where it did not report it.
    n_merged : int
        Token events that were read together with the one before (no gap between them).
    spreads : tuple of Spread
        By group and quantity.
    server, client, counters : mapping
        From the header, as far as it has them.
    complete : bool
        Whether the run went to its end.
    """

    n_by_status: Mapping[str, int]
    n_counted: int
    duration: float
    request_rate: float
    input_rate: float
    output_rate: float
    concurrency: float
    cached_share: float
    n_merged: int
    spreads: tuple[Spread, ...]
    server: Mapping[str, Any]
    client: Mapping[str, Any]
    counters: Mapping[str, Any]
    complete: bool

    @property
    def n_request(self) -> int:
        """Requests in the trace."""
        return sum(self.n_by_status.values())

    def as_json(self) -> dict[str, Any]:
        """Summary as a mapping for JSON, with its schema's name; seconds and tokens.

        Returns
        -------
        dict
            Ready for `json.dumps` but for NaN.
        """
        content = asdict(self)
        return {"schema": "tailcast/trace/1", "n_request": self.n_request, **content}


def trace_summary(trace: Trace, times: TokenTimes | None = None) -> TraceSummary:
    """Summarise a trace.

    TTFT and E2E count from sending, as the trace has it; ITL needs the token times.

    Parameters
    ----------
    trace : Trace
        Recorded run.
    times : TokenTimes, optional
        Its token times.

    Returns
    -------
    TraceSummary
        Failed requests are counted and enter no latency.
    """
    arrival, last = trace["arrival_time"], trace["last_chunk_time"]
    end = float(np.nanmax(np.append(last, arrival)))
    duration = end - float(arrival.min())
    span = float(arrival.max() - arrival.min())
    words, counts = np.unique(trace["status"], return_counts=True)
    latencies = trace_latencies(trace)
    flight = np.where(np.isfinite(last), last - trace.injection, 0.0)
    prompts = _prompt_tokens(trace)
    other = trace.header.other
    client, counters = _mapping(other.get("client")), _mapping(other.get("counters"))
    return TraceSummary(
        n_by_status=dict(zip(words.tolist(), counts.tolist(), strict=True)),
        n_counted=int(latencies.counted.sum()),
        duration=duration,
        request_rate=(len(trace) - 1) / span if span > 0 else np.nan,
        input_rate=_rate(prompts[np.isfinite(last)], duration),
        output_rate=_rate(trace["output_tokens"], duration),
        concurrency=float(flight.sum() / duration) if duration > 0 else np.nan,
        cached_share=_cached_share(trace, prompts, client),
        n_merged=0 if times is None else _merged(times),
        spreads=_spreads(trace, prompts, times),
        server=_server(trace),
        client=client,
        counters=counters,
        complete=bool(other.get("complete", True)),
    )


def _spreads(
    trace: Trace, prompts: NDArray[np.int64], times: TokenTimes | None
) -> tuple[Spread, ...]:
    latencies = trace_latencies(trace)
    # Of a workload that nobody has served yet the lengths are all there is.
    served = latencies.counted
    known = served if served.any() else trace["output_tokens"] >= 1
    columns = {
        "ttft": latencies.ttft,
        "tpot": latencies.tpot,
        "e2e": latencies.e2e,
        "lateness": np.where(np.isnan(trace["send_time"]), np.nan, latencies.lateness),
        "input_tokens": np.where(known, prompts, np.nan),
        "output_tokens": np.where(known, trace["output_tokens"], np.nan),
    }
    groups = trace.columns.get("group", np.zeros(len(trace), dtype=np.int64))
    names = sorted(set(groups.tolist()))
    row, gap = token_gaps(times) if times is not None else (np.empty(0, np.int64), np.empty(0))
    keep = latencies.counted[row]
    row, gap = row[keep], gap[keep]
    spreads = []
    for group in [-1, *names] if len(names) > 1 else [-1]:
        mine = np.ones(len(trace), dtype=np.bool_) if group < 0 else groups == group
        for quantity, column in columns.items():
            spreads.append(_spread(group, quantity, column[mine]))
            if quantity == "tpot" and times is not None:
                spreads.append(_spread(group, "itl", gap[mine[row]]))
    return tuple(spreads)


def _spread(group: int, quantity: str, column: NDArray[np.float64]) -> Spread:
    values = column[np.isfinite(column)]
    if not len(values):
        nothing = dict.fromkeys(("mean", *QUANTILES, "max"), np.nan)
        return Spread(group=group, quantity=quantity, n=0, **nothing)
    quantiles = np.quantile(values, list(QUANTILES.values())).tolist()
    return Spread(
        group=group,
        quantity=quantity,
        n=len(values),
        mean=float(values.mean()),
        max=float(values.max()),
        **dict(zip(QUANTILES, quantiles, strict=True)),
    )


def _prompt_tokens(trace: Trace) -> NDArray[np.int64]:
    planned = trace["input_tokens"] + trace["prefix_length"]
    counted = trace["server_input_tokens"]
    tokens: NDArray[np.int64] = np.where(counted > 0, counted, planned)
    return tokens


def _cached_share(trace: Trace, prompts: NDArray[np.int64], client: Mapping[str, Any]) -> float:
    cached = trace.columns.get("cached_tokens")
    if cached is None and client.get("cached_tokens_reported"):
        return 0.0
    done = trace["status"] == "ok"
    total = prompts[done].sum()
    return float(cached[done].sum() / total) if cached is not None and total > 0 else np.nan


def _merged(times: TokenTimes) -> int:
    return int(((np.diff(times.time) == 0) & (np.diff(times.row) == 0)).sum())


def _server(trace: Trace) -> dict[str, Any]:
    server = asdict(trace.header.server)
    other = server.pop("other")
    return {key: value for key, value in {**server, **other}.items() if value is not None}


def _rate(tokens: NDArray[np.int64], duration: float) -> float:
    return float(tokens.sum() / duration) if duration > 0 else np.nan


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
