"""``NAME@RUN``: what a posterior learned of one server is used for that server, and only there."""

from pathlib import Path

import numpy as np
import pytest

from deployments import deployment
from loop_runs import requests, traced
from small_problem import poisson_requests
from tailcast.coefficients import Coefficients
from tailcast.drift import drift_check
from tailcast.errors import UsageError
from tailcast.inference.population import deployment_draws, deployment_key
from tailcast.inference.trace_input import staged_trace, trace_run
from tailcast.posteriors import load_posterior, posterior_names, split_server
from tailcast.prediction import Prediction, predictive

SHIPPED = "physics-h100-vllm015"
RUN = "t-llama2-7b-codegen"


def predicted(name: str, llm: str = "llama-2-7b") -> Prediction:
    return predictive(
        load_posterior(name),
        deployment(llm),
        lambda seed: poisson_requests(seed, rate=4.0, prompt=256, output=24, n=30),
        n_draw=100,
        n_seed=1,
    )


def test_a_known_server_is_surer_than_any_server_of_its_deployment() -> None:
    anyone, own = predicted(SHIPPED), predicted(f"{SHIPPED}@{RUN}")
    spread = [np.log(p.draws("e2e", "mean")).std() for p in (own, anyone)]
    assert spread[0] < 0.7 * spread[1]
    assert any(f"the very server of run {RUN}" in note for note in own.warnings)


def test_another_deployment_gets_any_server_and_a_note() -> None:
    anyone, own = predicted(SHIPPED, "llama-3.1-8b"), predicted(f"{SHIPPED}@{RUN}", "llama-3.1-8b")
    np.testing.assert_array_equal(anyone.stat, own.stat)
    assert any("another deployment" in note for note in own.warnings)


def test_its_speed_is_that_of_its_deployment_times_its_own() -> None:
    posterior = load_posterior(f"{SHIPPED}@{RUN}")
    population = posterior.population
    assert population.server is not None
    asked = deployment("llama-2-7b")
    assert population.server.deployment == deployment_key(asked)
    column = list(population.deployments).index(deployment_key(asked))
    speed, ttft = population.servers[RUN]
    own = deployment_draws(population, asked, 5)
    np.testing.assert_allclose(
        np.log(own.coefficients.speed), population.deployment[:, column] + speed
    )
    np.testing.assert_array_equal(own.ttft, ttft)
    trusted = deployment_draws(population, asked, 5, with_discrepancy=False)
    np.testing.assert_array_equal(trusted.coefficients.speed, 1.0)


@pytest.mark.parametrize("name", posterior_names())
def test_every_run_of_a_shipped_posterior_can_be_named(name: str) -> None:
    for run in load_posterior(name).population.servers:
        server = load_posterior(f"{name}@{run}").population.server
        assert server is not None
        assert server.run == run


def test_an_unknown_run_is_refused_with_the_known_ones() -> None:
    with pytest.raises(UsageError, match=rf"no run 'x'.*{RUN}"):
        load_posterior(f"{SHIPPED}@x")


def test_a_folder_with_such_a_name_stays_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert split_server("mine@home") == ("mine", "home")
    assert split_server("a@b/mine@home") == ("a@b/mine", "home")
    Path("mine@home").mkdir()
    assert split_server("mine@home") == ("mine@home", None)
    assert split_server("mine") == ("mine", None)


@pytest.mark.slow
def test_a_slow_step_of_a_known_server_is_drift_where_any_server_could_be_so() -> None:
    """500 requests, +40 % overhead a step: latencies move by 8 %, as nodes differ anyway."""
    name = f"{SHIPPED}@{RUN}"
    own, asked = load_posterior(name), deployment("llama-2-7b")
    known = deployment_draws(own.population, asked, 0).coefficients
    checks = {}
    for factor in (1.0, 1.4):
        values = {key: np.array([np.median(value)]) for key, value in known.values.items()}
        values["per_step"] *= factor
        speed = np.array([np.median(known.speed)])
        truth = Coefficients(latency_model=own.latency_model, values=values, speed=speed)
        trace = traced(truth, requests(500, rate=6.0), asked)
        run = trace_run(staged_trace(trace), asked, "t", own.latency_model)
        for who in (SHIPPED, name):
            checks[who, factor] = drift_check(load_posterior(who), run, seed=1)
    assert [key for key, check in checks.items() if check.drifted] == [(name, 1.4)]
    named = {suspect.name: suspect.factor for suspect in checks[name, 1.4].suspects}
    assert named["per_step"] == pytest.approx(1.4, abs=0.12)
