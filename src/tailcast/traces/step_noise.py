"""How step durations scatter about a linear law, and how much they tell."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.traces.step_log import StepLog

type Floats = NDArray[np.float64]

_ROUNDS = 30
LAW_TERMS = ("step", "prefill_token", "prefill_request", "decode_request")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepNoise:
    """Scatter of log durations about a robust linear law of the batch.

    Parameters
    ----------
    coefficients : ndarray, shape (4,)
        Seconds per step, prefill token, prefill request and decode request (`LAW_TERMS`): the law
        that the scatter is measured about, not an estimate to be used further.
    residual : ndarray, shape (n_step,)
        Log of elapsed over law; NaN for steps without a duration.
    sd : float
        Standard deviation of the residuals.
    skew : float
        Their third standardised moment; above 0 where slow steps reach further than fast ones.
    lag1 : float
        Autocorrelation of one step with the next of its segment.
    n_step : int
        Steps with a duration.
    n_effective : float
        Independent steps that would tell as much about the level of the durations, slow drift of
        the machine's speed included.
    n_effective_short : float
        The same, were the noise autoregressive of first order (``n (1 - lag1) / (1 + lag1)``): for
        a model that has a level of its own for each run.
    """

    coefficients: Floats
    residual: Floats
    sd: float
    skew: float
    lag1: float
    n_step: int
    n_effective: float
    n_effective_short: float


def step_noise(log: StepLog) -> StepNoise:
    """Measure the noise of a step log.

    Durations are the law times a noise that is skewed and drifts slowly (the speed of a machine
    changes), so steps are worth far fewer independent ones.

    Parameters
    ----------
    log : StepLog
        Steps.

    Returns
    -------
    StepNoise
        NaN statistics where there are fewer than three steps with a duration.
    """
    timed = log.elapsed > 0
    coefficients, fitted = _robust_law(log, timed)
    residual = np.full(len(log), np.nan)
    residual[timed] = np.log(log.elapsed[timed] / fitted[timed])
    values, segment = residual[timed], log.segment[timed]
    if len(values) < 3:
        nan = float("nan")
        return StepNoise(
            coefficients=coefficients,
            residual=residual,
            sd=nan,
            skew=nan,
            lag1=nan,
            n_step=len(values),
            n_effective=float(len(values)),
            n_effective_short=float(len(values)),
        )
    centred = values - values.mean()
    sd = float(np.sqrt(np.mean(centred**2)))
    skew = float(np.mean(centred**3) / sd**3) if sd > 0 else 0.0
    covariance = _autocovariance(centred, segment)
    correlation = covariance / covariance[0] if covariance[0] > 0 else np.zeros(2)
    lag1 = float(correlation[1])
    return StepNoise(
        coefficients=coefficients,
        residual=residual,
        sd=sd,
        skew=skew,
        lag1=lag1,
        n_step=len(values),
        n_effective=effective_size(values, segment),
        n_effective_short=len(values) * (1 - max(lag1, 0.0)) / (1 + max(lag1, 0.0)),
    )


def effective_size(values: Floats, segment: NDArray[np.int64]) -> float:
    r"""Number of independent values with the same variance of their mean.

    .. math:: n / (1 + 2 \sum_k \rho_k)

    The sum is cut where the sums of neighbouring pairs of autocorrelations stop being positive,
    and these sums are made to fall [1]_.

    Parameters
    ----------
    values : ndarray, shape (n,)
        In order.
    segment : ndarray of int, shape (n,)
        Stretch that each belongs to; lags never reach into another one.

    Returns
    -------
    float
        At least 1 and at most n.

    References
    ----------
    .. [1] C. J. Geyer, "Practical Markov Chain Monte Carlo", Statistical Science 7, 1992,
       doi:10.1214/ss/1177011137.
    """
    n = len(values)
    if n < 4:
        return float(n)
    covariance = _autocovariance(values - values.mean(), segment)
    if not covariance[0] > 0:
        return float(n)
    rho = covariance / covariance[0]
    pairs = rho[0 : len(rho) // 2 * 2].reshape(-1, 2).sum(axis=1)
    stop = np.flatnonzero(pairs <= 0)
    pairs = np.minimum.accumulate(pairs[: stop[0]] if len(stop) else pairs)
    inflation = max(2.0 * float(pairs.sum()) - 1.0, 1.0)
    return max(n / inflation, 1.0)


def _autocovariance(centred: Floats, segment: NDArray[np.int64]) -> Floats:
    """Autocovariances up to half the longest segment, pooled over segments."""
    starts = np.flatnonzero(np.append(True, np.diff(segment) != 0))
    parts = np.split(centred, starts[1:])
    n_lag = max(2, max(len(part) for part in parts) // 2)
    total = np.zeros(n_lag)
    for part in parts:
        size = 1 << (2 * len(part) - 1).bit_length()
        spectrum = np.fft.rfft(part, size)
        products = np.fft.irfft(spectrum * spectrum.conj(), size)[: min(n_lag, len(part))]
        total[: len(products)] += products
    return total / len(centred)


def _robust_law(log: StepLog, timed: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    """Least absolute relative errors by reweighting; coefficients and fitted seconds."""
    design = np.stack(
        [np.ones(len(log)), log.prefill_tokens, log.prefill_requests, log.decode_requests], axis=1
    )
    if not timed.any():
        return np.zeros(len(LAW_TERMS)), np.ones(len(log))
    x, y = design[timed] / log.elapsed[timed, None], np.ones(int(timed.sum()))
    weight = np.ones(len(y))
    coefficients = np.zeros(len(LAW_TERMS))
    for _ in range(_ROUNDS):
        root = np.sqrt(weight)
        coefficients = np.linalg.lstsq(x * root[:, None], y * root, rcond=None)[0]
        weight = 1.0 / np.maximum(np.abs(y - x @ coefficients), 1e-4)
    # A law that is nearly 0 for some batch would make the log of a ratio meaningless.
    least = 0.05 * float(np.median(log.elapsed[timed]))
    fitted = np.maximum(design @ coefficients, least)
    return coefficients, fitted
