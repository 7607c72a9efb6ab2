"""Blocks are the same for everyone, prefixes of longer ones, and fresh for another purpose."""

import pickle
from dataclasses import replace

import numpy as np
import pytest

from risk.cases import deployment, prior_posterior, workload
from tailcast.errors import UsageError
from tailcast.latency_model import load_latency_model
from tailcast.prediction import predictive_law
from tailcast.risk.blocks import law_key, population_of, predictive_blocks, shuffled_blocks
from tailcast.risk.tables import Tables
from tailcast.workload.materialise import materialise


def test_predictive_blocks_are_the_predictions_pairs() -> None:
    posterior = prior_posterior()
    blocks = predictive_blocks(posterior, 10, 7)
    own, law = predictive_law(posterior, deployment(), n_draw=10, seed=7)
    draws = blocks.draws(deployment())
    np.testing.assert_array_equal(draws.law.per_step, law.per_step)
    np.testing.assert_array_equal(draws.ttft, np.exp(own.ttft))
    np.testing.assert_array_equal(blocks.workload_seeds[:, 0], 7 + np.arange(10))


def test_more_blocks_begin_with_the_fewer() -> None:
    posterior = prior_posterior(20)
    few, many = (shuffled_blocks(posterior, n, 3, "race") for n in (15, 50))
    np.testing.assert_array_equal(many.rows[:15], few.rows)
    np.testing.assert_array_equal(many.workload_seeds[:15], few.workload_seeds)
    left, right = (b.draws(deployment()).law.per_step for b in (few, many))
    np.testing.assert_array_equal(right[:15], left)
    assert sorted(many.rows[:20]) == list(range(20))


def test_blocks_for_another_purpose_are_fresh() -> None:
    posterior = prior_posterior(40)
    race = shuffled_blocks(posterior, 15, 3, "race")
    fresh = shuffled_blocks(posterior, 15, 3, "confirm", reverse=True)
    assert not set(race.rows) & set(fresh.rows)
    assert not set(race.workload_seeds.ravel()) & set(fresh.workload_seeds.ravel())
    assert race.discrepancy_seed != fresh.discrepancy_seed


def test_what_only_the_scheduler_sees_shares_a_law() -> None:
    blocks = predictive_blocks(prior_posterior(), 5, 0)
    one, other = deployment(max_num_seqs=8), deployment(gpu_memory_utilization=0.8)
    assert law_key(one) == law_key(other)
    assert blocks.draws(one) is blocks.draws(other)
    assert law_key(one) != law_key(deployment(tensor_parallel=2))


def test_a_fresh_discrepancy_leaves_the_coefficients() -> None:
    blocks = predictive_blocks(prior_posterior(), 30, 0)
    fresh = blocks.but(discrepancy_seed=99)
    old, new = (b.draws(deployment()) for b in (blocks, fresh))
    np.testing.assert_array_equal(old.law.ingest, new.law.ingest)
    ratio = new.law.per_decode / old.law.per_decode
    np.testing.assert_allclose(new.law.per_step / old.law.per_step, ratio)
    assert ratio.std() > 0.01
    assert np.all(old.ttft != new.ttft)


def test_without_discrepancy_the_law_is_trusted() -> None:
    blocks = predictive_blocks(prior_posterior(), 30, 0).but(with_discrepancy=False)
    assert np.all(blocks.draws(deployment()).ttft == 1.0)


def test_blocks_and_tables_survive_a_journey() -> None:
    blocks = predictive_blocks(prior_posterior(), 5, 0)
    before = blocks.draws(deployment()).law.per_step
    there = pickle.loads(pickle.dumps(blocks))
    np.testing.assert_array_equal(there.draws(deployment()).law.per_step, before)
    from risk.cases import tables

    made = pickle.loads(pickle.dumps(tables()))
    np.testing.assert_array_equal(made(4).arrival, materialise(workload(), 4).arrival)


def test_tables_are_made_once_and_forgotten_in_order() -> None:
    made: list[int] = []

    def make(seed: int) -> object:
        made.append(seed)
        return materialise(workload(), seed)

    kept = Tables(make, keep=250)  # type: ignore[arg-type]
    first = kept(1)
    assert kept(1) is first
    kept(2)
    kept(3)
    assert kept(3) is kept(3)
    kept(1)
    assert made == [1, 2, 3, 1]


def test_a_latency_model_is_drawn_from_its_prior() -> None:
    assert population_of(load_latency_model("physics"), 0).n_draw == 1000
    blocks = predictive_blocks(load_latency_model("physics"), 6, 0)
    assert blocks.n_block == 6


def test_no_block_is_refused() -> None:
    with pytest.raises(UsageError, match="draws must be at least 1"):
        predictive_blocks(prior_posterior(), 0, 0)


def test_a_block_may_use_a_draw_again() -> None:
    blocks = predictive_blocks(prior_posterior(), 4, 0)
    crossed = blocks.but(
        draw_of=np.repeat(np.arange(4), 2), workload_seeds=np.tile([[5], [6]], (4, 1))
    )
    assert (crossed.n_block, crossed.n_run, len(crossed.rows)) == (8, 1, 4)
    assert replace(crossed).n_block == 8
