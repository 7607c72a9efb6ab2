"""Noise of engine steps and what it leaves of their number."""

from pathlib import Path

import numpy as np
import pytest

from tailcast.streams import stream
from tailcast.traces.step_log import StepLog, read_step_log
from tailcast.traces.step_noise import effective_size, step_noise


def autoregressive(n: int, rho: float, seed: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Stationary noise of first order with variance 1."""
    rng = stream(seed, "noise")
    shocks = rng.standard_normal(n) * np.sqrt(1 - rho**2)
    values = np.empty(n)
    values[0] = rng.standard_normal()
    for i in range(1, n):
        values[i] = rho * values[i - 1] + shocks[i]
    return values


def log_of(elapsed: np.ndarray[tuple[int], np.dtype[np.float64]], seed: int) -> StepLog:
    """Steps of random batches whose law is 15 ms + 0.5 ms a prefill token + 1 ms a decode."""
    n = len(elapsed)
    rng = stream(seed, "batches")
    prefills = (rng.random(n) < 0.1).astype(np.int64)
    tokens = prefills * rng.integers(20, 200, n)
    decodes = rng.integers(1, 9, n)
    law = 0.015 + 0.0005 * tokens + 0.001 * decodes
    return StepLog(
        log_time=np.full(n, np.nan),
        iteration=np.arange(n),
        prefill_requests=prefills,
        prefill_tokens=tokens,
        decode_requests=decodes,
        decode_tokens=decodes,
        kv_usage=np.full(n, np.nan),
        elapsed=law * elapsed,
        segment=np.zeros(n, dtype=np.int64),
    )


@pytest.mark.statistical
@pytest.mark.parametrize("rho", [0.0, 0.5, 0.8])
def test_effective_size_is_that_of_the_process(rho: float) -> None:
    """n (1 - rho)/(1 + rho); the estimate's sd is about 6 % here, so 30 % is 5 sd."""
    n = 40_000
    found = effective_size(autoregressive(n, rho, 5), np.zeros(n, dtype=np.int64))
    truth = n * (1 - rho) / (1 + rho)
    assert found == pytest.approx(truth, rel=0.3)
    if rho:
        assert found != pytest.approx(n, rel=0.3)  # negative control: as if independent


def test_segments_do_not_reach_into_each_other() -> None:
    n = 4000
    levels = np.repeat([-1.0, 1.0], n // 2)
    values = levels + stream(2, "x").standard_normal(n) * 0.1
    assert effective_size(values, np.zeros(n, dtype=np.int64)) < 40
    apart = effective_size(values, np.repeat([0, 1], n // 2))
    assert apart < 40  # a level that holds for a whole segment is no independent noise


def test_the_law_and_the_noise_are_told_apart() -> None:
    noise = np.exp(0.15 * autoregressive(4000, 0.8, 7))
    found = step_noise(log_of(noise, 7))
    assert found.coefficients[0] == pytest.approx(0.015, rel=0.1)
    assert found.coefficients[1] == pytest.approx(0.0005, rel=0.1)
    assert found.sd == pytest.approx(0.15, rel=0.15)
    assert found.lag1 == pytest.approx(0.8, abs=0.05)
    assert found.n_effective_short == pytest.approx(4000 / 9, rel=0.3)
    assert 1 <= found.n_effective < 4000 / 4


def test_one_sided_outliers_are_skew_and_do_not_move_the_law() -> None:
    noise = np.ones(2000)
    noise[::20] = 5.0
    found = step_noise(log_of(noise, 1))
    assert found.skew > 3
    assert found.coefficients == pytest.approx([0.015, 0.0005, 0.0, 0.001], abs=2e-4)


def test_few_steps_have_no_noise() -> None:
    found = step_noise(log_of(np.ones(2), 1))
    assert np.isnan(found.sd)
    assert found.n_effective == 2


@pytest.mark.parametrize(("folder", "lag1"), [("quiet", 0.74), (".", 0.79)])
def test_real_steps_are_worth_a_ninth_at_most(shared_data: Path, folder: str, lag1: float) -> None:
    log = read_step_log(shared_data / "cpu_engine_trace" / folder / "iterations.csv")
    found = step_noise(log)
    assert found.lag1 == pytest.approx(lag1, abs=0.02)
    assert found.skew > 1
    assert found.n_effective <= found.n_effective_short < found.n_step / 6
