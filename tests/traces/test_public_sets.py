"""Public sets: definitions converted, traps handled, every refused row counted."""

import csv
import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from tailcast.basis import FEATURES, basis_term
from tailcast.errors import InputError
from tailcast.traces.experiment import experiment_requests
from tailcast.traces.public_argonne import static_batch_features
from tailcast.traces.public_set import PublicSet, StepTable, trimmed_mean
from tailcast.traces.public_sets import LOADERS, is_public_set, load_public_set

Row = Mapping[str, object]


def write_csv(path: Path, rows: Sequence[Row]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with gzip.open(path, "wt", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return path.parent


def feature(table: StepTable, row: int, name: str) -> float:
    return float(table.features[row, FEATURES.index(name)])


def floor_seconds(table: StepTable) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Least time of each row at the datasheet's peaks: weights, KV cache, prefill work."""
    total = np.zeros(len(table.seconds))
    for basis in ("prefill_compute", "decode_kv_read", "weight_read"):
        term = basis_term(basis, table.deployment)
        total += table.features @ term.features
    return total


def splitwise(**changes: object) -> Row:
    row = {
        "model": "llama2-70b",
        "hardware": "a100-80gb",
        "prompt_size": 512,
        "batch_size": 1,
        "token_size": 128,
        "prompt_time": 200.0,
        "token_time": 50.0,
        "tensor_parallel": 4,
    }
    return {**row, **changes}


def test_splitwise_repeats_are_one_row_and_context_grows_with_the_output(tmp_path: Path) -> None:
    rows = [splitwise(), splitwise(prompt_time=242.0, token_time=60.5)]
    (table,) = load_public_set(write_csv(tmp_path / "perf_model.csv.gz", rows)).steps
    assert table.noise == ("step.decode", "step.prefill")
    assert table.seconds == pytest.approx([0.055, 0.220])
    assert feature(table, 0, "context_token") == 512 + 64
    assert feature(table, 1, "prefill_pair") == 512**2 / 2
    assert table.deployment.accelerator.name == "a100-sxm-80gb"


def test_splitwise_prompt_phases_that_are_partly_recorded_never_enter(tmp_path: Path) -> None:
    rows = [
        splitwise(batch_size=64, prompt_time=20.0),
        splitwise(batch_size=32, prompt_time=6000.0),
        splitwise(batch_size=4, prompt_time=700.0),
        splitwise(hardware="h100-80gb-pcap"),
    ]
    found = load_public_set(write_csv(tmp_path / "perf_model.csv.gz", rows))
    (table,) = found.steps
    assert [n for n in table.noise if n == "step.prefill"] == ["step.prefill"]
    assert table.noise.count("step.decode") == 3
    assert sum(found.refused.values()) == 3
    assert any("power cap" in reason for reason in found.refused)


def argonne(**changes: object) -> Row:
    row = {
        "hardware": "Nvidia H100 GPU",
        "n_devices": 1,
        "framework": "vLLM",
        "model": "meta-llama/Meta-Llama-3-8B",
        "io_len": 128,
        "batch": 16,
        "latency_s": 1.165,
    }
    return {**row, **changes}


def test_argonne_batches_are_sums_of_steps(tmp_path: Path) -> None:
    rows = [argonne(batch=b) for b in (1, 16, 32, 64)]
    (table,) = load_public_set(write_csv(tmp_path / "static_batch.csv.gz", rows)).steps
    features = static_batch_features(128, 128, 16, table.deployment)
    own = dict(zip(FEATURES, features, strict=True))
    assert own["step"] == 1 + 127
    assert own["decode"] == 16 * 127
    assert own["prefill_token"] == 16 * 128
    contexts = sum(16 * (128 + j) for j in range(1, 128))
    assert own["context_token"] == contexts
    assert table.seconds == pytest.approx(4 * [1.165])


def test_argonne_long_prompts_take_several_prefill_steps(tmp_path: Path) -> None:
    rows = [argonne(batch=b) for b in (1, 16, 32, 64)]
    (table,) = load_public_set(write_csv(tmp_path / "static_batch.csv.gz", rows)).steps
    own = static_batch_features(2048, 2, 16, table.deployment)
    assert own[FEATURES.index("step")] == 4 + 1


def test_argonne_counts_what_it_refuses(tmp_path: Path) -> None:
    rows = [
        *(argonne(batch=b) for b in (1, 2, 4, 8)),
        argonne(framework="TensorRT-LLM"),
        argonne(model="Deci/DeciLM-7B"),
        argonne(model="mistralai/Mixtral-8x7B-v0.1", n_devices=4),
        argonne(io_len=2048, batch=4096),
        argonne(n_devices=2),
    ]
    found = load_public_set(write_csv(tmp_path / "static_batch.csv.gz", rows))
    assert len(found.steps) == 1
    reasons = " ".join(found.refused)
    for part in ("TensorRT", "DeciLM", "MoE", "KV cache", "fewer than 4"):
        assert part in reasons
    assert sum(found.refused.values()) == 5
    assert "25" not in found.summary
    assert "h100-sxm-80gb" in found.summary


def inferno(**changes: object) -> Row:
    stats = ("mean", "p50", "p90", "p95", "p99")
    row: dict[str, object] = {
        "model": "meta-llama/Llama-3.1-8B",
        "gpu": "H100",
        "tp": 1,
        "prompt_nominal": 256,
        "output_nominal": 64,
        "strategy": "constant",
        "target_rps": 2.0,
        "duration_s": 60.0,
        "n_ok": 120,
        "n_incomplete": 1,
        "itl_ms_mean": 7.0,
        "ttft_ms_min": 20.0,
        **{f"ttft_ms_{s}": 30.0 for s in stats},
        **{f"e2e_s_{s}": 0.5 for s in stats},
    }
    return {**row, **changes}


def test_inferno_arrivals_are_even_and_lengths_uniform(tmp_path: Path) -> None:
    found = load_public_set(write_csv(tmp_path / "sweep.csv.gz", [inferno()]))
    (one,) = found.experiments
    requests = experiment_requests(one, 0)
    assert np.allclose(np.diff(requests.arrival), 0.5)
    assert len(requests) == 120
    assert 128 <= requests.input_tokens.min() < 150
    assert 350 < requests.input_tokens.max() <= 384
    assert np.all(requests.content_stream < 0)
    assert {o.metric for o in one.observed} == {"ttft", "itl", "e2e"}
    assert {o.statistic for o in one.observed if o.metric == "itl"} == {"mean"}
    assert all(0 < o.value < 1 for o in one.observed)


def test_inferno_lone_requests_are_a_closed_loop_of_one(tmp_path: Path) -> None:
    row = inferno(strategy="synchronous", target_rps="", n_ok=9)
    (one,) = load_public_set(write_csv(tmp_path / "sweep.csv.gz", [row])).experiments
    requests = experiment_requests(one, 0)
    assert len(requests) == 9
    assert list(requests.parent) == list(range(-1, 8))


def test_inferno_traps(tmp_path: Path) -> None:
    rows = [
        inferno(target_rps=1.0, n_incomplete=10),
        inferno(target_rps=2.0, n_incomplete=90),
        inferno(target_rps=3.0, strategy="throughput"),
        inferno(target_rps=4.0, ttft_ms_min=-1.76e12, ttft_ms_mean=-1.1e8),
    ]
    found = load_public_set(write_csv(tmp_path / "sweep.csv.gz", rows))
    cut, spoilt = found.experiments
    assert not [o for o in cut.observed if o.metric == "e2e"]
    kept = [o.statistic for o in spoilt.observed if o.metric == "ttft"]
    assert kept == ["p50", "p90", "p95", "p99"]
    assert sum(found.refused.values()) == 2
    assert any("mean TTFT of 1 runs" in note for note in found.notes)


def inferencex(**changes: object) -> Row:
    row = {
        "id": "a",
        "backend": "vllm",
        "backend_version": "",
        "model_path": "meta-llama/Llama-3.1-70B",
        "system": "h100_sxm",
        "precision": "fp8",
        "gemm_quant_mode": "fp8",
        "isl": 1000,
        "osl": 100,
        "concurrency": 4,
        "tp_size": 2,
        "pp_size": 1,
        "attention_dp_size": 1,
        "moe_tp_size": 2,
        "moe_ep_size": 1,
        "measured": "2025-10-29",
        "silicon_ttft_ms": 100.0,
        "silicon_tpot_ms": 20.0,
    }
    return {**row, **changes}


def test_inferencex_is_a_closed_loop_and_two_dumps_count_once(tmp_path: Path) -> None:
    rows = [inferencex(), inferencex(id="b"), inferencex(id="c", concurrency=8)]
    found = load_public_set(write_csv(tmp_path / "agg_ttft_tpot.csv.gz", rows))
    one, other = found.experiments
    assert found.refused == {"the same run in a second dump": 1}
    requests = experiment_requests(one, 0)
    assert np.sum(requests.parent < 0) == 4
    assert len(requests) == 40
    assert requests.input_tokens.min() >= 800
    values = {(o.metric, o.statistic): o.value for o in one.observed}
    assert values == pytest.approx({("tpot", "p50"): 0.020, ("e2e", "p50"): 0.1 + 0.02 * 89})
    assert one.deployment.weight_dtype == "fp8"
    assert other.content_hash != one.content_hash


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"backend": "sglang"}, "engine sglang"),
        ({"system": "mi300x"}, "accelerator mi300x"),
        ({"attention_dp_size": 4}, "attention data parallelism"),
        ({"moe_tp_size": 4}, "attention data parallelism"),
        ({"moe_ep_size": 2}, "expert parallelism"),
        ({"precision": "fp4"}, "4-bit floating-point weights"),
        ({"backend_version": "nightly-5b8c"}, "nightly build without a version"),
        ({"model_path": "MiniMaxAI/MiniMax-M2.5"}, "not in the catalogue: MiniMaxAI/MiniMax-M2.5"),
    ],
)
def test_inferencex_says_why_it_refuses(
    tmp_path: Path, changes: dict[str, object], reason: str
) -> None:
    found = load_public_set(write_csv(tmp_path / "agg_ttft_tpot.csv.gz", [inferencex(**changes)]))
    assert found.refused == {reason: 1}
    assert not found.experiments
    assert "nothing usable" in found.summary


def doks(**changes: object) -> Row:
    row = {
        "variant": "phase0",
        "run": "20260224-185458",
        "request_rate": 0.5,
        "completed": 300,
        "total_input_tokens": 62238,
        "total_output_tokens": 59478,
        "mean_ttft_ms": 80.0,
        "median_ttft_ms": 66.0,
        "mean_tpot_ms": 20.5,
        "mean_itl_ms": 20.46,
        "mean_e2el_ms": 4116.0,
        "std_e2el_ms": 4129.0,
    }
    return {**row, **changes}


def test_doks_keeps_means_of_the_single_turn_arm_alone(tmp_path: Path) -> None:
    rows = [
        doks(),
        doks(run="20260224-214806"),
        doks(variant="phase1-batch16k", run="x"),
        doks(variant="phase3-eagle3-chat", run="y"),
    ]
    found = load_public_set(write_csv(tmp_path / "rate_sweeps.csv.gz", rows))
    (one,) = found.experiments
    assert {(o.metric, o.statistic) for o in one.observed} == {
        ("ttft", "mean"),
        ("ttft", "p50"),
        ("tpot", "mean"),
        ("itl", "mean"),
        ("e2e", "mean"),
    }
    assert sum(found.refused.values()) == 3
    lengths = np.concatenate([experiment_requests(one, s).output_tokens for s in range(20)])
    assert lengths.mean() == pytest.approx(198, rel=0.1)
    assert lengths.std() == pytest.approx(201, rel=0.25)
    assert one.deployment.kv_bytes_per_value == 1.0
    assert one.deployment.kv_block_count * 16 == 348_304


def test_llmservingsim_needs_the_settings_of_a_run(tmp_path: Path) -> None:
    row = {
        "request_id": "bench-0",
        "n_in": 100,
        "n_out": 5,
        "arrival_s": 0.0,
        "queued_s": 0.001,
        "scheduled_s": 0.002,
        "first_token_s": 0.05,
        "last_token_s": 0.25,
    }
    rows = [row, {**row, "request_id": "bench-1", "arrival_s": 0.5, "queued_s": 0.501}]
    rows[1] |= {"scheduled_s": 0.502, "first_token_s": 0.55, "last_token_s": 0.75}
    for name in ("RTXPRO6000__Qwen3-32B", "RTXPRO6000__other"):
        write_csv(tmp_path / f"requests_{name}.csv.gz", rows)
    own = {
        "model": "Qwen/Qwen3-32B",
        "gpu": "RTXPRO6000",
        "vllm_version": "0.19.0",
        "engine_kwargs": {
            "tensor_parallel_size": 2,
            "max_num_seqs": 128,
            "max_num_batched_tokens": 2048,
        },
    }
    (tmp_path / "meta.json").write_text(json.dumps({"RTXPRO6000__Qwen3-32B": own}))
    found = load_public_set(tmp_path)
    (one,) = found.traces
    assert one.deployment.tensor_parallel == 2
    assert one.deployment.engine.version == "0.19.0"
    assert len(one.trace) == 2
    assert sum(found.refused.values()) == 2


def pilot(path: Path, dt_ms: Sequence[int], n_prefill: Sequence[int], users: int = 4) -> Path:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    n = len(dt_ms)
    prefill = np.array(n_prefill)
    columns = {
        "model": ["llama-7b"] * n,
        "gpu": ["H100"] * n,
        "tp": [1] * n,
        "users": [users] * n,
        "dt_ms": list(dt_ms),
        "n_decode": np.where(prefill > 0, 0, 4).tolist(),
        "n_prefill": prefill.tolist(),
        "prefill_tokens": (100 * prefill).tolist(),
        "kv_tokens": [800] * n,
    }
    parquet.write_table(pa.table(columns), path / "steps.parquet")
    return path


def test_pilot_leaves_out_the_step_after_a_prefill(tmp_path: Path) -> None:
    dt, prefill = [-1], [0]
    for _ in range(30):
        dt += [40, 90, 20, 20, 20]
        prefill += [1, 0, 0, 0, 0]
    found = load_public_set(pilot(tmp_path, dt, prefill))
    (table,) = found.steps
    assert table.seconds == pytest.approx(0.020)
    assert set(table.noise) == {"step.decode"}
    assert not table.client_side
    assert found.refused["decode step after a prefill shows the prefill's time"] == 30
    assert found.refused["prefill beside other users' requests"] == 30
    assert found.refused["first step of a run: no duration"] == 1
    assert feature(table, 0, "decode") == 4
    assert table.deployment.engine.name == "tgis"


def test_pilot_prompts_of_one_user_are_lone_prompts(tmp_path: Path) -> None:
    found = load_public_set(pilot(tmp_path, [50] * 400, [1] * 400, users=1))
    (table,) = found.steps
    assert table.client_side
    assert set(table.noise) == {"step.prefill"}
    assert feature(table, 0, "prefill_token") == 100


def test_pilot_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    (tmp_path / "steps.parquet").write_bytes(b"PAR1 no table")
    with pytest.raises(InputError, match="LLM-Pilot"):
        load_public_set(tmp_path)


def test_a_folder_without_a_known_file_is_no_public_set(tmp_path: Path) -> None:
    assert not is_public_set(tmp_path)
    (tmp_path / "meta.json").write_text("{}")
    assert not is_public_set(tmp_path)
    with pytest.raises(InputError, match="no public set"):
        load_public_set(tmp_path)


def test_a_missing_column_names_file_and_column(tmp_path: Path) -> None:
    row = dict(splitwise())
    del row["token_time"]
    folder = write_csv(tmp_path / "perf_model.csv.gz", [row])
    with pytest.raises(InputError, match="token_time"):
        load_public_set(folder)


def test_trimmed_mean_ignores_the_odd_step_and_does_not_snap() -> None:
    values = np.array([8.0] * 6 + [9.0] * 5 + [400.0])
    assert 8.0 < trimmed_mean(values) < 9.0


def found_in(shared_data: Path, name: str) -> PublicSet:
    return load_public_set(shared_data / "public" / name)


@pytest.mark.parametrize(
    ("name", "n_table", "n_row"),
    [("splitwise-perf", 5, 140), ("argonne-llm-inference-bench", 25, 460)],
)
def test_no_measured_step_beats_the_hardware(
    shared_data: Path, name: str, n_table: int, n_row: int
) -> None:
    """Wrong units, TP or contexts would put a timing below weights and KV over bandwidth."""
    found = found_in(shared_data, name)
    assert len(found.steps) == n_table
    assert sum(len(t.seconds) for t in found.steps) >= n_row
    for table in found.steps:
        ratio = table.seconds / floor_seconds(table)
        assert ratio.min() > 1.0
        assert np.median(ratio) < 12.0


def test_real_sets_count_every_row(shared_data: Path) -> None:
    inferno_set = found_in(shared_data, "inferno-guidellm-llama31-8b")
    assert len(inferno_set.experiments) + sum(inferno_set.refused.values()) == 160
    inferencex_set = found_in(shared_data, "inferencex-silicon")
    assert len(inferencex_set.experiments) + sum(inferencex_set.refused.values()) == 3056
    doks_set = found_in(shared_data, "doks-vllm-h200-rates")
    assert len(doks_set.experiments) + sum(doks_set.refused.values()) == 96
    assert all(
        o.value > 0
        for s in (inferno_set, inferencex_set, doks_set)
        for e in s.experiments
        for o in e.observed
    )


def test_every_known_set_is_recognised_in_the_data(shared_data: Path) -> None:
    folders = [p for p in (shared_data / "public").iterdir() if p.is_dir()]
    assert sum(is_public_set(folder) for folder in folders) == len(LOADERS)
