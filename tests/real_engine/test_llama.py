"""Recording llama.cpp's own server: its dialect, its counts, its metrics."""

from pathlib import Path

import numpy as np
import pytest

from real_engine.engines import Server
from tailcast.observe.run import closed_loop, observe
from tailcast.observe.save import save_observation
from tailcast.observe.settings import ObserveSettings
from tailcast.request import request_table
from tailcast.traces.token_times import read_token_times
from tailcast.traces.trace_faults import trace_faults
from tailcast.traces.trace_files import trace_files
from tailcast.traces.trace_summary import trace_summary
from tailcast.traces.tracev2 import read_trace

pytestmark = pytest.mark.engine

SILENT = 2
"""Tokens without a chunk of their own: half a character has no text until its other half comes."""


def test_lengths_are_exact_and_every_token_is_timed(llama_server: Server, tmp_path: Path) -> None:
    lengths = np.array([16, 64, 33, 100] * 4)
    requests = request_table(np.linspace(0.0, 1.5, 16), lengths, lengths[::-1] // 4)
    seen = observe(ObserveSettings(url=llama_server.url, warm_up=1), requests)
    assert seen.server.dialect.name == "llamacpp"
    assert seen.server.facts["max_num_seqs"] == 8
    for record in seen.records:
        assert record.status == "ok", record.error
        assert record.server_input_tokens == requests.input_tokens[record.row]
        assert record.server_output_tokens == requests.output_tokens[record.row]
        assert 0 <= record.server_output_tokens - record.n_tokens <= SILENT
        assert record.counted_by == "timings"
        assert 0 < record.sent < record.token_times[0] <= record.token_times[-1] < record.ended
    gained = seen.scrapes.increases()
    assert gained["generation_tokens"] == requests.output_tokens.sum()
    save_observation(seen, tmp_path)
    files = trace_files(tmp_path)
    assert [str(fault) for fault in trace_faults(files) if fault.severe] == []
    trace = read_trace(files.header, files.requests)
    assert files.token_times is not None
    summary = trace_summary(trace, read_token_times(files.token_times, trace))
    assert summary.n_by_status == {"ok": 16}
    assert summary.server["type"] == "llamacpp"


def test_chat_answers_count_no_role_chunk(llama_server: Server) -> None:
    requests = request_table(np.linspace(0.0, 0.6, 4), 150, 12)
    seen = observe(ObserveSettings(url=llama_server.url, endpoint="chat"), requests)
    for record in seen.records:
        assert record.status == "ok", record.error
        assert record.server_output_tokens == 12
        assert 0 <= record.server_output_tokens - record.n_tokens <= SILENT
        assert abs(record.server_input_tokens - 150) < 75  # odd tokenizer: words are 1-7 tokens


def test_a_closed_loop_waits_for_slots(llama_server: Server) -> None:
    requests = closed_loop(request_table(np.zeros(24), 32, 16), 12)
    seen = observe(ObserveSettings(url=llama_server.url, scrape_interval=0.2), requests)
    assert {record.status for record in seen.records} == {"ok"}
    assert seen.scrapes.peaks()["running"] <= 8


def test_a_repeated_prompt_is_cached(llama_server: Server) -> None:
    same = np.zeros(6, dtype=np.int64)
    requests = closed_loop(request_table(np.zeros(6), 200, 4, content_stream=same), 1)
    seen = observe(ObserveSettings(url=llama_server.url), requests)
    assert max(record.cached_tokens for record in seen.records) >= 150
