"""Traces become requests, and run and replay agree."""

from typing import Any

import numpy as np
import pytest

from engine.blis.deployments import deployment
from tailcast.engine.blis.presets import preset_requests
from tailcast.engine.blis.replay import (
    blis_replay,
    replay_horizon_us,
    requests_from_columns,
    requests_from_trace,
    vllm_priority,
)
from tailcast.engine.blis.requests import blis_requests, requests_from_table
from tailcast.engine.blis.run import simulate_blis
from tailcast.engine.blis.settings import BlisSettings
from tailcast.errors import InputError, UsageError
from tailcast.request import request_table
from tailcast.traces.trace_header import TraceHeader
from tailcast.traces.tracev2 import Trace, blank_columns

EPOCH_US = 1_700_000_000_000_000


def test_send_times_are_moved_to_the_first_arrival() -> None:
    arrival_us = [1000, 5000, 9000]
    columns = {
        "arrival_time_us": arrival_us,
        "send_time_us": [EPOCH_US + 10, EPOCH_US + 4010, EPOCH_US + 9010],
        "input_tokens": [10, 10, 10],
        "output_tokens": [1, 1, 1],
        "deadline_us": [301_000, 0, 0],
    }
    requests = requests_from_columns(columns)
    assert requests.arrival_us.tolist() == [1000, 5000, 10_000]
    assert requests.deadline_us.tolist() == [301_000, 0, 0]
    unsent = requests_from_columns({**columns, "send_time_us": [0, 0, 0]})
    assert unsent.arrival_us.tolist() == arrival_us


def test_prompt_length_is_the_servers_unless_a_prefix_is_shared() -> None:
    requests = requests_from_columns(
        {
            "arrival_time_us": [0, 1, 2],
            "input_tokens": [10, 20, 30],
            "server_input_tokens": [15, 25, 0],
            "output_tokens": [1, 1, 1],
            "prefix_group": ["", "sys", ""],
            "prefix_length": [7, 100, 0],
        }
    )
    assert requests.input_tokens.tolist() == [15, 120, 30]
    assert requests.prefix_length.tolist() == [0, 100, 0]
    assert requests.prefix_group.tolist() == [-1, 0, -1]


def test_service_classes_become_priorities() -> None:
    columns: dict[str, list[Any]] = {
        "arrival_time_us": [0, 1],
        "input_tokens": [1, 1],
        "output_tokens": [1, 1],
    }
    classes: dict[str, list[Any]] = {
        **columns,
        "slo_class": ["batch", ""],
        "request_id": [4, "request_9"],
    }
    requests = requests_from_columns(classes)
    assert requests.priority.tolist() == [5, 1]
    assert requests.request_id == ("request_4", "request_9")
    told = requests_from_columns({**classes, "vllm_priority": [3, -2]})
    assert told.priority.tolist() == [3, -2]
    assert vllm_priority("standard") == vllm_priority("unheard of") == 1


def test_urgent_requests_go_first_under_priority() -> None:
    requests = blis_requests([0, 1, 2], 400, 3, priority=[1, 7, 0])
    limits = BlisSettings(max_num_seqs=1, scheduler="priority-fcfs")
    result = simulate_blis(requests, limits, deployment())
    assert np.argsort(result.scheduled_us).tolist() == [0, 2, 1]


def test_default_horizon_is_twice_the_last_arrival() -> None:
    assert replay_horizon_us(blis_requests([5, 70], 1, 1)) == 140
    assert replay_horizon_us(blis_requests([0], 1, 1)) == 600_000_000
    requests = blis_requests([0, 60_000], 500, 50)
    cut = blis_replay(requests, BlisSettings(), deployment())
    assert cut.counters["still_running"] == 2
    assert cut.ended_us <= 120_000
    whole = blis_replay(requests, BlisSettings(), deployment(), horizon_us=10**9)
    assert whole.completed.all()


def test_replaying_an_exported_run_gives_the_run() -> None:
    requests = preset_requests("chatbot", rate=30.0, n_request=60)
    exported = {
        "request_id": list(range(60)),
        "arrival_time_us": requests.arrival_us.tolist(),
        "send_time_us": requests.arrival_us.tolist(),
        "input_tokens": requests.input_tokens.tolist(),
        "output_tokens": requests.output_tokens.tolist(),
        "deadline_us": requests.deadline_us.tolist(),
    }
    limits = BlisSettings(kv_blocks=400)
    run = simulate_blis(requests, limits, deployment())
    replay = blis_replay(requests_from_columns(exported), limits, deployment(), horizon_us=10**10)
    assert run.counters["preemptions"] > 0
    assert replay.sim_results() == run.sim_results()


def test_request_tables_are_said_in_microseconds() -> None:
    table = request_table(
        np.array([0.0, 0.5]),
        np.array([100, 120]),
        10,
        timeout=np.array([np.inf, 2.0]),
        prefix_stream=np.array([3, -1]),
        prefix_tokens=np.array([64, 0]),
        priority=np.array([0, 2]),
    )
    requests = requests_from_table(table)
    assert requests.arrival_us.tolist() == [0, 500_000]
    assert requests.deadline_us.tolist() == [0, 2_500_000]
    assert requests.prefix_length.tolist() == [64, 0]
    assert requests.priority.tolist() == [0, 2]


def test_a_repeated_prompt_is_found_in_the_cache() -> None:
    table = request_table(np.array([0.0, 1.0]), 100, 4, content_stream=np.array([5, 5]))
    result = simulate_blis(requests_from_table(table), BlisSettings(), deployment())
    assert result.cached_tokens.tolist() == [0, 96]


def test_closed_loops_and_broken_traces_are_refused() -> None:
    looped = request_table(np.array([0.0, 0.0]), 10, 1, parent=np.array([-1, 0]))
    with pytest.raises(UsageError, match="row 1 has a parent"):
        requests_from_table(looped)
    with pytest.raises(InputError, match="output_tokens"):
        requests_from_columns({"arrival_time_us": [0], "input_tokens": [1]})
    with pytest.raises(InputError, match="whole"):
        requests_from_columns({"arrival_time_us": [0], "input_tokens": ["a"], "output_tokens": [1]})


def test_traces_in_seconds_give_the_same_microseconds() -> None:
    columns = {
        **blank_columns(2),
        "request_id": np.array(["3", "4"]),
        "arrival_time": np.array([0.000007, 1.5]),
        "send_time": np.array([0.25, 1.75]),
        "deadline": np.array([np.nan, 300.0]),
        "input_tokens": np.array([10, 20]),
        "output_tokens": np.array([0, 5]),
        "prefix_group": np.array(["", "system"]),
        "prefix_length": np.array([0, 64]),
        "slo_class": np.array(["critical", "batch"]),
    }
    requests = requests_from_trace(Trace(header=TraceHeader(), columns=columns))
    assert requests.arrival_us.tolist() == [7, 1_500_007]
    assert requests.deadline_us.tolist() == [0, 300_000_000]
    assert requests.input_tokens.tolist() == [10, 84]
    assert requests.output_tokens.tolist() == [0, 5]
    assert requests.priority.tolist() == [0, 5]
    assert requests.request_id == ("request_3", "request_4")
