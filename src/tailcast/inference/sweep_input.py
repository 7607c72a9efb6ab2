"""Controlled sweeps of step timings as evidence."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.basis import FEATURES
from tailcast.catalog.accelerators import accelerator
from tailcast.catalog.llms import llm
from tailcast.deployment import Deployment, EngineSettings
from tailcast.errors import InputError
from tailcast.inference.evidence import StepEvidence, step_evidence
from tailcast.latency_model import LatencyModel
from tailcast.traces.step_sweeps import Served, load_mixed_sweep, load_prefill_sweep
from tailcast.traces.yaml_file import read_yaml

Array = NDArray[np.float64]

PREFILL_FILE, MIXED_FILE, DECODE_FILE = "prefill_ttft.csv", "mixed_step.csv", "fits.yaml"
SWEEP_FILES = (PREFILL_FILE, MIXED_FILE, DECODE_FILE)

_SWEEP_TOKENS = 8192
"""max_num_batched_tokens of the sweeps' server: its prefill chunks are that long."""

_DECODE_GRID = tuple((n, n * c) for n in (1, 8, 32, 64) for c in (512, 4096))
"""Batches (decodes, context) at which a published decode law is taken as a timing."""


def sweep_evidence(path: Path, model: LatencyModel) -> tuple[list[StepEvidence], list[str]]:
    """Evidence of one file of a sweep.

    Parameters
    ----------
    path : pathlib.Path
        Named as in `SWEEP_FILES`.
    model : LatencyModel
        Whose bases are meant.

    Returns
    -------
    evidence : list of StepEvidence
        One a deployment.
    notes : list of str
        What was left out.
    """
    if path.name == PREFILL_FILE:
        return prefill_evidence(path, model), []
    if path.name == MIXED_FILE:
        n = load_mixed_sweep(path).n_misaligned
        notes = [f"{path.name}: {n} misaligned rows were left out"] if n else []
        return mixed_evidence(path, model), notes
    return decode_evidence(path, model), []


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
