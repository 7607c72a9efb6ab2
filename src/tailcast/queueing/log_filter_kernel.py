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
_SHARE_TOL = 0.02
_LOG_T = math.lgamma((STUDENT_DOF + 1) / 2) - math.lgamma(STUDENT_DOF / 2)
_LOG_T -= 0.5 * math.log(STUDENT_DOF * math.pi)


@nb.njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _invert(matrix: Floats, inverse: Floats) -> float:
    """Invert a positive definite matrix by its Cholesky factor; return its log determinant."""
    n = matrix.shape[0]
    factor, log_det = np.zeros((n, n)), 0.0
    for i in range(n):
        for j in range(i + 1):
            rest = matrix[i, j]
            for k in range(j):
                rest -= factor[i, k] * factor[j, k]
            factor[i, j] = math.sqrt(rest) if i == j else rest / factor[j, j]
        log_det += 2.0 * math.log(factor[i, i])
    for column in range(n):
        for i in range(n):  # factor times y is the unit vector
            rest = 1.0 if i == column else 0.0
            for k in range(i):
                rest -= factor[i, k] * inverse[k, column]
            inverse[i, column] = rest / factor[i, i]
        for i in range(n - 1, -1, -1):  # its transpose times x is y
            rest = inverse[i, column]
            for k in range(i + 1, n):
                rest -= factor[k, i] * inverse[k, column]
            inverse[i, column] = rest / factor[i, i]
    return log_det


@nb.njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _fit_windows(
    mean: Floats,
    shapes: Floats,
    rates: Floats,
    chunks: Floats,
    n_tail: int,
    overhead: float,
    scratch: Floats,
    values: Floats,
    slopes: Floats,
) -> None:
    """Latencies of the chain in every window, with the overhead and a fourth unknown in TTFT.

    That unknown is the log of measured over predicted TTFT; where it is one, its derivatives
    stand in the place of those in the rate.
    """
    biased = mean.size > 3
    for window in range(rates.size):
        value, slope = values[window], slopes[window]
        window_latencies(
            mean[:3], shapes[window], rates[window], chunks[window], n_tail, scratch, value, slope
        )
        if overhead > 0.0:
            plain = math.exp(value[0])
            value[0] = math.log(plain + overhead)
            for k in range(4):
                slope[0, k] *= plain / (plain + overhead)
            value[4] *= plain / (plain + overhead)
        if biased:
            value[0] += mean[3]
            for m in range(3):
                slope[m, 3] = 1.0 if m == 0 else 0.0


@nb.njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _log_density(
    mean: Floats,
    center: Floats,
    precision: Floats,
    measured: Floats,
    known: Floats,
    noise: Floats,
    values: Floats,
) -> float:
    """Log of prior (without its constant) times likelihood."""
    total = 0.0
    for i in range(mean.size):
        for j in range(mean.size):
            total -= 0.5 * (mean[i] - center[i]) * precision[i, j] * (mean[j] - center[j])
    for window in range(measured.shape[0]):
        for m in range(3):
            if known[window, m] > 0.0:
                residual = measured[window, m] - values[window, m]
                spread = residual * residual / (STUDENT_DOF * noise[window, m])
                total += _LOG_T - 0.5 * math.log(noise[window, m])
                total -= 0.5 * (STUDENT_DOF + 1.0) * math.log1p(spread)
    return total


@nb.njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _student_weight(residual: float, noise: float) -> float:
    return (STUDENT_DOF + 1.0) / (STUDENT_DOF + residual * residual / noise)


@nb.njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _normal_equations(
    mean: Floats,
    center: Floats,
    precision: Floats,
    measured: Floats,
    known: Floats,
    noise: Floats,
    values: Floats,
    slopes: Floats,
    information: Floats,
    pull: Floats,
) -> None:
    """Fill the information matrix and the gradient of the log density."""
    n = mean.size
    for i in range(n):
        pull[i] = 0.0
        for j in range(n):
            information[i, j] = precision[i, j]
            pull[i] += precision[i, j] * (center[j] - mean[j])
    for window in range(measured.shape[0]):
        for m in range(3):
            if known[window, m] > 0.0:
                residual = measured[window, m] - values[window, m]
                weight = _student_weight(residual, noise[window, m]) / noise[window, m]
                for i in range(n):
                    pull[i] += weight * slopes[window, m, i] * residual
                    for j in range(n):
                        part = slopes[window, m, i] * slopes[window, m, j]
                        information[i, j] += weight * part


@nb.njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _climb(
    mean: Floats,
    center: Floats,
    precision: Floats,
    measured: Floats,
    known: Floats,
    noise: Floats,
    shapes: Floats,
    rates: Floats,
    chunks: Floats,
    n_tail: int,
    overhead: float,
    values: Floats,
    slopes: Floats,
) -> float:
    """Move `mean` to the mode by damped Gauss-Newton steps; return the log density there."""
    n_window, n = rates.size, mean.size
    scratch = np.empty((9, 7))
    tried_values, tried_slopes = np.empty((n_window, 5)), np.empty((n_window, 4, 4))
    information, inverse = np.empty((n, n)), np.empty((n, n))
    pull, step, tried = np.empty(n), np.empty(n), np.empty(n)
    _fit_windows(mean, shapes, rates, chunks, n_tail, overhead, scratch, values, slopes)
    best = _log_density(mean, center, precision, measured, known, noise, values)
    damping = 1.0
    for _ in range(_MAX_STEPS):
        _normal_equations(
            mean, center, precision, measured, known, noise, values, slopes, information, pull
        )
        _invert(information, inverse)
        promise, longest = 0.0, 0.0
        for i in range(n):
            step[i] = 0.0
            for j in range(n):
                step[i] += inverse[i, j] * pull[j]
            promise += pull[i] * step[i]
            longest = max(longest, abs(step[i]))
        if promise < _PROMISE_TOL or damping < _LEAST_DAMPING:
            break
        scale = damping * min(1.0, _LONGEST_STEP / longest)
        for i in range(n):
            tried[i] = mean[i] + scale * step[i]
        _fit_windows(
            tried, shapes, rates, chunks, n_tail, overhead, scratch, tried_values, tried_slopes
        )
        density = _log_density(tried, center, precision, measured, known, noise, tried_values)
        if density >= best:
            best = density
            mean[:] = tried
            values[:] = tried_values
            slopes[:] = tried_slopes
            damping = min(1.0, 2.0 * damping)
        else:
            damping *= 0.25
    return best  # type: ignore[no-any-return]


@nb.njit(nogil=True, cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def fit_belief(
    mean: Floats,
    cov: Floats,
    start: Floats,
    shapes: Floats,
    rates: Floats,
    chunks: Floats,
    n_tail: int,
    overhead: float,
    measured: Floats,
    known: Floats,
    plain_noise: Floats,
    wait_log_sd: float,
    results: Floats,
    values: Floats,
    slopes: Floats,
) -> float:
    """Update one belief in place with windows taken together; return its log evidence.

    Parameters
    ----------
    mean : ndarray, shape (3,) or (4,)
        Logs of the three numbers, and of measured over predicted TTFT where it is unknown;
        overwritten by the posterior mode.
    cov : ndarray, shape (n, n)
        Covariance; overwritten.
    start : ndarray, shape (n,)
        Where the search of the mode starts.
    shapes : ndarray, shape (n_window, 2)
        Mean prompt and output tokens.
    rates : ndarray, shape (n_window,)
        Arrivals in requests/s.
    chunks : ndarray, shape (n_window, B)
        Prefill steps with 1..B requests in the batch.
    n_tail : int
        Places in the waiting room.
    overhead : float
        Seconds of client and network in TTFT.
    measured, known : ndarray, shape (n_window, 3)
        Logs of TTFT, ITL and throughput; one where measured, else zero.
    plain_noise : ndarray, shape (n_window, 3)
        Variances of these logs where nobody waits.
    wait_log_sd : float
        Standard deviation of the log of a waiting time.
    results : ndarray, shape (n_window, 4, 3)
        Filled: residual, weight, fitted variance and noise of each metric.
    values, slopes : ndarray, shapes (n_window, 5) and (n_window, 4, 4)
        Filled: what the chain gives at the mode.

    Returns
    -------
    float
        Log density of the windows under the belief as it was.
    """
    n = mean.size
    precision, information = np.empty((n, n)), np.empty((n, n))
    center, pull, noise = mean.copy(), np.empty(n), plain_noise.copy()
    log_det: float = _invert(cov, precision)
    mean[:] = start
    density, last_share = 0.0, np.zeros(rates.size)
    for _ in range(4):  # how much of TTFT is waiting is known only at the mode
        density = _climb(
            mean,
            center,
            precision,
            measured,
            known,
            noise,
            shapes,
            rates,
            chunks,
            n_tail,
            overhead,
            values,
            slopes,
        )
        moved = 0.0
        for window in range(rates.size):
            moved = max(moved, abs(values[window, 4] - last_share[window]))
        if moved < _SHARE_TOL:
            break
        for window in range(rates.size):
            last_share[window] = values[window, 4]
            waiting = wait_log_sd * values[window, 4]
            noise[window, 0] = plain_noise[window, 0] + waiting * waiting
    _normal_equations(
        mean, center, precision, measured, known, noise, values, slopes, information, pull
    )
    log_det += _invert(information, cov)
    for window in range(rates.size):
        for m in range(3):
            residual = measured[window, m] - values[window, m]
            variance = 0.0
            for i in range(n):
                for j in range(n):
                    variance += slopes[window, m, i] * cov[i, j] * slopes[window, m, j]
            results[window, 0, m] = residual * known[window, m]
            weight = _student_weight(residual, noise[window, m])
            results[window, 1, m] = weight * known[window, m]
            results[window, 2, m] = variance
            results[window, 3, m] = noise[window, m]
    return density - 0.5 * log_det
