"""The control loop: scrape, decide, order and release pods, while requests arrive."""

import math
from dataclasses import dataclass, fields

import numpy as np

from tailcast.autoscale.controller import Controller, Decision, Reading
from tailcast.autoscale.plant import Cluster, Pod
from tailcast.errors import UsageError
from tailcast.queueing.counters import window_between
from tailcast.queueing.windows import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    """Times and bounds of the loop.

    Parameters
    ----------
    cycle : float
        Seconds between decisions.
    scrape_interval, scrape_delay : float
        Seconds between scrapes, and from a scrape to its being seen.
    window : float
        Seconds of a tuner's window.
    settle : float
        Seconds after a change of the ready pods that no window is taken from.
    pod_start : float
        Seconds from ordering a pod to its being ready.
    least, most : int
        Bounds of the wanted replicas.
    first : int
        Replicas that are ready at the start.
    """

    cycle: float = 15.0
    scrape_interval: float = 15.0
    scrape_delay: float = 5.0
    window: float = 60.0
    settle: float = 30.0
    pod_start: float = 90.0
    least: int = 1
    most: int = 16
    first: int = 1

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not (math.isfinite(value) and value >= 0):
                raise UsageError(f"loop: {field.name} must not be negative, got {value!r}")
        if min(self.cycle, self.scrape_interval, self.window) <= 0:
            raise UsageError("loop: cycle, scrape interval and window must be positive")
        if not 1 <= self.least <= self.first <= self.most:
            raise UsageError(
                f"loop: 1 <= least <= first <= most is needed, got {self.least}, {self.first}, "
                f"{self.most}"
            )

    @property
    def lead(self) -> float:
        """Seconds from a scrape to the readiness of a pod that is ordered on the next one."""
        return self.pod_start + self.scrape_delay + self.cycle


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedDecision:
    """A decision and when it was made.

    Parameters
    ----------
    time : float
        Seconds.
    decision : Decision
        Before the bounds.
    n_replica : int
        Within the bounds.
    n_window, n_skipped : int
        Windows that the controller was shown, and those that were unusable.
    """

    time: float
    decision: Decision
    n_replica: int
    n_window: int
    n_skipped: int


def run_loop(
    cluster: Cluster, controller: Controller, settings: LoopSettings, duration: float
) -> list[LoggedDecision]:
    """Run the loop; the cluster holds what came of it.

    Parameters
    ----------
    cluster : Cluster
        Without pods.
    controller : Controller
        Fresh.
    settings : LoopSettings
        Times and bounds.
    duration : float
        Seconds for which decisions are made.

    Returns
    -------
    list of LoggedDecision
        One a cycle in which there was a new scrape.
    """
    for _ in range(settings.first):
        cluster.add(0.0, 0.0)
    watch = _Watch(cluster, settings)
    log: list[LoggedDecision] = []
    seen, cycle = 0.0, 0
    while (cycle + 1) * settings.cycle <= duration:
        cycle += 1
        now = cycle * settings.cycle
        interval = settings.scrape_interval
        scraped = math.floor((now - settings.scrape_delay) / interval + 1e-9) * interval
        if scraped <= seen:
            continue
        first, last = np.searchsorted(cluster.requests.arrival, [seen, scraped], side="right")
        windows, n_skipped = watch.windows(scraped)
        reading = Reading(
            time=scraped,
            arrivals=float(last - first),
            duration=scraped - seen,
            windows=windows,
            n_replica=len(_wanted(cluster)),
        )
        decision = controller.decide(reading)
        wanted = min(max(decision.n_replica, settings.least), settings.most)
        _actuate(cluster, wanted, now, settings.pod_start)
        log.append(
            LoggedDecision(
                time=now,
                decision=decision,
                n_replica=wanted,
                n_window=len(windows),
                n_skipped=n_skipped,
            )
        )
        seen = scraped
    return log


def _wanted(cluster: Cluster) -> list[Pod]:
    return [pod for pod in cluster.pods if math.isinf(pod.leaves)]


def _actuate(cluster: Cluster, wanted: int, now: float, pod_start: float) -> None:
    present = _wanted(cluster)
    for _ in range(wanted - len(present)):
        cluster.add(now, now + pod_start)
    # those that are not ready go first, then the youngest; one that is ready always stays
    present.sort(key=lambda pod: (pod.ready > now, pod.ready, pod.number))
    for pod in present[max(wanted, 1) :]:
        cluster.remove(pod, now)


class _Watch:
    """Takes windows of the pods that have been in a steady state for long enough."""

    def __init__(self, cluster: Cluster, settings: LoopSettings) -> None:
        self._cluster, self._settings = cluster, settings
        self._start: dict[int, float] = {}
        self._tokens_out = math.nan

    def windows(self, now: float) -> tuple[list[Window], int]:
        """Windows that end at this scrape, and how many others were unusable."""
        settings, found, n_skipped = self._settings, [], 0
        calm = self._last_change(now) + settings.settle
        for pod in self._cluster.ready(now):
            start = self._start.setdefault(pod.number, self._grid(max(pod.ready, 0.0)))
            if start < calm and calm > settings.settle:
                self._start[pod.number] = start = self._grid(calm)
            if now - start < settings.window:
                continue
            run = self._cluster.run(pod)
            counted = window_between(
                run.counters(start),
                run.counters(now),
                label=f"pod {pod.number}",
                tokens_out=self._tokens_out,
            )
            self._start[pod.number] = now
            if counted.window is None:
                n_skipped += 1
                continue
            self._tokens_out = counted.window.tokens_out
            found.append(counted.window)
        return found, n_skipped

    def _last_change(self, now: float) -> float:
        times = [t for pod in self._cluster.pods for t in (pod.ready, pod.leaves) if t <= now]
        return max(times)

    def _grid(self, time: float) -> float:
        interval = self._settings.scrape_interval
        return math.ceil(time / interval - 1e-9) * interval
