"""Scrapes by bucket, and vLLM's log of engine steps."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailcast.errors import InputError
from tailcast.traces.importers.exposition import Histogram
from tailcast.traces.importers.imported import Imported, ReadOptions
from tailcast.traces.importers.reading import read_any
from tailcast.traces.importers.writing import write_imported
from tailcast.traces.run_summary import Stage
from tailcast.traces.step_log import StepLog
from traces.tool_files import STEPS, exposition, step_line, step_log, written


def steps_of(found: Imported) -> StepLog:
    """Steps of a result."""
    assert isinstance(found.content, StepLog)
    return found.content


def stage_of(found: Imported) -> Stage:
    """The only stage of a result."""
    assert isinstance(found.content, tuple)
    return found.content[0].stages[0]


def logged(folder: Path, rows: list[str]) -> Imported:
    """Result of a log of these lines."""
    return read_any(written(folder / "vllm.log", "\n".join(rows) + "\n"))


# Prometheus


def test_means_are_exact_and_quantiles_are_bounds(tmp_path: Path) -> None:
    found = read_any(written(tmp_path / "m.prom", exposition()))
    stage = stage_of(found)
    assert stage.value("ttft", "mean") == pytest.approx(0.055)
    assert np.isnan(stage.value("ttft", "p90"))
    bounds = {(b.metric, b.statistic): (b.low, b.high) for b in stage.bounds}
    assert bounds["ttft", "p50"] == (0.04, 0.06)
    assert bounds["ttft", "p90"] == (0.06, 0.1)
    assert bounds["ttft", "p95"] == (0.06, 0.1)  # 95 of 100 lie at or below 0.1
    assert bounds["ttft", "p99"] == (0.1, 0.25)
    assert (stage.input_tokens.mean, stage.output_tokens.mean) == (40.0, 5.0)
    assert "since the server started" in " ".join(found.notes)


def test_time_per_output_token_is_itl_whatever_its_name(tmp_path: Path) -> None:
    found = read_any(written(tmp_path / "m.prom", exposition()))
    assert stage_of(found).value("itl", "mean") == pytest.approx(0.03)
    assert np.isnan(stage_of(found).value("tpot", "mean"))
    assert "observes every gap; it is taken as ITL" in " ".join(found.notes)


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=6).filter(lambda n: sum(n) > 0),
    st.floats(0.01, 0.99),
)
def test_the_bucket_holds_the_quantile_of_any_data_it_may_be_of(n: list[int], q: float) -> None:
    edges = np.append(np.arange(1.0, len(n)), np.inf)
    data = np.sort(np.repeat(np.append(edges[:-1], len(n)), n) - 0.5)
    low, high = Histogram(edges=edges, counts=np.cumsum(n).astype(float), total=1.0).bounds(q)
    value = data[max(int(np.ceil(q * len(data))), 1) - 1]
    assert low < value <= high


def test_a_run_is_the_difference_of_two_scrapes(tmp_path: Path) -> None:
    before = written(tmp_path / "run" / "metrics_before.prom", exposition(1.0))
    after = written(tmp_path / "run" / "metrics_after.prom", exposition(3.0))
    found = read_any(after, options=ReadOptions(before=before))
    assert stage_of(found).n_requests == 200
    assert stage_of(read_any(tmp_path / "run")).n_requests == 200
    assert "metrics_before.prom were taken off" in " ".join(found.notes)
    with pytest.raises(InputError, match="the server started again"):
        read_any(before, options=ReadOptions(before=after))
    with pytest.raises(InputError, match="no latencies between"):
        read_any(before, options=ReadOptions(before=before))
    other = written(tmp_path / "other.prom", exposition(1.0, model="large"))
    with pytest.raises(InputError, match="is of large, not of tiny"):
        read_any(after, options=ReadOptions(before=other))


def test_several_models_are_not_mixed(tmp_path: Path) -> None:
    both = exposition() + exposition(2.0, model="large")
    with pytest.raises(InputError, match=r"several models \(large, tiny\) are not mixed"):
        read_any(written(tmp_path / "m.prom", both))


def test_a_histogram_without_an_end_is_refused(tmp_path: Path) -> None:
    text = exposition().replace(',le="+Inf"', ',le="0.3"', 1)
    with pytest.raises(InputError, match=r"time_to_first_token_seconds .*no bucket \+Inf"):
        read_any(written(tmp_path / "m.prom", text))


def test_the_real_scrapes_agree_with_the_real_requests(shared_data: Path) -> None:
    folder = shared_data / "cpu_engine_trace"
    found = read_any(
        folder / "metrics_after.prom", options=ReadOptions(before=folder / "metrics_before.prom")
    )
    stage = stage_of(found)
    assert stage.n_requests == 298
    # The server's E2E is a little under the client's, whose mean is 1.169 s.
    assert 0.95 < stage.value("e2e", "mean") / 1.169 < 1.0
    bounds = {b.statistic: (b.low, b.high) for b in stage.bounds if b.metric == "ttft"}
    assert bounds["p90"] == (0.25, 0.5)


# vLLM's log


def test_steps_are_read_under_every_prefix(tmp_path: Path) -> None:
    prefixes = {
        "vllm": None,
        "created": "1795957752.102187 INFO [loggers.py:257] ",
        "dated": "2026-11-29T13:09:12.102Z (EngineCore_DP0 pid=7) INFO 11-29 13:09:12 [l:1] ",
        "bare": "",
    }
    for name, prefix in prefixes.items():
        rows = [step_line(i, *step, prefix) for i, step in enumerate(STEPS)]
        log = steps_of(logged(tmp_path / name, ["INFO starting", *rows]))
        assert log.elapsed.tolist() == pytest.approx([0.04102, 0.01486, 0.0777, 0.0155])
        assert log.prefill_requests.tolist() == [1, 0, 1, 0]
        assert log.prefill_tokens.tolist() == [59, 0, 81, 0]
        assert log.decode_tokens.tolist() == [0, 1, 1, 2]
        assert log.kv_usage.tolist() == pytest.approx([0.0, 0.001, 0.002, 0.003])
        assert np.isnan(log.log_time[0]) == (name == "bare")


def test_times_without_a_year_pass_new_year(tmp_path: Path) -> None:
    rows = [
        step_line(1, 0, 0, 1, 10.0, "INFO 12-31 23:59:58 [l:1] "),
        step_line(2, 0, 0, 1, 10.0, "INFO 01-01 00:00:03 [l:1] "),
    ]
    found = logged(tmp_path, rows)
    assert steps_of(found).log_time.tolist() == [0.0, 5.0]
    assert "no year and whole seconds" in " ".join(found.notes)


def test_engines_and_restarts_are_segments_and_dummies_are_counted(tmp_path: Path) -> None:
    rows = [step_line(i, 0, 0, 1, 10.0) for i in (1, 2, 5, 1, 2)]
    rows += [step_line(i, 0, 0, 1, 10.0).replace("Engine 000", "Engine 001") for i in (1, 2)]
    rows += [step_line(3, 0, 0, 1, 1.0).replace(" ms,", " ms (dummy),"), step_line(4, 0, 0, 0, 1.0)]
    found = logged(tmp_path, rows)
    assert steps_of(found).segment.tolist() == [0, 0, 0, 1, 1, 2, 2]
    assert found.counts == {
        "read": 7,
        "dummy steps of data parallel engines": 1,
        "steps without a request": 1,
    }
    text = " ".join(found.notes)
    assert "2 engines logged" in text
    assert "started again 1 times" in text
    assert "2 iteration numbers are not in the log" in text


def test_a_step_cut_off_or_unlike_is_named_with_its_line(tmp_path: Path) -> None:
    path = step_log(tmp_path)
    text = path.read_text()
    path.write_text(text[:-30])
    (fault,) = read_any(path).faults
    assert str(fault) == "vllm.log:5: ends in the middle of a step"
    path.write_text(text.replace("81 context tokens", "many tokens"))
    (fault,) = read_any(path).faults
    assert str(fault) == "vllm.log:4: names an iteration but is no step line"
    path.write_text(text.replace("81 context tokens", "0 context tokens"))
    (fault,) = read_any(path).faults
    assert (fault.line, fault.column) == (4, "context tokens")
    path.write_text("INFO 11-29 13:09:00 nothing\n")
    with pytest.raises(InputError, match="start vLLM with --enable-logging-iteration-details"):
        read_any(path, name="vllm-steps")


def test_older_lines_without_cache_usage_are_read(tmp_path: Path) -> None:
    rows = [step_line(i, *step).split(", GPU KV")[0] for i, step in enumerate(STEPS)]
    log = steps_of(logged(tmp_path, rows))
    assert len(log) == 4
    assert np.isnan(log.kv_usage).all()


def test_steps_round_trip(tmp_path: Path) -> None:
    rows = [step_line(i, *step) for i, step in enumerate(STEPS)] * 2
    log = steps_of(logged(tmp_path, rows))
    write_imported(read_any(tmp_path / "vllm.log"), tmp_path / "steps.csv")
    again = read_any(tmp_path / "steps.csv")
    assert again.format == "steps-csv"
    for key in StepLog.__slots__:
        np.testing.assert_allclose(getattr(steps_of(again), key), getattr(log, key), atol=1e-9)


def test_the_real_log_is_read(shared_data: Path) -> None:
    log = steps_of(read_any(shared_data / "cpu_engine_trace" / "quiet" / "iterations.csv"))
    assert len(log) == 4292
    assert log.decode_requests.max() == 12
