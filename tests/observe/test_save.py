"""The folder that an observed run leaves."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from observe.fake_server import Behaviour
from observe.runs import observed, table
from tailcast.errors import InputError
from tailcast.observe.save import new_folder, observed_trace, save_observation
from tailcast.traces.token_times import read_token_times
from tailcast.traces.trace_faults import trace_faults
from tailcast.traces.trace_files import trace_files
from tailcast.traces.trace_header import TraceServer
from tailcast.traces.trace_replay import trace_requests
from tailcast.traces.trace_summary import trace_summary
from tailcast.traces.tracev2 import read_trace


def test_a_trace_is_read_back_without_a_fault(tmp_path: Path) -> None:
    requests = table(20, group=np.arange(20) // 10)
    seen, _ = observed(requests, Behaviour(faults={4: "reset"}), scrape_interval=0.1)
    save_observation(seen, tmp_path)
    files = trace_files(tmp_path)
    assert [fault for fault in trace_faults(files) if fault.severe] == []
    trace = read_trace(files.header, files.requests)
    assert files.token_times is not None
    times = read_token_times(files.token_times, trace)
    assert times.n_unmatched == 0
    assert len(times.row) == 19 * 6 + 2
    by_row = {record.row: record for record in seen.records}
    for row, name in enumerate(trace["request_id"].tolist()):
        record = by_row[int(name.removeprefix("request_"))]
        assert trace["send_time"][row] == pytest.approx(record.sent, abs=1e-6)
        assert trace["last_chunk_time"][row] == pytest.approx(record.token_times[-1], abs=1e-6)
        assert trace["status"][row] == record.status
    assert trace["group"].tolist() == sorted(trace["group"].tolist())
    summary = trace_summary(trace, times)
    assert summary.n_by_status == {"ok": 19, "error": 1}
    assert summary.counters["generation_tokens"] >= 19 * 6


def test_a_trace_can_be_sent_again(tmp_path: Path) -> None:
    requests = table(8, prefix_stream=[0, 1] * 4, prefix_tokens=[16] * 8)
    seen, _ = observed(requests)
    save_observation(seen, tmp_path)
    again = trace_requests(read_trace(tmp_path / "header.yaml", tmp_path / "requests.csv"))
    assert again.input_tokens.tolist() == requests.input_tokens.tolist()
    assert again.output_tokens.tolist() == requests.output_tokens.tolist()
    assert again.prefix_tokens.tolist() == requests.prefix_tokens.tolist()
    assert len(set(again.prefix_stream.tolist())) == 2


def test_the_header_has_what_tracev2_lacks(tmp_path: Path) -> None:
    seen, _ = observed(table(3))
    known = TraceServer(
        model="llama-3.1-8b-instruct",
        accelerator="h100-sxm",
        max_num_batched_tokens=8192,
        dtype="bf16",
        kv_blocks=27_000,
        version="0.0.fake",
    )
    save_observation(seen, tmp_path, known)
    header = yaml.safe_load((tmp_path / "header.yaml").read_text())
    server = header["server"]
    assert server["accelerator"] == "h100-sxm"
    assert server["max_num_batched_tokens"] == 8192
    assert (server["model"], server["served_model_name"]) == ("llama-3.1-8b-instruct", "fake")
    assert (server["type"], server["version"]) == ("vllm", "0.0.fake")
    assert server["kv_blocks"] == 777  # the server knows better, and that is on record
    assert server["contradicted"] == {"kv_blocks": 27_000}
    assert header["client"]["clock"] == "monotonic"
    assert set(header["client"]["send_lateness_us"]) == {"p50", "p99", "max"}
    assert header["counters"]["names"]["kv_usage"] == "vllm:kv_cache_usage_perc"


def test_requests_that_were_never_sent_are_counted_and_are_no_rows() -> None:
    seen, _ = observed(
        table(
            2,
            input_tokens=[40, 64],
            content_stream=[1, 1],
            session_output=[True] * 2,
            parent=[-1, 0],
        ),
        Behaviour(faults={0: "cut"}),
    )
    trace = observed_trace(seen)
    assert len(trace) == 1
    assert trace.header.other["unsent"] == {"stopped": 0, "parent_failed": 1}


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    new_folder(tmp_path / "a" / "b")
    new_folder(tmp_path / "a" / "b")
    (tmp_path / "a" / "b" / "x").touch()
    with pytest.raises(InputError, match="not empty"):
        new_folder(tmp_path / "a" / "b")
    with pytest.raises(InputError, match="cannot hold a trace"):
        new_folder(tmp_path / "a" / "b" / "x")
