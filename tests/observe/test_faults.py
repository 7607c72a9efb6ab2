"""Servers that fail, clients that are slow, users who lose patience."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from observe.fake_server import Behaviour, running
from observe.runs import observed, table
from tailcast.observe.run import Progress, observe
from tailcast.observe.save import save_observation
from tailcast.observe.settings import ObserveSettings, ServerError

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    ("fault", "reason", "tokens"),
    [
        ("http500", "HTTP 500: out of luck", 0),
        ("reset", "onnection", 2),
        ("cut", "stream ended before the answer was complete", 2),
        ("garbage", "no JSON object", 6),
        ("error_event", "engine died", 2),
    ],
)
def test_a_failed_request_is_a_row_with_its_reason_and_its_tokens(
    fault: str, reason: str, tokens: int
) -> None:
    seen, server = observed(table(5), Behaviour(faults={2: fault}))
    record = next(record for record in seen.records if record.row == 2)
    assert record.status == "error"
    assert reason in record.error
    assert record.n_tokens == tokens
    assert sum(other.status == "ok" for other in seen.records) == 4
    assert sum(job.row == 2 for job in server.jobs) == (fault != "http500")  # nothing is retried


def test_a_stalled_answer_is_given_up() -> None:
    seen, _ = observed(table(4), Behaviour(faults={1: "stall"}), stall_timeout=0.4)
    record = next(record for record in seen.records if record.row == 1)
    assert (record.status, record.n_tokens) == ("timeout", 2)
    assert "no byte for 0.4 s" in record.error


def test_a_client_leaves_when_its_patience_ends() -> None:
    requests = table(4, gap=0.01, outputs=100, timeout=[0.2, 30.0, 30.0, 30.0])
    seen, _ = observed(requests, Behaviour(per_step=0.01))
    first = next(record for record in seen.records if record.row == 0)
    assert first.status == "timeout"
    assert 0 < first.n_tokens < 100
    assert [r.status for r in seen.records if r.row] == ["ok"] * 3


def test_the_run_goes_on_after_a_restart_of_the_server() -> None:
    behaviour = Behaviour(faults={3: "restart"})
    seen, _ = observed(table(30, gap=0.05), behaviour, scrape_interval=0.1)
    states = {record.row: record.status for record in seen.records}
    assert states[3] == "error"
    assert states[29] == "ok"
    assert set(states.values()) == {"ok", "error"}
    assert any("refused" in record.error.lower() for record in seen.records)
    assert seen.scrapes.n_restarts == 1


def test_a_session_ends_with_its_first_failure() -> None:
    requests = table(
        3,
        outputs=4,
        input_tokens=[40, 64, 88],
        content_stream=[1, 1, 1],
        session_output=[True] * 3,
        parent=[-1, 0, 1],
    )
    seen, _ = observed(requests, Behaviour(faults={1: "cut"}))
    assert [record.row for record in seen.records] == [0, 1]
    assert seen.parent_failed == (2,)
    assert seen.n_unsent == 0


def test_a_wrong_key_is_said_and_the_key_is_never_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TAILCAST_API_KEY", "sk-very-secret-1")
    with running(Behaviour(api_key="sk-other")) as server:
        with pytest.raises(ServerError, match="set TAILCAST_API_KEY") as raised:
            observe(ObserveSettings(url=server.url), table(1))
        assert "secret" not in str(raised.value)
    behaviour = Behaviour(api_key="sk-very-secret-1", faults={1: "http500"})
    seen, _ = observed(table(2), behaviour)
    assert "secret" not in repr(seen)
    save_observation(seen, tmp_path)
    for path in tmp_path.iterdir():
        assert "secret" not in path.read_text()


def test_a_slow_client_is_found_out() -> None:
    """Blocking the loop for 200 ms at a time, as a busy client does, must not go unnoticed."""

    def block(_: Progress) -> None:
        time.sleep(0.2)

    with running(Behaviour(per_step=0.002)) as server:
        settings = ObserveSettings(url=server.url)
        seen = observe(settings, table(100, gap=0.012, outputs=3), progress=block)
    late = seen.lateness
    assert late.send_max > 0.02
    assert late.bottleneck
    assert late.reasons


def test_ctrl_c_keeps_what_there_is(tmp_path: Path) -> None:
    """A client in its own process is interrupted; the trace it leaves has all it had seen."""
    script = (
        "import sys; from pathlib import Path\n"
        "from observe.runs import table\n"
        "from tailcast.observe.run import observe\n"
        "from tailcast.observe.save import save_observation\n"
        "from tailcast.observe.settings import ObserveSettings\n"
        "seen = observe(ObserveSettings(url=sys.argv[1]), table(200, gap=0.05, outputs=40),\n"
        "               progress=lambda now: print(now, flush=True))\n"
        "save_observation(seen, Path(sys.argv[2]))\n"
        "print('kept', flush=True)\n"
    )
    with running(Behaviour(per_step=0.02)) as server:
        process = subprocess.Popen(
            [sys.executable, "-c", script, server.url, str(tmp_path)],
            cwd=TESTS,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        for _ in range(3):  # three seconds of ten have passed
            process.stdout.readline()
        os.kill(process.pid, signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "kept" in rest
    header = yaml.safe_load((tmp_path / "header.yaml").read_text())
    assert header["complete"] is False
    rows = (tmp_path / "requests.csv").read_text().splitlines()[1:]
    assert 0 < len(rows) < 200
    assert header["unsent"]["stopped"] == 200 - len(rows)
    assert any(",incomplete," in row for row in rows)
    assert any(",ok," in row for row in rows)
