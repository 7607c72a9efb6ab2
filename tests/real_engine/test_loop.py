"""The whole loop on a real engine: observe, fit, predict, calibrate, update."""

import json
from pathlib import Path

import pytest

from cli.conftest import Run
from cli.conftest import tailcast as tailcast  # noqa: PLC0414 (a fixture)
from real_engine.conftest import SLOTS
from real_engine.engines import Server
from real_engine.tiny_llm import write_folder, write_host

pytestmark = pytest.mark.engine

STUDY = """
[deployment]
model = "{llm}"
gpu = "{host}"
version = "0.32.0"
max_num_seqs = {slots}
max_num_batched_tokens = 2048
max_model_len = 2048
kv_blocks = 2048
prefix_caching = false
async_scheduling = false

[workload]
rate = {rate}
n_requests = {n}
input_tokens = {{ law = "uniform", min = 16, max = {prompt} }}
output_tokens = {{ law = "uniform", min = 4, max = {answer} }}
"""


def study(folder: Path, name: str, **load: float) -> Path:
    """A study of the test server under one load."""
    path = folder / f"{name}.toml"
    text = STUDY.format(llm=folder / "tiny", host=folder / "host.toml", slots=SLOTS, **load)
    path.write_text(text)
    return path


def test_a_trace_teaches_a_posterior_that_predicts_another_load(
    llama_server: Server, tmp_path: Path, tailcast: Run
) -> None:
    """Latencies here depend on what else the machine does, so widths are judged, not seconds."""
    write_folder(tmp_path / "tiny")
    write_host(tmp_path)
    first = study(tmp_path, "first", rate=6.0, n=100, prompt=120, answer=24)
    second = study(tmp_path, "second", rate=4.0, n=60, prompt=200, answer=40)
    for name, load in (("a", first), ("b", second)):
        code, _, err = tailcast(
            "observe", llama_server.url, tmp_path / name, "--study", load, "--warmup", 2
        )
        assert code == 0, err

    fitted = tmp_path / "posterior"
    flags = ("--latency-model", "cpu-engine", "--draws", 150, "--tune", 150, "--chains", 2)
    code, out, err = tailcast(
        "fit", tmp_path / "a", "-o", fitted, "--study", first, *flags, "--allow-unconverged"
    )
    assert code == 0, err
    assert "per_step" in out
    card = json.loads((fitted / "card.json").read_text())
    assert card["scope"]["accelerator"] == ["test-host-cpu"]
    assert card["settings"]["max_num_seqs"] == [SLOTS]

    code, out, err = tailcast(
        "predict", second, "--posterior", fitted, "--draws", 60, "--format", "json"
    )
    assert code == 0, err
    assert json.loads(out)["schema"] == "tailcast/predict/1"

    calibrate = ("calibrate", "--posterior", fitted, "--draws", 100, "--format", "json")
    code, out, err = tailcast(*calibrate, tmp_path / "a", "--study", first)
    assert code == 0, err
    assert json.loads(out)["coverage"]["90"] >= 0.6
    code, out, err = tailcast(*calibrate, tmp_path / "b", "--study", second)
    assert code == 0, err
    found = json.loads(out)
    assert found["runs"][0]["mode"] == "transfer"
    assert not [m for m in found["runs"][0]["mismatches"] if m["serious"]]
    errors = [r["q50"] / r["observed"] for r in found["records"] if r["statistic"] == "mean"]
    assert all(1 / 4 < ratio < 4 for ratio in errors), errors

    code, out, err = tailcast(
        "update", fitted, tmp_path / "b", "-o", tmp_path / "next", "--study", second,
        "--draws", 100, "--allow-unconverged", "--format", "json",
    )  # fmt: skip
    assert code == 0, err
    assert json.loads(out)["update"]["parent_sha256"] == card["posterior_sha256"]
    code, _, err = tailcast(
        "update", tmp_path / "next", tmp_path / "b", "-o", tmp_path / "again", "--study", second
    )
    assert code == 3
    assert "counts once" in err
