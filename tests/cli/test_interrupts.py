"""Ctrl-C ends a command with 130 and one line, and leaves nothing half-written."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from cli.conftest import contents
from cli.test_bad_files import EXPERIMENT
from cli.test_bad_input import QUESTION, words
from observe.fake_server import Behaviour, running

# Says on stderr when the command's work begins, so that the signal meets it there.
STARTED = """
import sys
import {module}
work = {module}.{name}
def begun(*given, **more):
    print("begun", file=sys.stderr, flush=True)
    return work(*given, **more)
{module}.{name} = begun
from tailcast.cli.main import main
main(sys.argv[1:])
"""


def interrupted(folder: Path, given: list[str], module: str, name: str) -> tuple[int, list[str]]:
    """Exit code and lines on stderr of a command that gets SIGINT once it works."""
    process = subprocess.Popen(
        [sys.executable, "-c", STARTED.format(module=module, name=name), *given],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
    )
    assert process.stderr is not None
    seen = []
    for line in process.stderr:
        seen.append(line.rstrip("\n"))
        if seen[-1] == "begun":
            break
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, rest = process.communicate(timeout=120)
    assert out == ""
    return process.returncode, rest.splitlines()


LONG = {**EXPERIMENT, "workload": {**EXPERIMENT["workload"], "stages": [  # type: ignore[dict-item]
    {"rate_rps": 100, "duration_s": 20_000}]}}  # fmt: skip

CASES = {
    "predict": (
        ["predict", "study.toml", "--draws", "400", "-o", "answer.json"],
        "tailcast.prediction",
        "predictive",
    ),
    "evaluate": (
        ["evaluate", "run.yaml", "--draws", "400", "-o", "answer.json"],
        "tailcast.evaluation",
        "evaluate",
    ),
    "fit": (
        ["fit", "run.yaml", "-o", "own"],
        "tailcast.inference.sources",
        "load_sources",
    ),
}
STUDY = """\
[deployment]
model = "llama-3.1-8b"
gpu = "h100-sxm"
[workload]
rate = 100
n_requests = 2000000
input_tokens = 100
output_tokens = 10
"""


@pytest.mark.slow
@pytest.mark.parametrize("command", CASES)
@pytest.mark.parametrize("before", [False, True])
def test_an_interrupted_command_leaves_the_folder_as_it_was(
    tmp_path: Path, command: str, *, before: bool
) -> None:
    given, module, name = CASES[command]
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(LONG))
    (tmp_path / "study.toml").write_text(STUDY)
    if before:
        (tmp_path / "answer.json").write_text("old")
    was = contents(tmp_path)
    code, lines = interrupted(tmp_path, given, module, name)
    assert code == 130
    told = [line for line in lines if line.startswith("tailcast: ")]
    assert told == ["tailcast: interrupted; nothing half-written was left"]
    assert lines[-1] == told[0]
    assert not any("Traceback" in line for line in lines)
    assert contents(tmp_path) == was


@pytest.mark.slow
def test_an_interrupted_recording_keeps_what_there_is(tmp_path: Path) -> None:
    load = words(QUESTION, model=None, gpu=None, rate="20", num_requests="2000")
    with running(Behaviour(per_step=0.002)) as server:
        given = ["observe", server.url, "run", *load]
        code = ("-c", "from tailcast.cli.main import main; import sys; main(sys.argv[1:])")
        process = subprocess.Popen(
            [sys.executable, *code, *given],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
        )
        deadline = time.monotonic() + 90
        while len(server.jobs) < 10 and time.monotonic() < deadline:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=90)
    assert process.returncode == 130
    assert "stopped; " in err
    assert err.splitlines()[-1] == "tailcast: interrupted; nothing half-written was left"
    assert "Traceback" not in err
    assert "the run was stopped" in out
    assert not [name for name in os.listdir(tmp_path) if name != "run"]
    rows = (tmp_path / "run" / "requests.csv").read_text().splitlines()
    assert len(rows) - 1 >= 5
    assert (tmp_path / "run" / "header.yaml").exists()
    assert not [name for name in os.listdir(tmp_path / "run") if name.startswith(".")]


def test_a_recording_of_no_server_leaves_no_folder(tmp_path: Path) -> None:
    given = ["observe", "http://127.0.0.1:9", "a/b/run", *words(QUESTION, model=None, gpu=None)]
    code = "from tailcast.cli.main import main; import sys; main(sys.argv[1:])"
    found = subprocess.run(
        [sys.executable, "-c", code, "-q", *given],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert found.returncode == 3
    assert found.stderr.startswith("tailcast: http://127.0.0.1:9: no answer")
    assert len(found.stderr.splitlines()) == 1
    assert os.listdir(tmp_path) == []
