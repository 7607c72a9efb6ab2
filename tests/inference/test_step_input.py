"""Step logs as evidence: which batch, which noise, and what a log is worth."""

import numpy as np
import pytest

from loop_runs import served, small_model
from tailcast.errors import InputError
from tailcast.inference.step_input import MOST_STEPS, mean_over_median, step_log_evidence
from tailcast.latency_model import LatencyModel, load_latency_model
from tailcast.streams import stream
from tailcast.traces.step_log import StepLog
from tailcast.traces.step_noise import step_noise


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LatencyModel:
    """Five coefficients."""
    return small_model(tmp_path_factory.mktemp("model"))


def log_of(n: int, *, sd: float = 0.1, kept: float = 0.0, seed: int = 0) -> StepLog:
    """Steps of a linear law with multiplicative, autocorrelated noise."""
    rng = stream(seed, "step log")
    prefill = np.where(rng.random(n) < 0.2, rng.integers(20, 400, n), 0)
    decodes = rng.integers(0, 12, n)
    decodes[prefill == 0] += 1
    noise, last = np.empty(n), 0.0
    for k in range(n):
        last = kept * last + np.sqrt(1 - kept**2) * rng.standard_normal()
        noise[k] = sd * last
    law = 5e-3 + 2e-5 * prefill + 1e-4 * decodes
    return StepLog(
        log_time=np.arange(n, dtype=np.float64) * 0.01,
        iteration=np.arange(n),
        prefill_requests=(prefill > 0).astype(np.int64),
        prefill_tokens=prefill,
        decode_requests=decodes,
        decode_tokens=decodes,
        kv_usage=np.full(n, 0.01),
        elapsed=law * np.exp(noise),
        segment=np.zeros(n, dtype=np.int64),
    )


def test_rows_are_the_batches(model: LatencyModel) -> None:
    log = log_of(50)
    found, _ = step_log_evidence(log, model, served(), "a")
    column = {name: k for k, name in enumerate(model.names)}
    assert (found.clock[:, column["per_step"]] == 1).all()
    expected = log.prefill_requests + log.decode_requests
    np.testing.assert_allclose(found.clock[:, column["per_request"]], expected)
    assert (found.clock[:, column["ingest"]] == 0).all()
    assert (found.overhead == 0).all()
    prefill = found.clock[:, column["prefill_compute"]]
    assert np.corrcoef(prefill, log.prefill_tokens)[0, 1] > 0.99


def test_noise_is_named_by_what_the_batch_holds(model: LatencyModel) -> None:
    log = log_of(60)
    found, _ = step_log_evidence(log, model, served(), "a")
    for name, prefill, decodes in zip(
        found.noise, log.prefill_tokens, log.decode_requests, strict=True
    ):
        kind = "decode" if not prefill else "mixed" if decodes else "prefill"
        assert name == f"step.{kind}"


def test_a_drifting_log_counts_less_than_an_independent_one(model: LatencyModel) -> None:
    free, _ = step_log_evidence(log_of(1200), model, served(), "a")
    drifting, notes = step_log_evidence(log_of(1200, kept=0.95), model, served(), "a")
    assert free.weight > 0.5
    assert drifting.weight < 0.15
    assert "independent" in notes[0]


def test_a_long_log_is_thinned_and_keeps_its_worth(model: LatencyModel) -> None:
    log = log_of(4000, kept=0.6)
    found, notes = step_log_evidence(log, model, served(), "a")
    assert len(found.noise) == MOST_STEPS
    assert found.weight == pytest.approx(
        min(1.0, step_noise(log).n_effective / MOST_STEPS), rel=1e-3
    )
    assert any("enters the fit" in note for note in notes)


def test_times_are_moved_from_the_middle_to_the_mean(model: LatencyModel) -> None:
    rng = stream(2, "skew")
    log = log_of(4000, sd=0.05)
    slow = np.where(rng.random(4000) < 0.05, 2.0, 1.0)
    skewed = StepLog(
        **{name: getattr(log, name) for name in StepLog.__slots__ if name != "elapsed"},
        elapsed=log.elapsed * slow,
    )
    assert mean_over_median(step_noise(skewed)) == pytest.approx(1.05, abs=0.01)
    assert mean_over_median(step_noise(log)) == pytest.approx(1.0, abs=0.01)


def test_what_lies_between_steps_is_not_timed() -> None:
    cpu = load_latency_model("cpu-engine")
    found, _ = step_log_evidence(log_of(30), cpu, served(), "a")
    assert (found.clock[:, cpu.names.index("between_steps")] == 0).all()
    assert (found.clock[:, cpu.names.index("per_step")] == 1).all()


def test_steps_without_a_duration_are_counted_and_left_out(model: LatencyModel) -> None:
    log = log_of(40)
    elapsed = log.elapsed.copy()
    elapsed[:5] = 0.0
    holed = StepLog(
        **{name: getattr(log, name) for name in StepLog.__slots__ if name != "elapsed"},
        elapsed=elapsed,
    )
    found, notes = step_log_evidence(holed, model, served(), "a")
    assert len(found.noise) == 35
    assert any("5 steps without a duration" in note for note in notes)
    empty = StepLog(
        **{name: getattr(log, name) for name in StepLog.__slots__ if name != "elapsed"},
        elapsed=np.zeros(40),
    )
    with pytest.raises(InputError, match="no step of the log"):
        step_log_evidence(empty, model, served(), "a")
