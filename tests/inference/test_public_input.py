"""Public sets become runs and step timings; what does not enter a fit is said."""

import csv
import gzip
from pathlib import Path

import numpy as np
import pytest

from small_problem import small_model
from tailcast.basis import FEATURES
from tailcast.errors import InputError, UsageError
from tailcast.inference.evidence import StepEvidence
from tailcast.inference.public_input import table_evidence
from tailcast.inference.sources import load_sources
from tailcast.latency_model import LatencyModel, load_latency_model
from tailcast.traces.public_sets import load_public_set


def splitwise(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    names = (
        "model,hardware,prompt_size,batch_size,token_size,prompt_time,token_time,tensor_parallel"
    )
    rows = [("llama2-70b", "h100-80gb", p, 1, 128, 0.3 * p, 40.0, 4) for p in (128, 512, 2048)]
    with gzip.open(folder / "perf_model.csv.gz", "wt", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names.split(","))
        writer.writerows(rows)
    return folder


def inferencex(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    row = {
        "id": "one",
        "backend": "vllm",
        "backend_version": "0.11.0",
        "model_path": "Qwen/Qwen3-14B",
        "system": "h100_sxm",
        "precision": "fp8",
        "gemm_quant_mode": "fp8",
        "isl": 200,
        "osl": 20,
        "concurrency": 2,
        "tp_size": 1,
        "pp_size": 1,
        "attention_dp_size": 1,
        "moe_tp_size": 1,
        "moe_ep_size": 1,
        "measured": "2025-10-29",
        "silicon_ttft_ms": 40.0,
        "silicon_tpot_ms": 12.0,
    }
    with gzip.open(folder / "agg_ttft_tpot.csv.gz", "wt", newline="") as file:
        writer = csv.DictWriter(file, list(row))
        writer.writeheader()
        writer.writerow(row)
    return folder


@pytest.fixture(scope="module")
def model() -> LatencyModel:
    """The shipped latency model."""
    return load_latency_model("physics")


def test_a_fit_takes_the_folders_of_public_sets(tmp_path: Path, model: LatencyModel) -> None:
    found = load_sources([splitwise(tmp_path / "s"), inferencex(tmp_path / "i")], model)
    (run,) = found.runs
    assert [(o.metric, o.stat) for o in run.outputs] == [("e2e", "p50")]
    assert np.exp(run.outputs[0].log_observed) == pytest.approx(0.040 + 0.012 * 17)
    (steps,) = found.steps
    assert steps.levels["accelerator"] == "h100-sxm-80gb"
    assert steps.levels["engine_version"] == "vllm-0.2"
    assert set(found.files) == {
        "splitwise-perf/perf_model.csv.gz",
        "inferencex-silicon/agg_ttft_tpot.csv.gz",
    }
    assert any("1 step tables on h100-sxm-80gb (vllm 0.2)" in note for note in found.notes)


def test_timings_are_taken_in_seconds_at_peak(tmp_path: Path, model: LatencyModel) -> None:
    (table,) = load_public_set(splitwise(tmp_path)).steps
    evidence: StepEvidence = table_evidence(table, model)
    prefill = np.array([n == "step.prefill" for n in evidence.noise])
    compute = evidence.clock[:, model.names.index("prefill_compute")]
    assert np.all(compute[prefill] > 0)
    assert np.all(compute[~prefill] == 0)
    tokens = table.features[prefill, FEATURES.index("prefill_token")]
    assert np.all(np.diff(compute[prefill]) > 0) == np.all(np.diff(tokens) > 0)
    assert evidence.overhead.sum() == 0.0
    np.testing.assert_allclose(np.exp(evidence.log_observed[~prefill]), 0.040)


def test_timings_whose_noise_the_model_lacks_are_said(tmp_path: Path) -> None:
    small = small_model(tmp_path / "model")
    found = load_sources([splitwise(tmp_path / "s"), inferencex(tmp_path / "i")], small)
    assert found.steps == ()
    assert any("need a noise scale" in note for note in found.notes)


def test_a_sweep_to_leave_out_must_be_there(tmp_path: Path, model: LatencyModel) -> None:
    with pytest.raises(UsageError, match=r"--leave-out .*: no sweep file"):
        load_sources([splitwise(tmp_path / "s")], model, leave_out=["mixed_step.cvs"])


def test_step_sources_are_left_out_by_pattern_and_named(
    tmp_path: Path, model: LatencyModel
) -> None:
    folder = splitwise(tmp_path / "s")
    whole = [step.name for step in load_sources([folder], model).steps]
    assert len(whole) >= 1
    with pytest.raises(UsageError, match="no sweep file or step source"):
        load_sources([folder], model, leave_out=["splitwise *-tp3-*"])
    found = load_sources([folder], model, leave_out=["splitwise *-tp4-*"])
    assert [step.name for step in found.steps] == [name for name in whole if "-tp4-" not in name]
    assert all(f"{name} was left out as asked" in found.notes for name in whole if "-tp4-" in name)


def test_real_sets_enter_a_fit_whole(shared_data: Path, model: LatencyModel) -> None:
    names = ("splitwise-perf", "argonne-llm-inference-bench", "doks-vllm-h200-rates")
    found = load_sources([shared_data / "public" / name for name in names], model)
    assert len(found.steps) == 30
    assert len(found.runs) == 8
    assert len(found.deployments) == 8
    assert all(np.isfinite(o.log_observed) for run in found.runs for o in run.outputs)
    assert all(np.isfinite(s.log_observed).all() and (s.clock >= 0).all() for s in found.steps)


def test_runs_that_judge_fits_never_enter_one(shared_data: Path, model: LatencyModel) -> None:
    folder = shared_data / "experiments" / "validation"
    with pytest.raises(InputError, match="may judge a fit, never enter one"):
        load_sources([folder], model)
