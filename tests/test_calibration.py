"""Calibration: the truth is covered, a wrong law is not, and regimes partition the requests."""

from pathlib import Path

import numpy as np
import pytest

from loop_runs import narrow_posterior, recorded_trace, requests, served, small_model
from tailcast.calibration import calibrate, in_flight, trace_regimes
from tailcast.errors import UsageError
from tailcast.inference.recorded import Stated
from tailcast.latency_model import LatencyModel
from tailcast.posteriors import Posterior
from tailcast.report.calibration import calibration_json, calibration_text
from tailcast.traces.tracev2 import Trace, write_trace


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LatencyModel:
    """Five coefficients."""
    return small_model(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def posterior(model: LatencyModel) -> Posterior:
    """Narrow, around the truth of `recorded_trace`."""
    return narrow_posterior(model)


def saved(trace: Trace, folder: Path) -> Path:
    """A trace on disk."""
    folder.mkdir(parents=True, exist_ok=True)
    write_trace(trace, folder / "header.yaml", folder / "requests.csv")
    return folder


def test_a_run_of_the_model_itself_is_covered(
    model: LatencyModel, posterior: Posterior, tmp_path: Path
) -> None:
    path = saved(recorded_trace(model, requests(200)), tmp_path / "true")
    found = calibrate([path], posterior, n_draw=100)
    assert found.errors == ()
    assert found.coverage() > 0.9
    assert not found.runs[0].drift[0].drifted
    assert {(r.score.metric, r.score.statistic) for r in found.records} >= {
        ("ttft", "mean"),
        ("ttft", "p99"),
        ("e2e", "p90"),
        ("tpot", "mean"),
    }


def test_a_slower_server_is_neither_covered_nor_plausible(
    model: LatencyModel, posterior: Posterior, tmp_path: Path
) -> None:
    slow = recorded_trace(model, requests(200), speed=1.5)
    found = calibrate([saved(slow, tmp_path / "slow")], posterior, n_draw=100)
    assert found.coverage() < 0.3
    assert found.runs[0].drift[0].drifted
    biases = [row.bias for row in found.summary if row.metric == "e2e"]
    assert max(biases) < -0.2
    text = calibration_text(found, "table")
    assert "DRIFT" in text
    assert "would have to move" in text


def test_regimes_partition_the_requests(model: LatencyModel) -> None:
    trace = recorded_trace(model, requests(150)).with_column("group", np.arange(150) // 75)
    for kind, (labels, part) in trace_regimes(trace).items():
        assert set(np.unique(part).tolist()) == set(labels), kind
        assert len(part) == 150
    assert set(trace_regimes(trace)) == {"load phase", "prompt", "concurrency"}


def test_requests_in_flight_are_counted_by_hand(model: LatencyModel) -> None:
    trace = recorded_trace(model, requests(60))
    sent, last = trace.injection, trace["last_chunk_time"]
    by_hand = [int(((sent <= t) & (last >= t)).sum()) for t in sent]
    np.testing.assert_array_equal(in_flight(trace), by_hand)


def test_what_the_posterior_has_not_seen_is_named(
    model: LatencyModel, posterior: Posterior, tmp_path: Path
) -> None:
    path = saved(recorded_trace(model, requests(60)), tmp_path / "other")
    found = calibrate([path], posterior, stated=Stated(gpu="a100-sxm-80gb"), n_draw=40)
    serious = {m.what: m.given for m in found.runs[0].mismatches if m.serious}
    assert serious == {"accelerator": "a100-sxm-80gb"}
    assert "MISMATCH: accelerator a100-sxm-80gb" in calibration_text(found, "table")


def test_json_and_csv_hold_every_record(
    model: LatencyModel, posterior: Posterior, tmp_path: Path
) -> None:
    path = saved(recorded_trace(model, requests(60)), tmp_path / "small")
    found = calibrate([path], posterior, n_draw=40)
    content = calibration_json(found)
    assert content["schema"] == "tailcast/calibrate/1"
    assert len(content["records"]) == len(found.records)
    assert content["coverage"]["90"] == found.coverage()
    assert len(calibration_text(found, "csv").splitlines()) == len(found.records) + 1


def test_a_trace_without_a_server_asks_for_it(posterior: Posterior, tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.mkdir()
    (path / "header.yaml").write_text("trace_version: 3\nmode: real\n")
    (path / "requests.csv").write_text(
        "request_id,input_tokens,output_tokens,arrival_time_us\nr,10,10,0\n"
    )
    with pytest.raises(UsageError, match="--model"):
        calibrate([path], posterior)


def test_nothing_is_changed(model: LatencyModel, posterior: Posterior, tmp_path: Path) -> None:
    path = saved(recorded_trace(model, requests(60)), tmp_path / "kept")
    before = {file.name: file.read_bytes() for file in path.iterdir()}
    first = calibrate([path], posterior, n_draw=40)
    again = calibrate([path], posterior, n_draw=40)
    assert [r.score for r in first.records] == [r.score for r in again.records]
    assert {file.name: file.read_bytes() for file in path.iterdir()} == before
    assert served().engine.version == "0.15.1"
