"""Race candidates on common random numbers; cheap looks first, few survive to the costly ones.

Candidates of the least cost race first; dearer ones are simulated only when no cheaper one holds
the risk. Within one cost, after each batch of blocks, candidates leave for one of these reasons:

- *infeasible*: the evidence that P(miss) exceeds the risk is beyond 1 / alpha;
- *worse*: the confidence sequence of the paired difference to a rival lies above zero;
- *tied*: it lies above minus the indifference zone, so the rival is at most the zone worse;
- *halved*: the budget does not reach for all; the least promising go.

Nobody is dropped for a rival that misses more often, nor for one that is not yet known to hold the
risk when it is much safer itself: it may be needed when the rival fails its confirmation.

Evidence and sequences are anytime-valid, so looking after every batch costs nothing. Rivals are
chosen by the same blocks, so each comparison is made at alpha over the number of candidates: the
best of them is then dropped for another with a chance of at most alpha, whoever leads when. All
that a race says is used to choose whom to confirm on fresh blocks, never to report.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tailcast.search.evaluator import Evaluator, Job, silent
from tailcast.search.executors import RACE
from tailcast.search.safety import chance_within, miss_estimate
from tailcast.search.sequential import log_evidence_above, t_half_width

Array = NDArray[np.float64]

_FIRST_RUNG = 4
_SHORT_BLOCKS = 4
_BOUND_BLOCKS = 64
_SETTLED = 32
_COMPARED_FROM = 8
_BLIND_PARTS = 3
"""The first batch may take a third of what is left: before it, a cut would be nearly blind."""
_RIVALS = 3
_SAFER = 2 / 3
"""Share of another's P(miss) from which a candidate counts as safer."""
_SURE = 0.95
"""Belief that a candidate will be confirmed from which no safer one is kept beside it."""
_HOPELESS = 0.05
"""The same, from which it is not worth to be confirmed."""
_RESERVE = 4
"""One in so many places is kept for the safest where the budget does not reach for all."""

LIVE, INFEASIBLE, WORSE, TIED, HALVED, DEARER, UNPROVEN = (
    "live",
    "infeasible",
    "worse",
    "tied",
    "halved",
    "dearer",
    "unproven",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How a race decides.

    Parameters
    ----------
    risk : float
        Accepted P(miss).
    zone : float
        Log difference of the ranking statistic that does not matter.
    n_block : int
        Blocks of one candidate at most.
    budget : float
        Share of ``n_candidate * n_block`` runs that the race may use.
    alpha : float
        Chance that a candidate that holds the risk is dropped as infeasible, and chance that the
        best of one cost is dropped for another.
    short_run : float
        Share of the requests in the first look; 1 for none.
    keep : int
        Candidates that the budget always reaches for.
    provable : float
        P(miss) that a confirmation can show to be within the risk; the risk itself where it is not
        known or none can be shown.
    """

    risk: float
    zone: float
    n_block: int
    budget: float = 0.15
    alpha: float = 0.02
    short_run: float = 1.0
    keep: int = 5
    provable: float = math.nan

    @property
    def limit(self) -> float:
        """P(miss) up to which a candidate is worth to be confirmed."""
        return self.provable if self.provable > 0 else self.risk

    @property
    def rungs(self) -> list[int]:
        """Blocks after each batch, doubling."""
        rungs = [_FIRST_RUNG]
        while rungs[-1] * 2 < self.n_block:
            rungs.append(rungs[-1] * 2)
        return [*rungs, self.n_block]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rung:
    """One batch of a race.

    Parameters
    ----------
    cost : float
        Of the candidates in it.
    n_block : int
        Blocks that each has now; 0 for the bound that needs none.
    n_before, n_after : int
        Candidates before and after it.
    runs : float
        Full runs used, short ones in proportion.
    """

    cost: float
    n_block: int
    n_before: int
    n_after: int
    runs: float


@dataclass(kw_only=True)
class Race:
    """State and record of a race; arrays have shape (n_candidate,) or (n_candidate, n_block).

    Parameters
    ----------
    rules : Rules
        How it decides.
    evaluator : Evaluator
        What it knows candidates by.
    tell : callable
        Told each step.
    """

    rules: Rules
    evaluator: Evaluator
    tell: Callable[[str], None] = field(default_factory=lambda: silent)
    status: list[str] = field(init=False)
    n_seen: NDArray[np.int64] = field(init=False)
    missed: NDArray[np.bool_] = field(init=False)
    rank: Array = field(init=False)
    margin: Array = field(init=False)
    rungs: list[Rung] = field(default_factory=list, init=False)
    runs: float = field(default=0.0, init=False)
    hint: dict[int, tuple[float, float]] = field(default_factory=dict, init=False)
    _n_rival: int = field(default=1, init=False)

    def __post_init__(self) -> None:
        n = len(self.evaluator.cost)
        self.status = [LIVE] * n
        self.n_seen = np.zeros(n, dtype=np.int64)
        self.missed = np.zeros((n, self.rules.n_block), dtype=np.bool_)
        self.rank = np.full((n, self.rules.n_block), np.nan)
        self.margin = np.full((n, self.rules.n_block), np.nan)

    @property
    def allowed(self) -> float:
        """Runs that the race may use in all."""
        n = len(self.status)
        return max(self.rules.budget * n * self.rules.n_block, 4.0 * n)

    def p_miss(self, candidate: int) -> float:
        """Share of the blocks seen that a candidate misses; NaN where none was seen.

        Parameters
        ----------
        candidate : int
            Its place.

        Returns
        -------
        float
            Optimistic for a winner: never to be reported as its risk.
        """
        n = int(self.n_seen[candidate])
        return float(self.missed[candidate, :n].mean()) if n else math.nan

    def drop_by_bound(self) -> None:
        """Drop what misses too often for certain, without a run."""
        n_block = min(_BOUND_BLOCKS, self.rules.n_block)
        sure = self.evaluator.bound(n_block)
        evidence = log_evidence_above(
            sure.sum(axis=1), np.full(len(sure), n_block), self.rules.risk
        )
        before = self._live()
        for k in before:
            if evidence[k] > -math.log(self.rules.alpha):
                self.status[k] = INFEASIBLE
        self.record(math.nan, 0, before, 0.0)

    def race_level(self, cost: float, *, is_last: bool) -> list[int]:
        """Race the candidates of one cost.

        Parameters
        ----------
        cost : float
            Their cost.
        is_last : bool
            Whether dearer candidates are left that need runs, too.

        Returns
        -------
        list of int
            Those that are left, the most promising first.
        """
        members = [k for k in self._live() if self.evaluator.cost[k] == cost]
        self._n_rival = max(len(members) - 1, 1)
        left = self.allowed - self.runs
        level_end = self.runs + (left if is_last else left / 2)
        if self.rules.short_run < 1.0 and len(members) > self.rules.keep:
            members = self._short_look(cost, members, level_end)
        rungs = self.rules.rungs
        for place, n_block in enumerate(rungs):
            if not members or self._is_settled(members):
                break
            step = n_block - (rungs[place - 1] if place else 0)
            parts = len(rungs) - place if place else _BLIND_PARTS
            share = max(level_end - self.runs, 0.0) / parts
            members = self._cut(members, max(self.rules.keep, int(share / step)))
            before = list(members)
            self.see(members, n_block)
            members = self._judged(members)
            self.record(cost, n_block, before, float(step * len(before)))
            self.tell(
                f"cost {cost:g}: {len(members)} of {len(before)} candidates left "
                f"after {n_block} blocks"
            )
        return self._in_order(members)

    def _is_settled(self, members: Sequence[int]) -> bool:
        return len(members) == 1 and self.n_seen[members[0]] >= min(_SETTLED, self.rules.n_block)

    def _short_look(self, cost: float, members: list[int], level_end: float) -> list[int]:
        """Short runs show less queueing than long ones, so what misses there misses here.

        They also say who comes first where the budget does not reach for all.
        """
        share = self.rules.short_run
        most = int((level_end - self.runs) / 4 / (_SHORT_BLOCKS * share))
        before = members = self._cut(members, max(self.rules.keep, most))
        jobs = [
            Job(candidate=k, purpose=RACE, first=0, last=_SHORT_BLOCKS, share=share)
            for k in members
        ]
        looks = self.evaluator.evaluate(jobs)
        for k, found in zip(members, looks, strict=True):
            self.hint[k] = (float(found.missed.mean()), float(np.mean(found.margin)))
        hits = np.array([found.missed.sum() for found in looks])
        evidence = log_evidence_above(hits, np.full(len(hits), _SHORT_BLOCKS), self.rules.risk)
        for k, e in zip(members, evidence, strict=True):
            if e > -math.log(self.rules.alpha):
                self.status[k] = INFEASIBLE
        self.record(cost, 0, before, share * _SHORT_BLOCKS * len(before))
        return [k for k in members if self.status[k] == LIVE]

    def see(self, members: Sequence[int], n_block: int) -> None:
        """Let candidates have seen some number of blocks.

        Parameters
        ----------
        members : sequence of int
            Their places.
        n_block : int
            Blocks that each has seen afterwards.
        """
        jobs = [
            Job(candidate=k, purpose=RACE, first=int(self.n_seen[k]), last=n_block) for k in members
        ]
        for job, scores in zip(jobs, self.evaluator.evaluate(jobs), strict=True):
            own = slice(job.first, job.last)
            self.missed[job.candidate, own] = scores.missed
            self.rank[job.candidate, own] = scores.rank
            self.margin[job.candidate, own] = scores.margin
            self.n_seen[job.candidate] = n_block

    def _judged(self, members: Sequence[int]) -> list[int]:
        """Members without those that the blocks seen rule out."""
        seen = self.n_seen[list(members)]
        hits = np.array([self.missed[k, :n].sum() for k, n in zip(members, seen, strict=True)])
        evidence = log_evidence_above(hits, seen, self.rules.risk)
        for k, e in zip(members, evidence, strict=True):
            if e > -math.log(self.rules.alpha):
                self.status[k] = INFEASIBLE
        members = [k for k in members if self.status[k] == LIVE]
        if not members:
            return []
        n = int(self.n_seen[members].min())
        estimate = dict(zip(members, miss_estimate(self.margin[members, :n]), strict=True))
        sure = chance_within(self.margin[members, :n], self.rules.limit) >= _SURE
        settled = {k for k, is_sure in zip(members, sure, strict=True) if is_sure}
        kept: list[int] = []
        for k in self._in_order(members):
            against = (
                self._against(k, rival)
                for rival in kept[:_RIVALS]
                if rival in settled or estimate[k] > _SAFER * estimate[rival]
            )
            self.status[k] = next((found for found in against if found != LIVE), LIVE)
            if self.status[k] == LIVE:
                kept.append(k)
        return [k for k in members if self.status[k] == LIVE]

    def _against(self, k: int, rival: int) -> str:
        n = int(min(self.n_seen[k], self.n_seen[rival]))
        if n < _COMPARED_FROM or self.missed[rival, :n].sum() > self.missed[k, :n].sum():
            return LIVE
        difference = paired_difference(self.rank[k, :n], self.rank[rival, :n])
        spread = max(float(difference.std(ddof=1)), self.rules.zone / 2)
        level = self.rules.alpha / self._n_rival
        half = float(t_half_width(np.array(spread), np.array(n), level))
        low = float(difference.mean()) - half
        if low > 0:
            return WORSE
        return TIED if low > -self.rules.zone else LIVE

    def _in_order(self, members: Sequence[int]) -> list[int]:
        """Most promising first: fewest misses beyond the risk, then rank over shared blocks."""
        n = int(self.n_seen[list(members)].min()) if members else 0
        if not n:
            return sorted(members, key=lambda k: self.hint.get(k, (0.0, 0.0)))
        best = np.fmin.reduce(self.rank[list(members), :n], axis=0)
        keys = {}
        for k in members:
            excess = max(self.missed[k, :n].mean() - self.rules.risk, 0.0)
            keys[k] = (excess, float(paired_difference(self.rank[k, :n], best).mean()), k)
        return sorted(members, key=keys.__getitem__)

    def finalists(self, members: Sequence[int], room: int) -> list[int]:
        """Whom to confirm, in this order, until one passes; settled by the race alone.

        The first is the best in rank that may hold the risk; each further one is the best in rank
        among those that are safer than the one before, so that a failed confirmation is followed
        by a step to the safe side and not by the failed one's like. Within half the zone of the
        best the safest is taken.

        Parameters
        ----------
        members : sequence of int
            Of one cost.
        room : int
            How many at most; of more, some of the steps are left out.

        Returns
        -------
        list of int
            None where nobody is worth it.
        """
        n = int(self.n_seen[list(members)].min()) if members else 0
        if n < 2 or room < 1:
            return []
        margins = self.margin[list(members), :n]
        p_miss = dict(zip(members, miss_estimate(margins), strict=True))
        chance = chance_within(margins, self.rules.limit)
        open_ = [k for k, c in zip(members, chance, strict=True) if c > _HOPELESS]
        if not open_:
            return []
        best = np.fmin.reduce(self.rank[open_, :n], axis=0)
        lost = {k: float(paired_difference(self.rank[k, :n], best).mean()) for k in open_}
        steps: list[int] = []
        while open_:
            near = min(lost[k] for k in open_) + self.rules.zone / 2
            one = min((k for k in open_ if lost[k] <= near), key=lambda k: (p_miss[k], lost[k], k))
            steps.append(one)
            open_ = [k for k in open_ if p_miss[k] <= _SAFER * p_miss[one] and k != one]
        if len(steps) <= room:
            return steps
        places = np.unique(np.linspace(0, len(steps) - 1, room).round().astype(int))
        return [steps[place] for place in places]

    def revive(self, failed: int) -> list[int]:
        """Bring back the safest of those that left for others, once a leader is not confirmed.

        Parameters
        ----------
        failed : int
            Finalist of their cost that was not confirmed.

        Returns
        -------
        list of int
            Those that are safer than it on the same blocks; back in the race.
        """
        cost, n = self.evaluator.cost, int(self.n_seen[failed])
        left = [
            k
            for k, status in enumerate(self.status)
            if status in {WORSE, TIED, HALVED} and cost[k] == cost[failed] and self.n_seen[k] > 1
        ]
        own = {k: float(miss_estimate(self.margin[k, : self.n_seen[k]])) for k in left}
        back = sorted(left, key=own.__getitem__)[: self.rules.keep]
        runs = sum(max(n - int(self.n_seen[k]), 0) for k in back)
        self.see([k for k in back if self.n_seen[k] < n], n)
        least = _SAFER * float(miss_estimate(self.margin[failed, :n]))
        safer = [k for k in back if float(miss_estimate(self.margin[k, :n])) <= least]
        for k in safer:
            self.status[k] = LIVE
        if back:
            self.record(float(cost[failed]), n, back, float(runs))
        return safer

    def _cut(self, members: list[int], most: int) -> list[int]:
        order = self._in_order(members)
        first = order[: most - most // _RESERVE] if self._has_seen(members) else order[:most]
        rest = order[len(first) :]
        if len(first) < most < len(order):
            n = int(self.n_seen[rest].min())
            safe = np.argsort(miss_estimate(self.margin[rest, :n]), kind="stable")
            rest = [rest[place] for place in safe]
        kept = {*first, *rest[: most - len(first)]}
        for k in set(members) - kept:
            self.status[k] = HALVED
        return [k for k in members if k in kept]

    def _has_seen(self, members: Sequence[int]) -> bool:
        return bool(members) and bool(self.n_seen[list(members)].min() > 1)

    def _live(self) -> list[int]:
        return [k for k, status in enumerate(self.status) if status == LIVE]

    def record(self, cost: float, n_block: int, before: Sequence[int], runs: float) -> None:
        """Note one batch.

        Parameters
        ----------
        cost : float
            Of the candidates in it; NaN for all costs.
        n_block : int
            Blocks that each has seen; 0 for looks that are not counted.
        before : sequence of int
            Candidates that were in it.
        runs : float
            Full runs that it took.
        """
        after = sum(self.status[k] == LIVE for k in before)
        self.runs += runs
        self.rungs.append(
            Rung(cost=cost, n_block=n_block, n_before=len(before), n_after=after, runs=runs)
        )


def paired_difference(rank: Array, other: Array, *, most: float = 4.0) -> Array:
    """Log ratio of two candidates' ranking statistic, block by block.

    Parameters
    ----------
    rank, other : ndarray, shape (n_block,)
        Logs; NaN beyond the stability boundary.
    most : float
        Largest factor either way.

    Returns
    -------
    ndarray, shape (n_block,)
        Capped at the largest factor, which is also what a block counts in which only one is beyond
        the boundary; 0 where both are.
    """
    lost, other_lost = np.isnan(rank), np.isnan(other)
    cap = math.log(most)
    difference = np.clip(np.where(lost | other_lost, 0.0, rank - other), -cap, cap)
    return np.asarray(
        np.where(lost & ~other_lost, cap, np.where(other_lost & ~lost, -cap, difference))
    )
