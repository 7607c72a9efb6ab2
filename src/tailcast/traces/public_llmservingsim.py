"""LLMServingSim's benchmarks: vLLM runs request by request, with their settings beside them."""

import json
from pathlib import Path
from typing import Any

from tailcast.errors import InputError
from tailcast.traces.importers.reading import read_any
from tailcast.traces.public_set import PublicSet, PublicTrace, Refusals, public_deployment
from tailcast.traces.tracev2 import Trace

FILE = "meta.json"
PATTERN = "requests_*__*.csv.gz"


def load_llmservingsim(folder: Path) -> PublicSet:
    """Runs of the folder that have both requests and settings.

    Parameters
    ----------
    folder : pathlib.Path
        With ``meta.json`` and ``requests_GPU__MODEL.csv.gz``.

    Returns
    -------
    PublicSet
        One trace a run; latencies count from arrival.

    Raises
    ------
    InputError
        If a file is malformed.
    """
    meta = _settings(folder / FILE)
    refused = Refusals()
    traces, files, notes = [], [folder / FILE], []
    for path in sorted(folder.glob(PATTERN)):
        name = path.name.removeprefix("requests_").removesuffix(".csv.gz")
        found = read_any(path)
        trace = found.content
        if not isinstance(trace, Trace):
            raise InputError(f"{path}: no table of requests")
        files.append(path)
        own = meta.get(name)
        if not isinstance(own, dict):
            refused.count(f"{name}: no settings in {FILE}", len(trace))
            continue
        engine = own.get("engine_kwargs", {})
        settings = {
            "name": "vllm",
            "version": str(own.get("vllm_version", "")),
            **{k: int(engine[k]) for k in ("max_num_seqs", "max_num_batched_tokens")},
        }
        deployment = public_deployment(
            str(own.get("model")),
            str(own.get("gpu")),
            int(engine["tensor_parallel_size"]),
            settings,
        )
        if isinstance(deployment, str):
            refused.count(deployment, len(trace))
            continue
        notes += [f"{name}: {note}" for note in found.notes]
        traces.append(PublicTrace(name=name, deployment=deployment, trace=trace, path=str(path)))
    if not traces and not refused.by_reason:
        raise InputError(f"{folder}: {FILE} without any {PATTERN}")
    return PublicSet(
        name="llmservingsim-bench",
        files=tuple(files),
        traces=tuple(traces),
        refused=refused.by_reason,
        notes=(
            *notes,
            "prompts of one session can share a prefix, which is not on record: taken as unshared",
        ),
    )


def _settings(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as JSON ({error})") from error
    if not isinstance(content, dict):
        raise InputError(f"{path}: settings by run expected, got {type(content).__name__}")
    return content
