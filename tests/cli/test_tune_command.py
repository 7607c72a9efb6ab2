"""The command tune on recorded runs; live servers are in tests/observe/test_follow.py."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tailcast.traces.trace_header import TraceHeader
from tailcast.traces.tracev2 import Trace, blank_columns, write_trace

Run = Callable[..., tuple[int, str, str]]
PRIOR = ("--numbers", "6ms+-30%,25us+-40%,50ns+-50%")


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Four minutes at 2 requests/s: TTFT 40 ms, 9 ms a token."""
    n = 480
    columns = blank_columns(n)
    send = 0.5 * np.arange(n)
    columns |= {
        "request_id": np.array([f"r{k}" for k in range(n)]),
        "arrival_time": send,
        "send_time": send,
        "first_chunk_time": send + 0.040,
        "last_chunk_time": send + 0.040 + 199 * 0.009,
        "input_tokens": np.full(n, 1024),
        "output_tokens": np.full(n, 200),
        "status": np.full(n, "ok"),
    }
    write_trace(
        Trace(header=TraceHeader(), columns=columns), tmp_path / "run.yaml", tmp_path / "run.csv"
    )
    return tmp_path / "run.csv"


def test_a_trace_is_read_in_windows(tailcast: Run, trace: Path) -> None:
    code, out, _ = tailcast("tune", trace, *PRIOR, "--format", "json")
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0
    assert len(lines) == 3
    assert {line["schema"] for line in lines} == {"tailcast/tune/1"}
    window = lines[0]["window"]
    assert window["ttft"] == pytest.approx(0.040, rel=1e-4)
    assert window["itl"] == pytest.approx(0.009, rel=1e-4)
    assert window["rate"] == pytest.approx(2.0)
    widths = [
        np.log(line["estimates"]["alpha"]["high"] / line["estimates"]["alpha"]["low"])
        for line in lines
    ]
    assert widths[0] > widths[-1] > 0


def test_the_state_goes_on_and_sizes(tailcast: Run, trace: Path, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    assert tailcast("tune", trace, *PRIOR, "--state", state)[0] == 0
    code, _, err = tailcast("tune", trace, "--state", state, "--windows", "1")
    assert (code, "3 windows so far" in err) == (0, True)
    code, out, _ = tailcast(
        "size", "--numbers", state, "--input-tokens", 1024, "--output-tokens", 200,
        "--rate", "8rps", "--slo", "ttft=80ms", "--format", "json",
    )  # fmt: skip
    assert code == 0
    assert json.loads(out)["n_replica"] >= 1


def test_the_baseline_stands_beside_it(tailcast: Run, trace: Path) -> None:
    _, out, _ = tailcast("tune", trace, *PRIOR, "--baseline", "wva", "--format", "json")
    assert {json.loads(line)["wva"]["status"] for line in out.splitlines()} <= {
        "accepted",
        "rejected",
        "skipped",
        "crashed",
    }


@pytest.mark.parametrize("style", ["table", "csv", "markdown"])
def test_renderings_have_one_row_a_window(
    tailcast: Run, trace: Path, style: str, tmp_path: Path
) -> None:
    _, out, _ = tailcast("tune", trace, *PRIOR, "--format", style)
    assert sum("us [" in line for line in out.splitlines()) == 3
    path = tmp_path / "answer"
    assert tailcast("tune", trace, *PRIOR, "--format", style, "-o", path)[0] == 0
    assert sum("us [" in line for line in path.read_text().splitlines()) == 3


def test_a_real_sweep_narrows_the_numbers(tailcast: Run, shared_data: Path) -> None:
    sweep = shared_data / "public" / "inferno-guidellm-llama31-8b"
    _, out, _ = tailcast(
        "tune", sweep, "--model", "llama-3.1-8b", "--gpu", "h100", "--format", "json"
    )
    last = json.loads(out.splitlines()[-1])
    assert last["n_window"] == 112
    assert last["estimates"]["alpha"]["low"] < 6.678e-3 * 1.1
    assert last["estimates"]["alpha"]["high"] > 6.678e-3 * 0.9


def test_experiments_are_windows_by_stage(tailcast: Run, shared_data: Path) -> None:
    path = sorted((shared_data / "experiments" / "train").glob("*.yaml"))[0]
    code, out, _ = tailcast("tune", path, *PRIOR, "--format", "json")
    assert code == 0
    assert "stage 0" in json.loads(out.splitlines()[0])["replica"]


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("tune",), "not both"),
        (("tune", "x", "--prometheus", "y"), "not both"),
        (("tune", "x", "--listen", "9"), "go with"),
        (("tune", "nowhere"), "first belief"),
        (("tune", "nowhere", *PRIOR), "no such"),
        (("tune", "nowhere", "--numbers", "6ms,25us,50ns"), "spreads"),
    ],
)
def test_usage_errors_are_one_line(tailcast: Run, words: tuple[str, ...], what: str) -> None:
    code, _, err = tailcast(*words)
    assert code in {2, 3}
    assert what in err
    assert len(err.strip().splitlines()) == 1
