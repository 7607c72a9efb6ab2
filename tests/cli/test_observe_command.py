"""The commands observe, trace show and trace check."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from observe.fake_server import Behaviour, FakeServer, running
from tailcast.cli import observe as observe_command
from tailcast.cli import trace as trace_command
from tailcast.errors import InputError, UsageError

app = typer.Typer()
app.command("observe")(observe_command.observe)
app.add_typer(trace_command.app, name="trace")


@pytest.fixture
def server() -> Iterator[FakeServer]:
    """A quick fake server."""
    with running(Behaviour(per_step=0.002)) as started:
        yield started


def run(*arguments: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of one command; errors of ours are raised."""
    found = CliRunner().invoke(app, [str(word) for word in arguments], catch_exceptions=False)
    return found.exit_code, found.stdout, found.stderr


def test_a_run_by_flags_leaves_a_trace_and_prints_its_summary(
    server: FakeServer, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    flags = ("--rate", 50, "--num-requests", 20, "--input-tokens", 40, "--output-tokens", 5)
    code, out, err = run("observe", server.url, folder, *flags)
    assert code == 0
    assert out.startswith("20 requests (20 ok)")
    assert "ttft ms" in out
    assert "client: sent" in err
    assert "client: sent" not in out
    assert (folder / "token_times.csv").exists()
    code, shown, _ = run("trace", "show", folder)
    assert shown == out
    code, checked, _ = run("trace", "check", folder)
    assert code == 0
    assert "0 faults" in checked


def test_json_is_one_document_in_si(server: FakeServer, tmp_path: Path) -> None:
    flags = ("--concurrency", 4, "--num-requests", 12, "--input-tokens", 40, "--output-tokens", 5)
    _, out, _ = run("observe", server.url, tmp_path / "run", *flags, "--format", "json")
    content = json.loads(out)
    assert content["schema"] == "tailcast/trace/1"
    assert content["n_by_status"] == {"ok": 12}
    assert content["client"]["send_lateness_us"]["p99"] >= 0


def test_a_study_gives_workload_and_deployment(server: FakeServer, tmp_path: Path) -> None:
    study = tmp_path / "study.toml"
    study.write_text(
        '[deployment]\nmodel = "llama-3.1-8b-instruct"\ngpu = "h100-sxm"\n'
        "max_num_seqs = 128\n[workload]\nrate = 40\nn_requests = 10\ninput_tokens = 48\n"
        "output_tokens = 4\nprefix = {tokens = 32}\n"
    )
    code, out, _ = run("observe", server.url, tmp_path / "run", "--study", study)
    assert code == 0
    assert "accelerator h100-sxm" in out
    assert "max_num_seqs 128" in out
    assert "% of the prompt tokens were cached" in out


def test_a_trace_is_replayed_and_its_lengths_come_back(server: FakeServer, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    flags = ("--rate", 50, "--num-requests", 8, "--input-tokens", 33, "--output-tokens", 3)
    run("observe", server.url, first, *flags)
    code, _, _ = run("observe", server.url, second, "--replay", first, "--num-requests", 5)
    assert code == 0
    assert len((second / "requests.csv").read_text().splitlines()) == 6
    assert [job.n_prompt for job in server.jobs[-5:]] == [33] * 5


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ((), "give --rate or --concurrency, --input-tokens, --output-tokens"),
        (("--rate", 1, "--concurrency", 1), "not both"),
        (("--study", "a", "--replay", "b"), "not both"),
        (("--rate", 1, "--timeout", "300"), "has no unit"),
        (("--endpoint", "chats"), "did you mean 'chat'"),
    ],
)
def test_flags_that_cannot_work_are_refused(
    flags: tuple[object, ...], reason: str, tmp_path: Path
) -> None:
    with pytest.raises((UsageError, InputError), match=reason):
        run("observe", "localhost:1", tmp_path / "run", *flags)
    assert not (tmp_path / "run").exists()


def test_a_folder_that_is_taken_is_refused_before_anything_is_sent(
    server: FakeServer, tmp_path: Path
) -> None:
    (tmp_path / "x").touch()
    flags = ("--rate", 50, "--num-requests", 8, "--input-tokens", 33, "--output-tokens", 3)
    with pytest.raises(InputError, match="not empty"):
        run("observe", server.url, tmp_path, *flags)
    assert server.jobs == []


def test_failures_are_told_by_kind(tmp_path: Path) -> None:
    with running(Behaviour(per_step=0.002, faults={1: "http500", 2: "http500"})) as server:
        flags = ("--rate", 50, "--num-requests", 4, "--input-tokens", 33, "--output-tokens", 3)
        code, out, err = run("observe", server.url, tmp_path / "run", *flags)
    assert code == 0
    assert "2 requests failed: HTTP 500: out of luck" in err
    assert "2 error, 2 ok" in out


def test_faults_of_a_trace_end_the_check_with_one(server: FakeServer, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    flags = ("--rate", 50, "--num-requests", 4, "--input-tokens", 33, "--output-tokens", 3)
    run("observe", server.url, folder, *flags)
    path = folder / "requests.csv"
    path.write_text(path.read_text()[:-30])
    code, out, _ = run("trace", "check", folder)
    assert code == 1
    assert "fault  requests.csv:5" in out
    code, out, _ = run("trace", "check", folder, "--format", "json")
    assert json.loads(out)["severe"] >= 1
    _, out, _ = run("trace", "check", folder, "--format", "csv")
    assert out.splitlines()[0] == "severe,kind,file,line,column,rows,message"
