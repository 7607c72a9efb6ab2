"""Reweighting draws is Bayes' rule; a run that tells nothing is worth nothing."""

from pathlib import Path

import numpy as np
import pytest
from scipy.special import ndtr

from risk.cases import deployment, prior_posterior, workload
from search.studies import study_of
from tailcast.errors import InputError, UsageError
from tailcast.risk.blocks import shuffled_blocks
from tailcast.risk.fleet import Fleet
from tailcast.search.measure import (
    Option,
    Stakes,
    observation_weights,
    observed_names,
    rank_options,
    worth_of,
)
from tailcast.search.measure_plan import measure_options
from tailcast.streams import stream


@pytest.mark.statistical
def test_weights_are_the_posterior_of_a_normal_location() -> None:
    """With the prior N(0, 1) and noise 0.5 the posterior mean of theta is 0.8 y. 4 000 draws; false
    alarm of the slope below 1e-4 (4 sigma = 0.03). Control: a wrong noise scale fails."""
    rng = stream(3, "measure")
    theta = rng.standard_normal((4000, 1))
    observed = theta + 0.5 * rng.standard_normal((4000, 1))
    some = slice(0, 4000)

    def slope(noise: float) -> float:
        weights, _, widening = observation_weights(
            observed[some], theta[some], np.array([[noise**2]]), 1e6
        )
        assert widening == 1.0
        found = weights @ theta[some, 0]
        return float((found * observed[some, 0]).sum() / (observed[some, 0] ** 2).sum())

    assert abs(slope(0.5) - 0.8) < 0.03
    assert abs(slope(1.5) - 0.8) > 0.03


def test_a_draw_does_not_weigh_itself_and_few_draws_widen_the_noise() -> None:
    rng = stream(4, "measure")
    theta = rng.standard_normal((60, 2))
    weights, ess, widening = observation_weights(theta, theta, 1e-8 * np.eye(2), 8.0)
    assert np.all(np.diag(weights) == 0)
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    assert ess >= 12
    assert widening > 10


def test_the_decision_is_the_cheapest_that_holds() -> None:
    missed = np.array([[1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]], dtype=bool)
    stakes = Stakes(cost=np.array([1.0, 2.0, 3.0]), missed=missed, risk=0.05)
    assert not stakes.is_settled
    cases = np.array([[0.25, 0.25, 0.25, 0.25], [0, 0, 0.5, 0.5], [0.5, 0.5, 0, 0], [0, 0, 1, 0]])
    chosen, settled = stakes.choice(cases)
    assert chosen.tolist() == [2, 0, 1, 0]
    assert settled.tolist() == [False, True, True, True]


def blocks(n: int = 40) -> object:
    """Race blocks of the prior."""
    return shuffled_blocks(prior_posterior(80), n, 0, "race")


OPTION = Option(fleet=Fleet(deployment=deployment()), workload=workload(), label="here")


def test_a_run_that_decides_is_worth_more_than_one_that_cannot() -> None:
    own = shuffled_blocks(prior_posterior(200), 150, 0, "race")
    speed = own.draws(deployment()).law.per_step
    tied = Stakes(
        cost=np.array([1.0, 2.0]),
        missed=np.array([speed > np.quantile(speed, 0.8), np.zeros(150, dtype=bool)]),
        risk=0.1,
    )
    luck = stream(1, "luck").permutation(tied.missed[0])
    free = Stakes(cost=tied.cost, missed=np.array([luck, tied.missed[1]]), risk=0.1)
    telling, useless = (worth_of(OPTION, own, stakes) for stakes in (tied, free))
    assert telling.p_settle > useless.p_settle + 0.2
    assert telling.p_flip > useless.p_flip
    assert telling.saving > 0
    assert telling.ess >= 20
    assert worth_of(OPTION, own, tied) == telling


def test_options_are_ranked_by_settling() -> None:
    own = shuffled_blocks(prior_posterior(80), 40, 0, "race")
    stakes = Stakes(cost=np.array([1.0]), missed=stream(0, "m").random((1, 40)) < 0.2, risk=0.1)
    ranked = rank_options([OPTION, OPTION], own, stakes)
    assert ranked[0].p_settle >= ranked[1].p_settle
    with pytest.raises(UsageError, match="nothing to observe"):
        rank_options([], own, stakes)


def test_noise_scales_name_what_is_observed() -> None:
    names = observed_names(prior_posterior().population)
    assert "ttft.mean" in names
    assert not any(name.startswith("step.") for name in names)


def test_runs_to_observe_come_from_the_contenders_or_the_study(tmp_path: Path) -> None:
    study = study_of(tmp_path, rate=12)
    fleets = [
        Fleet(deployment=deployment(tensor_parallel=tp, max_num_seqs=n), replicas=2)
        for tp in (1, 2)
        for n in (8, 16)
    ]
    own = measure_options(study, fleets)
    assert [o.fleet.deployment.tensor_parallel for o in own] == [1, 1, 2, 2]
    assert [o.workload.stages[0].rate for o in own] == [3.0, 6.0, 3.0, 6.0]
    assert all(o.fleet.replicas == 1 for o in own)
    path = tmp_path / "study.toml"
    path.write_text(
        path.read_text() + "[measure]\nrates = [1.5]\nlengths = [[512, 64], [64, 8]]\n"
        "[[measure.deployments]]\ntensor_parallel = 4\n"
    )
    from tailcast.search.settings import load_search_study

    named = measure_options(load_search_study(path), fleets)
    assert [o.label.split(" at ")[1] for o in named] == [
        "1.5 req/s, 512 in and 64 out",
        "1.5 req/s, 64 in and 8 out",
    ]
    assert named[0].fleet.deployment.tensor_parallel == 4


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rates = [0]", "rates must be positive numbers"),
        ("lengths = [512]", "lengths must be pairs"),
        ("deployments = 3", "deployments must be tables"),
        ("rate = 3", "unknown key 'rate'; did you mean 'rates'"),
    ],
)
def test_a_malformed_measure_table_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "study.toml"
    study_of(tmp_path)
    path.write_text(path.read_text() + f"[measure]\n{text}\n")
    from tailcast.search.settings import load_search_study

    with pytest.raises(InputError, match=message):
        measure_options(load_search_study(path), [OPTION.fleet])


def test_the_tail_of_a_normal_law_is_where_it_should_be() -> None:
    """Median 11.16 ms, log sd 0.10 against 12 ms: the bar's own arithmetic."""
    assert 0.75 <= ndtr(np.log(12 / 11.16) / 0.10) <= 0.78
