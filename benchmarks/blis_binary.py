"""A BLIS binary of the user's, run on the identical TraceV2 workload. Never built or shipped here.

Its folder should be a checkout of inference-sim: BLIS looks for its defaults beside itself.
"""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from measure import child
from scenarios import blis_chatbot, deployment

from tailcast.engine.blis.deployment import blis_latency_model, blis_settings
from tailcast.engine.blis.result import BlisResult
from tailcast.engine.blis.run import simulate_blis
from tailcast.engine.run_export import blis_simulated_trace
from tailcast.traces.trace_header import TraceHeader, TraceServer
from tailcast.traces.tracev2 import Trace, write_trace

PUBLISHED_CPU_S = 2.9
"""CPU seconds of BLIS on the chatbot case of 10 000 requests, as published; not measured here."""


def our_parity_run(n: int) -> BlisResult:
    """The chatbot case in mode ``blis``, with BLIS's own KV blocks and sequence limit."""
    served = deployment()
    model = blis_latency_model(served)
    return simulate_blis(blis_chatbot(n), blis_settings(served, model), model)


def write_workload(run: BlisResult, folder: Path) -> tuple[Path, Path]:
    """The run's requests as BLIS reads them: its own header keys, nothing recorded yet."""
    served = deployment()
    header = TraceHeader(
        mode="generated",
        server=TraceServer(
            type="vllm",
            model=served.llm.name,
            tensor_parallel=1,
            max_num_seqs=served.engine.max_num_seqs,
            block_size=served.engine.block_size,
            gpu_memory_utilization=served.engine.gpu_memory_utilization,
        ),
    )
    full = blis_simulated_trace(run, header)
    blank = full["first_chunk_time"] * float("nan")
    columns = {**full.columns, "first_chunk_time": blank, "last_chunk_time": blank}
    ours = {"content_stream", "session_output", "cached_tokens", "parent_id", "group"}
    kept = {name: column for name, column in columns.items() if name not in ours}
    numbers = [name.removeprefix("request_") for name in run.requests.request_id]
    kept["request_id"] = np.array(numbers, dtype=np.str_)
    paths = folder / "workload.yaml", folder / "workload.csv"
    write_trace(Trace(header=header, columns=kept), *paths)
    return paths


def blis_case(binary: Path, n: int) -> dict[str, Any]:
    """CPU seconds of BLIS on the chatbot case, and whether its answers are ours in mode blis."""
    run = our_parity_run(n)
    served = deployment()
    model = blis_latency_model(served)
    settings = blis_settings(served, model)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        header, data = write_workload(run, folder)
        (folder / "config.json").write_text(json.dumps(dict(served.llm.config)))
        results = folder / "results.json"
        flags = {
            "--trace-header": header,
            "--trace-data": data,
            "--results-path": results,
            "--model": "qwen/qwen3-14b",
            "--model-config-folder": folder,
            "--hardware": "H100",
            "--tp": 1,
            "--latency-model": "trained-physics",
            "--max-num-seqs": settings.max_num_seqs,
            "--max-num-batched-tokens": settings.max_num_batched_tokens,
            "--total-kv-blocks": settings.kv_blocks,
            "--max-model-len": settings.max_model_len,
            "--cache-signal-delay": 0,
            "--horizon": 2**62,
        }
        words = [str(word) for pair in flags.items() for word in pair]
        done = child([str(binary.resolve()), "replay", *words], folder=binary.resolve().parent)
        found = json.loads(results.read_text())
    told = {entry["request_id"]: (entry["ttft_us"], entry["e2e_us"]) for entry in found}
    ours = {entry["request_id"]: (entry["ttft_us"], entry["e2e_us"]) for entry in run.sim_results()}
    same = sum(told.get(name) == times for name, times in ours.items())
    return {
        "requests": n,
        "cpu_s": done.cpu,
        "wall_s": done.wall,
        "completed": len(told),
        "identical_to_mode_blis": same,
        "compared": len(ours),
    }
