"""Percentiles and reports under BLIS's keys."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.blis.deployments import deployment
from tailcast.engine.blis.metrics import mean_ms, percentile_ms, pooled_percentile_ms
from tailcast.engine.blis.requests import blis_requests
from tailcast.engine.blis.run import simulate_blis
from tailcast.engine.blis.settings import BlisSettings


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=40), st.floats(0, 100))
def test_percentiles_interpolate_linearly(values: list[int], percent: float) -> None:
    ordered = np.sort(np.array(values, dtype=np.int64))
    expected = np.percentile(ordered, percent) / 1000
    assert percentile_ms(ordered, percent) == pytest.approx(expected, rel=1e-12, abs=1e-9)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60), st.sampled_from([0, 37, 90, 99, 100]))
def test_pooling_changes_nothing(values: list[int], percent: float) -> None:
    ordered = np.sort(np.array(values, dtype=np.int64))
    different, counts = np.unique(ordered, return_counts=True)
    assert pooled_percentile_ms(different, counts, percent) == percentile_ms(ordered, percent)
    assert mean_ms(different, counts) == mean_ms(ordered)


def test_nothing_has_percentile_zero() -> None:
    none = np.zeros(0, dtype=np.int64)
    assert percentile_ms(none, 99) == pooled_percentile_ms(none, none, 99) == mean_ms(none) == 0.0


def test_ttft_counts_requests_that_time_out_later() -> None:
    requests = blis_requests([0, 0], 100, [5, 500], deadline_us=[0, 200_000])
    result = simulate_blis(requests, BlisSettings(), deployment())
    report = result.metrics()
    assert (report["completed_requests"], report["timed_out_requests"]) == (1, 1)
    assert np.all(result.ttft_us > 0)
    assert report["ttft_mean_ms"] == mean_ms(result.ttft_us)
    assert report["e2e_mean_ms"] == result.e2e_us[0] / 1000
    assert report["itl_mean_ms"] == pytest.approx(result.itl_mean_us[0] / 1000)


def test_length_capped_requests_divide_by_one_gap_less() -> None:
    requests = blis_requests([0], 30, 100, max_output_tokens=0)
    result = simulate_blis(requests, BlisSettings(max_model_len=50), deployment())
    assert result.length_capped.tolist() == [True]
    assert result.n_itl.tolist() == [19]  # ends at 49 tokens
    assert result.itl_mean_us[0] == result.itl_sum_us[0] / 18
    assert result.metrics()["total_output_tokens"] == 20


def test_report_has_blis_keys() -> None:
    requests = blis_requests([0, 5], 100, 5)
    result = simulate_blis(requests, BlisSettings(), deployment())
    report = result.metrics(with_requests=True)
    for metric in ("e2e", "ttft", "itl"):
        for statistic in ("mean", "p90", "p95", "p99"):
            assert report[f"{metric}_{statistic}_ms"] > 0
    assert report["total_input_tokens"] == 200
    assert report["total_output_tokens"] == 10
    assert report["responses_per_sec"] == 2 / report["vllm_estimated_duration_s"]
    assert [r["requestID"] for r in report["requests"]] == ["request_0", "request_1"]
    assert report["requests"][0]["ttft_ms"] == result.ttft_us[0] / 1000


def test_results_list_numbered_requests_that_completed() -> None:
    requests = blis_requests([0, 5, 9], 100, [5, 1, 5], request_id=["request_12", "7", "other"])
    records = simulate_blis(requests, BlisSettings(), deployment()).sim_results()
    assert [r["request_id"] for r in records] == [7, 12]
    assert "itl_mean_us" not in records[0]
    assert records[1]["itl_mean_us"] > 0
