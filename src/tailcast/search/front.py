"""Members of a Pareto front, confirmed on fresh blocks."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.search.evaluator import Job
from tailcast.search.executors import CONFIRM
from tailcast.search.pareto import race_front
from tailcast.search.race import Race
from tailcast.search.sequential import clopper_pearson

Array = NDArray[np.float64]

MOST_MEMBERS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontMember:
    """One candidate that no other beats on cost, P(met) and capacity at once.

    Parameters
    ----------
    candidate : int
        Its place.
    cost : float
        Accelerators or $/h.
    capacity : float
        Requests/s at the stability boundary.
    n_met, n_block : int
        Fresh blocks that meet all objectives, and all.
    p_met_low, p_met_high : float
        90 % Clopper-Pearson interval of P(met); Monte Carlo error only.
    holds : bool
        Whether P(met) is shown to reach 1 - risk, for all members together at 5 %.
    """

    candidate: int
    cost: float
    capacity: float
    n_met: int
    n_block: int
    p_met_low: float
    p_met_high: float
    holds: bool

    @property
    def p_met(self) -> float:
        """Share of the fresh blocks that meet all objectives."""
        return self.n_met / self.n_block


def confirm_front(
    race: Race, capacity: Array, *, n_confirm: int, tell: Callable[[str], None]
) -> tuple[FrontMember, ...]:
    """Race for the front and evaluate its members on fresh blocks.

    Parameters
    ----------
    race : Race
        Not begun.
    capacity : ndarray, shape (n_candidate,)
        Requests/s.
    n_confirm : int
        Fresh blocks of each member.
    tell : callable
        Told each step.

    Returns
    -------
    tuple of FrontMember
        By cost; those that fresh blocks show to be beaten by another member are left out.
    """
    members = race_front(race, capacity, most=MOST_MEMBERS)
    if not members:
        return ()
    tell(f"confirming {len(members)} members of the front on fresh blocks")
    jobs = [Job(candidate=k, purpose=CONFIRM, first=0, last=n_confirm) for k in members]
    found = []
    for k, scores in zip(members, race.evaluator.evaluate(jobs), strict=True):
        n, n_missed = len(scores.missed), int(scores.missed.sum())
        low, high = clopper_pearson(n_missed, n, 0.05)
        corrected = clopper_pearson(n_missed, n, 0.05 / len(members))[1]
        found.append(
            FrontMember(
                candidate=k,
                cost=float(race.evaluator.cost[k]),
                capacity=float(capacity[k]),
                n_met=n - n_missed,
                n_block=n,
                p_met_low=1 - high,
                p_met_high=1 - low,
                holds=corrected <= race.rules.risk,
            )
        )
    zone = race.rules.zone
    return tuple(
        one for one in found if not any(_beats(other, one, zone) for other in found if other != one)
    )


def _beats(one: FrontMember, other: FrontMember, zone: float) -> bool:
    no_worse = (
        one.cost <= other.cost
        and one.n_met >= other.n_met
        and one.capacity >= other.capacity * (1 - zone)
    )
    better = one.cost < other.cost or one.n_met > other.n_met
    return no_worse and (better or one.capacity > other.capacity * (1 + zone))
