"""Measurements against beliefs: an iterated Kalman update in logs with Student-t weights.

The mode is found by damped Gauss-Newton steps on the exact latencies of the chain; the evidence
is Laplace's. The iterated filter is Bell and Cathey (1993), doi:10.1109/9.250476; the Student-t
likelihood by weights is Lange, Little and Taylor (1989), doi:10.1080/01621459.1989.10478852.
"""

import math
from collections.abc import Sequence
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
class FilterStep:
    """A belief after windows; metrics are TTFT, ITL and throughput.

    Parameters
    ----------
    mean : ndarray, shape (3,) or (4,)
        Posterior mode of the logs of alpha, beta, gamma in seconds, and of measured over predicted
        TTFT where that is unknown.
    cov : ndarray, shape (n, n)
        Its covariance.
    log_evidence : float
        Log density of the windows under the belief before them.
    residual : ndarray, shape (n_window, 3)
        Measured less fitted logs; zero where unknown.
    weight : ndarray, shape (n_window, 3)
        Student-t weights; zero where unknown.
    fitted_variance : ndarray, shape (n_window, 3)
        Variance of the fitted logs from that of the unknowns.
    noise : ndarray, shape (n_window, 3)
        Variances of the measured logs that were assumed.
    slopes : ndarray, shape (n_window, 3, n)
        Derivatives of the fitted logs in the unknowns.
    """

    mean: Floats
    cov: Floats
    log_evidence: float
    residual: Floats
    weight: Floats
    fitted_variance: Floats
    noise: Floats
    slopes: Floats


class LogFilter:
    """Windows made ready for updates of any number of beliefs.

    Parameters
    ----------
    windows : sequence of Window
        Taken together.
    limits : ServerLimits
        Of the replica.
    variance : ndarray, shape (2,)
        Variances of the logs of TTFT and ITL around the chain.
    overhead : float
        Client and network time in TTFT, in seconds.
    ttft_log_bias : float
        Mean of ln(measured TTFT) less that of the chain with the overhead.
    """

    __slots__ = (
        "_chunks",
        "_known",
        "_measured",
        "_noise",
        "_rates",
        "_shapes",
        "limits",
        "overhead",
    )

    def __init__(
        self,
        windows: Sequence[Window],
        limits: ServerLimits,
        variance: Floats,
        *,
        overhead: float = 0.0,
        ttft_log_bias: float = 0.0,
    ) -> None:
        columns = window_columns(windows)
        saturated = columns.throughput < _SATURATED_BELOW * columns.rate
        throughput = np.where(saturated, columns.throughput, math.nan)
        measured = np.stack([columns.ttft, columns.itl, throughput], axis=-1)
        known = np.isfinite(measured)
        noise = np.empty(measured.shape)
        noise[:, 0] = variance[0] + columns.ttft_error**2
        noise[:, 1] = variance[1] + columns.itl_error**2
        noise[:, 2] = _THROUGHPUT_LOG_SD**2
        self.limits = limits
        self.overhead = float(overhead)
        self._shapes = np.stack([columns.tokens_in, columns.tokens_out], axis=-1)
        self._rates = columns.rate
        self._chunks = chunk_table(columns.shape, limits)
        self._measured = np.log(np.where(known, measured, 1.0)) - [ttft_log_bias, 0.0, 0.0]
        self._known = known.astype(np.float64)
        self._noise = noise

    def update(self, mean: Floats, cov: Floats, start: Floats | None = None) -> FilterStep:
        """Update a belief with the windows.

        Parameters
        ----------
        mean : ndarray, shape (3,) or (4,)
            Logs of seconds; a fourth unknown is the log of measured over predicted TTFT.
        cov : ndarray, shape (n, n)
            Covariance.
        start : ndarray, shape (n,), optional
            Where the search of the mode starts; the mean by default.

        Returns
        -------
        FilterStep
            Always finite.
        """
        # numba is slow to import, and the compiled loops are needed only here
        from tailcast.queueing.log_filter_kernel import fit_belief

        new_mean, new_cov = mean.copy(), cov.copy()
        n_window = self._rates.size
        results = np.empty((n_window, 4, 3))
        values, slopes = np.empty((n_window, 5)), np.empty((n_window, 4, 4))
        evidence = fit_belief(
            new_mean,
            new_cov,
            mean if start is None else start,
            self._shapes,
            self._rates,
            self._chunks,
            self.limits.max_queue,
            self.overhead,
            self._measured,
            self._known,
            self._noise,
            WAIT_LOG_SD,
            results,
            values,
            slopes,
        )
        return FilterStep(
            mean=new_mean,
            cov=new_cov,
            log_evidence=float(evidence),
            residual=results[:, 0],
            weight=results[:, 1],
            fitted_variance=results[:, 2],
            noise=results[:, 3],
            slopes=slopes[:, :3, : mean.size],
        )


def without_nonlinearity(
    mean: Floats, cov: Floats, step: FilterStep, window: int
) -> tuple[Floats, Floats]:
    """Absorb one window of a step into the belief before it, linearised at the step's mode.

    Parameters
    ----------
    mean, cov : ndarray, shapes (n,) and (n, n)
        Belief before the windows.
    step : FilterStep
        The windows taken together.
    window : int
        Which of them.

    Returns
    -------
    mean, cov : ndarray, shapes (n,) and (n, n)
        Belief that, with the other windows, has the same mode as before.
    """
    weight = step.weight[window] / step.noise[window]
    slopes = step.slopes[window]
    precision = np.linalg.inv(cov)
    information = precision + slopes.T @ (weight[:, None] * slopes)
    # the window as a linear measurement: residual + slopes (mode - x)
    pull = precision @ (mean - step.mean) + slopes.T @ (weight * step.residual[window])
    new_cov = np.linalg.inv(information)
    return step.mean + new_cov @ pull, 0.5 * (new_cov + new_cov.T)
