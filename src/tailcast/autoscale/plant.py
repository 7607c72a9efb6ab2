"""A cluster of engine replicas whose ready set changes while requests arrive.

The engine is causal: what a replica does before an instant does not depend on what arrives after
it. So all arrivals are given to the pods that are ready as far as is known now; when that changes
at an instant, the later arrivals are given out anew and the pods concerned are simulated again,
which leaves everything before the instant as it was.
"""

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tailcast.engine.limits import Limits
from tailcast.engine.result import RequestRecords, Status, StepLog
from tailcast.engine.run import simulate
from tailcast.errors import UsageError
from tailcast.queueing.counters import Counters
from tailcast.queueing.server import Floats
from tailcast.request import RequestTable
from tailcast.step_law import StepLaw

Routing = Literal["round-robin", "random"]
ROUTINGS: tuple[Routing, ...] = ("round-robin", "random")


@dataclass(slots=True, kw_only=True)
class Pod:
    """One replica's life.

    Parameters
    ----------
    number : int
        From zero, in the order of creation.
    ordered : float
        When it was asked for, in seconds.
    ready : float
        From when it takes requests.
    leaves : float
        From when it takes no more; infinite while it is wanted.
    """

    number: int
    ordered: float
    ready: float
    leaves: float = math.inf

    def takes(self, time: float) -> bool:
        """Whether a request that arrives now may be sent to it.

        Parameters
        ----------
        time : float
            Seconds.

        Returns
        -------
        bool
            True between ready and leaving.
        """
        return self.ready <= time < self.leaves


class Cluster:
    """Pods of one kind behind a gateway that spreads requests evenly over the ready ones.

    Parameters
    ----------
    requests : RequestTable
        All that will arrive; open loop.
    limits : Limits
        Of each replica.
    law : StepLaw
        One draw.
    routing : {"round-robin", "random"}
        How the gateway spreads.
    draws : ndarray, shape (n_request,), optional
        Uniform numbers for random routing, one a request.

    Raises
    ------
    UsageError
        If the requests are a closed loop or the routing is unknown.
    """

    def __init__(
        self,
        requests: RequestTable,
        limits: Limits,
        law: StepLaw,
        *,
        routing: str = "round-robin",
        draws: Floats | None = None,
    ) -> None:
        if np.any(requests.parent >= 0):
            raise UsageError("autoscale: requests must be an open loop")
        if routing not in ROUTINGS or (routing == "random" and draws is None):
            raise UsageError(f"no routing {routing!r}; known: {', '.join(ROUTINGS)}")
        self.requests, self.limits, self.law = requests, limits, law
        self.pods: list[Pod] = []
        self.pod_of = np.full(len(requests), -1, dtype=np.int64)
        self._draws = draws if routing == "random" else None
        self._runs: dict[int, PodRun] = {}

    def add(self, time: float, ready: float) -> Pod:
        """Order a pod.

        Parameters
        ----------
        time : float
            Now, in seconds.
        ready : float
            From when it takes requests.

        Returns
        -------
        Pod
            The new one.
        """
        pod = Pod(number=len(self.pods), ordered=time, ready=ready)
        self.pods.append(pod)
        self._spread(ready)
        return pod

    def remove(self, pod: Pod, time: float) -> None:
        """Let a pod take no more requests; it finishes those it has.

        Parameters
        ----------
        pod : Pod
            Of this cluster.
        time : float
            From when.
        """
        pod.leaves = time
        self._spread(time)

    def ready(self, time: float) -> list[Pod]:
        """Pods that take requests at an instant.

        Parameters
        ----------
        time : float
            Seconds.

        Returns
        -------
        list of Pod
            In the order of creation.
        """
        return [pod for pod in self.pods if pod.takes(time)]

    def _spread(self, start: float) -> None:
        """Give out anew what arrives from an instant on."""
        arrival = self.requests.arrival
        changes = {t for pod in self.pods for t in (pod.ready, pod.leaves) if start < t < math.inf}
        edges = [start, *sorted(changes), math.inf]
        for low, high in pairwise(edges):
            first, last = np.searchsorted(arrival, [low, high])
            ready = np.array([pod.number for pod in self.ready(low)], dtype=np.int64)
            rows = np.arange(first, last)
            if not ready.size:
                if rows.size:
                    raise UsageError(f"autoscale: no replica is ready at {low:g} s")
                continue
            # by the request's own number, so that the past of the cluster does not matter
            turn = rows if self._draws is None else (self._draws[rows] * ready.size).astype(int)
            chosen = ready[turn % ready.size]
            moved = self.pod_of[rows] != chosen
            for number in {*chosen[moved].tolist(), *self.pod_of[rows][moved].tolist()}:
                self._runs.pop(number, None)
            self.pod_of[rows] = chosen

    def run(self, pod: Pod) -> "PodRun":
        """What a pod does with the requests it has been given.

        Parameters
        ----------
        pod : Pod
            Of this cluster.

        Returns
        -------
        PodRun
            Kept until its requests change.
        """
        found = self._runs.get(pod.number)
        if found is None:
            rows = np.flatnonzero(self.pod_of == pod.number)
            found = self._runs[pod.number] = pod_run(self.requests, rows, self.limits, self.law)
        return found


class PodRun:
    """One pod's requests, and running totals of what it exposes.

    Parameters
    ----------
    rows : ndarray of int, shape (n_own,)
        Rows of the cluster's requests.
    own : RequestTable
        These rows.
    records : RequestRecords
        What the engine did with them.
    steps : StepLog
        Its steps.
    stream : float
        Seconds until the client has a token.
    """

    __slots__ = ("_arrived", "_finish", "_first", "_scheduled", "_step", "records", "rows")

    def __init__(
        self,
        rows: NDArray[np.int64],
        own: RequestTable,
        records: RequestRecords,
        steps: StepLog,
        stream: float,
    ) -> None:
        self.rows, self.records = rows, records
        one, first = np.ones(len(rows)), records.first_token + stream
        done = records.status == Status.COMPLETED
        prompt = own.input_tokens.astype(np.float64)
        output = np.where(done, own.output_tokens, 0).astype(np.float64)
        self._first = _totals(first, [one, first - own.arrival, prompt])
        self._finish = _totals(records.finish, [one, output])
        self._step = _step_totals(steps, stream)
        scheduled = records.scheduled[np.isfinite(records.scheduled)]
        refused = own.arrival[records.status == Status.REJECTED]
        self._arrived = own.arrival
        self._scheduled = np.sort(np.concatenate([scheduled, refused]))

    @property
    def last_finish(self) -> float:
        """When its last request ended, in seconds; -inf without one."""
        finish = self.records.finish
        return float(np.nanmax(finish)) if np.isfinite(finish).any() else -math.inf

    def counters(self, time: float) -> Counters:
        """What a scrape at an instant would read.

        Parameters
        ----------
        time : float
            Seconds.

        Returns
        -------
        Counters
            Totals since the pod started.
        """
        first, finish, step = self._first.at(time), self._finish.at(time), self._step.at(time)
        waiting = np.searchsorted(self._arrived, time, side="right") - np.searchsorted(
            self._scheduled, time, side="right"
        )
        return Counters(
            time=time,
            first_tokens=first[0],
            ttft_sum=first[1],
            prompt_tokens=first[2],
            gaps=step[0],
            gap_sum=step[1],
            finished=finish[0],
            output_tokens=finish[1],
            waiting=float(waiting),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Totals:
    """Running sums by time."""

    times: Floats
    sums: Floats

    def at(self, time: float) -> list[float]:
        row = self.sums[np.searchsorted(self.times, time, side="right")]
        return [float(value) for value in row]


def _totals(times: Floats, columns: list[Floats]) -> _Totals:
    known = np.isfinite(times)
    order = np.argsort(times[known], kind="stable")
    table = np.stack([column[known][order] for column in columns], axis=-1)
    sums = np.vstack([np.zeros((1, len(columns))), np.cumsum(table, axis=0)])
    return _Totals(times=times[known][order], sums=sums)


def pod_run(
    requests: RequestTable, rows: NDArray[np.int64], limits: Limits, law: StepLaw
) -> PodRun:
    """Simulate some rows of a table on one replica.

    Parameters
    ----------
    requests : RequestTable
        All.
    rows : ndarray of int, shape (n_own,)
        Which are this replica's.
    limits : Limits
        Of the replica.
    law : StepLaw
        One draw.

    Returns
    -------
    PodRun
        Every request is answered or refused.
    """
    own = replace(
        requests, **{name: getattr(requests, name)[rows] for name in RequestTable.__slots__}
    )
    result = simulate(own, limits, law, records=True, steps=True)
    if result.records is None or result.steps is None:
        raise UsageError("autoscale: the engine gave no records of its steps")
    return PodRun(rows, own, result.records[0], result.steps[0], float(law.stream[0]))


def _step_totals(steps: StepLog, stream: float) -> _Totals:
    """Gaps of the decodes of each step; that across a preemption is not among them."""
    decodes = steps.decodes.astype(np.float64)
    return _totals(steps.start + steps.duration, [decodes, decodes * (steps.duration + stream)])
