"""Largest rate at which one replica meets its targets."""

from dataclasses import dataclass
from typing import Literal

from tailcast.errors import TailcastError, UsageError
from tailcast.queueing.bisection import bisect
from tailcast.queueing.server import is_round
from tailcast.queueing.steady_state import Replica, SteadyState

# a target on tokens/s keeps this distance from the stability boundary, whatever its value
TPS_SAFETY = 0.1

Binding = Literal["ttft", "itl", "tps", "stability"]


class InfeasibleTargetError(TailcastError, ValueError):
    """A target that even a lone request misses: no number of replicas can help."""

    exit_code = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """Targets on means; zero means no target.

    Parameters
    ----------
    ttft : float
        Mean time to first token in seconds.
    itl : float
        Mean inter-token latency in seconds.
    tps : float
        Output tokens per second over all replicas.
    """

    ttft: float = 0.0
    itl: float = 0.0
    tps: float = 0.0

    def __post_init__(self) -> None:
        for field in ("ttft", "itl", "tps"):
            value = getattr(self, field)
            if value is None or not 0 <= value < float("inf"):
                raise UsageError(f"targets: {field} must not be negative, got {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """Rates that one replica can take.

    Parameters
    ----------
    rate : float
        Largest rate that meets every target, in requests/s.
    rate_by_target : dict of str to float
        Largest rate for each of "ttft", "itl" and "tps"; the stability boundary where there is
        no such target.
    binding : {"ttft", "itl", "tps", "stability"}
        What limits the rate.
    state : SteadyState
        The replica at that rate.
    """

    rate: float
    rate_by_target: dict[str, float]
    binding: Binding
    state: SteadyState

    @property
    def capacity(self) -> float:
        """Requests/s that one replica serves within its targets."""
        return float(self.state.throughput)


def _largest_rate(replica: Replica, metric: str, target: float) -> float:
    low = float(replica.min_rate)

    def value(rate: float) -> float:
        return float(getattr(replica.steady_state(rate), metric))

    rate, side = bisect(value, low, float(replica.max_rate), target)
    if side < 0:
        raise InfeasibleTargetError(
            f"mean {metric} target of {target * 1e3:.6g} ms cannot be met: a request alone takes "
            f"{value(low) * 1e3:.6g} ms; no number of replicas can help"
        )
    return rate


def largest_rate(replica: Replica, targets: Targets) -> Sizing:
    """Size one replica: the largest rate that meets all targets.

    Parameters
    ----------
    replica : Replica
        Work model without dimensions, and limits.
    targets : Targets
        Means asked for.

    Returns
    -------
    Sizing
        Rate, what binds, and the state at that rate.

    Raises
    ------
    InfeasibleTargetError
        If a lone request already misses a target.
    UsageError
        If service takes no time at all, so that every rate is feasible.
    """
    boundary = float(replica.max_rate)
    if not boundary < float("inf"):
        raise UsageError("sizing: service takes no time at all; alpha, beta and gamma are zero")
    rates = {
        "ttft": _largest_rate(replica, "ttft", targets.ttft) if targets.ttft else boundary,
        "itl": _largest_rate(replica, "itl", targets.itl) if targets.itl else boundary,
        "tps": boundary * (1.0 - TPS_SAFETY) if targets.tps else boundary,
    }
    rate = min(rates.values())
    binding: Binding = "stability"
    for name in ("ttft", "itl", "tps"):
        if rates[name] == rate and rate < boundary:
            binding = name
            break
    return Sizing(
        rate=rate,
        rate_by_target=rates,
        binding=binding,
        state=replica.steady_state(rate),
    )


def replicas_for_rate(rate: float, capacity: float, least: int = 1) -> int:
    """Fewest replicas that serve a rate.

    Parameters
    ----------
    rate : float
        Requests/s over all replicas, not negative.
    capacity : float
        Requests/s that one replica serves within its targets.
    least : int
        Replicas kept whatever the rate.

    Returns
    -------
    int
        Replicas.

    Examples
    --------
    >>> replicas_for_rate(8.0, 2.9)
    3
    """
    if not capacity > 0:
        raise UsageError(f"replicas: capacity must be positive, got {capacity!r}")
    whole, rest = divmod(rate, capacity)
    exact = is_round(rate / capacity)
    return max(least, int(rate / capacity) if exact else int(whole) + (rest > 0))
