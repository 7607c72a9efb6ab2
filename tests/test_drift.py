"""Drift: p values are valid by construction, a slower engine is seen, and the cause is named."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from loop_runs import narrow_posterior, recorded_trace, requests, served, small_model
from tailcast.drift import (
    LEVEL,
    DriftReference,
    drift_check,
    drift_reference,
    joint_scores,
)
from tailcast.errors import InputError
from tailcast.inference.forward import RunInput
from tailcast.inference.trace_input import staged_trace, trace_run
from tailcast.latency_model import LatencyModel
from tailcast.posteriors import Posterior
from tailcast.sensitivity import median_coefficients, moved_logs
from tailcast.streams import stream


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LatencyModel:
    """Five coefficients."""
    return small_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def posterior(model: LatencyModel) -> Posterior:
    """Narrow, around the truth of `recorded_trace`."""
    return narrow_posterior(model)


def run_of(model: LatencyModel, n: int = 500, **factors: Any) -> RunInput:
    """Statistics of a simulated trace."""
    trace = recorded_trace(model, requests(n), **factors)
    return trace_run(staged_trace(trace), served(), "t", model)


@pytest.fixture(scope="module")
def reference(model: LatencyModel, posterior: Posterior) -> DriftReference:
    """Prediction of the 500 requests."""
    return drift_reference(posterior, run_of(model), seed=1)


def test_score_without_directions_orders_as_mahalanobis() -> None:
    rng = np.random.default_rng(1)
    values = rng.uniform(-1, 1, (400, 3)) @ rng.standard_normal((3, 3))  # no row is cut
    centred = values - np.median(values, axis=0)
    squared = np.einsum("ij,jk,ik->i", centred, np.linalg.inv(centred.T @ centred / 400), centred)
    scores = joint_scores(values, np.zeros((0, 3)))
    np.testing.assert_allclose(scores, np.sqrt(squared / np.quantile(squared, 0.99)), rtol=1e-2)


def test_score_knows_no_units_and_no_order() -> None:
    rng = np.random.default_rng(2)
    values, slopes = rng.standard_normal((50, 3)), rng.standard_normal((2, 3))
    units = np.array([3.0, 0.1, 7.0])
    mixed = joint_scores(values[:, ::-1] * units + 5.0, slopes[:, ::-1] * units)
    np.testing.assert_allclose(mixed, joint_scores(values, slopes), rtol=1e-4)


def test_a_direction_sees_a_shift_along_it_sooner() -> None:
    rng = np.random.default_rng(3)
    values = rng.standard_normal((401, 12))
    values[-1] = 0.0
    values[-1, 4] = 3.9
    slopes = np.eye(12)[4:5]
    alone, aimed = joint_scores(values, np.zeros((0, 12))), joint_scores(values, slopes)
    assert np.mean(aimed >= aimed[-1]) < 0.01 < np.mean(alone >= alone[-1])


@pytest.mark.slow
@pytest.mark.statistical
def test_p_values_are_uniform_on_exchangeable_samples() -> None:
    """Heavy tails: 800 samples; rate of p <= 0.05, false alarm 6e-5 (4 sigma)."""
    rng = stream(5, "p values")
    hits, wrong, slopes = 0, 0, np.eye(4)[:2]
    for _ in range(800):
        values = rng.standard_t(3, (101, 4))
        scores = joint_scores(values, slopes)
        hits += np.mean(scores >= scores[-1]) <= 0.05
        centred = values[-1] - values[:-1].mean(axis=0)
        squared = centred @ np.linalg.solve(np.cov(values[:-1].T), centred)
        wrong += squared > stats.chi2.ppf(0.99, 4)
    rate, slack = 5 / 101, 4 * np.sqrt(0.05 * 0.95 / 800)
    assert abs(hits / 800 - rate) < slack
    # control: the textbook limit for normal statistics gives several times its nominal 1 % here
    assert wrong / 800 > 0.02


@pytest.mark.slow
@pytest.mark.statistical
def test_runs_of_the_true_model_are_rarely_called_drift(
    posterior: Posterior, reference: DriftReference
) -> None:
    """Each of 600 runs of the posterior itself against each of 4 references of 400 draws.

    The rate of alarms is 4/401 on average; given a reference it is Beta(4, 397), given a run
    Bernoulli at worst for all references alike: false alarm of the limit 3e-5 (4 sigma).
    """
    drawn = drift_reference(posterior, reference.run, n_draw=2200, seed=77).draws
    order = stream(1, "shuffle").permutation(len(drawn))
    runs, known = drawn[order[:600]], drawn[order[600:]].reshape(4, 400, -1)
    alarms = [
        replace(reference, draws=own).p_value(run)[0] <= LEVEL for own in known for run in runs
    ]
    slack = 4 * np.sqrt(4 * 397 / 401**2 / 402 / 4 + 0.01 * 0.99 / 600)
    assert np.mean(alarms) <= 0.01 + slack
    moved = [reference.p_value(run + 0.15)[0] <= LEVEL for run in runs[:100]]
    assert np.mean(moved) > 0.6  # control: everything 15 % slower


def test_a_step_overhead_of_two_fifths_more_is_flagged_and_named(
    model: LatencyModel, posterior: Posterior
) -> None:
    check = drift_check(posterior, run_of(model, per_step=1.4), seed=1)
    assert check.drifted
    assert check.p <= LEVEL
    assert check.distance > check.usual
    first = check.suspects[0]
    assert first.name in {"per_step", "weight_read"}  # one number on one deployment
    by_name = {s.name: s.factor for s in check.suspects}
    assert by_name["per_step"] == pytest.approx(1.4, abs=0.12)
    assert first.explained > 0.8


def test_the_same_run_without_it_is_plausible(model: LatencyModel, posterior: Posterior) -> None:
    check = drift_check(posterior, run_of(model), seed=1)
    assert not check.drifted
    assert check.p > 0.2
    assert check.suspects == ()


def test_a_slow_front_end_is_told_from_slow_steps(
    model: LatencyModel, posterior: Posterior
) -> None:
    check = drift_check(posterior, run_of(model, ingest=4.0), seed=1)
    assert check.drifted
    assert check.farthest.startswith("ttft")
    assert check.suspects[0].name == "ingest"
    assert check.suspects[0].factor == pytest.approx(4.0, rel=0.25)


def test_moves_are_paired_and_stop_at_the_floor(model: LatencyModel, posterior: Posterior) -> None:
    run = run_of(model, 60)
    base = median_coefficients(posterior, run, 0)
    logs = moved_logs(base, run, run.outputs, [{}, {}, {"weight_read": 0.01}, {"per_step": 2.0}], 0)
    np.testing.assert_array_equal(logs[0], logs[1])
    assert (logs[3] > logs[0]).all()
    floored = moved_logs(
        base, run, run.outputs, [{"weight_read": 1.0 / base.values["weight_read"][0]}], 0
    )
    np.testing.assert_allclose(logs[2], floored[0])


def test_same_seed_same_check(model: LatencyModel, posterior: Posterior) -> None:
    run = run_of(model, 60, per_step=1.5)
    assert drift_check(posterior, run, seed=4) == drift_check(posterior, run, seed=4)


def test_a_run_without_statistics_is_refused(model: LatencyModel, posterior: Posterior) -> None:
    run = replace(run_of(model, 60), outputs=())
    with pytest.raises(InputError, match="no statistic"):
        drift_check(posterior, run)
