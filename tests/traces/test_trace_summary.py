"""The page that sums a trace up."""

import math
from pathlib import Path

import pytest

from tailcast.traces.token_times import read_token_times
from tailcast.traces.trace_summary import Spread, TraceSummary, trace_summary
from tailcast.traces.tracev2 import read_trace
from traces.trace_files import plain, trace_of


def _spread(summary: TraceSummary, quantity: str, group: int = -1) -> Spread:
    return next(s for s in summary.spreads if (s.quantity, s.group) == (quantity, group))


def test_latencies_lengths_and_rates_are_those_of_the_rows(tmp_path: Path) -> None:
    rows = [plain(f"r{i}", i * 100_000) for i in range(5)]
    summary = trace_summary(trace_of(tmp_path, *rows))
    assert summary.n_request == summary.n_counted == 5
    assert _spread(summary, "ttft").mean == pytest.approx(0.05)
    assert _spread(summary, "tpot").p99 == pytest.approx(0.01)
    assert _spread(summary, "e2e").max == pytest.approx(0.09)
    assert _spread(summary, "lateness").p50 == pytest.approx(0.001)
    assert _spread(summary, "input_tokens").mean == 40
    assert summary.request_rate == pytest.approx(10)
    assert summary.duration == pytest.approx(0.491)
    assert summary.output_rate == pytest.approx(25 / 0.491)
    assert summary.concurrency == pytest.approx(5 * 0.09 / 0.491)
    assert math.isnan(summary.cached_share)
    assert summary.complete


def test_failed_requests_are_counted_and_enter_no_latency(tmp_path: Path) -> None:
    rows = [
        plain("a", 0),
        plain("b", 0, status="error", first_chunk_time_us=0, last_chunk_time_us=0),
    ]
    summary = trace_summary(trace_of(tmp_path, *rows))
    assert summary.n_by_status == {"ok": 1, "error": 1}
    assert _spread(summary, "ttft").n == 1


def test_a_trace_without_any_success_has_no_figures(tmp_path: Path) -> None:
    one = plain("a", 0, status="error", first_chunk_time_us=0, last_chunk_time_us=0)
    summary = trace_summary(trace_of(tmp_path, one))
    assert summary.n_counted == 0
    assert math.isnan(_spread(summary, "ttft").mean)


def test_itl_counts_tokens_not_events(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, plain("a", 0))
    side = tmp_path / "tokens.csv"
    side.write_text(
        "request_id,chunk_index,timestamp_us,n_tokens\n"
        "a,0,51000,1\na,1,81000,3\na,2,81000,0\na,3,91000,1\n"
    )
    summary = trace_summary(trace, read_token_times(side, trace))
    itl = _spread(summary, "itl")
    assert (itl.n, summary.n_merged) == (4, 1)
    assert itl.mean == pytest.approx(0.01)


def test_json_has_a_schema(tmp_path: Path) -> None:
    content = trace_summary(trace_of(tmp_path, plain("a", 0))).as_json()
    assert content["schema"] == "tailcast/trace/1"
    assert content["spreads"][0]["quantity"] == "ttft"


def test_the_real_trace_has_the_figures_of_its_readme(shared_data: Path) -> None:
    folder = shared_data / "cpu_engine_trace"
    trace = read_trace(folder / "header.yaml", folder / "requests.csv")
    summary = trace_summary(trace, read_token_times(folder / "token_times.csv", trace))
    assert summary.n_by_status == {"ok": 298, "error": 2}
    assert _spread(summary, "lateness").max == pytest.approx(1.29, abs=0.01)
