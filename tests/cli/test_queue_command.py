"""The commands queue solve, size and check."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tailcast.cli.queue import app
from tailcast.errors import InputError, UsageError

SERVER = ["--input-tokens", "128", "--output-tokens", "512"]
NUMBERS = ["--numbers", "12ms,50us,500ns"]
CASE = (
    "{{id: {id}, kind: bisection, variant: any, rel_tol: 1.0e-6, "
    "inputs: {{function: 2x, lo: 1, hi: 5, target: 6}}, expected: {{indicator: {indicator}}}}}"
)


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(words))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


def vectors(folder: Path, *cases: str) -> str:
    path = folder / "vectors.yaml"
    path.write_text("cases:\n" + "".join(f"- {one}\n" for one in cases))
    return str(path)


def test_solve_prints_the_published_means() -> None:
    code, text = run(
        "solve", *NUMBERS, *SERVER, "--rate", "180rpm", "--max-num-seqs", "48", "--max-queue", "128"
    )
    assert code == 0
    assert "67.6 ms" in text
    assert "3.861 /s" in text


def test_solve_in_json_holds_si_and_intervals() -> None:
    code, text = run(
        "solve", "--model", "llama-3.1-8b", "--gpu", "h100", *SERVER, "--rate", "3",
        "--format", "json",
    )  # fmt: skip
    answer = json.loads(text)
    assert code == 0
    assert answer["schema"] == "tailcast/queue-solve/1"
    ttft = answer["means"]["ttft"]
    assert 0 < ttft["low"] < ttft["median"] < ttft["high"] < 0.1
    assert ttft["unit"] == "s"


def test_solve_says_that_a_server_is_overloaded() -> None:
    _, text = run("solve", *NUMBERS, *SERVER, "--rate", "6", "--max-num-seqs", "48")
    assert "Overloaded" in text
    with pytest.raises(UsageError, match="stability"):
        run(
            "solve", *NUMBERS, *SERVER, "--rate", "6", "--max-num-seqs", "48",
            "--work-model", "V1",
        )  # fmt: skip


def test_solve_takes_two_lines_for_v0() -> None:
    code, text = run(
        "solve", "--work-model", "V0", "--numbers", "7ms,10us,20ms,1us", *SERVER, "--rate", "3"
    )
    assert code == 0
    assert "V0" in text
    with pytest.raises(UsageError, match="V0 needs"):
        run("solve", "--work-model", "V0", *NUMBERS, *SERVER, "--rate", "3")


def test_size_names_replicas_risk_and_what_binds() -> None:
    words = ["--model", "llama-3.1-8b", "--gpu", "h100", "--input-tokens", "1024"]
    code, text = run(
        "size", *words, "--output-tokens", "1024", "--rate", "480rpm", "--slo", "ttft=60ms",
        "--slo", "itl=25ms", "--risk", "0.1", "--format", "json",
    )  # fmt: skip
    answer = json.loads(text)
    assert code == 0
    assert answer["n_replica"] >= 2
    assert answer["p_miss"] <= 0.1
    assert answer["binding"] == "ttft"
    assert answer["capacity"]["low"] < answer["capacity"]["median"] < answer["capacity"]["high"]


def test_size_exits_1_where_no_number_of_replicas_can_help() -> None:
    code, text = run("size", *NUMBERS, *SERVER, "--rate", "1", "--slo", "ttft=5ms")
    assert code == 1
    assert "No number of replicas can help" in text


@pytest.mark.parametrize("style", ["csv", "markdown"])
def test_other_renderings(style: str, tmp_path: Path) -> None:
    path = tmp_path / "answer"
    words = [*NUMBERS, *SERVER, "--rate", "1", "--slo", "itl=25ms"]
    code, _ = run("size", *words, "--format", style, "-o", str(path))
    assert code == 0
    assert "replicas" in path.read_text()


def test_check_counts_last_and_exits_1_on_a_failure(tmp_path: Path) -> None:
    good, bad = CASE.format(id="good", indicator=0), CASE.format(id="bad", indicator=1)
    odd = "{id: odd, kind: unheard, inputs: {a: 1}, expected: {b: 1}}"
    code, text = run("check", vectors(tmp_path, good))
    assert (code, text.strip()) == (0, "1 passed, 0 failed, 0 skipped")
    code, text = run("check", vectors(tmp_path, good, bad, odd))
    assert code == 1
    lines = text.strip().splitlines()
    assert lines[-1] == "1 passed, 1 failed, 1 skipped"
    assert any("bad" in line and "indicator" in line for line in lines)
    assert any("odd" in line and "unheard" in line for line in lines)
    assert not any(line.startswith("good") for line in lines)


def test_check_in_json_lists_every_case(tmp_path: Path) -> None:
    good, bad = CASE.format(id="good", indicator=0), CASE.format(id="bad", indicator=1)
    code, text = run("check", vectors(tmp_path, good, bad), "--format", "json")
    answer = json.loads(text)
    assert code == 1
    assert (answer["passed"], answer["failed"], answer["skipped"]) == (1, 1, 0)
    assert [case["status"] for case in answer["cases"]] == ["passed", "failed"]


def test_check_refuses_a_malformed_file(tmp_path: Path) -> None:
    with pytest.raises(InputError):
        run("check", vectors(tmp_path, "7"))


def test_a_bare_duration_is_refused() -> None:
    with pytest.raises(UsageError, match="unit"):
        run("solve", "--numbers", "12,50us,500ns", *SERVER, "--rate", "1")
    with pytest.raises(UsageError, match="--numbers"):
        run("solve", *SERVER, "--rate", "1")


@pytest.fixture
def no_sampling(monkeypatch: pytest.MonkeyPatch) -> None:
    from queue_trees import unsampled_fit

    monkeypatch.setattr("tailcast.inference.queue_fit.fit_queue", unsampled_fit)
    monkeypatch.setattr("tailcast.report.queue_fit_plots.plot_queue_fit", lambda *_: [])


def window_table(folder: Path) -> str:
    path = folder / "windows.csv"
    path.write_text("tokens_in,tokens_out,rate_rps,ttft_ms,itl_ms\n1024,1024,0.9,44,7.6\n")
    return str(path)


@pytest.mark.usefixtures("no_sampling")
def test_a_fit_is_shown_stored_and_used(tmp_path: Path) -> None:
    server = ["--model", "llama-3.1-8b", "--gpu", "h100"]
    code, text = run("fit", window_table(tmp_path), *server, "-o", str(tmp_path / "fit"))
    assert code == 0
    assert "one request shape (i1024-o1024)" in text
    assert "Next, measure" in text
    folder = tmp_path / "fit"
    assert {"posterior.nc", "tuner.json"} == {f.name for f in folder.iterdir()}
    for numbers in (folder, folder / "posterior.nc", folder / "tuner.json"):
        code, text = run("solve", "--numbers", str(numbers), *SERVER, "--rate", "1")
        assert code == 0
        assert "Intervals: 89%" in text


@pytest.mark.usefixtures("no_sampling")
def test_a_fit_in_json_holds_what_is_not_known(tmp_path: Path) -> None:
    code, text = run(
        "fit", window_table(tmp_path), "--model", "llama-3.1-8b", "--gpu", "h100", "--wide-prior",
        "--at", "512/256", "--slo", "itl=20ms", "-o", str(tmp_path / "fit"), "--format", "json",
    )  # fmt: skip
    answer = json.loads(text)
    assert code == 0
    assert answer["schema"] == "tailcast/queue-fit-summary/1"
    assert answer["prior"].endswith("wide")
    assert answer["numbers"]["alpha"]["prior_log_sd"] == pytest.approx(0.3)
    assert (answer["capacity"]["tokens_in"], answer["capacity"]["tokens_out"]) == (512, 256)
    assert answer["unseen"]


@pytest.mark.usefixtures("no_sampling")
def test_a_fit_needs_a_prior_and_a_sound_shape(tmp_path: Path) -> None:
    table, out = window_table(tmp_path), ["-o", str(tmp_path / "fit")]
    with pytest.raises(UsageError, match="--model and --gpu for the prior"):
        run("fit", table, *out)
    with pytest.raises(UsageError, match="go together"):
        run("fit", table, "--gpu", "h100", *out)
    with pytest.raises(UsageError, match="512/256"):
        run("fit", table, "--model", "llama-3.1-8b", "--gpu", "h100", "--at", "512", *out)
    with pytest.raises(InputError, match="no such file"):
        run("fit", str(tmp_path / "absent"), "--model", "llama-3.1-8b", "--gpu", "h100", *out)
    assert not (tmp_path / "fit").exists()
