"""The command autoscale."""

import csv
import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., tuple[int, str, str]]
WORDS = (
    *("autoscale", "0s=2rps,2min=2rps,4min=5rps,6min=5rps"),
    *("--input-tokens", 1024, "--output-tokens", 300, "--slo", "ttft=60ms"),
    *("--numbers", "6.678ms,20.08us,55.16ns", "--model", "llama-3.1-8b", "--gpu", "h100"),
    *("--draws", 2),
)


def test_json_holds_runs_timeline_and_decisions(tailcast: Run) -> None:
    code, out, err = tailcast(*WORDS, "--format", "json")
    found = json.loads(out)
    assert code == 0
    assert found["schema"] == "tailcast/autoscale/1"
    assert len(found["runs"]) == 2
    for run in found["runs"]:
        assert run["n_answered"] + run["n_refused"] == run["n_request"] > 0
        assert run["path"][0] == 1
        assert 0 <= run["above_settled"] <= 1
    assert [entry["start"] for entry in found["timeline"]] == [60.0 * k for k in range(6)]
    assert found["decisions"][0]["capacity_low"] < found["decisions"][0]["capacity_high"]
    assert found["summary"]["above_settled"]["unit"] == "1"
    assert err.count("run ") == 2


def test_csv_is_the_timeline_and_the_plot_is_a_picture(tailcast: Run, tmp_path: Path) -> None:
    figure = tmp_path / "run.png"
    code, out, _ = tailcast(*WORDS, "--format", "csv", "--plot", figure, "--draws", 1)
    assert code == 0
    rows = list(csv.DictReader(io.StringIO(out)))
    assert len(rows) == 6
    assert rows[0]["rate"].endswith("/s")
    assert figure.read_bytes().startswith(b"\x89PNG")


def test_the_table_says_truth_belief_and_path(tailcast: Run) -> None:
    _, out, _ = tailcast(*WORDS, "--controller", "fixed:2", "--draws", 1)
    assert "Ready replicas of the run shown: 1 -> 2." in out
    assert "Truth: 6.678ms,20.08us,55.16ns" in out
    assert "time above target" in out


def test_a_posterior_is_a_plant(tailcast: Run, prior_for_posterior: None) -> None:
    del prior_for_posterior
    words = [w for w in WORDS if w not in ("--numbers", "6.678ms,20.08us,55.16ns")]
    code, out, _ = tailcast(*words, "--posterior", "physics-h100-vllm015", "--draws", 1)
    assert code == 0
    assert "Truth: posterior" in out


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--set", "pod_strat=90s"), "pod_start"),
        (("--set", "pod_start=90"), "unit"),
        (("--set", "most=many"), "most"),
        (("--set", "routing=sideways"), "routing"),
        (("--controller", "magic"), "controller"),
        (("--slo", "tps=100", "--slo", "ttft=9ms"), "twice"),
        (("--posterior", "x"), "not both"),
    ],
)
def test_usage_errors_are_one_line(tailcast: Run, words: tuple[str, ...], what: str) -> None:
    code, _, err = tailcast(*WORDS, *words)
    assert code == 2
    assert what in err
    assert len(err.strip().splitlines()) == 1
