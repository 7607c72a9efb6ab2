"""Conformal intervals: as wide as the errors on judged runs demand, and only for that posterior."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from deployments import deployment
from small_problem import poisson_requests
from tailcast.conformal import Conformal, load_conformal
from tailcast.errors import InputError, UsageError
from tailcast.posteriors import Posterior, load_posterior
from tailcast.prediction import Prediction, predictive
from tailcast.scoring.score import QUANTILE_FIELDS


@pytest.fixture(scope="module")
def posterior() -> Posterior:
    return load_posterior()


@pytest.fixture(scope="module")
def prediction(posterior: Posterior) -> Prediction:
    return predictive(
        posterior,
        deployment("llama-2-7b"),
        lambda seed: poisson_requests(seed, rate=4.0, prompt=256, output=24, n=30),
        n_draw=100,
        n_seed=1,
    )


def record(experiment: int, error: float, width: float = 0.2) -> dict[str, Any]:
    """A statistic whose interval has this 90 % log width and whose observation is this far off."""
    edges = np.exp(width * np.linspace(-0.5, 0.5, len(QUANTILE_FIELDS)))
    return {
        "experiment": str(experiment),
        "stage": 0,
        "metric": "e2e",
        "statistic": "mean",
        "observed": float(np.exp(error)),
        "mean": 1.0,
        "pit": 0.5,
        "crps": 0.1,
        "crps_log": 0.1,
        **dict(zip(QUANTILE_FIELDS, map(float, edges), strict=True)),
    }


def evaluation(path: Path, sha256: str, rows: list[dict[str, Any]]) -> Path:
    content = {
        "schema": "tailcast/evaluate/1",
        "posterior": {"sha256": sha256},
        "records": rows,
    }
    path.write_text(json.dumps(content))
    return path


def sha256(posterior: Posterior) -> str:
    return str(posterior.card["posterior_sha256"])


def test_intervals_stretch_as_the_errors_do(
    tmp_path: Path, posterior: Posterior, prediction: Prediction
) -> None:
    """Errors twice as large make the interval twice as wide on the log scale."""
    found = []
    for factor in (1.0, 2.0):
        rows = [record(k, factor * 0.01 * (k + 1)) for k in range(19)]
        path = evaluation(tmp_path / "e.json", sha256(posterior), rows)
        low, high = load_conformal(path, posterior).interval(prediction, "e2e", "mean", 0.9)
        found.append(np.log(high / low))
    assert found[1] == pytest.approx(2 * found[0])


def test_the_interval_holds_a_new_error_as_often_as_it_says(
    posterior: Posterior, prediction: Prediction
) -> None:
    """Exchangeable errors: 2 000 repeats at 80 %; off by more than .04 with chance below 1e-5."""
    rng = np.random.default_rng(5)
    one = Conformal(posterior=posterior, errors={"e2e": np.ones(9)}, source=Path("x"))
    low, high = np.log(one.interval(prediction, "e2e", "mean", 0.8))
    middle, width = (low + high) / 2, (high - low) / 2
    held = 0
    for _ in range(2000):
        errors = {"e2e": np.sort(np.abs(rng.standard_t(3, 20)))}
        low, high = np.log(replace(one, errors=errors).interval(prediction, "e2e", "mean", 0.8))
        held += low <= middle + width * rng.standard_t(3) <= high
    assert held / 2000 == pytest.approx(17 / 21, abs=0.04)


def test_what_the_evaluation_cannot_tell_is_unknown(
    tmp_path: Path, posterior: Posterior, prediction: Prediction
) -> None:
    rows = [record(k, 0.01 * k) for k in range(6)]
    found = load_conformal(evaluation(tmp_path / "e.json", sha256(posterior), rows), posterior)
    assert found.interval(prediction, "e2e", "mean", 0.9)[1] == np.inf  # six errors: at most 6/7
    assert np.isfinite(found.interval(prediction, "e2e", "mean", 0.5)).all()
    assert np.isnan(found.interval(prediction, "ttft", "mean", 0.5)).all()
    saturated = replace(prediction, load=np.full_like(prediction.load, 2.0))
    assert np.isnan(found.interval(saturated, "e2e", "mean", 0.5)).all()


def test_another_posterior_and_too_few_runs_are_refused(
    tmp_path: Path, posterior: Posterior
) -> None:
    rows = [record(k, 0.01) for k in range(9)]
    with pytest.raises(UsageError, match="another posterior"):
        load_conformal(evaluation(tmp_path / "a.json", "0" * 64, rows), posterior)
    few = evaluation(tmp_path / "b.json", sha256(posterior), [record(0, 0.01)] * 9)
    with pytest.raises(InputError, match="1 experiments are too few"):
        load_conformal(few, posterior)
    with pytest.raises(InputError, match="cannot be read"):
        load_conformal(tmp_path / "none.json", posterior)
