"""What a run of the loop did to its users, by time and in all."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.autoscale.loop import LoggedDecision
from tailcast.autoscale.plant import Cluster
from tailcast.engine.result import Status
from tailcast.queueing.server import Floats
from tailcast.queueing.sizing import Targets

BIN = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """What happened by time; requests count where they arrived.

    Parameters
    ----------
    start : ndarray, shape (n_bin,)
        Seconds; a bin reaches to the next start.
    n_request : ndarray, shape (n_bin,)
        Arrivals.
    rate : ndarray, shape (n_bin,)
        Arrivals in requests/s.
    ready, wanted : ndarray, shape (n_bin,)
        Mean replicas that took requests, and that were wanted.
    ttft, itl : ndarray, shape (n_bin,)
        Means in seconds; NaN without a request.
    missed : ndarray, shape (n_bin,)
        Share of the requests whose own TTFT or mean gap lies above its target on the mean.
    starting : ndarray of bool, shape (n_bin,)
        Whether a pod was starting at any time in the bin.
    """

    start: Floats
    n_request: Floats
    rate: Floats
    ready: Floats
    wanted: Floats
    ttft: Floats
    itl: Floats
    missed: Floats
    starting: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A run in numbers.

    Parameters
    ----------
    timeline : Timeline
        By time.
    path : tuple of int
        Ready replicas, each change.
    path_times : tuple of float
        When each began, in seconds.
    above : float
        Share of the time in which the mean of a bin lay above a target.
    above_settled : float
        The same over the bins in which no pod was starting.
    n_request, n_answered, n_refused : int
        Requests that arrived, that were answered whole, that no replica could hold.
    ttft, itl : float
        Means over all requests, in seconds.
    ttft_p99 : float
        In seconds.
    replica_seconds : float
        From order to the end of a pod's last request, summed.
    n_drift : int
        Drifts that the controller believed in.
    decisions : sequence of LoggedDecision
        All.
    """

    timeline: Timeline
    path: tuple[int, ...]
    path_times: tuple[float, ...]
    above: float
    above_settled: float
    n_request: int
    n_answered: int
    n_refused: int
    ttft: float
    itl: float
    ttft_p99: float
    replica_seconds: float
    n_drift: int
    decisions: Sequence[LoggedDecision]

    @property
    def path_text(self) -> str:
        """Ready replicas, each change, for people."""
        return " -> ".join(str(n) for n in self.path)


def outcome(
    cluster: Cluster,
    decisions: Sequence[LoggedDecision],
    targets: Targets,
    duration: float,
    *,
    width: float = BIN,
) -> Outcome:
    """Sum up a run.

    Parameters
    ----------
    cluster : Cluster
        After `run_loop`.
    decisions : sequence of LoggedDecision
        From it.
    targets : Targets
        On means.
    duration : float
        Seconds of the load.
    width : float
        Seconds of a bin.

    Returns
    -------
    Outcome
        Every request is counted once.
    """
    ttft, gap, status = _by_request(cluster)
    start = np.arange(0.0, duration - 1e-9, width)
    timeline = _timeline(cluster, start, width, ttft, gap, targets)
    known = timeline.n_request > 0
    above = known & (_exceeds(timeline.ttft, targets.ttft) | _exceeds(timeline.itl, targets.itl))
    settled = known & ~timeline.starting
    path, times = _path(cluster, duration)
    spent = 0.0
    for pod in cluster.pods:
        end = max(min(pod.leaves, duration), cluster.run(pod).last_finish)
        spent += max(0.0, end - pod.ordered)
    return Outcome(
        timeline=timeline,
        path=path,
        path_times=times,
        above=_share(above, known),
        above_settled=_share(above, settled),
        n_request=len(cluster.requests),
        n_answered=int(np.sum(status == Status.COMPLETED)),
        n_refused=int(np.sum(status == Status.REJECTED)),
        ttft=_mean(ttft),
        itl=_mean(gap),
        ttft_p99=float(np.nanquantile(ttft, 0.99)) if np.isfinite(ttft).any() else math.nan,
        replica_seconds=spent,
        n_drift=sum(entry.decision.drift for entry in decisions),
        decisions=decisions,
    )


def _by_request(cluster: Cluster) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """TTFT and mean gap in seconds and status of every request."""
    requests, law = cluster.requests, cluster.law
    n = len(requests)
    ttft, gap, status = np.full(n, np.nan), np.full(n, np.nan), np.full(n, -1)
    for pod in cluster.pods:
        run = cluster.run(pod)
        records, rows = run.records, run.rows
        ttft[rows] = records.first_token + law.stream[0] - requests.arrival[rows]
        gaps = requests.output_tokens[rows] - 1
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = (records.finish - records.first_token) / gaps
        gap[rows] = np.where(gaps > 0, mean + law.stream[0], np.nan)
        status[rows] = records.status
    return ttft, gap, status


def _share(part: NDArray[np.bool_], whole: NDArray[np.bool_]) -> float:
    return int((part & whole).sum()) / max(int(whole.sum()), 1)


def _exceeds(values: Floats, target: float) -> NDArray[np.bool_]:
    return values > target if target else np.zeros(values.shape, dtype=np.bool_)


def _mean(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else math.nan


def _timeline(
    cluster: Cluster, start: Floats, width: float, ttft: Floats, gap: Floats, targets: Targets
) -> Timeline:
    bins = np.minimum((cluster.requests.arrival / width).astype(int), start.size - 1)
    count = np.bincount(bins, minlength=start.size).astype(np.float64)

    def mean(values: Floats) -> Floats:
        known = np.isfinite(values)
        total = np.bincount(bins[known], values[known], minlength=start.size)
        number = np.bincount(bins[known], minlength=start.size)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(total / number)

    missed = _exceeds(ttft, targets.ttft) | _exceeds(gap, targets.itl) | ~np.isfinite(ttft)
    end = start + width
    ready, wanted = np.zeros(start.size), np.zeros(start.size)
    starting = np.zeros(start.size, dtype=np.bool_)
    for pod in cluster.pods:
        ready += _overlap(start, end, pod.ready, pod.leaves) / width
        wanted += _overlap(start, end, pod.ordered, pod.leaves) / width
        starting |= _overlap(start, end, pod.ordered, min(pod.ready, pod.leaves)) > 0
    return Timeline(
        start=start,
        n_request=count,
        rate=count / width,
        ready=ready,
        wanted=wanted,
        ttft=mean(ttft),
        itl=mean(gap),
        missed=mean(missed.astype(np.float64)),
        starting=starting,
    )


def _overlap(start: Floats, end: Floats, low: float, high: float) -> Floats:
    return np.asarray(np.maximum(0.0, np.minimum(end, high) - np.maximum(start, low)))


def _path(cluster: Cluster, duration: float) -> tuple[tuple[int, ...], tuple[float, ...]]:
    times = sorted(
        {
            t
            for pod in cluster.pods
            if pod.ready < pod.leaves
            for t in (pod.ready, pod.leaves)
            if t < duration
        }
    )
    counts: list[int] = []
    changes: list[float] = []
    for time in times:
        count = len(cluster.ready(time))
        if not counts or counts[-1] != count:
            counts.append(count)
            changes.append(time)
    return tuple(counts), tuple(changes)
