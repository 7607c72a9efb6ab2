"""Confirmation on fresh blocks: the level holds over all looks, luck does not carry over."""

import numpy as np
import pytest
from scipy.special import ndtri

from search.synthetic import Synthetic
from tailcast.search.gate import (
    LEVEL,
    LOOKS,
    confirm,
    finalist_level,
    largest_passing,
    look_levels,
    provable,
)
from tailcast.search.sequential import clopper_pearson


def mean_with(p_miss: float, sd: float = 0.15) -> float:
    """Mean of the log statistic with which a candidate misses zero that often."""
    return float(sd * ndtri(p_miss))


@pytest.mark.statistical
def test_a_candidate_at_the_risk_seldom_passes() -> None:
    """600 candidates that miss exactly the risk, at level 1 % each; more than 18 passes have
    probability 1e-5. Control: a bound at 5 % at each of the same looks passes more."""
    passed = naive = 0
    for seed in range(600):
        evaluator = Synthetic([mean_with(0.05)], seed=seed, own=0.0)
        found = confirm(evaluator, 0, risk=0.05, n_block=50, level=0.01)
        passed += found.passed
        looks = [found.missed[: 50 * 2**k] for k in range(LOOKS)]
        naive += any(clopper_pearson(int(m.sum()), len(m), 0.05)[1] <= 0.05 for m in looks)
    assert passed <= 18
    assert naive > 18


@pytest.mark.statistical
def test_a_candidate_close_to_the_risk_is_given_enough_blocks() -> None:
    """40 candidates that miss 3.5 % where 5 % are allowed: each passes with more than 95 % at the
    first finalist's level, so fewer than 31 have probability 1e-4. Control: at most 4 times the
    first blocks, which is what clear candidates need, passes fewer."""
    level, passed, early = finalist_level(0, 5), 0, 0
    for seed in range(40):
        evaluator = Synthetic([mean_with(0.035)], seed=seed, own=0.0)
        passed += confirm(evaluator, 0, risk=0.05, n_block=200, level=level).passed
        early += confirm(evaluator, 0, risk=0.05, n_block=200, level=level, looks=3).passed
    assert passed >= 31
    assert early < 31


def test_a_good_candidate_passes_at_the_first_look() -> None:
    found = confirm(Synthetic([-0.9]), 0, risk=0.05, n_block=200, level=0.01)
    assert found.passed
    assert (found.n_missed, found.n_block) == (0, 200)
    assert found.p_miss == 0
    assert 0 < found.mcse < 0.01
    assert found.p_miss_high < 0.05


def test_a_close_candidate_is_looked_at_again() -> None:
    found = confirm(Synthetic([mean_with(0.02)], seed=3), 0, risk=0.05, n_block=100, level=0.01)
    assert found.n_block in {200, 400, 800}
    assert found.n_block == len(found.missed) == len(found.rank)


def test_a_bad_candidate_is_given_up_at_once() -> None:
    found = confirm(Synthetic([mean_with(0.3)]), 0, risk=0.05, n_block=100, level=0.01)
    assert not found.passed
    assert found.n_block == 100


@pytest.mark.parametrize("finalists", [1, 2, 5])
@pytest.mark.parametrize("looks", [1, 2, LOOKS])
def test_levels_of_all_looks_at_all_finalists_add_up(finalists: int, looks: int) -> None:
    levels = [
        one
        for place in range(finalists)
        for one in look_levels(finalist_level(place, finalists), looks)
    ]
    assert len(levels) == finalists * looks
    assert sum(levels) == pytest.approx(LEVEL)
    assert min(levels) > 0


@pytest.mark.parametrize("n", [50, 200, 6400])
def test_passing_misses_follow_from_the_level(n: int) -> None:
    most = largest_passing(n, 0.05, 0.01)
    assert clopper_pearson(max(most, 0), n, 0.01)[1] <= 0.05 or most == -1
    assert clopper_pearson(most + 1, n, 0.01)[1] > 0.05


def test_what_can_be_shown_lies_below_the_risk() -> None:
    assert 0.04 < provable(200, 0.05, 5) < 0.05
    assert provable(8, 0.001, 5) == 0


@pytest.mark.statistical
def test_the_winner_of_a_race_is_not_as_good_as_it_looked() -> None:
    """Thirty equal candidates: the least race mean is a lucky one, the fresh mean is not. The bias
    of the race is 2.04 standard errors of a mean of 8; 40 repeats see a tenth of it at 4 sigma."""
    own, n = 0.1, 8
    looked, fresh = [], []
    for seed in range(40):
        evaluator = Synthetic([-0.9] * 30, seed=seed, shared=0.0, own=own)
        from tailcast.search.race import Race, Rules

        race = Race(rules=Rules(risk=0.05, zone=0.0, n_block=n), evaluator=evaluator)
        race.see(range(30), n)
        best = race._in_order(range(30))[0]
        looked.append(float(race.rank[best, :n].mean()) + 0.9)
        found = confirm(evaluator, best, risk=0.05, n_block=200, level=0.01, looks=1)
        fresh.append(float(found.rank.mean()) + 0.9)
    error = own / np.sqrt(n)
    assert np.mean(looked) < -1.5 * error
    assert abs(np.mean(fresh)) < 4 * own / np.sqrt(200 * 40)
