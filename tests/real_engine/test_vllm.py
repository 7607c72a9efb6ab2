"""Recording a real vLLM: exact lengths, exact counts, its own counters and step log."""

import re
from pathlib import Path

import numpy as np
import pytest

from real_engine.engines import Server
from tailcast.observe.run import Observation, closed_loop, observe
from tailcast.observe.save import save_observation
from tailcast.observe.settings import ObserveSettings
from tailcast.request import RequestTable, request_table
from tailcast.traces.token_times import read_token_times
from tailcast.traces.trace_faults import trace_faults
from tailcast.traces.trace_files import trace_files
from tailcast.traces.trace_summary import trace_summary
from tailcast.traces.tracev2 import read_trace
from tailcast.workload.mapping import workload_from_mapping
from tailcast.workload.materialise import materialise

pytestmark = pytest.mark.vllm

_STEP = re.compile(
    r"Iteration\(\d+\): (\d+) context requests, (\d+) context tokens, "
    r"(\d+) generation requests, (\d+) generation tokens, iteration elapsed time: ([\d.]+) ms"
)


def _all_ok(seen: Observation, requests: RequestTable) -> None:
    for record in seen.records:
        assert record.status == "ok", record.error
        assert record.n_tokens == requests.output_tokens[record.row]
        assert record.server_output_tokens == record.n_tokens
        assert 0 < record.sent < record.token_times[0] <= record.token_times[-1] < record.ended
    assert len(seen.records) == len(requests)


def test_a_run_is_recorded_whole(vllm_server: Server, tmp_path: Path) -> None:
    before = len(vllm_server.log.read_text(errors="replace"))
    rng = np.random.default_rng(3)
    lengths = rng.integers(16, 120, size=40)
    requests = request_table(np.linspace(0.0, 12.0, 40), lengths, rng.integers(2, 24, size=40))
    seen = observe(ObserveSettings(url=vllm_server.url, warm_up=2), requests)
    _all_ok(seen, requests)
    assert (seen.server.dialect.name, seen.server.version) == ("vllm", "0.32.0")
    assert {record.counted_by for record in seen.records} == {"token_ids"}
    assert all(r.server_input_tokens == requests.input_tokens[r.row] for r in seen.records)
    gained = seen.scrapes.increases()
    assert gained["generation_tokens"] == requests.output_tokens.sum()
    assert gained["prompt_tokens"] == requests.input_tokens.sum()
    assert gained["finished_requests"] == gained["ttft_count"] == 40
    inside = gained["ttft_sum"] / gained["ttft_count"]
    outside = float(np.mean([record.ttft for record in seen.records]))
    assert 0 < inside < outside  # the server's clock starts later and stops earlier
    settings = seen.scrapes.pages[-1].settings
    assert settings["block_size"] == 32
    assert settings["kv_blocks"] > 100
    assert settings["prefix_caching"] is True
    save_observation(seen, tmp_path)
    files = trace_files(tmp_path)
    assert [str(fault) for fault in trace_faults(files) if fault.severe] == []
    trace = read_trace(files.header, files.requests)
    told = trace.header.server
    assert (told.max_model_len, told.max_num_seqs, told.max_num_batched_tokens) == (2048, 64, 512)
    assert (told.tensor_parallel, told.dtype, told.chunked_prefill) == (1, "fp32", True)
    assert files.token_times is not None
    assert trace_summary(trace, read_token_times(files.token_times, trace)).n_counted == 40
    steps = _STEP.findall(vllm_server.log.read_text(errors="replace")[before:])
    assert sum(int(step[1]) for step in steps) >= requests.input_tokens.sum()
    assert len(steps) >= requests.output_tokens.max()


def test_a_closed_loop_and_a_shared_prefix(vllm_server: Server) -> None:
    table = request_table(
        np.zeros(24),
        np.full(24, 100),
        np.full(24, 8),
        prefix_stream=np.zeros(24, dtype=np.int64),
        prefix_tokens=np.full(24, 64),
    )
    requests = closed_loop(table, 6)
    settings = ObserveSettings(url=vllm_server.url, scrape_interval=0.2)
    seen = observe(settings, requests)
    _all_ok(seen, requests)
    assert max(record.cached_tokens for record in seen.records) == 64
    assert seen.scrapes.increases()["prefix_hits"] == sum(r.cached_tokens for r in seen.records)
    assert seen.scrapes.peaks()["running"] <= 6


def test_sessions_find_their_history_in_the_cache(vllm_server: Server) -> None:
    spec = {
        "rate": 2,
        "n_requests": 6,
        "input_tokens": 64,
        "output_tokens": 10,
        "session": {"turns": 3, "think_time": "50ms"},
    }
    requests = materialise(workload_from_mapping(spec, "test"), 1)
    seen = observe(ObserveSettings(url=vllm_server.url), requests)
    _all_ok(seen, requests)
    for record in seen.records:
        assert record.server_input_tokens == requests.input_tokens[record.row]
        parent = int(requests.parent[record.row])
        if parent >= 0:  # whole blocks of prompt and answer, but for its last token
            history = int(requests.input_tokens[parent]) + 9
            assert record.cached_tokens == history // 32 * 32


def test_chat_counts_tokens_and_not_roles(vllm_server: Server) -> None:
    requests = request_table(np.linspace(0.0, 1.0, 4), 150, 12)
    seen = observe(ObserveSettings(url=vllm_server.url, endpoint="chat"), requests)
    _all_ok(seen, requests)
    assert {record.counted_by for record in seen.records} <= {"token_ids", "usage"}


def test_impatient_clients_leave_no_work_behind(vllm_server: Server) -> None:
    requests = request_table(np.zeros(8), np.full(8, 32), np.full(8, 400), timeout=np.full(8, 0.7))
    seen = observe(ObserveSettings(url=vllm_server.url), requests)
    assert {record.status for record in seen.records} == {"timeout"}
    after = request_table(np.array([0.0]), 16, 4)
    last = observe(ObserveSettings(url=vllm_server.url), after)
    _all_ok(last, after)
    assert last.scrapes.pages[-1].values["running"] == 0
