"""Where answers go: files that cannot be written, readers that leave, devices, full disks."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from cli.conftest import Refused, Run, contents
from cli.test_bad_input import CHAIN, NUMBERS, QUESTION, ask, words

COMMAND = (sys.executable, "-c", "from tailcast.cli.main import main; main()")
LIST = ("catalog", "models")
POINT = ask(posterior="roofline")

WRITERS = {
    "predict": ask(),
    "slo": ["slo", *words(QUESTION, slo="ttft.p99=1s")],
    "evaluate": ["evaluate", "run.yaml"],
    "replay": ["replay", "trace"],
    "observe": ["observe", "localhost", "new", *words(QUESTION, model=None, gpu=None)],
    "gpus": ["catalog", "gpus"],
    "models": ["catalog", "models"],
    "llm": ["catalog", "show", "llama-3.1-8b"],
    "posteriors": ["posterior", "list"],
    "posterior": ["posterior", "show"],
    "solve": ["queue", "solve", *words(CHAIN), *NUMBERS],
    "search": ["search", "study.toml"],
    "trace": ["trace", "show", "trace"],
}


@pytest.mark.parametrize("writer", WRITERS)
def test_an_answer_that_cannot_be_written_is_refused_before_any_work(
    refused: Refused, writer: str
) -> None:
    given = WRITERS[writer]
    missing = refused(2, *given, "-o", "nowhere/answer")
    assert "nowhere/answer: there is no folder nowhere; make it first" in missing
    assert ".: is a folder; give a file" in refused(2, *given, "-o", ".")
    Path("file").touch()
    assert "file/answer: " in refused(2, *given, "-o", "file/answer")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_place_without_the_right_to_write_is_refused(refused: Refused) -> None:
    Path("locked").mkdir(mode=0o500)
    assert "Permission denied" in refused(2, *ask(), "-o", "locked/answer")


def test_a_place_that_the_system_keeps_is_refused(refused: Refused) -> None:
    assert "cannot be written" in refused(2, "catalog", "gpus", "-o", "/proc/answer")


@pytest.mark.parametrize("output", ["taken", "folder", "file/posterior"])
def test_a_posterior_that_cannot_be_stored_is_refused_before_it_is_fitted(
    refused: Refused, output: str
) -> None:
    Path("taken").mkdir()
    Path("taken/something").touch()
    Path("file").touch()
    Path("folder").touch()
    line = refused(2, "fit", "run.yaml", "-o", output)
    assert output in line
    assert "folder" in line or "cannot be written" in line


def test_an_answer_in_a_file_is_the_answer_on_stdout(tailcast: Run, tmp_path: Path) -> None:
    for style in ("table", "json", "csv", "markdown"):
        shown = tailcast(*LIST, "--format", style)
        place = tmp_path / style
        assert tailcast(*LIST, "--format", style, "-o", place) == (0, "", shown[2])
        assert place.read_text() == shown[1]
        assert stat.S_IMODE(place.stat().st_mode) == 0o644
    assert sorted(contents(tmp_path)) == ["csv", "json", "markdown", "table"]


def test_an_answer_replaces_a_file_and_keeps_a_link(tailcast: Run, tmp_path: Path) -> None:
    (tmp_path / "old").write_text("old")
    (tmp_path / "link").symlink_to("old")
    assert tailcast(*LIST, "-o", tmp_path / "link")[0] == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "old").read_text().startswith("LLM ")


def test_a_device_is_written_into_and_stays_one(tailcast: Run) -> None:
    assert tailcast(*LIST, "-o", "/dev/null") == (0, "", "")
    code, out, err = tailcast(*LIST, "-o", "/dev/full")
    assert (code, out) == (2, "")
    assert "/dev/full: cannot be written (No space left on device)" in err
    for name in ("/dev/null", "/dev/full"):
        assert stat.S_ISCHR(os.stat(name).st_mode)


def run(*given: str, **options: object) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own."""
    found: subprocess.CompletedProcess[str] = subprocess.run(
        [*COMMAND, *given],
        text=True,
        timeout=120,
        check=False,
        **{"capture_output": True} | options,  # type: ignore[call-overload]
    )
    return found


def test_a_full_disk_behind_stdout_is_one_line() -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        found = run(*LIST, stdout=full, stderr=subprocess.PIPE, capture_output=False)
    assert found.returncode == 3
    assert found.stderr == "tailcast: standard output: cannot be used (No space left on device)\n"


@pytest.mark.parametrize("given", [LIST, POINT], ids=["list", "predict"])
def test_a_reader_that_leaves_ends_nothing_badly(given: list[str]) -> None:
    receiver, sender = os.pipe()
    os.close(receiver)
    found = run("-q", *given, stdout=sender, stderr=subprocess.PIPE, capture_output=False)
    os.close(sender)
    assert (found.returncode, found.stderr) == (0, "")


def test_a_reader_that_leaves_does_not_turn_a_no_into_a_yes(tmp_path: Path) -> None:
    """The faults of a trace end the check with 1 even where nobody reads them."""
    (tmp_path / "trace.csv").touch()
    receiver, sender = os.pipe()
    os.close(receiver)
    given = ("trace", "check", str(tmp_path / "trace.csv"))
    found = run(*given, stdout=sender, stderr=subprocess.PIPE, capture_output=False)
    os.close(sender)
    assert (found.returncode, found.stderr) == (1, "")


def test_remarks_that_nobody_reads_stop_no_answer() -> None:
    receiver, sender = os.pipe()
    os.close(receiver)
    found = run(*POINT, stdout=subprocess.PIPE, stderr=sender, capture_output=False)
    os.close(sender)
    assert found.returncode == 0
    assert "Point answer of roofline" in found.stdout
