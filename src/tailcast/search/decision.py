"""From candidates to the cheapest that is shown to hold the risk."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tailcast.search.compare import Comparison, compare
from tailcast.search.evaluator import Evaluator, Job
from tailcast.search.executors import CONFIRM
from tailcast.search.gate import Confirmed, confirm, finalist_level, provable
from tailcast.search.race import DEARER, LIVE, UNPROVEN, Race, Rules, paired_difference

_PER_LEVEL = 2
_COMPARED = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Outcome of a search for the cheapest.

    Parameters
    ----------
    race : Race
        What led to the finalists.
    confirmed : tuple of Confirmed
        Finalists in the order they were confirmed; numbers to report come from here.
    winner : Confirmed or None
        The first that passed; None where nothing met the objectives.
    comparisons : mapping of int to Comparison
        The winner against others of its cost and the best cheaper ones, on fresh blocks.
    p_best : float
        Share of fresh blocks in which no compared candidate of its cost beats the winner by more
        than the indifference zone; NaN without a winner or anything to compare.
    regret : float
        Expected loss of the ranking statistic against the best compared candidate of its cost in
        each fresh block, as a ratio minus 1.
    """

    race: Race
    confirmed: tuple[Confirmed, ...]
    winner: Confirmed | None
    comparisons: dict[int, Comparison]
    p_best: float
    regret: float


def decide(
    evaluator: Evaluator,
    rules: Rules,
    *,
    n_confirm: int,
    finalists: int,
    tell: Callable[[str], None] = lambda line: None,
) -> Decision:
    """Find the cheapest candidate that is shown to hold the risk.

    Parameters
    ----------
    evaluator : Evaluator
        Candidates.
    rules : Rules
        Of the race.
    n_confirm : int
        Fresh blocks of a finalist's first look.
    finalists : int
        Finalists at most; two of one cost, but all that are left of the last.
    tell : callable
        Told each step.

    Returns
    -------
    Decision
        With or without a winner.
    """
    rules = replace(rules, provable=provable(n_confirm, rules.risk, finalists))
    race = Race(rules=rules, evaluator=evaluator, tell=tell)
    race.drop_by_bound()
    tell(f"{race.status.count(LIVE)} of {len(race.status)} candidates left by bounds, without runs")
    confirmed, rival = _first_shown(race, n_confirm, finalists, tell)
    winner = confirmed[-1] if confirmed and confirmed[-1].passed else None
    most = np.inf if winner is None else evaluator.cost[winner.candidate]
    for k, status in enumerate(race.status):
        if status == LIVE and evaluator.cost[k] > most:
            race.status[k] = DEARER
    return _compared(race, tuple(confirmed), winner, rival, n_confirm)


def _first_shown(
    race: Race, n_confirm: int, finalists: int, tell: Callable[[str], None]
) -> tuple[list[Confirmed], list[int]]:
    """Finalists up to the first that passed, and who was left of its cost beside it."""
    confirmed: list[Confirmed] = []
    evaluator, risk = race.evaluator, race.rules.risk
    cost = evaluator.cost
    levels = sorted({float(cost[k]) for k, status in enumerate(race.status) if status == LIVE})
    for level in levels:
        is_last = level == levels[-1]
        members = race.race_level(level, is_last=is_last)
        end = finalists if is_last else min(finalists, len(confirmed) + _PER_LEVEL)
        while members and len(confirmed) < end:
            chosen = race.finalists(members, end - len(confirmed))
            for k in chosen:
                tell(f"confirming candidate {k} on fresh blocks")
                share = finalist_level(len(confirmed), finalists)
                own = confirm(evaluator, k, risk=risk, n_block=n_confirm, level=share)
                confirmed.append(own)
                if own.passed:
                    return confirmed, [m for m in members if m != k]
                race.status[k] = UNPROVEN
            members = race.revive(chosen[-1]) if chosen else []
        if len(confirmed) >= finalists:
            break
    return confirmed, []


def _compared(
    race: Race,
    confirmed: tuple[Confirmed, ...],
    winner: Confirmed | None,
    rival: list[int],
    n_confirm: int,
) -> Decision:
    if winner is None:
        return Decision(
            race=race,
            confirmed=confirmed,
            winner=None,
            comparisons={},
            p_best=float("nan"),
            regret=float("nan"),
        )
    cost = race.evaluator.cost
    others = list(dict.fromkeys([*rival, *_runners_up(race, winner.candidate)]))[:_COMPARED]
    jobs = [Job(candidate=k, purpose=CONFIRM, first=0, last=n_confirm) for k in others]
    ranks = {k: found.rank for k, found in zip(others, race.evaluator.evaluate(jobs), strict=True)}
    same = [ranks[k] for k in others if cost[k] == cost[winner.candidate]]
    p_best, regret = float("nan"), float("nan")
    if same:
        own = winner.rank[:n_confirm]
        least = np.fmin.reduce([own, *same], axis=0)
        loss = paired_difference(own, least)
        p_best = float((loss <= race.rules.zone).mean())
        regret = float(np.expm1(loss).mean())
    return Decision(
        race=race,
        confirmed=confirmed,
        winner=winner,
        comparisons={k: compare(winner.rank, rank) for k, rank in ranks.items()},
        p_best=p_best,
        regret=regret,
    )


def _runners_up(race: Race, winner: int) -> list[int]:
    """Those seen longest: of the winner's cost first, then the best of each cheaper one."""
    cost = race.evaluator.cost
    seen = [k for k in range(len(race.status)) if k != winner and race.n_seen[k] > 1]
    same = sorted(
        (k for k in seen if cost[k] == cost[winner]),
        key=lambda k: (-race.n_seen[k], race.p_miss(k), k),
    )
    cheaper: dict[float, int] = {}
    for k in sorted(seen, key=lambda k: (race.p_miss(k), -race.n_seen[k], k)):
        if cost[k] < cost[winner]:
            cheaper.setdefault(float(cost[k]), k)
    best = [cheaper[level] for level in sorted(cheaper, reverse=True)]
    return [*same[:2], *best]
