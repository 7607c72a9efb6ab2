"""Confirmation on fresh blocks: the level holds over all looks, luck does not carry over."""

import numpy as np
import pytest
from scipy.special import ndtri

from search.synthetic import Synthetic
from tailcast.search.gate import LEVEL, LOOKS, confirm, largest_passing
from tailcast.search.sequential import clopper_pearson


def mean_with(p_miss: float, sd: float = 0.15) -> float:
    """Mean of the log statistic with which a candidate misses zero that often."""
    return float(sd * ndtri(p_miss))


@pytest.mark.statistical
def test_a_candidate_at_the_risk_seldom_passes() -> None:
    """600 candidates that miss exactly the risk: level 0.05 / 5 finalists = 1 % each; more than 18
    passes have probability 1e-5. Control: a bound at 5 % for one look and finalist passes more."""
    passed = naive = 0
    for seed in range(600):
        evaluator = Synthetic([mean_with(0.05)], seed=seed, own=0.0)
        found = confirm(evaluator, 0, risk=0.05, n_block=100, finalists=5)
        passed += found.passed
        naive += clopper_pearson(int(found.missed[:100].sum()), 100, 0.3)[1] <= 0.05
    assert passed <= 18
    assert naive > 18


def test_a_good_candidate_passes_at_the_first_look() -> None:
    found = confirm(Synthetic([-0.9]), 0, risk=0.05, n_block=200, finalists=5)
    assert found.passed
    assert (found.n_missed, found.n_block) == (0, 200)
    assert found.p_miss == 0
    assert 0 < found.mcse < 0.01
    assert found.p_miss_high < 0.05


def test_a_close_candidate_is_looked_at_again() -> None:
    found = confirm(Synthetic([mean_with(0.02)], seed=3), 0, risk=0.05, n_block=100, finalists=5)
    assert found.n_block in {200, 400}
    assert found.n_block == len(found.missed) == len(found.rank)


def test_a_bad_candidate_is_given_up_at_once() -> None:
    found = confirm(Synthetic([mean_with(0.3)]), 0, risk=0.05, n_block=100, finalists=5)
    assert not found.passed
    assert found.n_block == 100


def test_passing_misses_follow_from_the_level() -> None:
    most = largest_passing(200, 0.05, 5)
    level = LEVEL / (5 * LOOKS)
    assert clopper_pearson(most, 200, level)[1] <= 0.05 < clopper_pearson(most + 1, 200, level)[1]
    assert largest_passing(50, 0.05, 5) == -1


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
        found = confirm(evaluator, best, risk=0.05, n_block=200, finalists=5)
        fresh.append(float(found.rank.mean()) + 0.9)
    error = own / np.sqrt(n)
    assert np.mean(looked) < -1.5 * error
    assert abs(np.mean(fresh)) < 4 * own / np.sqrt(200 * 40)
