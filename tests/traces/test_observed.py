"""Measured statistics of experiment files."""

import math
from typing import Any

import pytest

from tailcast.errors import InputError
from tailcast.traces.observed import (
    Observed,
    observed_records,
    statistic_name,
    statistic_quantile,
)
from tailcast.workload.fields import Fields


def records(*entries: Any, n_stage: int = 2) -> tuple[Observed, ...]:
    fields = Fields({"observed": list(entries)}, "run.yaml")
    return observed_records(fields.tables("observed"), n_stage)


def one(**latency_ms: Any) -> dict[str, Any]:
    return {"stage": 0, "requests": 9, "latency_ms": latency_ms}


def test_records_are_flat_and_in_seconds() -> None:
    found = records(
        one(ttft={"mean": 20, "p99_9": 50.5, "p90": None}),
        {"stage": 1, "latency_ms": {"tpot": {"mean": 7}}},
    )
    assert found == (
        Observed(stage=0, metric="ttft", statistic="mean", value=0.02, n_requests=9),
        Observed(stage=0, metric="ttft", statistic="p99.9", value=0.0505, n_requests=9),
        Observed(stage=1, metric="tpot", statistic="mean", value=0.007),
    )
    assert found[0].quantile is None
    assert found[1].quantile == 0.999


@pytest.mark.parametrize(
    ("written", "name", "quantile"),
    [
        ("mean", "mean", None),
        ("min", "min", 0.0),
        ("max", "max", 1.0),
        ("median", "p50", 0.5),
        ("P99", "p99", 0.99),
        ("p0_1", "p0.1", 0.001),
        ("p99.90", "p99.9", 0.999),
        ("p5", "p5", 0.05),
    ],
)
def test_statistics_have_one_name(written: str, name: str, quantile: float | None) -> None:
    assert statistic_name(written) == name
    assert statistic_quantile(name) == quantile


@pytest.mark.parametrize("text", ["std", "p", "p999", "p-1", "99", ""])
def test_other_statistics_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="no statistic"):
        statistic_name(text)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"stage": 2, "latency_ms": {}}, "no stage 2; the workload has 2"),
        ({"stage": -1, "latency_ms": {}}, "no stage -1"),
        ({"stage": 0}, "latency_ms is missing"),
        ({"stage": 0, "requests": 0, "latency_ms": {}}, "requests must be at least 1"),
        (one(tftt={"mean": 1}), "no metric 'tftt'; did you mean 'ttft'"),
        (one(ttft=3), "expected a table"),
        (one(ttft={"mean": math.nan}), "mean must be a finite number"),
        (one(ttft={"mean": math.inf}), "mean must be a finite number"),
        (one(ttft={"mean": -1}), "mean must be positive"),
        (one(ttft={"mean": 0}), "mean must be positive"),
        (one(ttft={"mean": "fast"}), "mean must be a finite number"),
        (one(ttft={"std": 1}), "no statistic 'std'"),
        (one(ttft={"p50": 1, "median": 1}), "ttft p50 of stage 0 is given twice"),
        (one(ttft={"p90": 5, "p50": 6}), r"p90 \(5 ms\) is below p50 \(6 ms\)"),
        (one(ttft={"max": 5, "p99": 6}), "max .* is below p99"),
        ({"stages": 0, "latency_ms": {}}, "did you mean 'stage'"),
    ],
)
def test_bad_entries_are_refused_with_their_place(entry: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        records(entry)
    assert str(caught.value).startswith("run.yaml observed[0]")


def test_the_same_statistic_in_two_entries_is_refused() -> None:
    with pytest.raises(InputError, match="given twice"):
        records(one(ttft={"mean": 1}), one(ttft={"mean": 2}))
