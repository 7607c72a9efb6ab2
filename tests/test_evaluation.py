"""Evaluation in the library: noise, regimes, rivals, runs that cannot be simulated."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from prior_posterior import save_prior
from tailcast.deployment import EngineSettings
from tailcast.errors import InputError
from tailcast.evaluation import blind_prediction, evaluate, evaluate_experiments
from tailcast.evaluation_result import Evaluation
from tailcast.measurement import measured_draws, noise_scale
from tailcast.posteriors import Posterior, load_posterior
from tailcast.traces.experiment import Experiment, load_experiment
from tailcast.traces.public_set import (
    PublicSet,
    observed_stats,
    public_deployment,
    public_experiment,
)
from tailcast.traces.public_sets import is_public_set
from tailcast.traces.yaml_file import read_yaml
from tailcast.workload.arrivals import Arrivals, Stage
from tailcast.workload.lengths import Constant
from tailcast.workload.spec import RepeatedPrompts, RequestClass, SharedPrefix, Workload


@pytest.fixture(scope="module")
def prior(tmp_path_factory: pytest.TempPathFactory) -> Posterior:
    """A posterior that needs no fit."""
    return load_posterior(str(save_prior(tmp_path_factory.mktemp("prior") / "prior")))


def run(name: str, rate: float = 4.0, e2e: float = 0.4, gpu: str = "h100-sxm") -> Experiment:
    served = public_deployment("llama-3.1-8b", gpu, 1, {"version": "0.15.1"})
    assert not isinstance(served, str)
    workload = Workload(
        classes=(RequestClass(input_tokens=Constant(value=64), output_tokens=Constant(value=16)),),
        stages=(Stage(rate=rate, duration=8.0),),
        arrivals=Arrivals(process="poisson"),
    )
    values = {("ttft", "mean"): 0.02, ("e2e", "mean"): e2e, ("e2e", "p99"): 1.5 * e2e}
    return public_experiment(name, served, workload, observed_stats(values), Path(name))


def evaluated(posterior: Posterior, *runs: Experiment) -> Evaluation:
    return evaluate_experiments(runs, posterior, n_draw=16, seed=1, threads=1)


def test_observation_noise_widens_and_is_reproducible(prior: Posterior) -> None:
    found = blind_prediction(run("a"), prior, n_draw=16, seed=1, threads=1)
    bare = found.draws("ttft", "mean", 0)
    noisy = measured_draws(found, prior, "ttft", "mean", 0, 1)
    assert not np.array_equal(bare, noisy)
    np.testing.assert_array_equal(noisy, measured_draws(found, prior, "ttft", "mean", 0, 1))
    assert np.abs(np.log(noisy / bare)).max() < 1.0


def test_a_statistic_without_a_scale_takes_that_of_the_nearest_tail(prior: Posterior) -> None:
    known = {stat: noise_scale(prior, "ttft", stat, 5) for stat in ("p90", "p99", "p50")}
    for stat, like in (("p95", "p99"), ("p93", "p90"), ("max", "p99"), ("p40", "p50")):
        own, other = noise_scale(prior, "ttft", stat, 5), known[like]
        assert own is not None
        assert other is not None
        np.testing.assert_array_equal(own, other)
    assert noise_scale(prior, "queue_delay", "mean", 5) is None


def test_what_was_observed_leaves_the_prediction_alone(prior: Posterior) -> None:
    one, other = (evaluated(prior, run("a", e2e=e2e)).records for e2e in (0.4, 40.0))
    for a, b in zip(one, other, strict=True):
        assert a.score.quantiles == b.score.quantiles


def test_records_know_their_regime(prior: Posterior) -> None:
    found = evaluated(prior, run("a"), run("b", gpu="a100-sxm-80gb"))
    assert {r.regime["accelerator"] for r in found.records} == {"h100-sxm-80gb", "a100-sxm-80gb"}
    assert {row.kind for row in found.regimes} == {
        "family",
        "tensor_parallel",
        "accelerator",
        "experts",
        "load",
    }
    body = found.body
    assert body is not None
    assert body.n == 4  # the P99 is no part of it
    assert body.n_experiment == 2


def test_rivals_are_scored_on_records_that_the_posterior_has(prior: Posterior) -> None:
    runs = [run(f"r{k}", rate=2.0 + k, e2e=0.3 + 0.05 * k) for k in range(10)]
    found = evaluated(prior, *runs)
    names = [rival.name for rival in found.rivals]
    assert names == ["point + residuals", "split conformal"]
    own = {record.key for record in found.records}
    for rival in found.rivals:
        assert {record.key for record in rival.records} <= own
        for theirs, ours in found.beside(rival):
            assert theirs.n == ours.n
    pair = found.pooled(found.rivals[0])
    assert pair is not None
    assert pair[0].n == pair[1].n == 20


def test_a_run_that_cannot_be_simulated_is_an_error_and_not_a_crash(prior: Posterior) -> None:
    own = run("a")
    tight = replace(
        own,
        id="tight",
        content_hash="tight",
        deployment=replace(own.deployment, kv_blocks=1, engine=EngineSettings(max_num_seqs=1)),
    )
    found = evaluated(prior, own, tight)
    assert {r.experiment for r in found.records} == {"a"}
    ((name, reason),) = found.errors
    assert name == "tight"
    assert "none of the" in reason


def test_a_path_without_experiments_is_refused(prior: Posterior, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="in this folder"):
        evaluate([tmp_path], prior)


def test_a_public_set_without_runs_is_refused_and_says_what_it_holds(
    prior: Posterior, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "perf_model.csv.gz").write_bytes(b"")
    bare = PublicSet(name="s", files=(), experiments=(), traces=(), steps=(), refused={}, notes=())
    monkeypatch.setattr("tailcast.evaluation.load_public_set", lambda _: bare)
    assert is_public_set(tmp_path)
    with pytest.raises(InputError, match="holds no runs with statistics"):
        evaluate([tmp_path], prior)


def overloaded(shared_data: Path) -> Experiment:
    """The campaign's run whose clients timed out: a label, never a latency to predict."""
    path = shared_data / "overload" / "llama-2-7b-tp1-reasoning.yaml"
    content = read_yaml(path)
    server, sent = content["server"], content["workload"]["as_executed"]
    served = public_deployment(
        server["model"],
        "h100-sxm-80gb",
        1,
        {
            "version": "0.15.1",
            "max_num_seqs": server["max_num_seqs"],
            "max_num_batched_tokens": server["max_num_batched_tokens"],
            "max_model_len": server["max_model_len"],
        },
        kv_blocks=server["total_kv_blocks"],
    )
    assert not isinstance(served, str)
    stage = content["workload"]["stages"][0]
    workload = Workload(
        classes=(
            RequestClass(
                input_tokens=Constant(value=sent["question_len"]),
                output_tokens=Constant(value=sent["output_len"]),
                prefix=SharedPrefix(tokens=sent["system_prompt_len"], groups=sent["num_groups"]),
                repeat=RepeatedPrompts(distinct=sent["distinct_prompts"]),
            ),
        ),
        stages=(Stage(rate=stage["rate_rps"], duration=stage["duration_s"]),),
        arrivals=Arrivals(process="conditioned-poisson"),
    )
    own = public_experiment("overload", served, workload, (), path)
    return replace(own, saturated={0: True})


def test_the_shipped_posterior_sees_a_real_overload_coming(shared_data: Path) -> None:
    """4 requests/s of 1,448 tokens: 68 % of the clients gave up after 300 s."""
    calm = Path("experiments") / "train" / "67.yaml"
    runs = (overloaded(shared_data), load_experiment(shared_data / calm))
    found = evaluate_experiments(runs, load_posterior(), n_draw=24, seed=1, threads=1)
    predicted = {r.experiment: r.predicted for r in found.saturation}
    assert predicted["overload"] > 0.9
    assert predicted["67"] < 0.1
    score = found.saturation_score
    assert score is not None
    assert score.brier < 0.02 < score.brier_base_rate
    assert not [r for r in found.records if r.experiment == "overload"]
