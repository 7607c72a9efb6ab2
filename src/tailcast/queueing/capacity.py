"""Capacity of a replica over draws of the three numbers, and replicas for a risk."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import UsageError
from tailcast.queueing.sensitivity import chunk_table, log_latencies
from tailcast.queueing.server import Floats, Real, RequestShape, ServerLimits
from tailcast.queueing.sizing import TPS_SAFETY, Binding, Targets
from tailcast.queueing.steady_state import RATE_MARGIN, SteadyState
from tailcast.queueing.windows import Window, window_columns

_HALVINGS = 40
# a target that is met to within this counts as what binds
_BINDING_TOL = 1e-4
_CODES: tuple[Binding, ...] = ("stability", "ttft", "itl", "tps")


@dataclass(frozen=True, slots=True, kw_only=True)
class Discrepancy:
    """What lies between the chain and a measured mean, by draw or the same for all.

    Parameters
    ----------
    overhead : float or ndarray, shape (n_draw,)
        Client and network time added to TTFT, in seconds.
    ttft_factor, itl_factor : float or ndarray, shape (n_draw,)
        Measured over predicted.
    """

    overhead: Real = 0.0
    ttft_factor: Real = 1.0
    itl_factor: Real = 1.0

    def measured(self, state: SteadyState) -> SteadyState:
        """State whose TTFT and ITL are as they would be measured.

        Parameters
        ----------
        state : SteadyState
            Of the chain; arrays of shape (n_draw,).

        Returns
        -------
        SteadyState
            The other means are the chain's.
        """
        ttft = np.asarray(self.overhead + state.ttft) * self.ttft_factor
        return replace(state, ttft=ttft, itl=np.asarray(state.itl * self.itl_factor))


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityDraws:
    """Largest rate that meets all targets, by draw.

    Parameters
    ----------
    rate : ndarray, shape (n_draw,)
        Requests/s; zero where a lone request already misses a target.
    binding_code : ndarray of int, shape (n_draw,)
        Place of what limits the rate in "stability", "ttft", "itl", "tps".
    """

    rate: Floats
    binding_code: NDArray[np.int64]

    @property
    def p_infeasible(self) -> float:
        """Share of the draws in which a lone request already misses a target."""
        return float(np.mean(self.rate <= 0))

    @property
    def binding(self) -> Binding:
        """What limits the rate in most draws."""
        counts = np.bincount(self.binding_code, minlength=len(_CODES))
        return _CODES[int(counts.argmax())]


def capacity_draws(
    log_numbers: Floats,
    shape: RequestShape,
    limits: ServerLimits,
    targets: Targets,
    discrepancy: Discrepancy | None = None,
) -> CapacityDraws:
    """Size one replica under each draw, with work model V2.

    Parameters
    ----------
    log_numbers : ndarray, shape (n_draw, 3)
        Logs of alpha, beta and gamma in seconds.
    shape : RequestShape
        Mean tokens, scalars.
    limits : ServerLimits
        Of the replica.
    targets : Targets
        On means.
    discrepancy : Discrepancy, optional
        Between chain and measurement; none by default.

    Returns
    -------
    CapacityDraws
        One rate a draw.
    """
    between = discrepancy or Discrepancy()
    draws = np.atleast_2d(log_numbers)
    tokens_in, tokens_out = float(shape.tokens_in), float(shape.tokens_out)
    lone = Window(tokens_in=tokens_in, tokens_out=tokens_out, rate=1.0)
    columns = window_columns([lone])
    chunks = chunk_table(columns.shape, limits)
    cap = {
        "ttft": (targets.ttft or np.inf) / np.asarray(between.ttft_factor) - between.overhead,
        "itl": (targets.itl or np.inf) / np.asarray(between.itl_factor),
    }

    def excess(rate: Floats) -> tuple[Floats, Floats]:
        found = log_latencies(draws, columns, limits, rate=rate[:, None], chunks=chunks)
        with np.errstate(divide="ignore", invalid="ignore"):
            ttft = found.ttft[:, 0] - np.log(np.maximum(cap["ttft"], 0.0))
            itl = found.itl[:, 0] - np.log(np.maximum(cap["itl"], 0.0))
        return ttft, itl

    low, high = _rate_range(draws, tokens_in, tokens_out, chunks[0])
    if targets.tps:
        high = high * (1.0 - TPS_SAFETY)
    infeasible = np.maximum(*excess(low)) > 0
    unbound = np.maximum(*excess(high)) <= 0
    below, above = np.log(low), np.log(high)
    for _ in range(_HALVINGS):
        middle = 0.5 * (below + above)
        missed = np.maximum(*excess(np.exp(middle))) > 0
        above = np.where(missed, middle, above)
        below = np.where(missed, below, middle)
    rate = np.where(unbound, high, np.exp(below))
    ttft, itl = excess(rate)
    code = np.where(ttft >= itl, _CODES.index("ttft"), _CODES.index("itl"))
    at_end = np.maximum(ttft, itl) < -_BINDING_TOL
    code = np.where(at_end, _CODES.index("tps" if targets.tps else "stability"), code)
    return CapacityDraws(rate=np.where(infeasible, 0.0, rate), binding_code=code)


def _rate_range(
    log_numbers: Floats, tokens_in: float, tokens_out: float, chunks: Floats
) -> tuple[Floats, Floats]:
    alpha, beta, gamma = np.exp(log_numbers).T
    ends = []
    for n, c in ((1.0, chunks[0]), (float(chunks.size), chunks[-1])):
        reads = tokens_in * (c + 1.0) / 2.0 + tokens_out * (tokens_in + (tokens_out + 1.0) / 2.0)
        service = (c + tokens_out) * alpha + n * (beta * (tokens_in + tokens_out) + gamma * reads)
        ends.append(n / service)
    return RATE_MARGIN * ends[0], (1.0 - RATE_MARGIN) * ends[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicas:
    """Fewest replicas for a risk.

    Parameters
    ----------
    n_replica : int or None
        None where no number of replicas can help.
    p_miss : float
        Probability that a mean target is missed with these (or with any number of) replicas.
    binding : {"ttft", "itl", "tps", "stability"}
        What limits a replica in most draws.
    p_infeasible : float
        Probability that even a lone request misses a target.
    """

    n_replica: int | None
    p_miss: float
    binding: Literal["ttft", "itl", "tps", "stability"]
    p_infeasible: float


def replicas_for_risk(capacity: CapacityDraws, rate: Real, risk: float, least: int = 1) -> Replicas:
    """Fewest replicas with P(all mean targets are met) >= 1 - risk.

    Parameters
    ----------
    capacity : CapacityDraws
        Capacity of one replica.
    rate : float or ndarray, shape (n_draw,)
        Requests/s over all replicas; draws of a forecast are paired with those of the capacity.
    risk : float
        Accepted probability of a miss, in (0, 1).
    least : int
        Replicas kept whatever the rate.

    Returns
    -------
    Replicas
        With the probability of a miss; no number where the risk lies below that of infeasibility.

    Raises
    ------
    UsageError
        If the risk or a rate is out of range, or the draws do not pair.
    """
    if not 0.0 < risk < 1.0:
        raise UsageError(f"risk must lie between 0 and 1, got {risk!r}")
    rates = np.asarray(rate, np.float64)
    if np.any(~(rates >= 0)) or np.any(np.isinf(rates)):
        raise UsageError("rates must not be negative, and finite")
    if rates.ndim and rates.shape != capacity.rate.shape:
        raise UsageError(
            f"a forecast of {rates.size} draws does not pair with {capacity.rate.size} of capacity"
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        needed = np.where(capacity.rate > 0, np.ceil(rates / capacity.rate), np.inf)
    # rounding must not cost a replica where the rate is a multiple of the capacity
    exact = np.isclose(needed - 1.0, rates / np.maximum(capacity.rate, 1e-300), rtol=1e-9)
    needed = np.where(np.isfinite(needed) & exact, needed - 1.0, needed)
    in_order = np.sort(np.maximum(needed, float(least)))
    place = int(np.ceil((1.0 - risk) * in_order.size)) - 1
    wanted = in_order[max(0, place)]
    n_replica = int(wanted) if np.isfinite(wanted) else None
    p_miss = float(np.mean(needed > wanted)) if n_replica is not None else capacity.p_infeasible
    return Replicas(
        n_replica=n_replica,
        p_miss=p_miss,
        binding=capacity.binding,
        p_infeasible=capacity.p_infeasible,
    )
