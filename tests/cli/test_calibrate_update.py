"""The commands calibrate and update: gates, refusals, what is recorded and told."""

import json
from pathlib import Path

import pytest

from cli.conftest import Run
from loop_runs import recorded_trace, requests
from real_engine.tiny_llm import write_folder, write_host
from tailcast.catalog.accelerators import accelerator
from tailcast.catalog.llms import llm
from tailcast.cli.main import main
from tailcast.deployment import Deployment, EngineSettings
from tailcast.latency_model import load_latency_model
from tailcast.traces.tracev2 import write_trace

SERVED = """
[deployment]
model = "{folder}/tiny"
gpu = "{folder}/host.toml"
version = "0.32.0"
max_num_seqs = 64
max_num_batched_tokens = 512
max_model_len = 2048
block_size = 32
kv_blocks = 8192
prefix_caching = false
async_scheduling = false
"""


def trace(folder: Path, name: str, *, seed: int, speed: float = 1.0) -> Path:
    """A simulated run of the test host."""
    on = Deployment(
        llm=llm(folder / "tiny"),
        accelerator=accelerator(str(folder / "host.toml")),
        kv_blocks=8192,
        engine=EngineSettings(
            version="0.32.0",
            max_num_seqs=64,
            max_num_batched_tokens=512,
            max_model_len=2048,
            block_size=32,
            prefix_caching=False,
            async_scheduling=False,
        ),
    )
    found = recorded_trace(
        load_latency_model("cpu-engine"), requests(120, rate=2.0, seed=seed), on, speed=speed
    )
    path = folder / name
    path.mkdir()
    write_trace(found, path / "header.yaml", path / "requests.csv")
    return path


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the tiny LLM, the host, a study, a trace and a posterior fitted to it."""
    folder = tmp_path_factory.mktemp("work")
    write_folder(folder / "tiny")
    write_host(folder)
    (folder / "study.toml").write_text(SERVED.format(folder=folder))
    words = ["-q", "fit", str(trace(folder, "a", seed=1)), "-o", str(folder / "parent")]
    words += ["--study", str(folder / "study.toml"), "--latency-model", "cpu-engine"]
    words += ["--draws", "120", "--tune", "120", "--chains", "2", "--allow-unconverged"]
    with pytest.raises(SystemExit) as left:
        main(words)
    assert not left.value.code
    return folder


@pytest.mark.slow
def test_calibrate_gates_and_changes_nothing(tailcast: Run, work: Path) -> None:
    before = (work / "parent" / "posterior.nc").read_bytes()
    words: tuple[object, ...] = (
        "calibrate",
        work / "a",
        "--posterior",
        work / "parent",
        "--draws",
        80,
    )
    words += ("--study", work / "study.toml")
    code, out, _ = tailcast(*words, "--min-coverage", 0.5)
    assert code == 0
    assert "transfer prediction" in out
    code, out, err = tailcast(*words[:1], trace(work, "slow", seed=2, speed=3.0), *words[2:],
                              "--min-coverage", 0.8)  # fmt: skip
    assert code == 1
    assert "less than 80.0%" in err
    assert "DRIFT" in out
    assert (work / "parent" / "posterior.nc").read_bytes() == before


@pytest.mark.slow
def test_update_records_parent_and_data_and_tells_contraction(tailcast: Run, work: Path) -> None:
    new = trace(work, "b", seed=3)
    words = ("update", work / "parent", new, "-o", work / "child", "--study", work / "study.toml")
    flags = ("--draws", 120, "--allow-unconverged", "--metric", "e2e.p90", "--format", "json")
    code, out, err = tailcast(*words, *flags)
    assert code == 0, err
    told = json.loads(out)
    parent = json.loads((work / "parent" / "card.json").read_text())
    card = json.loads((work / "child" / "card.json").read_text())
    assert card["parent"] == parent["posterior_sha256"] == told["update"]["parent_sha256"]
    assert set(card["data_sha256"]) == {"a", "b"}
    assert card["update"]["data_sha256"] == {"b": card["data_sha256"]["b"]}
    assert len(card["scope"]["runs"]) == 2
    assert not told["drift"][0]["drifted"]
    assert {c["what"] for c in told["coefficients"]} >= {"per_step", "ingest"}
    (statistic,) = told["statistics"]
    assert statistic["what"] == "e2e.p90"
    assert 0 < statistic["contraction"] < 1.5

    code, _, err = tailcast("update", work / "child", new, "-o", work / "twice", *words[5:])
    assert code == 3
    assert "counts once" in err
    assert not (work / "twice").exists()


@pytest.mark.slow
def test_strict_refuses_drift_and_other_machines(tailcast: Run, work: Path) -> None:
    slow = trace(work, "slower", seed=4, speed=3.0)
    words = ("update", work / "parent", slow, "-o", work / "no", "--study", work / "study.toml")
    code, out, err = tailcast(*words, "--strict")
    assert code == 1
    assert "DRIFT" in out
    assert "would have to move" in out
    assert "refused" in err
    assert not (work / "no").exists()
    other = work / "other.toml"
    other.write_text(SERVED.format(folder=work).replace("0.32.0", "0.40.0"))
    fine = trace(work, "fine", seed=5)
    code, out, _ = tailcast(*words[:2], fine, *words[3:5], "--study", other, "--strict")
    assert code == 1
    assert "engine version vllm-0.40" in out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("calibrate", "/nowhere"), 3, "no such file"),
        (("update", "no-such-posterior", "/nowhere", "-o", "x"), 2, "no-such-posterior"),
        (
            ("update", "physics-h100-vllm015", "/nowhere", "-o", "x", "--metric", "ttft.p42"),
            2,
            "ttft.p42",
        ),
        (("update", "physics-h100-vllm015", "/nowhere", "-o", "x", "--forget", 1), 2, "--forget"),
        (("update", "physics-h100-vllm015", "/nowhere", "-o", "/"), 2, "holds no posterior"),
    ],
)
def test_impossible_questions_end_in_one_line(
    tailcast: Run, words: tuple[object, ...], code: int, message: str
) -> None:
    found, out, err = tailcast(*words)
    assert (found, out) == (code, "")
    assert message in err
    assert err.count("\n") == 1
