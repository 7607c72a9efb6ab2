"""From files to what a fit takes: experiments, and the controlled sweeps of step timings."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.basis import FEATURES
from tailcast.catalog.accelerators import accelerator
from tailcast.catalog.llms import llm
from tailcast.deployment import Deployment, EngineSettings
from tailcast.errors import InputError
from tailcast.inference.evidence import Output, StepEvidence, step_evidence
from tailcast.inference.forward import STAT_QUANTILES, RunInput
from tailcast.inference.warm_up import warm_up_count
from tailcast.latency_model import LatencyModel, Scale
from tailcast.request import RequestTable
from tailcast.streams import stream
from tailcast.traces.experiment import Experiment, experiment_requests, load_experiments
from tailcast.traces.step_sweeps import Served, load_mixed_sweep, load_prefill_sweep
from tailcast.traces.yaml_file import read_yaml
from tailcast.workload.uncached import with_unique_prompts

Array = NDArray[np.float64]

PREFILL_FILE, MIXED_FILE, DECODE_FILE = "prefill_ttft.csv", "mixed_step.csv", "fits.yaml"

_SWEEP_TOKENS = 8192
"""max_num_batched_tokens of the sweeps' server: its prefill chunks are that long."""

_DECODE_GRID = tuple((n, n * c) for n in (1, 8, 32, 64) for c in (512, 4096))
"""Batches (decodes, context) at which a published decode law is taken as a timing."""

PROVEN = "resolved client configuration"
"""Evidence of repetition that leaves nothing unknown."""

FITTED = {
    ("ttft", "mean"),
    ("ttft", "p50"),
    ("ttft", "p90"),
    ("ttft", "p99"),
    ("e2e", "mean"),
    ("e2e", "p50"),
    ("e2e", "p90"),
    ("e2e", "p99"),
}
"""Summaries that enter a fit; tpot.mean follows from the means of ttft and e2e."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What files hold for a fit.

    Parameters
    ----------
    runs : tuple of RunInput
        Experiments with summaries.
    steps : tuple of StepEvidence
        Sweeps of step timings.
    files : mapping of str to str
        SHA-256 by file name.
    notes : tuple of str
        What was left out, one sentence each.
    """

    runs: tuple[RunInput, ...]
    steps: tuple[StepEvidence, ...]
    files: dict[str, str]
    notes: tuple[str, ...]


def load_sources(
    paths: Iterable[Path], model: LatencyModel, *, leave_out: Sequence[str] = ()
) -> Sources:
    """Read experiments and sweeps.

    Parameters
    ----------
    paths : iterable of pathlib.Path
        Experiment files, folders of them, and folders (or files) of step sweeps named
        ``prefill_ttft.csv``, ``mixed_step.csv`` and ``fits.yaml``.
    model : LatencyModel
        Whose bases the sweeps are expressed in.
    leave_out : sequence of str
        Names of sweep files to skip, for a fit that shall be judged on them.

    Returns
    -------
    Sources
        Runs, step timings, hashes.

    Raises
    ------
    InputError
        If a path holds nothing to fit or a file is malformed.
    """
    experiments: list[Path] = []
    steps: list[StepEvidence] = []
    notes: list[str] = []
    files: dict[str, str] = {}
    for path in paths:
        sweeps, rest = _split(path)
        experiments += rest
        for file in sweeps:
            if file.name in leave_out:
                notes.append(f"{file.name} was left out as asked")
                continue
            steps += _sweep(file, model, notes)
            files[file.name] = _sha256(file)
    runs: list[RunInput] = []
    for experiment in load_experiments(experiments) if experiments else ():
        if experiment.split == "validation":
            raise InputError(
                f"{experiment.path}: split is validation: it may judge a fit, never enter one"
            )
        run = run_input(experiment, model)
        if any(run.content == other.content for other in runs):
            notes.append(f"{experiment.id} repeats another run and was counted once")
            continue
        runs.append(run)
        files[Path(experiment.path).name] = _sha256(Path(experiment.path))
    return Sources(runs=tuple(runs), steps=tuple(steps), files=files, notes=tuple(notes))


def _split(path: Path) -> tuple[list[Path], list[Path]]:
    names = (PREFILL_FILE, MIXED_FILE, DECODE_FILE)
    if path.is_dir():
        sweeps = [path / name for name in names if (path / name).is_file()]
        return (sweeps, []) if sweeps else ([], [path])
    return ([path], []) if path.name in names else ([], [path])


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run_input(experiment: Experiment, model: LatencyModel) -> RunInput:
    """Run of an experiment, with the summaries that enter a fit.

    Parameters
    ----------
    experiment : Experiment
        Deployment, workload and observed statistics.
    model : LatencyModel
        For what it leaves unknown of a run.

    Returns
    -------
    RunInput
        Statistics that no emulator is made for are left to `evaluate`.
    """
    outputs = []
    requests = experiment_requests(experiment, 0)
    for o in experiment.observed:
        known = o.statistic == "mean" or o.statistic in STAT_QUANTILES
        if (o.metric, o.statistic) not in FITTED or not known:
            continue
        own = requests.output_tokens[requests.group == o.stage]
        tokens = float(own.mean()) if len(own) else 1.0
        outputs.append(
            Output(
                stage=o.stage,
                metric=o.metric,
                stat=o.statistic,
                log_observed=float(np.log(o.value)),
                finish=float(o.metric == "e2e"),
                stream=tokens if o.metric == "e2e" else 1.0,
                warm_up=warm_up_count(requests, o.stage, o.quantile),
            )
        )
    return RunInput(
        name=experiment.id,
        deployment=experiment.deployment,
        requests=lambda seed: experiment_requests(experiment, seed),
        outputs=tuple(outputs),
        content=experiment.content_hash,
        uncached=unknown_share(experiment, model),
    )


def plausible_requests(
    experiment: Experiment, model: LatencyModel
) -> Callable[[int], RequestTable]:
    """Realisations of what was sent, with what is unknown of it drawn from its prior.

    Parameters
    ----------
    experiment : Experiment
        With its workload and its evidence of repetition.
    model : LatencyModel
        With the prior of the share of prompts that do not repeat, if it has one.

    Returns
    -------
    callable
        Seed to requests.
    """
    prior = unknown_share(experiment, model)

    def requests(seed: int) -> RequestTable:
        table = experiment_requests(experiment, seed)
        if prior is None:
            return table
        z = stream(seed, "uncached share").standard_normal()
        odds = prior.centre * float(np.exp(prior.sd * z))
        return with_unique_prompts(table, odds / (1 + odds), seed)

    return requests


def unknown_share(experiment: Experiment, model: LatencyModel) -> Scale | None:
    """Prior of the odds that a prompt is unshared, where repetition was inferred, not seen.

    Parameters
    ----------
    experiment : Experiment
        With its evidence of repetition.
    model : LatencyModel
        With the prior, if it has one.

    Returns
    -------
    Scale or None
        None where the client's configuration is on record or no prompt repeats.
    """
    evidence = experiment.repetition_evidence
    if not evidence or evidence == PROVEN:
        return None
    return model.latent.get("uncached_share")


def _sweep(path: Path, model: LatencyModel, notes: list[str]) -> list[StepEvidence]:
    if path.name == PREFILL_FILE:
        return prefill_evidence(path, model)
    if path.name == MIXED_FILE:
        sweep = load_mixed_sweep(path)
        if sweep.n_misaligned:
            notes.append(f"{path.name}: {sweep.n_misaligned} misaligned rows were left out")
        return mixed_evidence(path, model)
    return decode_evidence(path, model)


def sweep_deployment(name: str, gpu: str, tensor_parallel: int, version: str) -> Deployment:
    """Deployment behind a row of a step sweep.

    Parameters
    ----------
    name, gpu : str
        LLM and accelerator as the file has them.
    tensor_parallel : int
        Accelerators per replica.
    version : str
        vLLM version.

    Returns
    -------
    Deployment
        With the sweeps' token budget and no prefix caching.
    """
    return Deployment(
        llm=llm(name),
        accelerator=accelerator(gpu),
        tensor_parallel=tensor_parallel,
        engine=EngineSettings(
            version=version, max_num_batched_tokens=_SWEEP_TOKENS, prefix_caching=False
        ),
    )


def _features(**values: float) -> Array:
    return np.array([values.get(name, 0.0) for name in FEATURES])


def lone_prompt_features(prompt_tokens: int) -> Array:
    """Batch features of one prompt computed alone, summed over its chunks.

    Parameters
    ----------
    prompt_tokens : int
        Length.

    Returns
    -------
    ndarray, shape (n_feature,)
        In the order of `tailcast.basis.FEATURES`.
    """
    chunks = float(-(-prompt_tokens // _SWEEP_TOKENS))
    return _features(
        step=chunks,
        prefill_token=float(prompt_tokens),
        prefill_pair=prompt_tokens**2 / 2.0,
        prefill_request=chunks,
    )


def prefill_evidence(path: Path, model: LatencyModel) -> list[StepEvidence]:
    """Lone-prompt TTFTs: median over repeats after the first, one row a length.

    Parameters
    ----------
    path : pathlib.Path
        ``prefill_ttft.csv``.
    model : LatencyModel
        Whose bases are meant.

    Returns
    -------
    list of StepEvidence
        One a deployment.
    """
    sweep = load_prefill_sweep(path)
    found = []
    for own, deployment in _configurations(sweep.served):
        rows = []
        for length in np.unique(sweep.prompt_tokens[own]):
            cell = own & (sweep.prompt_tokens == length)
            warm = cell & (sweep.repeat > 0) if (cell & (sweep.repeat > 0)).any() else cell
            seconds = float(np.median(sweep.ttft[warm]))
            rows.append((lone_prompt_features(int(length)), seconds, "step.prefill"))
        name = f"prefill sweep {_version(deployment)}"
        found.append(step_evidence(name, model, deployment, rows, ingest=True))
    return found


def mixed_evidence(path: Path, model: LatencyModel) -> list[StepEvidence]:
    """Steps of one prefill chunk beside decodes: geometric mean over repeats, one row a cell.

    Parameters
    ----------
    path : pathlib.Path
        ``mixed_step.csv``.
    model : LatencyModel
        Whose bases are meant.

    Returns
    -------
    list of StepEvidence
        One a deployment.
    """
    sweep = load_mixed_sweep(path)
    found = []
    for own, deployment in _configurations(sweep.served):
        cells: dict[tuple[int, int, int], list[int]] = {}
        for k in np.flatnonzero(own):
            key = (
                int(sweep.decodes[k]),
                int(sweep.chunk_tokens[k]),
                int(sweep.chunk_start[k]),
            )
            cells.setdefault(key, []).append(int(k))
        rows = []
        for (decodes, tokens, start), members in cells.items():
            features = _features(
                step=1.0,
                prefill_token=float(tokens),
                prefill_pair=tokens * (start + tokens / 2.0),
                prefill_request=1.0,
                decode=float(decodes),
                context_token=float(np.mean(sweep.context_tokens[members])),
            )
            seconds = float(np.exp(np.mean(np.log(sweep.step_time[members]))))
            rows.append((features, seconds, "step.mixed"))
        found.append(step_evidence(f"mixed sweep {_version(deployment)}", model, deployment, rows))
    return found


def decode_evidence(path: Path, model: LatencyModel) -> list[StepEvidence]:
    """Published decode laws, taken as timings at a grid of batches.

    Parameters
    ----------
    path : pathlib.Path
        ``fits.yaml`` with ``c_base_s``, ``c_dec_s`` and ``c_kv_s`` of each deployment.
    model : LatencyModel
        Whose bases are meant.

    Returns
    -------
    list of StepEvidence
        One a deployment.

    Raises
    ------
    InputError
        If an entry lacks a number.
    """
    found = []
    for k, entry in enumerate(read_yaml(path).get("fits", [])):
        base, decode, context = (
            _seconds(path, k, entry, name) for name in ("c_base_s", "c_dec_s", "c_kv_s")
        )
        deployment = sweep_deployment(
            str(entry["model"]), str(entry["gpu"]), int(entry["tp"]), str(entry["vllm"])
        )
        rows = [
            (
                _features(step=1.0, decode=float(n), context_token=float(tokens)),
                base + decode * n + context * tokens,
                "step.decode",
            )
            for n, tokens in _DECODE_GRID
        ]
        found.append(step_evidence(f"decode sweep {_version(deployment)}", model, deployment, rows))
    return found


def _seconds(path: Path, index: int, entry: dict[str, Any], name: str) -> float:
    value = entry.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise InputError(f"{path}: fits[{index}]: {name} must be positive seconds, got {value!r}")
    return float(value)


def _version(deployment: Deployment) -> str:
    return (
        f"{deployment.llm.name}-tp{deployment.tensor_parallel}-"
        f"{deployment.engine.name}-{deployment.engine.version}"
    )


def _configurations(served: Served) -> list[tuple[NDArray[np.bool_], Deployment]]:
    found = []
    for name, gpu, tensor_parallel, version in served.configurations():
        own = (
            (served.llm == name)
            & (served.accelerator == gpu)
            & (served.tensor_parallel == tensor_parallel)
            & (served.version == version)
        )
        found.append((own, sweep_deployment(name, gpu, tensor_parallel, version)))
    return found
