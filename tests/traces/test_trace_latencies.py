"""Latencies of traces."""

from pathlib import Path

import numpy as np
import pytest

from tailcast.errors import InputError
from tailcast.traces.trace_latencies import trace_latencies, trace_observed
from tailcast.traces.tracev2 import read_trace
from traces.trace_files import HEADER, UNIX, plain, row, trace_of


@pytest.mark.parametrize("clock", [0, UNIX])
def test_latencies_count_from_sending(tmp_path: Path, clock: int) -> None:
    trace = trace_of(
        tmp_path, plain("a", 0, clock=clock), plain("b", 5, clock=clock, output_tokens=1)
    )
    latencies = trace_latencies(trace)
    np.testing.assert_allclose(latencies.ttft, 0.05, atol=1e-9)
    np.testing.assert_allclose(latencies.e2e, 0.09, atol=1e-9)
    np.testing.assert_allclose(latencies.tpot, [0.01, np.nan], atol=1e-9)
    assert latencies.counted.all()


def test_lateness_is_sending_minus_intended_arrival(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, plain("a", 0, late=2000), plain("b", 10_000, late=7000))
    np.testing.assert_allclose(trace_latencies(trace).lateness, [0.002, 0.007], atol=1e-12)


def test_failures_and_warm_up_do_not_count(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path,
        plain("warm", 0, last_chunk_time_us=9_000_000),
        plain("a", 10),
        plain("b", 20, status="timeout"),
        row("c", arrival_time_us=3000, status="error"),
        header=HEADER + "warm_up_requests: 1\n",
    )
    latencies = trace_latencies(trace)
    assert latencies.counted.tolist() == [False, True, False, False]
    assert np.isnan(latencies.e2e).tolist() == [True, False, True, True]
    assert {record.n_requests for record in trace_observed(trace)} == {1}


def test_statistics_are_those_of_the_groups(tmp_path: Path) -> None:
    rows = [
        plain(f"r{i}", i * 100, last_chunk_time_us=i * 100 + 1000 + 100_000 + i) for i in range(11)
    ]
    trace = trace_of(tmp_path, *rows)
    groups = np.array([0] * 10 + [2])
    records = trace_observed(trace, groups=groups, statistics=("mean", "p90", "max"))
    found = {(r.stage, r.metric, r.statistic): r.value for r in records}
    assert found[0, "e2e", "mean"] == pytest.approx(0.1000045)
    assert found[0, "e2e", "p90"] == pytest.approx(0.1000081)
    assert found[0, "e2e", "max"] == pytest.approx(0.100009)
    assert found[2, "ttft", "mean"] == pytest.approx(0.05)
    assert {record.stage for record in records} == {0, 2}
    assert (
        trace_observed(trace.with_column("group", groups), statistics=["mean", "p90", "max"])
        == records
    )


def test_traces_without_latencies_are_refused(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, row("c", arrival_time_us=30, status="error"))
    with pytest.raises(InputError, match="no request of the trace succeeded"):
        trace_observed(trace)
    with pytest.raises(InputError, match="no statistic 'p100'"):
        trace_observed(trace_of(tmp_path, plain("a", 0)), statistics=("p100",))


def test_the_recorded_trace_has_the_published_latencies(shared_data: Path) -> None:
    source = shared_data / "cpu_engine_trace" / "quiet"
    trace = read_trace(source / "header.yaml", source / "requests.csv")
    latencies = trace_latencies(trace)
    assert latencies.counted.all()
    assert latencies.lateness.max() == pytest.approx(0.0206, abs=5e-4)
