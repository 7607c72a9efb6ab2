"""Confirm finalists on fresh blocks, so that being chosen for good luck helps nobody."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.search.evaluator import Evaluator, Job
from tailcast.search.executors import CONFIRM
from tailcast.search.sequential import clopper_pearson

Array = NDArray[np.float64]

LOOKS = 3
"""A finalist is looked at after once, twice and four times the blocks, as long as it is open."""

LEVEL = 0.05
"""Chance that any finalist passes that misses more than the risk; shared by all looks at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Confirmed:
    """What fresh blocks said about a finalist.

    Parameters
    ----------
    candidate : int
        Its place.
    n_missed, n_block : int
        Misses among the fresh blocks.
    passed : bool
        Whether the bound on P(miss) is within the risk.
    p_miss_high : float
        One-sided upper bound of P(miss), corrected for finalists and looks; Monte Carlo error only.
    missed : ndarray of bool, shape (n_block,)
        By block.
    rank : ndarray, shape (n_block,)
        Log of the ranking statistic by block, NaN beyond the stability boundary.
    """

    candidate: int
    n_missed: int
    n_block: int
    passed: bool
    p_miss_high: float
    missed: NDArray[np.bool_]
    rank: Array

    @property
    def p_miss(self) -> float:
        """Share of the fresh blocks that miss."""
        return self.n_missed / self.n_block

    @property
    def mcse(self) -> float:
        """Monte Carlo standard error of `p_miss`."""
        smooth = (self.n_missed + 1) / (self.n_block + 2)
        return float(np.sqrt(smooth * (1 - smooth) / self.n_block))


def confirm(
    evaluator: Evaluator, candidate: int, *, risk: float, n_block: int, finalists: int
) -> Confirmed:
    """Confirm one finalist.

    A one-sided Clopper-Pearson bound of P(miss) must lie within the risk, at the level
    ``LEVEL / (finalists * LOOKS)``, so that over all finalists and looks a false pass has at most
    the chance `LEVEL` (Bonferroni).

    Parameters
    ----------
    evaluator : Evaluator
        Runs fresh blocks.
    candidate : int
        Its place.
    risk : float
        Accepted P(miss).
    n_block : int
        Fresh blocks of the first look.
    finalists : int
        How many may be confirmed in all.

    Returns
    -------
    Confirmed
        After the look that settled it: passed, or P(miss) above the risk, or the last look.
    """
    level = LEVEL / (finalists * LOOKS)
    missed = np.zeros(0, dtype=np.bool_)
    rank = np.zeros(0)
    high = 1.0
    for look in range(LOOKS):
        job = Job(candidate=candidate, purpose=CONFIRM, first=len(missed), last=n_block * 2**look)
        (scores,) = evaluator.evaluate([job])
        missed = np.concatenate([missed, scores.missed])
        rank = np.concatenate([rank, scores.rank])
        high = clopper_pearson(int(missed.sum()), len(missed), level)[1]
        if high <= risk or missed.mean() > risk:
            break
    return Confirmed(
        candidate=candidate,
        n_missed=int(missed.sum()),
        n_block=len(missed),
        passed=high <= risk,
        p_miss_high=high,
        missed=missed,
        rank=rank,
    )


def largest_passing(n_block: int, risk: float, finalists: int) -> int:
    """Most misses with which a finalist passes its first look.

    Parameters
    ----------
    n_block : int
        Fresh blocks.
    risk : float
        Accepted P(miss).
    finalists : int
        How many may be confirmed in all.

    Returns
    -------
    int
        -1 where not even no miss is enough.
    """
    level = LEVEL / (finalists * LOOKS)
    passing = -1
    while passing < n_block and clopper_pearson(passing + 1, n_block, level)[1] <= risk:
        passing += 1
    return passing
