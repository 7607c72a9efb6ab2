"""One measurement against many beliefs: an iterated Kalman update in logs with Student-t weights.

All beliefs (a main one and its rivals) are updated against the same window. The mode is found by
damped Gauss-Newton steps on the exact latencies of the chain; the evidence is Laplace's. The
iterated filter is Bell and Cathey (1993), doi:10.1109/9.250476; the Student-t likelihood by
weights is Lange, Little and Taylor (1989), doi:10.1080/01621459.1989.10478852.
"""

import math
from dataclasses import dataclass

import numpy as np

from tailcast.queueing.sensitivity import chunk_table
from tailcast.queueing.server import Floats, ServerLimits
from tailcast.queueing.windows import Window, window_columns

# a waiting time of the chain is right to a factor, not to per cents: it assumes exponential
# service, and real service varies far less
WAIT_LOG_SD = 0.7
_THROUGHPUT_LOG_SD = 0.05
_SATURATED_BELOW = 0.97


@dataclass(frozen=True, slots=True, kw_only=True)
class Beliefs:
    """Normal beliefs of the logs of the three numbers.

    Parameters
    ----------
    mean : ndarray, shape (n_belief, 3)
        Logs of seconds.
    cov : ndarray, shape (n_belief, 3, 3)
        Covariances.
    """

    mean: Floats
    cov: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterStep:
    """Beliefs after a window; metrics are TTFT, ITL and throughput.

    Parameters
    ----------
    beliefs : Beliefs
        Posterior modes and their covariances.
    log_evidence : ndarray, shape (n_belief,)
        Log density of the window under each belief.
    residual : ndarray, shape (n_belief, 3)
        Measured less fitted logs; zero where unknown.
    weight : ndarray, shape (n_belief, 3)
        Student-t weights; zero where unknown.
    fitted_variance : ndarray, shape (n_belief, 3)
        Variance of the fitted logs from that of the three numbers.
    noise : ndarray, shape (n_belief, 3)
        Variances of the measured logs that were assumed.
    """

    beliefs: Beliefs
    log_evidence: Floats
    residual: Floats
    weight: Floats
    fitted_variance: Floats
    noise: Floats


def update_beliefs(
    beliefs: Beliefs,
    window: Window,
    limits: ServerLimits,
    variance: Floats,
    overhead: float = 0.0,
) -> FilterStep:
    """Update every belief with one window.

    Parameters
    ----------
    beliefs : Beliefs
        Before the window.
    window : Window
        What was measured; throughput counts only where it falls short of the rate.
    limits : ServerLimits
        Of the replica.
    variance : ndarray, shape (2,)
        Variances of the logs of TTFT and ITL around the chain.
    overhead : float
        Client and network time in TTFT, in seconds.

    Returns
    -------
    FilterStep
        After the window; always finite.
    """
    # numba is slow to import, and the compiled loops are needed only here
    from tailcast.queueing.log_filter_kernel import update_each

    columns = window_columns([window])
    saturated = window.throughput < _SATURATED_BELOW * window.rate
    measured = np.array([window.ttft, window.itl, window.throughput if saturated else math.nan])
    known = np.isfinite(measured)
    plain = np.array([variance[0], variance[1], _THROUGHPUT_LOG_SD**2])
    plain[:2] += [columns.ttft_error[0] ** 2, columns.itl_error[0] ** 2]
    mean, cov = beliefs.mean.copy(), beliefs.cov.copy()
    result = np.empty((mean.shape[0], 13))
    update_each(
        mean,
        cov,
        np.array([window.tokens_in, window.tokens_out], dtype=np.float64),
        float(window.rate),
        chunk_table(columns.shape, limits)[0],
        limits.max_queue,
        float(overhead),
        np.log(np.where(known, measured, 1.0)),
        known.astype(np.float64),
        plain,
        WAIT_LOG_SD,
        result,
    )
    return FilterStep(
        beliefs=Beliefs(mean=mean, cov=cov),
        log_evidence=result[:, 0],
        residual=result[:, 1:4],
        weight=result[:, 4:7],
        fitted_variance=result[:, 7:10],
        noise=result[:, 10:13],
    )
