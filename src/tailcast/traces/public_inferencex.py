"""InferenceX: medians of TTFT and TPOT of closed loops at fixed concurrency."""

from pathlib import Path

from tailcast.deployment import Deployment
from tailcast.traces.experiment import Experiment
from tailcast.traces.public_set import (
    PublicSet,
    Refusals,
    observed_stats,
    public_deployment,
    public_experiment,
)
from tailcast.workload.csv_file import CsvFile
from tailcast.workload.lengths import Uniform
from tailcast.workload.spec import Concurrency, RequestClass, Workload

FILE = "agg_ttft_tpot.csv.gz"

_GPUS = {
    "h100_sxm": "h100-sxm-80gb",
    "h200_sxm": "h200-sxm-141gb",
    "b200_sxm": "b200-sxm-180gb",
}
_PER_USER = 10
"""Requests that each client sends."""

_IDENTITY = (
    "backend_version",
    "model_path",
    "system",
    "precision",
    "isl",
    "osl",
    "concurrency",
    "tp_size",
    "pp_size",
    "attention_dp_size",
    "moe_tp_size",
    "moe_ep_size",
    "measured",
    "silicon_ttft_ms",
    "silicon_tpot_ms",
)
_NUMBERS = ("isl", "osl", "concurrency", "silicon_ttft_ms", "silicon_tpot_ms")

_OLD = "0.11"
"""Version taken for dumps of October and November 2025 that name none."""


def load_inferencex(folder: Path) -> PublicSet:
    """Closed loops of vLLM; the same run of two dumps counts once.

    The statistics are taken for medians. TTFT depends on how the clients start, so it is not used;
    a median E2E is put together of both medians at the mean length: TPOT makes up nearly all of it.

    Parameters
    ----------
    folder : pathlib.Path
        With ``agg_ttft_tpot.csv.gz``.

    Returns
    -------
    PublicSet
        One experiment a run.

    Raises
    ------
    InputError
        If a column is missing or a cell is no number.
    """
    path = folder / FILE
    file = CsvFile(path)
    refused = Refusals()
    experiments: list[Experiment] = []
    texts = {name: file.text(name) for name in {*_IDENTITY, "backend", "id", "gemm_quant_mode"}}
    sizes = {name: file.numbers(name).tolist() for name in _NUMBERS}
    seen: set[tuple[str, ...]] = set()
    for k in range(len(file)):
        row = {name: cells[k] for name, cells in texts.items()}
        identity = tuple(row[name] for name in _IDENTITY)
        reason = _reason(row)
        if reason:
            refused.count(reason)
        elif identity in seen:
            refused.count("the same run in a second dump")
        else:
            seen.add(identity)
            found = _deployment(row)
            if isinstance(found, str):
                refused.count(found)
            else:
                numbers = {name: column[k] for name, column in sizes.items()}
                experiments.append(_experiment(found, row["id"], numbers, path))
    return PublicSet(
        name="inferencex-silicon",
        files=(path,),
        experiments=tuple(experiments),
        refused=refused.by_reason,
        notes=(
            "closed loop of random prompts, lengths uniform in 0.8 to 1 of nominal, "
            f"{_PER_USER} requests a client; e2e.p50 = TTFT + TPOT x (0.9 x output - 1); dumps "
            f"without a version taken for vLLM {_OLD}; 'Llama-3.1-70B' is their label of "
            "Llama-3.x-70B FP8",
        ),
    )


def _reason(row: dict[str, str]) -> str:
    if row["backend"] != "vllm":
        return f"engine {row['backend']}"
    if row["system"] not in _GPUS:
        return f"accelerator {row['system']}"
    if row["attention_dp_size"] not in {"", "1"}:
        return "attention data parallelism"
    if row["moe_ep_size"] not in {"", "1"}:
        return "expert parallelism"
    if row["pp_size"] not in {"", "1"}:
        return "pipeline parallelism"
    if row["moe_tp_size"] not in {"", row["tp_size"]}:
        return "attention data parallelism"
    return ""


def _deployment(row: dict[str, str]) -> Deployment | str:
    weights = {"fp8": "fp8", "fp4": None, "int4": "int4"}.get(row["precision"])
    if row["precision"] == "fp4" and "gpt-oss" not in row["model_path"]:
        return "4-bit floating-point weights"
    version = row["backend_version"] or _OLD
    if not version[0].isdigit():
        return "nightly build without a version"
    engine = {
        "name": "vllm",
        "version": version,
        "prefix_caching": False,
        "max_num_batched_tokens": 8192,
        "max_num_seqs": 1024,
    }
    return public_deployment(
        row["model_path"], _GPUS[row["system"]], int(row["tp_size"]), engine, weights=weights
    )


def _experiment(deployment: Deployment, name: str, row: dict[str, float], path: Path) -> Experiment:
    prompt, output, users = (round(row[c]) for c in ("isl", "osl", "concurrency"))
    ttft, tpot = 1e-3 * row["silicon_ttft_ms"], 1e-3 * row["silicon_tpot_ms"]
    requests = RequestClass(input_tokens=_spread(prompt), output_tokens=_spread(output))
    n = _PER_USER * users
    workload = Workload(
        classes=(requests,), concurrency=Concurrency(users=users), n_requests=n, name=name
    )
    values = {("tpot", "p50"): tpot, ("e2e", "p50"): ttft + tpot * (0.9 * output - 1)}
    return public_experiment(name, deployment, workload, observed_stats(values, n), path)


def _spread(nominal: int) -> Uniform:
    return Uniform(minimum=max(1, round(0.8 * nominal)), maximum=nominal)
