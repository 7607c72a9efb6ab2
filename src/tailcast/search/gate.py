"""Confirm finalists on fresh blocks, so that being chosen for good luck helps nobody.

Which finalists, and in which order, is settled by the race before any fresh block is looked at. The
error of all of them together is shared out beforehand (weighted Bonferroni, which any dependence
between them leaves valid): the i-th gets a part in proportion to 1 / i, and of that the last of its
looks a half, each other look the same share of the rest. Giving up early needs no share.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.search.evaluator import Evaluator, Job
from tailcast.search.executors import CONFIRM
from tailcast.search.sequential import clopper_pearson

Array = NDArray[np.float64]

LOOKS = 6
"""A finalist is looked at after 1, 2, 4 ... 32 times the blocks, as long as it is open."""

LEVEL = 0.05
"""Chance that any finalist passes that misses more than the risk; shared by all looks at all."""

_FUTILE = 0.01
"""Chance of passing the last look from which a finalist is given up."""


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


def finalist_level(place: int, finalists: int) -> float:
    """Share of `LEVEL` for one finalist.

    Parameters
    ----------
    place : int
        0 for the first.
    finalists : int
        How many may be confirmed in all.

    Returns
    -------
    float
        All of them add up to `LEVEL`.
    """
    return LEVEL / (place + 1) / sum(1.0 / (k + 1) for k in range(finalists))


def look_levels(level: float, looks: int) -> list[float]:
    """Share of a finalist's level for each of its looks.

    Parameters
    ----------
    level : float
        Of the finalist.
    looks : int
        How many.

    Returns
    -------
    list of float
        In order; the last and longest look gets a half.
    """
    if looks == 1:
        return [level]
    return [level / 2 / (looks - 1)] * (looks - 1) + [level / 2]


def confirm(
    evaluator: Evaluator,
    candidate: int,
    *,
    risk: float,
    n_block: int,
    level: float,
    looks: int = LOOKS,
) -> Confirmed:
    """Confirm one finalist.

    At each look a one-sided Clopper-Pearson bound of P(miss) must lie within the risk, at the
    look's share of the level.

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
    level : float
        Chance that it passes although it misses more than the risk; see `finalist_level`.
    looks : int
        Looks at most, each at twice the blocks of the one before.

    Returns
    -------
    Confirmed
        After the look that settled it: passed, or unlikely to pass any more, or the last look.
    """
    missed = np.zeros(0, dtype=np.bool_)
    rank = np.zeros(0)
    high = 1.0
    levels = look_levels(level, looks)
    n_last = n_block * 2 ** (looks - 1)
    most = largest_passing(n_last, risk, levels[-1])
    for look in range(looks):
        job = Job(candidate=candidate, purpose=CONFIRM, first=len(missed), last=n_block * 2**look)
        (scores,) = evaluator.evaluate([job])
        missed = np.concatenate([missed, scores.missed])
        rank = np.concatenate([rank, scores.rank])
        high = clopper_pearson(int(missed.sum()), len(missed), levels[look])[1]
        if high <= risk or _is_futile(int(missed.sum()), len(missed), most, n_last):
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


def _is_futile(n_missed: int, n_block: int, most: int, n_last: int) -> bool:
    """Whether the misses left over for the blocks to come are too few, as far as one can tell."""
    from scipy.special import betainc

    left, room = n_last - n_block, most - n_missed
    if room < 0 or not left:
        return True
    chance = betainc(n_missed + 0.5, n_block - n_missed + 0.5, min((room + 0.5) / left, 1.0))
    return bool(chance < _FUTILE)


def largest_passing(n_block: int, risk: float, level: float) -> int:
    """Most misses with which a look is passed.

    Parameters
    ----------
    n_block : int
        Fresh blocks.
    risk : float
        Accepted P(miss).
    level : float
        Of the look.

    Returns
    -------
    int
        -1 where not even no miss is enough.
    """
    low, high = -1, n_block
    while low < high:
        middle = (low + high + 1) // 2
        if clopper_pearson(middle, n_block, level)[1] <= risk:
            low = middle
        else:
            high = middle - 1
    return low


def provable(n_block: int, risk: float, finalists: int) -> float:
    """Largest share of misses that the first finalist's last look lets pass.

    Parameters
    ----------
    n_block : int
        Fresh blocks of the first look.
    risk : float
        Accepted P(miss).
    finalists : int
        How many may be confirmed in all.

    Returns
    -------
    float
        Below the risk; 0 where not even no miss is enough.
    """
    n_last = n_block * 2 ** (LOOKS - 1)
    level = look_levels(finalist_level(0, finalists), LOOKS)[-1]
    return float(max(largest_passing(n_last, risk, level), 0)) / float(n_last)
