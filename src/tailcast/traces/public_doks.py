"""Rate sweeps of vLLM on one H200: the arm of single-turn prompts."""

import math
from pathlib import Path

from tailcast.traces.experiment import Experiment
from tailcast.traces.public_set import (
    PublicSet,
    Refusals,
    observed_stats,
    public_deployment,
    public_experiment,
)
from tailcast.workload.arrivals import Arrivals, Stage
from tailcast.workload.csv_file import CsvFile
from tailcast.workload.lengths import LogNormal
from tailcast.workload.spec import RequestClass, Workload

FILE = "rate_sweeps.csv.gz"

_SINGLE_TURN = "20260224-185458"
_ENGINE = {
    "name": "vllm",
    "version": "0.14.1",
    "max_num_batched_tokens": 8192,
    "max_num_seqs": 1024,
    "gpu_memory_utilization": 0.9,
}
_KV_BLOCKS = 348_304 // 16
"""KV cache of the default settings, from the engine's log."""

_INPUT_SIGMA = 1.0
"""Log sd of ShareGPT prompt lengths; only their mean is on record."""


def load_doks(folder: Path) -> PublicSet:
    """The ShareGPT arm at each rate.

    Only means are used: percentiles of E2E are those of the output lengths, which are not on
    record. The spread of the output lengths is that of E2E over TPOT, so that the batch is right.

    Parameters
    ----------
    folder : pathlib.Path
        With ``rate_sweeps.csv.gz``.

    Returns
    -------
    PublicSet
        One experiment a rate.

    Raises
    ------
    InputError
        If a column is missing or a cell is no number.
    """
    path = folder / FILE
    file = CsvFile(path)
    refused = Refusals()
    experiments: list[Experiment] = []
    variants, runs = file.text("variant"), file.text("run")
    numbers = {name: file.numbers(name).tolist() for name in _COLUMNS}
    deployment = public_deployment(
        "llama-3.1-70b",
        "h200-sxm-141gb",
        1,
        _ENGINE,
        weights="fp8",
        kv_dtype="fp8",
        kv_blocks=_KV_BLOCKS,
    )
    for k, (variant, run) in enumerate(zip(variants, runs, strict=True)):
        if "eagle" in variant:
            refused.count("speculative decoding")
        elif (variant, run) != ("phase0", _SINGLE_TURN):
            refused.count("multi-turn set: which prompts share a prefix is not on record")
        elif isinstance(deployment, str):
            refused.count(deployment)
        else:
            row = {name: values[k] for name, values in numbers.items()}
            workload, n = _workload(row), round(row["completed"])
            values = {
                ("ttft", "mean"): 1e-3 * row["mean_ttft_ms"],
                ("ttft", "p50"): 1e-3 * row["median_ttft_ms"],
                ("tpot", "mean"): 1e-3 * row["mean_tpot_ms"],
                ("itl", "mean"): 1e-3 * row["mean_itl_ms"],
                ("e2e", "mean"): 1e-3 * row["mean_e2el_ms"],
            }
            experiments.append(
                public_experiment(
                    workload.name, deployment, workload, observed_stats(values, n), path
                )
            )
    return PublicSet(
        name="doks-vllm-h200-rates",
        files=(path,),
        experiments=tuple(experiments),
        refused=refused.by_reason,
        notes=(
            "lengths of the ShareGPT arm: log-normal with the recorded means; sd of the outputs "
            f"from the sd of E2E over TPOT, log sd of the prompts taken for {_INPUT_SIGMA:g}",
        ),
    )


_COLUMNS = (
    "request_rate",
    "completed",
    "total_input_tokens",
    "total_output_tokens",
    "mean_ttft_ms",
    "median_ttft_ms",
    "mean_tpot_ms",
    "mean_itl_ms",
    "mean_e2el_ms",
    "std_e2el_ms",
)


def _workload(row: dict[str, float]) -> Workload:
    n = round(row["completed"])
    output = row["total_output_tokens"] / n
    spread = row["std_e2el_ms"] / row["mean_tpot_ms"] / output
    requests = RequestClass(
        input_tokens=_log_normal(row["total_input_tokens"] / n, _INPUT_SIGMA),
        output_tokens=_log_normal(output, math.sqrt(math.log1p(spread**2))),
    )
    return Workload(
        classes=(requests,),
        stages=(Stage(rate=row["request_rate"]),),
        arrivals=Arrivals(process="poisson"),
        n_requests=n,
        name=f"doks-sharegpt-{row['request_rate']:g}rps",
    )


def _log_normal(mean: float, sigma: float) -> LogNormal:
    return LogNormal(median=mean * math.exp(-(sigma**2) / 2), sigma=sigma, minimum=2, maximum=2048)
