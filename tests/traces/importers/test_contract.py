"""One metric contract: the same requests are the same trace, whichever tool wrote them down."""

from pathlib import Path

import numpy as np
import pytest

from tailcast.traces.importers.imported import Imported
from tailcast.traces.importers.reading import IMPORTERS, read_any
from tailcast.traces.importers.writing import write_imported
from tailcast.traces.token_times import TokenTimes, read_token_times, token_gaps
from tailcast.traces.trace_faults import trace_faults
from tailcast.traces.trace_files import trace_files
from tailcast.traces.trace_latencies import trace_latencies
from tailcast.traces.trace_replay import trace_requests
from tailcast.traces.tracev2 import Trace, read_trace
from traces.tool_files import MAKERS, OK, lines, llmservingsim

PER_REQUEST = (
    "vllm-bench",
    "inference-perf",
    "guidellm",
    "aiperf",
    "genai-perf-records",
    "otlp",
)
WITH_GAPS = ("vllm-bench", "inference-perf", "aiperf", "genai-perf-records")
WORKLOADS = tuple(i.name for i in IMPORTERS if i.gives == "workload")
# Unix times in nanoseconds and as floats are whole to about a quarter of a microsecond.
GRAIN = 1e-6


def trace_of(found: Imported) -> Trace:
    """Trace of a result."""
    assert isinstance(found.content, Trace)
    return found.content


def tokens_of(found: Imported) -> TokenTimes:
    """Token times of a result."""
    assert found.token_times is not None
    return found.token_times


@pytest.mark.parametrize("name", PER_REQUEST)
def test_latencies_count_from_sending_in_seconds(name: str, tmp_path: Path) -> None:
    trace = trace_of(read_any(MAKERS[name](tmp_path)))
    latencies = trace_latencies(trace)
    good = latencies.counted
    assert good.sum() == len(OK)
    assert latencies.ttft[good] == pytest.approx([r.ttft for r in OK], abs=GRAIN)
    assert latencies.e2e[good] == pytest.approx([r.e2e for r in OK], abs=2 * GRAIN)
    tpot = [sum(r.gaps) / len(r.gaps) for r in OK]
    assert latencies.tpot[good] == pytest.approx(tpot, abs=2 * GRAIN)
    assert trace["output_tokens"][good].tolist() == [r.n_out for r in OK]
    assert trace["input_tokens"][good].tolist() == [r.n_in for r in OK]


@pytest.mark.parametrize("name", WITH_GAPS)
def test_gaps_are_itl_and_cover_every_token(name: str, tmp_path: Path) -> None:
    found = read_any(MAKERS[name](tmp_path))
    row, gap = token_gaps(tokens_of(found))
    assert gap == pytest.approx([g for r in OK for g in r.gaps], abs=GRAIN)
    counts = np.bincount(tokens_of(found).row, tokens_of(found).n_tokens, len(OK))
    assert counts[: len(OK)].tolist() == [r.n_out for r in OK]
    assert len(row) == sum(len(r.gaps) for r in OK)


@pytest.mark.parametrize("name", ["vllm-bench", "guidellm", "aiperf"])
def test_lateness_is_kept_where_the_tool_knows_when_a_request_was_due(
    name: str, tmp_path: Path
) -> None:
    latencies = trace_latencies(trace_of(read_any(MAKERS[name](tmp_path))))
    late = [r.send - r.arrival for r in OK]
    assert latencies.lateness[: len(OK)] == pytest.approx(late, abs=GRAIN)


@pytest.mark.parametrize("name", [n for n in PER_REQUEST if n != "genai-perf-records"])
def test_failed_requests_are_kept_as_errors_and_enter_no_latency(name: str, tmp_path: Path) -> None:
    found = read_any(MAKERS[name](tmp_path))
    trace = trace_of(found)
    assert found.counts["read"] == len(trace) == 4
    assert found.counts["did not succeed (kept, no latency)"] == 1
    assert trace["status"].tolist() == ["ok", "ok", "ok", "error"]
    assert not trace_latencies(trace).counted[3]


@pytest.mark.parametrize("name", [*PER_REQUEST, "llmservingsim", *WORKLOADS])
def test_a_converted_trace_is_read_back_and_has_no_fault(name: str, tmp_path: Path) -> None:
    found = read_any(MAKERS[name](tmp_path))
    write_imported(found, tmp_path / "out")
    files = trace_files(tmp_path / "out")
    again, trace = read_trace(files.header, files.requests), trace_of(found)
    assert not [fault for fault in trace_faults(files) if fault.severe]
    assert again.header.other["imported"]["format"] == name
    for key in ("request_id", "input_tokens", "output_tokens", "status", "prefix_group"):
        assert again[key].tolist() == trace[key].tolist(), key
    for key in ("arrival_time", "first_chunk_time", "last_chunk_time"):
        np.testing.assert_allclose(again[key], trace[key], atol=0.6e-6)
    if found.token_times is not None:
        assert files.token_times is not None
        times = read_token_times(files.token_times, again)
        assert times.n_unmatched == 0
        np.testing.assert_allclose(times.time, found.token_times.time, atol=0.6e-6)
        assert times.n_tokens.tolist() == found.token_times.n_tokens.tolist()


@pytest.mark.parametrize("name", [*PER_REQUEST, "llmservingsim", *WORKLOADS])
def test_every_trace_can_be_replayed(name: str, tmp_path: Path) -> None:
    trace = trace_of(read_any(MAKERS[name](tmp_path)))
    requests = trace_requests(trace)
    n_answered = int((trace["output_tokens"] >= 1).sum())
    assert 0 < len(requests) == n_answered


def test_the_clock_of_ttft_is_arrival_unless_told_queued(tmp_path: Path) -> None:
    from tailcast.traces.importers.imported import ReadOptions

    path = llmservingsim(tmp_path)
    found = read_any(path)
    # The request that was accepted soonest (0 s late) lays the clocks together.
    waits = np.array([r.send - r.arrival for r in OK])
    ttft = trace_latencies(trace_of(found)).ttft
    assert ttft == pytest.approx(waits + [r.ttft for r in OK], abs=GRAIN)
    assert "TTFT counts from arrival" in " ".join(found.notes)
    assert "laid together" in " ".join(found.notes)
    queued = read_any(path, options=ReadOptions(clock="queued"))
    assert trace_latencies(trace_of(queued)).ttft == pytest.approx([r.ttft for r in OK], abs=GRAIN)
    assert "sent when the engine accepted them" in " ".join(queued.notes)
    server = trace_of(found).header.server
    assert (server.model, server.max_num_seqs, server.kv_blocks) == (
        "meta-llama/Llama-3.1-8B",
        128,
        35913,
    )
    assert server.dtype is None  # what vLLM computes in says nothing about the weights


def test_times_of_two_clocks_in_one_column_are_refused_with_row_and_column(tmp_path: Path) -> None:
    from tailcast.errors import InputError
    from traces.tool_files import aiperf_content, bench_content, written

    content = bench_content()
    content["start_times"][2] += 1.79e9
    with pytest.raises(InputError, match=r"requests arrival\[2\] 1\.79\S* s: mixed clocks"):
        read_any(written(tmp_path / "b.json", content))
    records = aiperf_content()
    records[1]["metadata"]["request_start_ns"] = 5_000_000
    with pytest.raises(InputError, match=r"p\.jsonl:2: metrics send 0\.005 s: mixed clocks"):
        read_any(lines(tmp_path / "p.jsonl", records))
