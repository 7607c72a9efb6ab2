"""Birth-death chain of one replica: states 0..B explicit, the waiting room as a closed tail.

Everything is in logarithms, so that neither a thousand states nor an overload of a thousand
times the capacity overflows, and a rate at the boundary is no special case.
"""

from dataclasses import dataclass

import numpy as np

from tailcast.errors import UsageError
from tailcast.queueing.server import Floats, Real, check_rate

# below this size of (tail length x log ratio) the closed moments cancel; their series do not
_SERIES_BELOW = 0.05


def geometric_tail(log_ratio: Floats, n_step: Real) -> tuple[Floats, Floats]:
    r"""Sum and mean of the weights r^j, j = 0..Q, for any r, one included.

    Parameters
    ----------
    log_ratio : ndarray
        Logarithm of r; may be minus infinity.
    n_step : float or ndarray
        Q, not negative.

    Returns
    -------
    log_total, mean_step : ndarray
        :math:`\log\sum_j r^j` and :math:`\sum_j j r^j / \sum_j r^j`.

    Examples
    --------
    >>> log_total, mean_step = geometric_tail(np.asarray(0.0), 4)
    >>> round(float(np.exp(log_total)), 9), float(mean_step)
    (5.0, 2.0)
    """
    x = np.asarray(log_ratio, np.float64)
    n = np.asarray(n_step, np.float64) + 1.0
    a = np.abs(x)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        # weights falling from 1: sum (1 - e^-na)/(1 - e^-a), mean f(a) - n f(na), f = 1/(e^a - 1)
        total = np.where(a > 0, np.expm1(-n * a) / np.expm1(-a), n)
        tail = np.where(np.isinf(n * a), 0.0, n / np.expm1(n * a))
        exact = np.where(np.isinf(a), 0.0, 1.0 / np.expm1(a)) - tail
        series = (n - 1.0) / 2.0 - a * (n * n - 1.0) / 12.0 + a**3 * (n**4 - 1.0) / 720.0
        falling = np.where(n * a < _SERIES_BELOW, series, exact)
        log_total = np.log(total) + np.where(x > 0, (n - 1.0) * a, 0.0)
    return log_total, np.where(x > 0, n - 1.0 - falling, falling)


@dataclass(frozen=True, slots=True, kw_only=True)
class Occupancy:
    """Stationary distribution of the requests in the system, and its means.

    Parameters
    ----------
    log_p : ndarray, shape (..., B + 1)
        Log-probabilities of the states 0..B.
    log_ratio : ndarray, shape (...)
        Log of the ratio of neighbouring probabilities beyond B.
    n_tail : int
        States beyond B.
    in_service, in_system : ndarray, shape (...)
        Mean requests in service, and in service or waiting.
    log_p_full : ndarray, shape (...)
        Log-probability that an arrival is lost.
    p_admitted : ndarray, shape (...)
        Probability that an arrival finds a place.
    """

    log_p: Floats
    log_ratio: Floats
    n_tail: int
    in_service: Floats
    in_system: Floats
    log_p_full: Floats
    p_admitted: Floats

    def probabilities(self) -> Floats:
        """Probabilities of every state, the waiting room written out.

        Returns
        -------
        ndarray, shape (..., B + 1 + n_tail)
            Sums to one.
        """
        steps = np.arange(1, self.n_tail + 1, dtype=np.float64)
        tail = self.log_p[..., -1:] + steps * self.log_ratio[..., None]
        return np.exp(np.concatenate([self.log_p, tail], axis=-1))


def occupancy_distribution(rate: Real, log_service_rate: Floats, capacity: int) -> Occupancy:
    r"""Solve the chain with birth rate `rate` and state-dependent death rates.

    .. math:: p_n \propto \prod_{k \le n} \lambda / \mu(\min(k, B))

    Parameters
    ----------
    rate : float or ndarray, shape (...)
        Arrivals in requests/s, greater than zero.
    log_service_rate : ndarray, shape (..., B)
        Log of the departures in requests/s with 1..B requests in service.
    capacity : int
        Requests in the system at most; places beyond B are the waiting room.

    Returns
    -------
    Occupancy
        Distribution and means; finite at any rate.

    Raises
    ------
    UsageError
        If the capacity is below one or the rate is not positive.

    Examples
    --------
    >>> found = occupancy_distribution(1.0, np.log([2.0, 4.0, 6.0]), 4)
    >>> float(found.in_system.round(3))
    0.501
    """
    if capacity < 1:
        raise UsageError(f"chain: capacity must be at least 1, got {capacity!r}")
    log_rate = np.log(check_rate(rate))
    log_mu = np.asarray(log_service_rate, np.float64)[..., :capacity]
    n_busy = log_mu.shape[-1]
    n_tail = capacity - n_busy
    steps = np.cumsum(log_rate[..., None] - log_mu, axis=-1)
    log_weight = np.concatenate([np.zeros((*steps.shape[:-1], 1)), steps], axis=-1)
    log_ratio = log_rate - log_mu[..., -1]
    if n_tail:
        log_tail, tail_mean = geometric_tail(log_ratio, n_tail - 1)
        log_tail = log_tail + log_ratio + log_weight[..., -1]
        log_full = log_weight[..., -1] + n_tail * log_ratio
        waiting_mean = 1.0 + tail_mean
    else:
        log_tail = np.full(log_ratio.shape, -np.inf)
        log_full = log_weight[..., -1]
        waiting_mean = np.zeros(log_ratio.shape)
    top = np.maximum(log_weight.max(axis=-1), log_tail)
    weight = np.exp(log_weight - top[..., None])
    tail = np.exp(log_tail - top)
    total = weight.sum(axis=-1) + tail
    states = np.arange(n_busy + 1, dtype=np.float64)
    in_service = ((weight * states).sum(axis=-1) + n_busy * tail) / total
    log_total = top + np.log(total)
    # all states but the last: without a difference of near-equal numbers in overload
    with np.errstate(over="ignore", invalid="ignore"):
        tail_before = np.where(tail > 0, np.exp(log_tail - log_ratio - top), 0.0)
    admitted = (weight[..., :-1].sum(axis=-1) + tail_before) / total
    return Occupancy(
        log_p=log_weight - log_total[..., None],
        log_ratio=log_ratio,
        n_tail=n_tail,
        in_service=in_service,
        in_system=in_service + waiting_mean * tail / total,
        log_p_full=log_full - log_total,
        p_admitted=admitted,
    )
