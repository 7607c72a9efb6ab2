"""What decides on replicas: the three-number tuner with a risk, WVA's filter, or a fixed number."""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from tailcast.autoscale.forecast import RateTrend, TrendSettings
from tailcast.queueing.capacity import CapacityDraws, capacity_draws, replicas_for_risk
from tailcast.queueing.parameter_prior import NumbersPrior
from tailcast.queueing.server import Floats, RequestShape, ServerLimits
from tailcast.queueing.sizing import Targets, replicas_for_rate
from tailcast.queueing.tuner import Tuner, TunerSettings
from tailcast.queueing.windows import Window
from tailcast.queueing.wva import WvaTuner
from tailcast.streams import stream

# WVA reads one-minute rates
_WVA_RATE_WINDOW = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What the controller sees at a decision.

    Parameters
    ----------
    time : float
        Of the newest scrape, in seconds.
    arrivals : float
        Requests at the gateway since the reading before.
    duration : float
        Seconds since then.
    windows : sequence of Window
        New windows, one a replica in a steady state; empty between windows.
    n_replica : int
        Replicas wanted at present, those that start included.
    """

    time: float
    arrivals: float
    duration: float
    windows: Sequence[Window]
    n_replica: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Replicas wanted, and what led to them.

    Parameters
    ----------
    n_replica : int
        Wanted.
    rate : float
        Rate that it was made for (median), in requests/s.
    capacity : float
        Median of what one replica is believed to serve within its targets, in requests/s; zero
        where a lone request misses them, NaN where nothing is believed.
    capacity_low, capacity_high : float
        Its 89 % interval; equal to it where the controller has none.
    p_miss : float
        Probability that a target is missed; NaN where the controller has none.
    drift : bool
        Whether a jump of the server was found.
    """

    n_replica: int
    rate: float
    capacity: float
    capacity_low: float
    capacity_high: float
    p_miss: float = math.nan
    drift: bool = False


class Controller(Protocol):
    """Turns readings into decisions."""

    def decide(self, reading: Reading) -> Decision:
        """Replicas wanted now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedController:
    """The same number whatever happens.

    Parameters
    ----------
    n_replica : int
        Wanted.
    """

    n_replica: int

    def decide(self, reading: Reading) -> Decision:
        """Replicas wanted now.

        Parameters
        ----------
        reading : Reading
            Only its rate is repeated.

        Returns
        -------
        Decision
            The number.
        """
        nan = math.nan
        rate = reading.arrivals / reading.duration
        return Decision(
            n_replica=self.n_replica, rate=rate, capacity=nan, capacity_low=nan, capacity_high=nan
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerSettings:
    """Assumptions of the controller.

    Parameters
    ----------
    targets : Targets
        On means.
    risk : float
        Accepted probability that a mean target is missed.
    lead : float
        Seconds from a reading to the readiness of a pod that is ordered on it.
    stabilisation : float
        Seconds for which fewer replicas must have sufficed before one is given up.
    shape : RequestShape
        Mean tokens believed before the first window.
    trend : TrendSettings
        Of the forecast.
    tuner : TunerSettings
        Of the tuner.
    n_draw : int
        Draws of capacity and forecast.
    seed : int
        Of these draws.
    """

    targets: Targets
    risk: float = 0.05
    lead: float = 110.0
    stabilisation: float = 240.0
    shape: RequestShape
    trend: TrendSettings = field(default_factory=TrendSettings)
    tuner: TunerSettings = field(default_factory=TunerSettings)
    n_draw: int = 200
    seed: int = 0


class TunerController:
    """Replicas from the tuner's belief, a forecast over the start of a pod, and a risk.

    More are wanted at once where the risk is exceeded now or at any time until a pod ordered now
    would be ready; fewer only where half the risk holds with fewer for the whole stabilisation
    window. Until the first window, and no longer than a pod takes to start, an even chance is
    accepted.

    Parameters
    ----------
    prior : NumbersPrior
        Belief before the first window.
    limits : ServerLimits
        Of the replicas.
    settings : ControllerSettings
        Assumptions.
    """

    def __init__(
        self, prior: NumbersPrior, limits: ServerLimits, settings: ControllerSettings
    ) -> None:
        self.settings = settings
        self.tuner = Tuner(prior, limits, settings.tuner)
        self._trend = RateTrend(settings.trend)
        self._shape = settings.shape
        self._enough: deque[tuple[float, int]] = deque()
        self._capacity: CapacityDraws | None = None
        self._began: float | None = None
        self._forecast = stream(settings.seed, "autoscale forecast").permutation(settings.n_draw)

    def decide(self, reading: Reading) -> Decision:
        """Replicas wanted now.

        Parameters
        ----------
        reading : Reading
            What is seen.

        Returns
        -------
        Decision
            With interval and risk.
        """
        settings = self.settings
        self._trend.update(reading.arrivals, reading.duration)
        drift = False
        for window in reading.windows:
            drift |= self.tuner.update(window).drift
        if reading.windows:
            self._learn_shape(reading.windows)
            self._capacity = None
        capacity = self._capacity_draws()
        ahead = [self._rates(seconds) for seconds in (0.0, 0.5 * settings.lead, settings.lead)]
        rates = np.max(ahead, axis=0)
        risk = self._risk(reading.time)
        up = replicas_for_risk(capacity, rates, risk)
        down = replicas_for_risk(capacity, rates, 0.5 * risk)
        most = reading.n_replica if up.n_replica is None else up.n_replica
        # where no number helps, more replicas are a waste: keep what there is
        enough = most if down.n_replica is None else down.n_replica
        self._enough.append((reading.time, enough))
        while self._enough[0][0] < reading.time - settings.stabilisation:
            self._enough.popleft()
        kept = min(reading.n_replica, max(n for _, n in self._enough))
        if self._young(reading.time):
            kept = reading.n_replica
        wanted = max(most, kept)
        share = np.divide(rates, wanted)
        low, middle, high = np.quantile(capacity.rate, [0.055, 0.5, 0.945])
        return Decision(
            n_replica=wanted,
            rate=float(np.median(rates)),
            capacity=float(middle),
            capacity_low=float(low),
            capacity_high=float(high),
            p_miss=float(np.mean(share > capacity.rate)),
            drift=drift,
        )

    def _risk(self, time: float) -> float:
        """Accepted risk; an even chance while nothing was measured yet.

        The first window comes sooner than a pod that is ordered now would be ready, and the
        datasheet knows TTFT to a fifth only: replicas for the risk under it would be idle.
        """
        if self._began is None:
            self._began = time
        unmeasured = self.tuner.n_window == 0 and time - self._began < self.settings.lead
        return max(self.settings.risk, 0.5) if unmeasured else self.settings.risk

    def _young(self, time: float) -> bool:
        # the window of stabilisation is not full yet
        return time - self._enough[0][0] < 0.8 * self.settings.stabilisation

    def _learn_shape(self, windows: Sequence[Window]) -> None:
        weights = np.array([window.n_request for window in windows])
        tokens_in = float(np.average([window.tokens_in for window in windows], weights=weights))
        tokens_out = float(np.average([window.tokens_out for window in windows], weights=weights))
        old, new = 0.7, 0.3
        self._shape = RequestShape(
            tokens_in=old * float(self._shape.tokens_in) + new * tokens_in,
            tokens_out=old * float(self._shape.tokens_out) + new * tokens_out,
        )

    def _capacity_draws(self) -> CapacityDraws:
        if self._capacity is None:
            # the numbers and what the chain misses in TTFT are drawn together: where TTFT was
            # measured their sum is known far better than either. The same normals at every
            # decision, so that decisions differ only by what was learned
            drawn, between = self.tuner.draws_as_measured(
                self.settings.n_draw, stream(self.settings.seed, "autoscale"), noise=True
            )
            self._capacity = capacity_draws(
                drawn, self._shape, self.tuner.limits, self.settings.targets, between
            )
        return self._capacity

    def _rates(self, seconds: float) -> Floats:
        mean, sd = self._trend.forecast(seconds)
        variance = math.log1p((sd / mean) ** 2)
        normal = _normal_scores(self._forecast.size)[self._forecast]
        return np.asarray(mean * np.exp(math.sqrt(variance) * normal - 0.5 * variance))


def _normal_scores(n: int) -> Floats:
    """Quantiles of the normal at n even places."""
    from statistics import NormalDist

    normal = NormalDist()
    return np.array([normal.inv_cdf((k + 0.5) / n) for k in range(n)])


class WvaController:
    """WVA's filter and sizing: means, no forecast, no risk, every window of every pod.

    Parameters
    ----------
    max_batch : int
        Batch cap of the replicas.
    settings : ControllerSettings
        Of which targets, stabilisation and first shape are used.
    """

    def __init__(self, max_batch: int, settings: ControllerSettings) -> None:
        self.settings = settings
        self.tuner = WvaTuner(max_batch)
        self._shape = settings.shape
        self._wanted: deque[tuple[float, int]] = deque()
        self._counts: deque[tuple[float, float]] = deque()
        self._capacity = 0.0

    def decide(self, reading: Reading) -> Decision:
        """Replicas wanted now.

        Parameters
        ----------
        reading : Reading
            What is seen.

        Returns
        -------
        Decision
            Without risk or interval.
        """
        self._counts.append((reading.arrivals, reading.duration))
        while sum(d for _, d in self._counts) - self._counts[0][1] >= _WVA_RATE_WINDOW:
            self._counts.popleft()
        rate = sum(n for n, _ in self._counts) / sum(d for _, d in self._counts)
        if reading.windows:
            self.tuner.update(reading.windows)
            self._shape = reading.windows[0].shape
            self._capacity = self.tuner.capacity(self._shape, self.settings.targets)
        wanted = reading.n_replica
        if self._capacity > 0:
            wanted = replicas_for_rate(rate, self._capacity)
        self._wanted.append((reading.time, wanted))
        while self._wanted[0][0] < reading.time - self.settings.stabilisation:
            self._wanted.popleft()
        kept = min(reading.n_replica, max(n for _, n in self._wanted))
        capacity = self._capacity
        return Decision(
            n_replica=max(wanted, kept),
            rate=rate,
            capacity=capacity,
            capacity_low=capacity,
            capacity_high=capacity,
        )
