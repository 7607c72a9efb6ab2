"""`tailcast evaluate`: the contract, blindness, repeatability, errors."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from cli.conftest import Run
from prior_posterior import save_prior

CONTRACT = {
    *("experiment", "stage", "metric", "statistic", "observed", "mean", "pit", "crps"),
    *("q05", "q10", "q25", "q50", "q75", "q90", "q95", "extrapolates"),
}


def experiment(name: str = "a", e2e: float = 400.0, **deployment: Any) -> dict[str, Any]:
    served = {"model": "llama-3.1-8b", "gpu": "h100", "tensor_parallel": 1} | deployment
    served["engine"] = {"name": "vllm", "version": "0.15.1", "max_num_seqs": 64}
    return {
        "id": name,
        "split": "held-out",
        "deployment": served,
        "workload": {
            "kind": "unique-prompts",
            "prompt_tokens": 128,
            "output_tokens": 32,
            "stages": [{"rate_rps": 4.0, "duration_s": 10}],
        },
        "observed": [
            {
                "stage": 0,
                "requests": 40,
                "latency_ms": {
                    "ttft": {"mean": 25.0, "p90": 40.0},
                    "e2e": {"mean": e2e, "p90": 1.1 * e2e},
                },
            }
        ],
    }


def written(folder: Path, *experiments: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for own in experiments:
        (folder / f"{own['id']}.yaml").write_text(yaml.safe_dump(own, sort_keys=False))
    return folder


@pytest.fixture
def prior(tmp_path: Path) -> Path:
    """A posterior that needs no fit."""
    return save_prior(tmp_path / "prior", posterior_sha256="abc")


def evaluated(tailcast: Run, prior: Path, folder: Path, *more: object) -> dict[str, Any]:
    words = ("evaluate", folder, "--posterior", prior, "--draws", "12", "--format", "json", *more)
    code, out, err = tailcast(*words)
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def test_json_keeps_the_contract(tailcast: Run, tmp_path: Path, prior: Path) -> None:
    found = evaluated(tailcast, prior, written(tmp_path / "runs", experiment()))
    assert found["schema"] == "tailcast/evaluate/1"
    assert found["posterior"]["sha256"] == "abc"
    assert len(found["records"]) == 4
    for record in found["records"]:
        assert set(record) >= CONTRACT
        quantiles = [record[f"q{q}"] for q in ("05", "10", "25", "50", "75", "90", "95")]
        assert quantiles == sorted(quantiles)
        assert record["regime"]["experts"] == "dense"
    for row in found["summary"]:
        assert {"coverage50", "coverage80", "coverage90", "mean_log_width90"} <= set(row)
    assert found["saturation"]["n"] == 1
    assert found["saturation"]["n_saturated"] == 0


def test_predictions_do_not_see_what_was_observed(
    tailcast: Run, tmp_path: Path, prior: Path
) -> None:
    one = evaluated(tailcast, prior, written(tmp_path / "one", experiment(e2e=400.0)))
    other = evaluated(tailcast, prior, written(tmp_path / "other", experiment(e2e=9000.0)))
    for a, b in zip(one["records"], other["records"], strict=True):
        for key in ("mean", "q05", "q25", "q50", "q75", "q95"):
            assert a[key] == b[key]
    assert one["records"][2]["observed"] != other["records"][2]["observed"]


def test_same_seed_gives_the_same_bytes_and_another_does_not(
    tailcast: Run, tmp_path: Path, prior: Path
) -> None:
    folder = written(tmp_path / "runs", experiment())
    files = [tmp_path / f"{k}.json" for k in range(3)]
    for path, seed in zip(files, (3, 3, 4), strict=True):
        words = ("evaluate", folder, "--posterior", prior, "--draws", "12", "--seed", seed)
        assert tailcast(*words, "--format", "json", "-o", path)[0] == 0
    first, again, other = (path.read_bytes() for path in files)
    assert first == again
    assert first != other


def test_a_run_that_occurs_twice_counts_once(tailcast: Run, tmp_path: Path, prior: Path) -> None:
    folder = written(tmp_path / "runs", experiment("a"), experiment("b"), experiment("c", 500.0))
    found = evaluated(tailcast, prior, folder)
    assert found["duplicates"] == [["a", "b"]]
    assert {r["experiment"] for r in found["records"]} == {"a", "c"}


def test_what_cannot_be_simulated_is_a_record_and_code_one(
    tailcast: Run, tmp_path: Path, prior: Path
) -> None:
    folder = written(tmp_path / "runs", experiment("a"), experiment("b", model="no-such-llm"))
    code, out, err = tailcast(
        "evaluate", folder, "--posterior", prior, "--draws", "12", "--format", "json"
    )
    assert code == 1
    records = json.loads(out)["records"]
    assert [r["experiment"] for r in records if "error" in r] == ["b"]
    assert "experiment b could not be simulated" in err


def test_a_saturated_stage_is_seen_by_the_requests_in_flight(
    tailcast: Run, tmp_path: Path, prior: Path
) -> None:
    """4 requests/s of 60 s each are 240 in flight and the engine runs 64 at once."""
    found = evaluated(tailcast, prior, written(tmp_path / "runs", experiment(e2e=60_000.0)))
    (record,) = found["saturation"]["records"]
    assert record["observed"] is True
    assert record["source"] == "requests in flight"
    assert record["predicted"] < 0.5
    assert found["saturation"]["brier"] == pytest.approx((1 - record["predicted"]) ** 2)


def test_a_label_says_saturation_without_latencies(
    tailcast: Run, tmp_path: Path, prior: Path
) -> None:
    own = experiment()
    own["observed"] = [{"stage": 0, "saturated": True}]
    found = evaluated(tailcast, prior, written(tmp_path / "runs", own))
    assert found["records"] == []
    assert found["summary"] == []
    assert found["saturation"]["records"][0]["source"] == "label"


def peers(path: Path, *rows: tuple[object, ...], header: str = "") -> Path:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        names = header or "experiment,stage,metric,statistic,value_s,peer"
        writer.writerow(names.split(","))
        writer.writerows(rows)
    return path


def test_peers_are_scored_on_the_same_records(tailcast: Run, tmp_path: Path, prior: Path) -> None:
    file = peers(
        tmp_path / "peers.csv",
        ("a", 0, "e2e", "mean", 0.44, "blis"),
        ("a", 0, "ttft", "p99", 0.1, "blis"),
        ("z", 0, "e2e", "mean", 0.1, "vidur"),
    )
    folder = written(tmp_path / "runs", experiment("a", 400.0))
    found = evaluated(tailcast, prior, folder, "--peers", file)
    (row,) = [m for m in found["methods"] if m["method"] == "blis"]
    assert row["n"] == 1
    assert row["median_ape"] == pytest.approx(0.1)
    assert row["mean_log_width90"] == 0.0
    own = next(r for r in found["summary"] if (r["metric"], r["statistic"]) == ("e2e", "mean"))
    assert row["posterior_median_ape"] == own["median_ape"]
    assert found["left_out"]["blis"] == 1
    assert found["left_out"]["vidur"] == 1
    table = tailcast("evaluate", folder, "--posterior", prior, "--draws", "12", "--peers", file)[1]
    assert "blis" in table


@pytest.mark.parametrize(
    ("row", "header", "complaint"),
    [
        (("a", 0, "e2e", "mean", -1, "x"), "", "positive seconds"),
        (("a", 0, "speed", "mean", 1, "x"), "", "no metric 'speed'"),
        (("a", 0, "e2e", "q7", 1, "x"), "", "no statistic"),
        (("a", "first", "e2e", "mean", 1, "x"), "", "whole number"),
        (("a", 0, "e2e", "mean", 1), "experiment,stage,metric,statistic,value", "value_s"),
    ],
)
def test_a_bad_peer_file_is_one_line(
    tailcast: Run, tmp_path: Path, prior: Path, row: tuple[object, ...], header: str, complaint: str
) -> None:
    file = peers(tmp_path / "peers.csv", row, header=header)
    folder = written(tmp_path / "runs", experiment())
    code, out, err = tailcast("evaluate", folder, "--posterior", prior, "--peers", file)
    assert (code, out) == (3, "")
    last = err.strip().splitlines()
    assert len(last) == 1
    assert complaint in last[0]


def test_a_peer_file_that_says_a_thing_twice_is_refused(
    tailcast: Run, tmp_path: Path, prior: Path
) -> None:
    row = ("a", 0, "e2e", "mean", 0.4, "x")
    file = peers(tmp_path / "peers.csv", row, row)
    folder = written(tmp_path / "runs", experiment())
    code, _, err = tailcast("evaluate", folder, "--posterior", prior, "--peers", file)
    assert code == 3
    assert "twice" in err


def test_the_figure_is_written_whole_and_its_name_is_checked_first(
    tailcast: Run, tmp_path: Path, prior: Path
) -> None:
    folder = written(tmp_path / "runs", experiment())
    words = ("evaluate", folder, "--posterior", prior, "--draws", "12", "--plot")
    assert tailcast(*words, tmp_path / "figure.png")[0] == 0
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    for name in ("figure.bmp", "no-folder/figure.png"):
        code, out, err = tailcast(*words, tmp_path / name)
        assert (code, out) == (2, "")
        assert len(err.strip().splitlines()) == 1
    left = {p.name for p in tmp_path.iterdir() if "figure" in p.name}
    assert left == {"figure.png"}


def test_formats_all_render(tailcast: Run, tmp_path: Path, prior: Path) -> None:
    folder = written(tmp_path / "runs", experiment())
    words = ("evaluate", folder, "--posterior", prior, "--draws", "12", "--format")
    table = tailcast(*words, "table")[1]
    assert "PIT in fifths" in table
    assert "regime" in table
    assert "Saturation: 0 of 1" in table
    assert tailcast(*words, "markdown")[1].startswith("| metric |")
    rows = list(csv.DictReader(tailcast(*words, "csv")[1].splitlines()))
    assert [(r["metric"], r["stat"]) for r in rows] == [
        ("ttft", "mean"),
        ("ttft", "p90"),
        ("e2e", "mean"),
        ("e2e", "p90"),
    ]
