"""Fewest replicas that meet targets at a rate or a forecast, for a risk."""

from dataclasses import dataclass

import numpy as np

from tailcast.autoscale.replica import KnownReplica
from tailcast.errors import UsageError
from tailcast.queueing.capacity import (
    CapacityDraws,
    Discrepancy,
    Replicas,
    capacity_draws,
    replicas_for_risk,
)
from tailcast.queueing.known_numbers import N_DRAW
from tailcast.queueing.rate_forecast import RateForecast
from tailcast.queueing.sensitivity import log_latencies
from tailcast.queueing.server import Floats, RequestShape
from tailcast.queueing.sizing import Targets
from tailcast.queueing.windows import Window, window_columns
from tailcast.streams import stream


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeAnswer:
    """Replicas for a risk, and what the answer rests on.

    Parameters
    ----------
    replicas : Replicas
        Fewest, or none.
    capacity : CapacityDraws
        Of one replica.
    rates : ndarray, shape (n_draw,)
        Requests/s over all replicas.
    p_miss_by_replicas : dict of int to float
        Probability of a miss around the answer.
    binding_shares : dict of str to float
        Share of the draws in which each target (or stability) limits a replica.
    ttft, itl : ndarray, shape (n_draw,)
        Means in seconds with that many replicas; of a lone request where none helps.
    """

    replicas: Replicas
    capacity: CapacityDraws
    rates: Floats
    p_miss_by_replicas: dict[int, float]
    binding_shares: dict[str, float]
    ttft: Floats
    itl: Floats


def size_replicas(
    replica: KnownReplica,
    shape: RequestShape,
    forecast: RateForecast,
    targets: Targets,
    risk: float,
    *,
    seed: int,
) -> SizeAnswer:
    """Fewest replicas with P(every mean target is met) >= 1 - risk.

    Parameters
    ----------
    replica : KnownReplica
        Draws of one replica.
    shape : RequestShape
        Mean tokens, scalars.
    forecast : RateForecast
        Rate over all replicas.
    targets : Targets
        On means.
    risk : float
        Accepted probability of a miss, in (0, 1).
    seed : int
        Pairs the forecast with the draws.

    Returns
    -------
    SizeAnswer
        With the probability of a miss for one replica fewer and more.

    Raises
    ------
    UsageError
        If there is no target, or the risk is out of range.
    """
    if not (targets.ttft or targets.itl or targets.tps):
        raise UsageError("size needs a target: --slo ttft=60ms, itl=20ms or tps=500")
    draws, between = replica.known.log_draws, replica.known.discrepancy
    if replica.known.exact and not forecast.exact:
        draws = np.repeat(draws, N_DRAW, axis=0)
    n_draw = draws.shape[0]
    rates = forecast.draws(n_draw, stream(seed, "rate forecast"))
    rates = np.maximum(rates, targets.tps / float(shape.tokens_out))
    capacity = capacity_draws(draws, shape, replica.limits, targets, between)
    replicas = replicas_for_risk(capacity, rates, risk)
    wanted = replicas.n_replica
    nearby = [] if wanted is None else [n for n in (wanted - 1, wanted, wanted + 1) if n > 0]
    per_replica = rates / wanted if wanted else np.full(n_draw, _lone_rate(capacity, rates))
    ttft, itl = _means(draws, shape, replica, per_replica, between)
    shares = np.bincount(capacity.binding_code, minlength=4) / n_draw
    return SizeAnswer(
        replicas=replicas,
        capacity=capacity,
        rates=rates,
        p_miss_by_replicas={n: float(np.mean(rates > n * capacity.rate)) for n in nearby},
        binding_shares=dict(
            zip(("stability", "ttft", "itl", "tps"), map(float, shares), strict=True)
        ),
        ttft=ttft,
        itl=itl,
    )


def _lone_rate(capacity: CapacityDraws, rates: Floats) -> float:
    known = capacity.rate[capacity.rate > 0]
    scale = float(known.min()) if known.size else float(rates.min())
    return 1e-3 * scale


def _means(
    draws: Floats,
    shape: RequestShape,
    replica: KnownReplica,
    rate: Floats,
    between: Discrepancy,
) -> tuple[Floats, Floats]:
    plain = Window(tokens_in=float(shape.tokens_in), tokens_out=float(shape.tokens_out), rate=1.0)
    found = log_latencies(draws, window_columns([plain]), replica.limits, rate=rate[:, None])
    ttft = (np.exp(found.ttft[:, 0]) + between.overhead) * between.ttft_factor
    return np.asarray(ttft), np.asarray(np.exp(found.itl[:, 0]) * between.itl_factor)
