"""The tuner that llm-d's workload-variant-autoscaler ships, faults included, as a baseline.

Kept as it is there (August 2026 snapshot): work model V1; the TTFT predicted by the filter lacks
the first decode step that the sizing has; noise of 2.55 % whatever the data; process noise fixed
by the state at the start of a cycle; a gate at 7.378 that restores state *and* covariance, so
that it stays shut while the load stays put; waiting rooms of 10 x B in the filter and 100 in the
sizing; and a crash when a replica after the first lies above the stability boundary.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tailcast.errors import UsageError
from tailcast.queueing.chunked_work import SingleStepWork
from tailcast.queueing.first_guess import WVA_DEFAULT, share_guess
from tailcast.queueing.server import MS, Floats, RequestShape, ServerLimits, ThreeNumbers
from tailcast.queueing.sizing import InfeasibleTargetError, Targets, largest_rate
from tailcast.queueing.steady_state import Replica
from tailcast.queueing.windows import Window

GATE = 7.378
_ERROR_LEVEL = 0.05
_PERCENTILE = 1.96
_PERCENT_CHANGE = 0.05
_JACOBIAN_STEP = 0.01
_MIN_FACTOR, _MAX_FACTOR = 0.01, 100.0
_QUEUE_PER_BATCH = 10
_SIZING_QUEUE = 100

CycleStatus = Literal["accepted", "rejected", "skipped", "crashed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WvaCycle:
    """What one control cycle did.

    Parameters
    ----------
    status : {"accepted", "rejected", "skipped", "crashed"}
        Of the last replica: state changed; gate shut; no tuner could be made; or the controller
        died, and with it all that was learned.
    nis : float
        Normalised innovation squared of the last replica, NaN where there is none.
    """

    status: CycleStatus
    nis: float


class WvaTuner:
    """Extended Kalman filter of alpha, beta, gamma as shipped; milliseconds inside, as there.

    Parameters
    ----------
    max_batch : int
        Batch cap of the replicas.
    """

    __slots__ = ("_bounds", "_cov", "_state", "max_batch")

    def __init__(self, max_batch: int) -> None:
        self.max_batch = max_batch
        self._state: Floats | None = None
        self._cov: Floats | None = None

    @property
    def numbers(self) -> ThreeNumbers | None:
        """Present estimate in seconds; None before the first window and after a crash."""
        if self._state is None:
            return None
        alpha, beta, gamma = (float(x) * MS for x in self._state)
        return ThreeNumbers(alpha=alpha, beta=beta, gamma=gamma)

    def seed(self, numbers: ThreeNumbers) -> None:
        """Start from given numbers instead of the guess from the first window.

        Parameters
        ----------
        numbers : ThreeNumbers
            Scalars, in seconds.
        """
        state = np.array([numbers.alpha, numbers.beta, numbers.gamma], np.float64) / MS
        self._state, self._cov = state, np.diag((_PERCENT_CHANGE * state) ** 2)

    def update(self, windows: Window | Sequence[Window]) -> WvaCycle:
        """Run one control cycle.

        Parameters
        ----------
        windows : Window or sequence of Window
            One for each replica of the variant, filtered one after the other.

        Returns
        -------
        WvaCycle
            What happened.
        """
        replicas = [windows] if isinstance(windows, Window) else list(windows)
        first = replicas[0]
        if self._state is None or self._cov is None:
            guess = share_guess(first) or WVA_DEFAULT
            state = np.array([guess.alpha, guess.beta, guess.gamma], np.float64) / MS
            center = state
            cov = np.diag((_PERCENT_CHANGE * state) ** 2)
        else:
            state, cov = self._state.copy(), self._cov.copy()
            center = np.array([WVA_DEFAULT.alpha, WVA_DEFAULT.beta, WVA_DEFAULT.gamma]) / MS
        self._bounds = (_MIN_FACTOR * center, _MAX_FACTOR * center)
        process = np.diag((_PERCENT_CHANGE * state) ** 2)
        noise = np.diag((_ERROR_LEVEL / _PERCENTILE * _measured(first)) ** 2)
        if self._observation(state, first) is None:
            return WvaCycle(status="skipped", nis=float("nan"))
        cycle = WvaCycle(status="skipped", nis=float("nan"))
        for window in replicas:
            step = self._step(state, cov, window, process, noise)
            if step is None:
                self._state = self._cov = None
                return WvaCycle(status="crashed", nis=float("nan"))
            state, cov, cycle = step
        self._state, self._cov = state, cov
        return cycle

    def _step(
        self, state: Floats, cov: Floats, window: Window, process: Floats, noise: Floats
    ) -> tuple[Floats, Floats, WvaCycle] | None:
        predicted_cov = cov + process
        before = np.clip(state, *self._bounds)
        expected = self._observation(before, window)
        slopes = self._slopes(before, window)
        if expected is None or slopes is None:
            return None
        innovation = _measured(window) - expected
        spread = slopes @ predicted_cov @ slopes.T + noise
        inverse = np.linalg.inv(spread)
        gain = predicted_cov @ slopes.T @ inverse
        after = np.clip(before + gain @ innovation, *self._bounds)
        nis = float(innovation @ inverse @ innovation)
        if np.any(after <= 0) or nis >= GATE:
            return state, cov, WvaCycle(status="rejected", nis=nis)
        new_cov = (np.eye(3) - gain @ slopes) @ predicted_cov
        return after, new_cov, WvaCycle(status="accepted", nis=nis)

    def _observation(self, state: Floats, window: Window) -> Floats | None:
        limits = ServerLimits(max_batch=self.max_batch, max_queue=_QUEUE_PER_BATCH * self.max_batch)
        try:
            found = _replica(state, window.shape, limits).steady_state(window.rate)
        except UsageError:
            return None
        return np.array([float(found.wait + found.prefill), float(found.itl)]) / MS

    def _slopes(self, state: Floats, window: Window) -> Floats | None:
        columns = []
        for axis in range(3):
            step = _JACOBIAN_STEP * state[axis]
            ends = []
            for sign in (1.0, -1.0):
                moved = state.copy()
                moved[axis] += sign * step
                ends.append(self._observation(moved, window))
            if ends[0] is None or ends[1] is None:
                return None
            columns.append((ends[0] - ends[1]) / (2.0 * step))
        return np.stack(columns, axis=-1)

    def capacity(self, shape: RequestShape, targets: Targets) -> float:
        """Requests/s that it believes one replica serves within its targets.

        Parameters
        ----------
        shape : RequestShape
            Mean tokens.
        targets : Targets
            On means.

        Returns
        -------
        float
            Zero where it finds the targets infeasible or has no estimate.
        """
        if self._state is None:
            return 0.0
        limits = ServerLimits(max_batch=self.max_batch, max_queue=_SIZING_QUEUE)
        try:
            return largest_rate(_replica(self._state, shape, limits), targets).capacity
        except InfeasibleTargetError:
            return 0.0


def _measured(window: Window) -> Floats:
    return np.array([window.ttft, window.itl]) / MS


def _replica(state: Floats, shape: RequestShape, limits: ServerLimits) -> Replica:
    alpha, beta, gamma = (float(x) * MS for x in state)
    numbers = ThreeNumbers(alpha=alpha, beta=beta, gamma=gamma)
    return Replica(work=SingleStepWork(numbers=numbers, shape=shape), limits=limits)
