"""Run and replay agree: an exported run, read back and served again, gives the same records."""

import math
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from engine.blis.deployments import deployment
from engine.blis.random_runs import blis_request_tables, blis_settings
from engine.random_cases import random_case
from tailcast.engine.blis.replay import requests_from_trace
from tailcast.engine.blis.requests import BlisRequests
from tailcast.engine.blis.run import simulate_blis
from tailcast.engine.blis.settings import BlisSettings
from tailcast.engine.limits import Limits
from tailcast.engine.result import RequestRecords, Status
from tailcast.engine.run import simulate
from tailcast.engine.run_export import blis_simulated_trace, simulated_trace
from tailcast.request import RequestTable, request_table
from tailcast.step_law import StepLaw
from tailcast.traces.trace_header import TraceHeader
from tailcast.traces.trace_replay import replayed_rows, trace_requests
from tailcast.traces.tracev2 import Trace, read_trace, write_trace
from tailcast.workload.mapping import workload_from_mapping
from tailcast.workload.materialise import materialise

LAW = StepLaw.single(
    per_step=0.006,
    per_prefill_token=2e-5,
    per_decode=3e-5,
    per_context_token=4e-8,
    ingest=0.004,
    finish=0.001,
    stream=1e-5,
    schedule_lag=1.2,
)
PRESSED = Limits(max_num_seqs=16, max_num_batched_tokens=512, kv_blocks=260, max_model_len=2500)
WORKLOADS: tuple[dict[str, Any], ...] = (
    {"preset": "chatbot", "rate": 12, "n_requests": 120},
    {"preset": "codegen", "rate": 6, "n_requests": 60},
    {"preset": "chatbot", "rate": 2, "session": {"turns": 3, "think_time": "2s"}, "n_requests": 60},
    {"preset": "chatbot", "concurrency": {"users": 9, "think_time": "1s"}, "n_requests": 60},
    {
        "rate": 4,
        "n_requests": 60,
        "classes": [
            {"name": "a", "preset": "summarization", "priority": -1, "timeout": "9s"},
            {"name": "b", "preset": "codegen", "prefix": {"tokens": 32}},
        ],
    },
)


def in_microseconds(table: RequestTable) -> RequestTable:
    """The same requests with every time a whole number of microseconds, as a trace can say it."""
    changed = {
        name: np.rint(getattr(table, name) * 1e6) / 1e6 for name in ("arrival", "think_time")
    }
    stays = np.isinf(table.timeout)
    timeout = np.where(stays, np.inf, np.maximum(np.rint(table.timeout * 1e6), 1) / 1e6)
    return replace(table, timeout=timeout, **changed)


def through_files(folder: Path, trace: Trace) -> Trace:
    write_trace(trace, folder / "run.yaml", folder / "run.csv")
    return read_trace(folder / "run.yaml", folder / "run.csv")


Rows = dict[str, tuple[str, ...]]


def by_name(names: list[str], records: RequestRecords) -> Rows:
    """Every record but the arrival, printed in full so that NaN equals NaN."""
    columns = [getattr(records, f.name).tolist() for f in fields(records) if f.name != "arrival"]
    rows = zip(*columns, strict=True)
    return {name: tuple(repr(cell) for cell in row) for name, row in zip(names, rows, strict=True)}


def served_twice(
    folder: Path, table: RequestTable, limits: Limits, law: StepLaw, sessions: str
) -> tuple[Rows, Rows]:
    """Records of a run and of the replay of its export, by request."""
    run = simulate(table, limits, law, records=True).records
    assert run is not None
    names = [f"request_{row}" for row in range(len(table))]
    trace = through_files(folder, simulated_trace(table, run[0], law, TraceHeader()))
    again = trace_requests(trace, sessions=sessions)
    replay = simulate(again, limits, law, records=True).records
    assert replay is not None
    sent = trace["request_id"][replayed_rows(trace)].tolist()
    first = by_name(names, run[0])
    assert {n for n, row in first.items() if row[3] != str(Status.UNSENT.value)} == set(sent)
    return {name: first[name] for name in sent}, by_name(sent, replay[0])


@pytest.mark.parametrize("study", WORKLOADS)
@pytest.mark.parametrize("limits", [Limits(), PRESSED, replace(PRESSED, priority=True)])
def test_replaying_an_exported_run_gives_its_records(
    tmp_path: Path, study: dict[str, Any], limits: Limits
) -> None:
    table = in_microseconds(materialise(workload_from_mapping(study, "w"), 3))
    sessions = "closed-loop" if np.any(table.parent >= 0) else "recorded"
    run, replay = served_twice(tmp_path, table, limits, LAW, sessions)
    assert replay == run


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.integers(0, 5000).map(lambda i: 7 * i), st.sampled_from([0, 1, 2, 5, 6]))
def test_replaying_any_open_run_gives_its_records(
    tmp_path_factory: pytest.TempPathFactory, base: int, kind: int
) -> None:
    case = random_case(base + kind)
    table = in_microseconds(case.requests)
    assume(len(table) > 0 and not np.any(table.parent >= 0))
    folder = tmp_path_factory.mktemp("run")
    run, replay = served_twice(folder, table, case.limits, case.law, "recorded")
    assert replay == run


def test_a_finer_time_is_replayed_to_the_microsecond(tmp_path: Path) -> None:
    """Arrivals between microseconds move by half of one at most, and so do the answers."""
    table = materialise(workload_from_mapping(WORKLOADS[0], "w"), 3)
    run = simulate(table, Limits(), LAW, records=True).records
    assert run is not None
    trace = through_files(tmp_path, simulated_trace(table, run[0], LAW, TraceHeader()))
    replay = simulate(trace_requests(trace), Limits(), LAW, records=True).records
    assert replay is not None
    np.testing.assert_allclose(replay[0].finish, run[0].finish, atol=2e-6)


def test_an_export_says_what_the_client_sees(tmp_path: Path) -> None:
    table = request_table(
        np.array([0.0, 0.5]), np.array([100, 9000]), 3, timeout=np.array([np.inf, 5.0])
    )
    law = StepLaw.single(per_step=0.01, ingest=0.004, finish=0.002, stream=0.001)
    run = simulate(table, replace(PRESSED, kv_blocks=40), law, records=True).records
    assert run is not None
    trace = through_files(tmp_path, simulated_trace(table, run[0], law, TraceHeader()))
    assert trace["status"].tolist() == ["ok", "error"]
    assert trace["first_chunk_time"][0] == pytest.approx(0.004 + 0.01 + 0.001)
    assert trace["last_chunk_time"][0] == pytest.approx(0.004 + 0.03 + 0.003 + 0.002)
    assert math.isnan(trace["last_chunk_time"][1])
    assert trace["deadline"][1] == pytest.approx(5.5)


def as_blis_replays_it(requests: BlisRequests) -> BlisRequests:
    """A trace has no separate client budget: BLIS takes the output length for it."""
    return replace(requests, max_output_tokens=requests.output_tokens)


@settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(blis_request_tables().map(as_blis_replays_it), blis_settings())
def test_blis_runs_are_replayed_exactly(
    tmp_path_factory: pytest.TempPathFactory, requests: BlisRequests, limits: BlisSettings
) -> None:
    assume(len(requests) > 0)
    folder = tmp_path_factory.mktemp("run")
    run = simulate_blis(requests, limits, deployment())
    trace = through_files(folder, blis_simulated_trace(run, TraceHeader()))
    again = requests_from_trace(trace)
    replay = simulate_blis(again, limits, deployment())
    place = {name: row for row, name in enumerate(again.request_id)}
    order = [place[name] for name in requests.request_id]
    for name in ("status", "ttft_us", "e2e_us", "itl_sum_us", "n_itl", "preemptions"):
        assert getattr(replay, name)[order].tolist() == getattr(run, name).tolist(), name
    assert replay.counters == run.counters
    assert replay.step_duration_us.tolist() == run.step_duration_us.tolist()
