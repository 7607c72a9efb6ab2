"""What one replica does at a given arrival rate: TTFT, ITL, throughput, occupancy, waiting."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tailcast.errors import UsageError
from tailcast.queueing.chain import occupancy_distribution
from tailcast.queueing.server import Floats, Real, ServerLimits, check_rate
from tailcast.queueing.work_model import WorkModel

# the source keeps this distance from the rates 0 and mu(B)
RATE_MARGIN = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class SteadyState:
    """Means of one replica in the long run; times in seconds, rates in requests/s.

    Parameters
    ----------
    rate, throughput : ndarray
        Requests offered and requests served; the difference is lost at a full waiting room.
    ttft, itl : ndarray
        Mean time to first token and mean inter-token latency of the requests served.
    wait, prefill, service : ndarray
        Mean time waiting, mean prefill time, mean time in service.
    in_service, in_system : ndarray
        Mean requests in service, and in service or waiting.
    utilisation : ndarray
        Share of the batch cap in use, within 0 and 1.
    max_rate : ndarray
        Stability boundary.
    """

    rate: Floats
    throughput: Floats
    ttft: Floats
    itl: Floats
    wait: Floats
    prefill: Floats
    service: Floats
    in_service: Floats
    in_system: Floats
    utilisation: Floats
    max_rate: Floats

    @property
    def response(self) -> Floats:
        """Mean time from arrival to the last token, in seconds."""
        return self.wait + self.service

    @property
    def lost(self) -> Floats:
        """Requests/s that found the waiting room full."""
        return np.maximum(0.0, self.rate - self.throughput)

    @property
    def overloaded(self) -> Floats:
        """Whether the rate lies above the stability boundary."""
        return np.asarray(self.rate > self.max_rate)


@dataclass(frozen=True, kw_only=True)
class Replica:
    """One replica: a work model under limits, with its service rates kept.

    Parameters
    ----------
    work : WorkModel
        Fields of shape (...).
    limits : ServerLimits
        Batch cap and waiting room.
    """

    work: WorkModel
    limits: ServerLimits

    @cached_property
    def log_service_rates(self) -> Floats:
        """Logarithms of the departures in requests/s with 1..B in service, shape (..., B)."""
        states = np.arange(1, self.limits.max_batch + 1, dtype=np.float64)
        with np.errstate(divide="ignore"):
            rates: Floats = np.log(states) - np.log(self.work.columns().service_time(states))
        return rates

    @property
    def min_rate(self) -> Floats:
        """Lowest rate considered, in requests/s: 0.001 of what a lone request leaves at."""
        return np.asarray(RATE_MARGIN * np.exp(self.log_service_rates[..., 0]))

    @property
    def max_rate(self) -> Floats:
        """Stability boundary in requests/s: 0.999 of what a full batch leaves at."""
        return np.asarray((1.0 - RATE_MARGIN) * np.exp(self.log_service_rates[..., -1]))

    def steady_state(self, rate: Real) -> SteadyState:
        """Solve the chain at one rate, or at many at once.

        Parameters
        ----------
        rate : float or ndarray, shape (...)
            Arrivals in requests/s; broadcasts with the fields of the work model.

        Returns
        -------
        SteadyState
            Finite in overload: the waiting room is full and what does not fit is lost.

        Raises
        ------
        UsageError
            If a rate is not positive or, with V0 and V1, lies above the stability boundary.
        """
        rates, max_rate = check_rate(rate), self.max_rate
        if self.work.rejects_overload and np.any(rates > max_rate):
            worst = float(np.min(np.where(rates > max_rate, max_rate, np.inf)))
            raise UsageError(
                f"rate is above the stability boundary of {worst:.6g} requests/s; "
                f"work model {self.work.version} has no answer there, V2 has"
            )
        found = occupancy_distribution(rates, self.log_service_rates, self.limits.capacity)
        throughput = rates * found.p_admitted
        service = found.in_service / throughput
        wait = (found.in_system - found.in_service) / throughput
        prefill, itl, first_token = self.work.split_service(service, found.in_service)
        return SteadyState(
            rate=np.broadcast_to(rates, throughput.shape),
            throughput=throughput,
            ttft=wait + first_token,
            itl=itl,
            wait=wait,
            prefill=prefill,
            service=service,
            in_service=found.in_service,
            in_system=found.in_system,
            utilisation=np.clip(found.in_service / self.limits.max_batch, 0.0, 1.0),
            max_rate=max_rate,
        )


def fluid_step_time(
    alpha: Real, mean_work: Real, n_step: Real, rate: Real
) -> tuple[Floats, Floats]:
    r"""Step time of a replica without batch cap or waiting room.

    With n = rate x steps x step time requests in the batch the step time solves
    :math:`T = \alpha + n\delta`, so :math:`T = \alpha / (1 - \rho)`.

    Parameters
    ----------
    alpha : float or ndarray
        Overhead of a step in seconds.
    mean_work : float or ndarray
        Work a request adds to a step in seconds.
    n_step : float or ndarray
        Steps in the life of a request.
    rate : float or ndarray
        Arrivals in requests/s.

    Returns
    -------
    step_time, load : ndarray
        Seconds (infinite at a load of one or more), and the load rho.

    Examples
    --------
    >>> tuple(float(part) for part in fluid_step_time(0.008, 0.0002, 100, 25.0))
    (0.016, 0.5)
    """
    load = np.asarray(rate, np.float64) * n_step * mean_work
    with np.errstate(divide="ignore", invalid="ignore"):
        step = np.where(load < 1.0, alpha / (1.0 - load), np.inf)
    return step, load
