"""Members of a Pareto front, confirmed on fresh blocks."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.search.gate import LEVEL, Confirmed, confirm
from tailcast.search.pareto import race_front
from tailcast.search.race import Race
from tailcast.search.sequential import clopper_pearson

Array = NDArray[np.float64]

MOST_MEMBERS = 12
_LOOKS = 3


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
    confirmed : Confirmed
        What it is based on; `passed` where P(met) is shown to reach 1 - risk, with all members and
        looks reckoned in.
    """

    candidate: int
    cost: float
    capacity: float
    n_met: int
    n_block: int
    p_met_low: float
    p_met_high: float
    confirmed: Confirmed

    @property
    def holds(self) -> bool:
        """Whether P(met) is shown to reach 1 - risk."""
        return self.confirmed.passed

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
    found = []
    for k in members:
        own = confirm(
            race.evaluator,
            k,
            risk=race.rules.risk,
            n_block=n_confirm,
            level=LEVEL / len(members),
            looks=_LOOKS,
        )
        low, high = clopper_pearson(own.n_missed, own.n_block, 0.05)
        found.append(
            FrontMember(
                candidate=k,
                cost=float(race.evaluator.cost[k]),
                capacity=float(capacity[k]),
                n_met=own.n_block - own.n_missed,
                n_block=own.n_block,
                p_met_low=1 - high,
                p_met_high=1 - low,
                confirmed=own,
            )
        )
    zone = race.rules.zone
    return tuple(
        one
        for one in found
        if not any(_beats(other, one, zone) for other in found if other is not one)
    )


def _beats(one: FrontMember, other: FrontMember, zone: float) -> bool:
    no_worse = (
        one.cost <= other.cost
        and one.p_met >= other.p_met
        and one.capacity >= other.capacity * (1 - zone)
    )
    better = one.cost < other.cost or one.p_met > other.p_met
    return no_worse and (better or one.capacity > other.capacity * (1 + zone))
