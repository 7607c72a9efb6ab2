"""Headers of traces."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tailcast.errors import InputError
from tailcast.traces.trace_header import TraceHeader, TraceServer, read_header, write_header

BLIS: dict[str, Any] = {
    "trace_version": 3,
    "time_unit": "microseconds",
    "created_at": "2026-08-22T10:00:00Z",
    "mode": "real",
    "warm_up_requests": 5,
    "workload_seed": 42,
    "session_context_growth": "accumulate",
    "server": {"type": "vllm", "model": "m", "tensor_parallel": 2, "gpu_memory_utilization": 0.9},
    "network": {"measured_rtt_ms": 1.5},
}


def read(folder: Path, content: dict[str, Any]) -> TraceHeader:
    path = folder / "header.yaml"
    path.write_text(yaml.safe_dump(content))
    return read_header(path)


def test_a_header_of_blis_is_read(tmp_path: Path) -> None:
    header = read(tmp_path, BLIS)
    assert header == TraceHeader(
        mode="real",
        created_at="2026-08-22T10:00:00Z",
        warm_up_requests=5,
        workload_seed=42,
        session_context_growth="accumulate",
        round_trip=0.0015,
        server=TraceServer(type="vllm", model="m", tensor_parallel=2, gpu_memory_utilization=0.9),
    )


def test_our_keys_and_unknown_ones_survive_a_round_trip(tmp_path: Path) -> None:
    content = BLIS | {
        "goodput_slo_targets": {"critical": {"ttft_ms": 300}},
        "network": {"measured_rtt_ms": 1.5, "bandwidth_mbps": 100},
    }
    content["server"] = BLIS["server"] | {
        "accelerator": "h100-sxm-80gb",
        "max_num_batched_tokens": 8192,
        "kv_blocks": 7463,
        "dtype": "bf16",
        "version": "0.15.1",
        "prefix_caching": False,
        "swap_space": 4,
    }
    header = read(tmp_path, content)
    assert header.server.other == {"swap_space": 4}
    assert header.other["network"] == {"bandwidth_mbps": 100}
    write_header(header, tmp_path / "again.yaml")
    assert read_header(tmp_path / "again.yaml") == header
    assert yaml.safe_load((tmp_path / "again.yaml").read_text()) == content


def test_an_empty_header_survives_a_round_trip(tmp_path: Path) -> None:
    write_header(TraceHeader(), tmp_path / "header.yaml")
    assert read_header(tmp_path / "header.yaml") == TraceHeader()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"trace_version": 9}, "trace_version must be 2 or 3"),
        ({"trace_version": None}, "trace_version is missing"),
        ({"time_unit": "ms"}, "time_unit must be us, got 'ms'"),
        ({"mode": "dreamt"}, "trace mode must be one of"),
        ({"warm_up_requests": -1}, "must not be negative"),
        ({"warm_up_requests": "few"}, "whole number"),
        ({"server": 3}, "expected a table"),
        ({"server": {"max_num_seqs": "many"}}, "whole number"),
        ({"network": {"measured_rtt_ms": float("nan")}}, "finite number"),
        ({"network": {"measured_rtt_ms": -1}}, "round trip must not be negative"),
    ],
)
def test_bad_headers_are_refused_with_their_file(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read(tmp_path, BLIS | changes)
    assert "header.yaml" in str(caught.value)
