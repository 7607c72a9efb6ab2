"""The guidellm sweeps behind the three-number model: evenly spaced arrivals, uniform lengths."""

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
from tailcast.workload.arrivals import Arrivals, Stage
from tailcast.workload.csv_file import CsvFile
from tailcast.workload.lengths import Uniform
from tailcast.workload.spec import Concurrency, RequestClass, Workload

FILE = "sweep.csv.gz"

_ENGINE = {"name": "vllm", "version": "0.11", "max_num_batched_tokens": 8192, "max_num_seqs": 1024}
_STATISTICS = ("mean", "p50", "p90", "p95", "p99")
_MOST_INCOMPLETE = 0.03
"""Share of requests cut off at the end from which completed ones are too short to judge E2E by."""

_MOST_LOST = 0.15
"""Share from which a run is not used at all."""


def load_inferno(folder: Path) -> PublicSet:
    """Runs at constant rates and of one request at a time.

    TTFT percentiles are over requests and kept. ITL percentiles are over per-request means weighted
    by tokens, which is no gap percentile, so only their mean, which is that of all gaps, is kept;
    TPOT is latency over all output tokens here and is not used. E2E is kept where at most 3 % of
    the requests were cut off at the end of the run. A mean TTFT is left out where one request's
    first token has no time, which makes it negative.

    Parameters
    ----------
    folder : pathlib.Path
        With ``sweep.csv.gz``.

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
    experiments = []
    spoilt = 0
    models, gpus, strategies = (file.text(name) for name in ("model", "gpu", "strategy"))
    tp = file.whole("tp").tolist()
    numbers = {name: file.numbers(name).tolist() for name in _columns()}
    numbers["target_rps"] = file.numbers("target_rps", empty=0.0).tolist()
    for k, strategy in enumerate(strategies):
        row = {name: values[k] for name, values in numbers.items()}
        if strategy not in {"constant", "synchronous"}:
            refused.count(f"strategy {strategy}: all requests at once, most cut off at the end")
            continue
        lost = row["n_incomplete"] / max(row["n_ok"] + row["n_incomplete"], 1.0)
        if lost > _MOST_LOST:
            refused.count("more than 15 % of the requests cut off: those that count are short ones")
            continue
        found = public_deployment(models[k], gpus[k], tp[k], _ENGINE)
        if isinstance(found, str):
            refused.count(found)
            continue
        if strategy == "constant" and not row["target_rps"] > 0:
            refused.count("constant rate without a rate")
            continue
        spoilt += row["ttft_ms_min"] <= 0
        experiments.append(_experiment(found, strategy, row, lost, path))
    return PublicSet(
        name="inferno-guidellm-llama31-8b",
        files=(path,),
        experiments=tuple(experiments),
        refused=refused.by_reason,
        notes=(
            "vLLM of October 2025, version not recorded: taken for 0.11 with its defaults on H100 "
            "(8192 tokens and 1024 sequences a step); random prompts, so none repeats",
            f"mean TTFT of {spoilt} runs left out: a request's first token has no time there",
        ),
    )


def _columns() -> list[str]:
    stats = [f"{m}_{s}" for m in ("ttft_ms", "e2e_s") for s in _STATISTICS]
    sizes = ["prompt_nominal", "output_nominal", "duration_s", "n_ok", "n_incomplete"]
    return [*sizes, *stats, "itl_ms_mean", "ttft_ms_min"]


def _experiment(
    deployment: Deployment, strategy: str, row: dict[str, float], lost: float, path: Path
) -> Experiment:
    prompt, output = int(row["prompt_nominal"]), int(row["output_nominal"])
    requests = RequestClass(input_tokens=_spread(prompt), output_tokens=_spread(output))
    sound = [s for s in _STATISTICS if s != "mean" or row["ttft_ms_min"] > 0]
    values = {("ttft", s): 1e-3 * row[f"ttft_ms_{s}"] for s in sound}
    values["itl", "mean"] = 1e-3 * row["itl_ms_mean"]
    if lost <= _MOST_INCOMPLETE:
        values |= {("e2e", s): row[f"e2e_s_{s}"] for s in _STATISTICS}
    rate = row["target_rps"]
    name = f"inferno-{prompt}x{output}-" + (f"{rate:g}rps" if strategy == "constant" else "lone")
    n = round(row["n_ok"])
    workload = (
        Workload(
            classes=(requests,),
            stages=(Stage(rate=rate, duration=round(row["duration_s"])),),
            arrivals=Arrivals(process="constant"),
            name=name,
        )
        if strategy == "constant"
        else Workload(
            classes=(requests,), concurrency=Concurrency(users=1), n_requests=n, name=name
        )
    )
    return public_experiment(name, deployment, workload, observed_stats(values, n), path)


def _spread(nominal: int) -> Uniform:
    """Lengths as guidellm drew them: uniform from half to one and a half of nominal."""
    return Uniform(minimum=max(1, nominal // 2), maximum=nominal + nominal // 2)
