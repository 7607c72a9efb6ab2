"""Compiled loops of `log_filter`; imported only there, because numba is slow to import."""

import math

import numba as nb
import numpy as np

from tailcast.queueing.sensitivity_kernel import window_latencies
from tailcast.queueing.server import Floats

STUDENT_DOF = 5.0
_MAX_STEPS = 30
_LONGEST_STEP = 1.5
# a step that promises less log density than this is not worth an evaluation of the chain
_PROMISE_TOL = 1e-6
_LEAST_DAMPING = 1e-3
_LOG_T = math.lgamma((STUDENT_DOF + 1) / 2) - math.lgamma(STUDENT_DOF / 2)
_LOG_T -= 0.5 * math.log(STUDENT_DOF * math.pi)


@nb.njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _invert(matrix: Floats, inverse: Floats) -> float:
    """Invert a symmetric 3x3 matrix; return its determinant."""
    a, b, c = matrix[0, 0], matrix[0, 1], matrix[0, 2]
    d, e, f = matrix[1, 1], matrix[1, 2], matrix[2, 2]
    x, y, z = d * f - e * e, c * e - b * f, b * e - c * d
    determinant = a * x + b * y + c * z
    inverse[0, 0], inverse[0, 1], inverse[0, 2] = x / determinant, y / determinant, z / determinant
    inverse[1, 1] = (a * f - c * c) / determinant
    inverse[1, 2] = (b * c - a * e) / determinant
    inverse[2, 2] = (a * d - b * b) / determinant
    inverse[1, 0], inverse[2, 0], inverse[2, 1] = inverse[0, 1], inverse[0, 2], inverse[1, 2]
    return determinant  # type: ignore[no-any-return]


@nb.njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _fit_window(
    mean: Floats,
    shape: Floats,
    rate: float,
    chunks: Floats,
    n_tail: int,
    overhead: float,
    scratch: Floats,
    value: Floats,
    slope: Floats,
) -> None:
    """Latencies of the chain with the overhead in TTFT."""
    window_latencies(mean, shape, rate, chunks, n_tail, scratch, value, slope)
    if overhead > 0.0:
        plain = math.exp(value[0])
        value[0] = math.log(plain + overhead)
        for k in range(4):
            slope[0, k] *= plain / (plain + overhead)
        value[4] *= plain / (plain + overhead)


@nb.njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _log_density(
    mean: Floats,
    center: Floats,
    precision: Floats,
    measured: Floats,
    known: Floats,
    noise: Floats,
    value: Floats,
) -> float:
    """Log of prior (without its constant) times likelihood."""
    total = 0.0
    for i in range(3):
        for j in range(3):
            total -= 0.5 * (mean[i] - center[i]) * precision[i, j] * (mean[j] - center[j])
    for m in range(3):
        residual = measured[m] - value[m]
        if known[m] > 0.0:
            spread = residual * residual / (STUDENT_DOF * noise[m])
            total += _LOG_T - 0.5 * math.log(noise[m])
            total -= 0.5 * (STUDENT_DOF + 1.0) * math.log1p(spread)
    return total


@nb.njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _normal_equations(
    mean: Floats,
    center: Floats,
    precision: Floats,
    measured: Floats,
    known: Floats,
    noise: Floats,
    value: Floats,
    slope: Floats,
    information: Floats,
    pull: Floats,
) -> None:
    for i in range(3):
        pull[i] = 0.0
        for j in range(3):
            information[i, j] = precision[i, j]
            pull[i] += precision[i, j] * (center[j] - mean[j])
    for m in range(3):
        if known[m] > 0.0:
            residual = measured[m] - value[m]
            weight = (STUDENT_DOF + 1.0) / (STUDENT_DOF + residual * residual / noise[m]) / noise[m]
            for i in range(3):
                pull[i] += weight * slope[m, i] * residual
                for j in range(3):
                    information[i, j] += weight * slope[m, i] * slope[m, j]


@nb.njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _climb(
    mean: Floats,
    center: Floats,
    precision: Floats,
    measured: Floats,
    known: Floats,
    noise: Floats,
    shape: Floats,
    rate: float,
    chunks: Floats,
    n_tail: int,
    overhead: float,
    value: Floats,
    slope: Floats,
) -> float:
    """Move `mean` to the mode by damped Gauss-Newton steps; return the log density there."""
    scratch, tried_value, tried_slope = np.empty((9, 7)), np.empty(5), np.empty((4, 4))
    information, inverse = np.empty((3, 3)), np.empty((3, 3))
    pull, step, tried = np.empty(3), np.empty(3), np.empty(3)
    _fit_window(mean, shape, rate, chunks, n_tail, overhead, scratch, value, slope)
    best = _log_density(mean, center, precision, measured, known, noise, value)
    damping = 1.0
    for _ in range(_MAX_STEPS):
        _normal_equations(
            mean, center, precision, measured, known, noise, value, slope, information, pull
        )
        _invert(information, inverse)
        promise, longest = 0.0, 0.0
        for i in range(3):
            step[i] = 0.0
            for j in range(3):
                step[i] += inverse[i, j] * pull[j]
            promise += pull[i] * step[i]
            longest = max(longest, abs(step[i]))
        if promise < _PROMISE_TOL or damping < _LEAST_DAMPING:
            break
        scale = damping * min(1.0, _LONGEST_STEP / longest)
        for i in range(3):
            tried[i] = mean[i] + scale * step[i]
        _fit_window(tried, shape, rate, chunks, n_tail, overhead, scratch, tried_value, tried_slope)
        density = _log_density(tried, center, precision, measured, known, noise, tried_value)
        if density >= best:
            best = density
            mean[:] = tried
            value[:] = tried_value
            slope[:] = tried_slope
            damping = min(1.0, 2.0 * damping)
        else:
            damping *= 0.25
    return best  # type: ignore[no-any-return]


@nb.njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def update_each(
    mean: Floats,
    cov: Floats,
    shape: Floats,
    rate: float,
    chunks: Floats,
    n_tail: int,
    overhead: float,
    measured: Floats,
    known: Floats,
    plain_noise: Floats,
    wait_log_sd: float,
    result: Floats,
) -> None:
    """Update every belief in place.

    Parameters
    ----------
    mean : ndarray, shape (n_belief, 3)
        Logs of the three numbers; overwritten by the posterior modes.
    cov : ndarray, shape (n_belief, 3, 3)
        Covariances; overwritten.
    shape : ndarray, shape (2,)
        Mean prompt and output tokens.
    rate : float
        Arrivals in requests/s.
    chunks : ndarray, shape (B,)
        Prefill steps with 1..B requests in the batch.
    n_tail : int
        Places in the waiting room.
    overhead : float
        Seconds of client and network in TTFT.
    measured, known : ndarray, shape (3,)
        Logs of TTFT, ITL and throughput; one where measured, else zero.
    plain_noise : ndarray, shape (3,)
        Variances of these logs where nobody waits.
    wait_log_sd : float
        Standard deviation of the log of a waiting time.
    result : ndarray, shape (n_belief, 13)
        Filled: log evidence, then residual, weight, fitted variance and noise of each metric.
    """
    precision, information = np.empty((3, 3)), np.empty((3, 3))
    noise, center, pull = plain_noise.copy(), np.empty(3), np.empty(3)
    value, slope = np.empty(5), np.empty((4, 4))
    for belief in range(mean.shape[0]):
        center[:] = mean[belief]
        log_det = math.log(_invert(cov[belief], precision))
        noise[:] = plain_noise
        density, last_share = 0.0, -1.0
        for _ in range(3):  # how much of TTFT is waiting is known only at the mode
            density = _climb(
                mean[belief],
                center,
                precision,
                measured,
                known,
                noise,
                shape,
                rate,
                chunks,
                n_tail,
                overhead,
                value,
                slope,
            )
            if abs(value[4] - last_share) < 0.02 or (last_share < 0.0 and value[4] < 0.02):
                break
            last_share = value[4]
            noise[0] = plain_noise[0] + (wait_log_sd * value[4]) ** 2
        _normal_equations(
            mean[belief],
            center,
            precision,
            measured,
            known,
            noise,
            value,
            slope,
            information,
            pull,
        )
        log_det += math.log(_invert(information, cov[belief]))
        result[belief, 0] = density - 0.5 * log_det
        for m in range(3):
            residual = measured[m] - value[m] if known[m] > 0.0 else 0.0
            weight = (STUDENT_DOF + 1.0) / (STUDENT_DOF + residual * residual / noise[m])
            variance = 0.0
            for i in range(3):
                for j in range(3):
                    variance += slope[m, i] * cov[belief, i, j] * slope[m, j]
            result[belief, 1 + m] = residual
            result[belief, 4 + m] = weight * known[m]
            result[belief, 7 + m] = variance
            result[belief, 10 + m] = noise[m]
