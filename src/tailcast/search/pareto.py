"""The front of cost, P(met) and capacity, raced on common random numbers."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tailcast.search.race import HALVED, INFEASIBLE, LIVE, WORSE, Race
from tailcast.search.sequential import log_evidence_above

Array = NDArray[np.float64]

LEAST_P_MET = 0.5
"""Candidates that miss more often than not are not worth a place on a front."""

_SURE = 16
"""Blocks from which equal misses count as equal."""


def race_front(race: Race, capacity: Array, *, most: int) -> list[int]:
    """Race for the front: cheaper, more likely to meet, more capacity.

    Parameters
    ----------
    race : Race
        With its rules; every cost races at once.
    capacity : ndarray, shape (n_candidate,)
        Requests/s at the stability boundary.
    most : int
        Members of the front at most.

    Returns
    -------
    list of int
        By increasing cost.
    """
    members = [k for k, status in enumerate(race.status) if status == LIVE]
    rungs = race.rules.rungs
    for place, n_block in enumerate(rungs):
        if not members:
            break
        step = n_block - (rungs[place - 1] if place else 0)
        share = max(race.allowed - race.runs, 0.0) / (len(rungs) - place)
        members = _cut(race, members, capacity, max(race.rules.keep, most, int(share / step)))
        before = list(members)
        race.see(members, n_block)
        _drop(race, members, capacity)
        members = [k for k in members if race.status[k] == LIVE]
        race.record(math.nan, n_block, before, float(step * len(before)))
        race.tell(f"{len(members)} of {len(before)} candidates left after {n_block} blocks")
    front = _cut(race, _layers(race, members, capacity)[0] if members else [], capacity, most)
    return sorted(front, key=lambda k: (race.evaluator.cost[k], race.p_miss(k)))


def _drop(race: Race, members: Sequence[int], capacity: Array) -> None:
    """Drop what misses too often, and what another beats on all three counts."""
    for k in members:
        n = int(race.n_seen[k])
        hits = np.array(race.missed[k, :n].sum())
        if log_evidence_above(hits, np.array(n), 1 - LEAST_P_MET) > -math.log(race.rules.alpha):
            race.status[k] = INFEASIBLE
    kept: list[int] = []
    for k in _promising(race, members, capacity):
        if race.status[k] != LIVE:
            continue
        if any(_beats(race, other, k, capacity) for other in kept):
            race.status[k] = WORSE
        else:
            kept.append(k)


def _beats(race: Race, one: int, other: int, capacity: Array) -> bool:
    """Whether one is no dearer, has no less capacity, and certainly misses no more often."""
    cost, zone = race.evaluator.cost, race.rules.zone
    if cost[one] > cost[other] or capacity[one] < capacity[other] * (1 - zone):
        return False
    n = int(min(race.n_seen[one], race.n_seen[other]))
    mine, its = race.missed[one, :n], race.missed[other, :n]
    against, n_apart = int((mine & ~its).sum()), int((mine != its).sum())
    if not n_apart:
        return n >= _SURE
    evidence = log_evidence_above(np.array(n_apart - against), np.array(n_apart), 0.5)
    return bool(evidence > -math.log(race.rules.alpha))


def _promising(race: Race, members: Sequence[int], capacity: Array) -> list[int]:
    cost = race.evaluator.cost
    return sorted(members, key=lambda k: (race.p_miss(k), cost[k], -capacity[k], k))


def _layers(race: Race, members: Sequence[int], capacity: Array) -> list[list[int]]:
    """Layers of members that none of the same or a later layer dominates, by estimates."""
    left = list(members)
    layers = []
    while left:
        front = [
            k for k in left if not any(_dominates(race, j, k, capacity) for j in left if j != k)
        ]
        layers.append(front)
        left = [k for k in left if k not in set(front)]
    return layers


def _dominates(race: Race, one: int, other: int, capacity: Array) -> bool:
    cost, zone = race.evaluator.cost, race.rules.zone
    mine, its = race.p_miss(one), race.p_miss(other)
    no_worse = (
        cost[one] <= cost[other] and mine <= its and capacity[one] >= capacity[other] * (1 - zone)
    )
    better = cost[one] < cost[other] or mine < its or capacity[one] > capacity[other] * (1 + zone)
    return bool(no_worse and (better or one < other))


def _cut(race: Race, members: Sequence[int], capacity: Array, most: int) -> list[int]:
    if len(members) <= most:
        return list(members)
    if not race.n_seen[list(members)].min():
        cost = race.evaluator.cost
        kept = sorted(members, key=lambda k: (cost[k], -capacity[k], k))
        step = len(kept) / most
        chosen = {kept[int(i * step)] for i in range(most)}
    else:
        order = [
            k
            for layer in _layers(race, members, capacity)
            for k in _promising(race, layer, capacity)
        ]
        chosen = set(order[:most])
    for k in set(members) - chosen:
        race.status[k] = HALVED
    return [k for k in members if k in chosen]
