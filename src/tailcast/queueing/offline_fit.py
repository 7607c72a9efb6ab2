"""Point fit of the three numbers to windows, as the published offline trainer makes it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tailcast.errors import InferenceError, UsageError
from tailcast.queueing.server import Floats, ServerLimits, ThreeNumbers, three_numbers_ms
from tailcast.queueing.steady_state import Replica
from tailcast.queueing.windows import Window, window_columns
from tailcast.queueing.work_model import work_model

TRAINER_START = three_numbers_ms(1.0, 0.01, 1e-4)
_RELATIVE_STEP = 1e-3


def predicted_latencies(
    numbers: ThreeNumbers, windows: Sequence[Window], limits: ServerLimits, version: str = "V2"
) -> Floats:
    """Mean TTFT and ITL that the chain gives for windows.

    Parameters
    ----------
    numbers : ThreeNumbers
        Scalars.
    windows : sequence of Window
        Rates and request shapes.
    limits : ServerLimits
        Of the replica that was measured.
    version : {"V2", "V1"}
        Version of the work model.

    Returns
    -------
    ndarray, shape (n_window, 2)
        TTFT and ITL in seconds.
    """
    columns = window_columns(windows)
    work = work_model(numbers, columns.shape, limits, version)
    state = Replica(work=work, limits=limits).steady_state(columns.rate)
    return np.stack([state.ttft, state.itl], axis=-1)


def measured_latencies(windows: Sequence[Window]) -> Floats:
    """Mean TTFT and ITL that windows report.

    Parameters
    ----------
    windows : sequence of Window
        Each with both latencies.

    Returns
    -------
    ndarray, shape (n_window, 2)
        TTFT and ITL in seconds.

    Raises
    ------
    UsageError
        If a window lacks a latency.
    """
    columns = window_columns(windows)
    measured = np.stack([columns.ttft, columns.itl], axis=-1)
    if not np.all(np.isfinite(measured)):
        raise UsageError("a point fit needs TTFT and ITL of every window")
    return measured


def relative_residuals(
    numbers: ThreeNumbers, windows: Sequence[Window], limits: ServerLimits, version: str = "V2"
) -> Floats:
    """Errors of the chain over measurements.

    Parameters
    ----------
    numbers, windows, limits, version
        See `predicted_latencies`.

    Returns
    -------
    ndarray, shape (n_window, 2)
        (predicted - measured) / measured for TTFT and ITL.
    """
    measured = measured_latencies(windows)
    return predicted_latencies(numbers, windows, limits, version) / measured - 1.0


def trainer_loss(
    numbers: ThreeNumbers, windows: Sequence[Window], limits: ServerLimits, version: str = "V2"
) -> float:
    """Mean over windows of the squared relative errors of TTFT plus ITL.

    Parameters
    ----------
    numbers, windows, limits, version
        See `predicted_latencies`.

    Returns
    -------
    float
        Zero for a perfect fit.
    """
    residuals = relative_residuals(numbers, windows, limits, version)
    return float((residuals**2).sum(axis=-1).mean())


def relative_errors(
    numbers: ThreeNumbers, windows: Sequence[Window], limits: ServerLimits, version: str = "V2"
) -> tuple[float, float]:
    """Mean absolute error over mean measurement, the published measure of fit.

    Parameters
    ----------
    numbers, windows, limits, version
        See `predicted_latencies`.

    Returns
    -------
    ttft, itl : float
        Errors; 0.05 is five per cent.
    """
    measured = measured_latencies(windows)
    error = np.abs(predicted_latencies(numbers, windows, limits, version) - measured)
    ttft, itl = error.mean(axis=0) / measured.mean(axis=0)
    return float(ttft), float(itl)


def condition_number(
    numbers: ThreeNumbers, windows: Sequence[Window], limits: ServerLimits, version: str = "V2"
) -> float:
    """Ratio of the extreme singular values of the residuals' slopes in the log parameters.

    Parameters
    ----------
    numbers, windows, limits, version
        See `predicted_latencies`; latencies that are missing are taken from the chain.

    Returns
    -------
    float
        One is ideal; infinite where a direction is not seen at all.
    """
    if 2 * len(windows) < 3:
        return float("inf")
    center = np.array([numbers.alpha, numbers.beta, numbers.gamma], dtype=np.float64)
    columns = window_columns(windows)
    scale = predicted_latencies(numbers, windows, limits, version)
    measured = np.stack([columns.ttft, columns.itl], axis=-1)
    scale = np.where(np.isfinite(measured), measured, scale)
    slopes = []
    for axis in range(3):
        ends = []
        for sign in (1.0, -1.0):
            moved = center.copy()
            moved[axis] *= 1.0 + sign * _RELATIVE_STEP
            ends.append(predicted_latencies(_numbers(moved), windows, limits, version))
        slopes.append(((ends[0] - ends[1]) / scale).ravel() / (2.0 * _RELATIVE_STEP))
    singular = np.linalg.svd(np.stack(slopes, axis=-1), compute_uv=False)
    # differences of 1e-3 carry rounding of about 1e-13: anything smaller is zero
    if singular[-1] <= singular[0] * 1e-12:
        return float("inf")
    return float(singular[0] / singular[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class PointFit:
    """Result of the point fit.

    Parameters
    ----------
    numbers : ThreeNumbers
        Best parameters found.
    loss : float
        Trainer loss there.
    ttft_error, itl_error : float
        Mean absolute error over mean measurement.
    """

    numbers: ThreeNumbers
    loss: float
    ttft_error: float
    itl_error: float


def point_fit(
    windows: Sequence[Window],
    limits: ServerLimits,
    version: str = "V2",
    start: ThreeNumbers = TRAINER_START,
    max_steps: int = 1000,
) -> PointFit:
    """Fit the three numbers by Nelder-Mead on variables scaled by their start.

    Parameters
    ----------
    windows : sequence of Window
        Each with TTFT and ITL.
    limits : ServerLimits
        Of the replica that was measured.
    version : {"V2", "V1"}
        Version of the work model.
    start : ThreeNumbers
        Where the search starts; sets the scale.
    max_steps : int
        Simplex steps.

    Returns
    -------
    PointFit
        Parameters, loss and errors; no uncertainty (see `tailcast.inference.queue_fit`).

    Raises
    ------
    InferenceError
        If no parameters reach a finite loss.
    """
    from scipy.optimize import minimize

    scale = np.array([start.alpha, start.beta, start.gamma], dtype=np.float64)

    def loss(scaled: Floats) -> float:
        if np.any(scaled < 0):
            return float("inf")
        try:
            return trainer_loss(_numbers(scaled * scale), windows, limits, version)
        except UsageError:  # V1 refuses an overload
            return float("inf")

    measured_latencies(windows)
    result = minimize(
        loss,
        np.ones(3),
        method="Nelder-Mead",
        options={"maxiter": max_steps, "maxfev": 4 * max_steps, "xatol": 1e-7, "fatol": 1e-12},
    )
    if not np.isfinite(result.fun):
        raise InferenceError("point fit: no finite loss was found; the windows are infeasible")
    numbers = _numbers(result.x * scale)
    ttft, itl = relative_errors(numbers, windows, limits, version)
    return PointFit(numbers=numbers, loss=float(result.fun), ttft_error=ttft, itl_error=itl)


def _numbers(values: Floats) -> ThreeNumbers:
    return ThreeNumbers(alpha=float(values[0]), beta=float(values[1]), gamma=float(values[2]))
