"""A BLIS binary stands beside on the identical workload; a stand-in reads what BLIS would read."""

import csv
import sys
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
# Columns of TraceV2 in order; BLIS reads them by position.
FIRST_COLUMNS = ["request_id", "client_id", "tenant_id", "slo_class"]

STAND_IN = """#!{python}
import json, sys
import yaml
from tailcast.catalog.llms import llm
from tailcast.engine.blis.accelerators import blis_accelerator
from tailcast.engine.blis.latency_model import BlisLatencyModel
from tailcast.engine.blis.model_config import blis_model_config
from tailcast.engine.blis.replay import requests_from_trace
from tailcast.engine.blis.run import simulate_blis
from tailcast.engine.blis.settings import BlisSettings
from tailcast.traces.tracev2 import read_trace

assert sys.argv[1] == "replay"
flag = dict(zip(sys.argv[2::2], sys.argv[3::2], strict=True))
assert flag["--cache-signal-delay"] == "0"
config = json.load(open(flag["--model-config-folder"] + "/config.json"))
header = yaml.safe_load(open(flag["--trace-header"]))
assert set(header["server"]) <= {{
    "type", "model", "tensor_parallel", "max_num_seqs", "block_size",
    "gpu_memory_utilization", "max_model_len",
}}
run = simulate_blis(
    requests_from_trace(read_trace(flag["--trace-header"], flag["--trace-data"])),
    BlisSettings(
        max_num_seqs=int(flag["--max-num-seqs"]),
        max_num_batched_tokens=int(flag["--max-num-batched-tokens"]),
        max_model_len=int(flag["--max-model-len"]),
        kv_blocks=int(flag["--total-kv-blocks"]),
        horizon_us=int(flag["--horizon"]),
    ),
    BlisLatencyModel(
        llm=blis_model_config(config), accelerator=blis_accelerator(flag["--hardware"])
    ),
)
json.dump(run.sim_results(), open(flag["--results-path"], "w"))
"""


@pytest.fixture
def blis_binary(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The benchmark's module."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import blis_binary  # type: ignore[import-not-found]

    module: ModuleType = blis_binary
    return module


def test_the_binary_gets_the_identical_workload(blis_binary: ModuleType, tmp_path: Path) -> None:
    binary = tmp_path / "blis"
    binary.write_text(STAND_IN.format(python=sys.executable))
    binary.chmod(0o755)
    row = blis_binary.blis_case(binary, 300)
    assert row["identical_to_mode_blis"] == row["compared"] == row["completed"] == 300
    assert row["cpu_s"] > 0


def test_the_workload_has_only_columns_that_blis_knows(
    blis_binary: ModuleType, tmp_path: Path
) -> None:
    header, data = blis_binary.write_workload(blis_binary.our_parity_run(5), tmp_path)
    with open(data, encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[:4] == FIRST_COLUMNS
    assert len(rows[0]) <= 32
    assert [row["request_id"] for row in rows] == ["0", "1", "2", "3", "4"]
    assert {row["first_chunk_time_us"] for row in rows} == {"0"}
    assert int(rows[0]["deadline_us"]) - int(rows[0]["arrival_time_us"]) == 300_000_000
    assert "kv_blocks" not in header.read_text()


def test_a_failing_binary_is_an_error(blis_binary: ModuleType, tmp_path: Path) -> None:
    binary = tmp_path / "blis"
    binary.write_text("#!/bin/sh\necho no such flag >&2\nexit 3\n")
    binary.chmod(0o755)
    with pytest.raises(RuntimeError, match="no such flag"):
        blis_binary.blis_case(binary, 5)
