"""Benchmark runs that were summarised: deployment, executed workload, observed statistics."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tailcast.catalog.accelerators import accelerator
from tailcast.catalog.llms import llm
from tailcast.deployment import Deployment, EngineSettings
from tailcast.errors import CapacityError, CatalogError, InputError, TailcastError, UsageError
from tailcast.request import RequestTable
from tailcast.traces.executed import executed_workload
from tailcast.traces.observed import Observed, observed_records, saturation_labels
from tailcast.traces.yaml_file import read_yaml
from tailcast.workload.fields import Fields
from tailcast.workload.materialise import materialise
from tailcast.workload.spec import Workload

# Other names of a format; "auto" is the LLM's own. Both 16-bit formats weigh the same.
_WEIGHTS = {"auto": None, "bfloat16": "bf16", "fp16": "bf16", "float16": "bf16", "half": "bf16"}
_SUFFIXES = (".yaml", ".yml")


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """One run of a load generator against one deployment.

    Parameters
    ----------
    id : str
        Name of the run.
    split : str
        What the run is meant for (``train``, ``held-out``...); empty where the file does not say.
    deployment : Deployment
        What served.
    workload : Workload
        What was sent; group i of its requests is stage i of `observed`.
    observed : tuple of Observed
        Measured statistics in seconds; empty for a run that is only to be predicted.
    repetition_evidence : str
        How it is known that prompts repeat; empty where the file does not say.
    ignored : tuple of str
        Dotted paths of keys that were taken for remarks.
    content_hash : str
        SHA-256 of deployment, executed workload and observed values: equal for two copies of a
        run, whatever their ids, remarks and layout.
    path : str
        File it was read from.
    saturated : mapping of int to bool
        Stages of which the file says whether they were saturated.
    """

    id: str
    split: str
    deployment: Deployment
    workload: Workload
    observed: tuple[Observed, ...]
    repetition_evidence: str
    ignored: tuple[str, ...]
    content_hash: str
    path: str
    saturated: Mapping[int, bool] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusableExperiment:
    """A well-formed experiment file whose deployment or workload cannot be simulated.

    Parameters
    ----------
    id : str
        Name of the run.
    path : str
        File it was read from.
    error : TailcastError
        Why.
    """

    id: str
    path: str
    error: TailcastError


def load_experiment(path: Path | str) -> Experiment:
    """Experiment of one YAML file.

    Parameters
    ----------
    path : pathlib.Path or str
        File with ``id split deployment workload observed``. Keys that are not known are taken for
        remarks unless they look like a misspelt known one.

    Returns
    -------
    Experiment
        Checked.

    Raises
    ------
    InputError
        If the file is malformed.
    CatalogError, CapacityError
        If the deployment names something unknown or cannot exist.
    """
    path = Path(path)
    fields = Fields(read_yaml(path), str(path))
    name = fields.text("id", path.stem)
    split = fields.text("split", "")
    served, sent = fields.table("deployment"), fields.table("workload")
    if served is None or sent is None:
        missing = "deployment" if served is None else "workload"
        raise InputError(f"{path}: {missing} is missing; is this an experiment file?")
    workload = executed_workload(sent)
    evidence = sent.text("repetition_evidence", "")
    entries = fields.tables("observed")
    observed = observed_records(entries, len(workload.group_names))
    ignored = (*fields.ignore_unused(), *sent.ignore_unused())
    deployment, ignored_settings = _deployment(served)
    return Experiment(
        id=name,
        split=split,
        deployment=deployment,
        workload=workload,
        observed=observed,
        repetition_evidence=evidence,
        ignored=(*ignored, *ignored_settings),
        content_hash=_content_hash(fields.read, deployment, workload, observed),
        path=str(path),
        saturated=saturation_labels(entries),
    )


def load_experiments(paths: Path | str | Iterable[Path | str]) -> tuple[Experiment, ...]:
    """Experiments of files and folders.

    Parameters
    ----------
    paths : path or iterable of paths
        YAML files, and folders that hold them directly.

    Returns
    -------
    tuple of Experiment
        In the order given; by name within a folder.

    Raises
    ------
    InputError
        If a path does not exist, a folder holds no YAML file, a file is malformed or two files
        have the same id.
    CatalogError, CapacityError
        If a deployment names something unknown or cannot exist.
    """
    experiments = tuple(load_experiment(path) for path in experiment_files(paths))
    _refuse_same_ids(experiments)
    return experiments


def attempt_experiments(
    paths: Path | str | Iterable[Path | str],
) -> tuple[Experiment | UnusableExperiment, ...]:
    """Experiments of files and folders, with those that cannot be simulated told apart.

    Parameters
    ----------
    paths : path or iterable of paths
        As for `load_experiments`.

    Returns
    -------
    tuple of Experiment or UnusableExperiment
        One a file, in the order given.

    Raises
    ------
    InputError
        As `load_experiments`.
    """
    found: list[Experiment | UnusableExperiment] = []
    for path in experiment_files(paths):
        try:
            found.append(load_experiment(path))
        except (CatalogError, CapacityError) as error:
            name = Fields(read_yaml(path), str(path)).text("id", path.stem)
            found.append(UnusableExperiment(id=name, path=str(path), error=error))
    _refuse_same_ids(found)
    return tuple(found)


def experiment_files(paths: Path | str | Iterable[Path | str]) -> tuple[Path, ...]:
    """YAML files meant by files and folders.

    Parameters
    ----------
    paths : path or iterable of paths
        Files, and folders that hold them directly.

    Returns
    -------
    tuple of pathlib.Path
        Each file once, in the order given; by name within a folder.

    Raises
    ------
    InputError
        If a path does not exist or a folder holds no YAML file.
    """
    listed = [paths] if isinstance(paths, str | Path) else list(paths)
    files: dict[Path, Path] = {}
    for path in map(Path, listed):
        if path.is_dir():
            inside = sorted(p for p in path.iterdir() if p.suffix in _SUFFIXES and p.is_file())
            if not inside:
                raise InputError(f"{path}: no .yaml file in this folder{_subfolders(path)}")
        elif path.exists():
            inside = [path]
        else:
            raise InputError(f"{path}: no such file or folder")
        for file in inside:
            files.setdefault(file.resolve(), file)
    if not files:
        raise InputError("no experiment files given")
    return tuple(files.values())


def experiment_requests(experiment: Experiment, seed: int) -> RequestTable:
    """One realisation of what the load generator sent.

    Parameters
    ----------
    experiment : Experiment
        Run to repeat.
    seed : int
        Seed of arrivals, prompt order and lengths.

    Returns
    -------
    RequestTable
        `group` is the stage.
    """
    return materialise(experiment.workload, seed)


def duplicate_runs(experiments: Sequence[Experiment]) -> tuple[tuple[str, ...], ...]:
    """Runs that occur more than once under different ids.

    Parameters
    ----------
    experiments : sequence of Experiment
        Runs to look through.

    Returns
    -------
    tuple of tuple of str
        Ids of each set of equal runs; empty when all differ.
    """
    ids: dict[str, list[str]] = {}
    for experiment in experiments:
        ids.setdefault(experiment.content_hash, []).append(experiment.id)
    return tuple(tuple(same) for same in ids.values() if len(same) > 1)


def _refuse_same_ids(experiments: Sequence[Experiment | UnusableExperiment]) -> None:
    paths: dict[str, str] = {}
    for experiment in experiments:
        if experiment.id in paths:
            raise InputError(
                f"{experiment.path}: id {experiment.id!r} is also that of {paths[experiment.id]}"
            )
        paths[experiment.id] = experiment.path


def _subfolders(path: Path) -> str:
    names = sorted({p.parent.relative_to(path).as_posix() for p in path.glob("*/*.y*ml")})
    return f"; name one of its folders: {', '.join(names)}" if names else ""


def _deployment(fields: Fields) -> tuple[Deployment, tuple[str, ...]]:
    for key in ("pipeline_parallel", "context_parallel"):
        if fields.whole(key, 1) != 1:
            raise InputError(f"{fields.where}: {key} above 1 is not supported")
    model, gpu = fields.text("model"), fields.text("gpu")
    sizes = {key: fields.whole(key, 1) for key in ("tensor_parallel", "data_parallel")}
    weights, kv_dtype = fields.text("weights", None), fields.text("kv_dtype", "auto")
    if weights is not None:
        weights = _WEIGHTS.get(weights.lower(), weights.lower())
    table = fields.table("engine") or fields.nested({}, "engine")
    settings, kv_blocks = _engine(table)
    ignored = (*fields.ignore_unused(), *table.ignore_unused())
    with _served(fields.where):
        deployment = Deployment(
            llm=llm(model),
            accelerator=accelerator(gpu),
            engine=EngineSettings(**settings),
            weights=weights,
            kv_dtype=kv_dtype,
            kv_blocks=kv_blocks,
            **sizes,
        )
    return deployment, ignored


@contextmanager
def _served(where: str) -> Iterator[None]:
    """Put the place in front of complaints; what a file says is no usage error."""
    try:
        yield
    except (CatalogError, CapacityError) as error:
        raise type(error)(f"{where}: {error}") from error
    except (UsageError, InputError) as error:
        raise InputError(f"{where}: {error}") from error


def _engine(table: Fields) -> tuple[dict[str, Any], int | None]:
    readers = {
        "name": table.text,
        "version": table.text,
        "max_num_seqs": table.whole,
        "max_num_batched_tokens": table.whole,
        "max_model_len": table.whole,
        "block_size": table.whole,
        "gpu_memory_utilization": table.number,
        "prefix_caching": table.flag,
        "chunked_prefill": table.flag,
        "long_prefill_token_threshold": table.whole,
        "scheduler": table.text,
        "async_scheduling": table.flag,
        "kv_cpu_offload": table.flag,
        "enforce_eager": table.flag,
    }
    given = {key: read(key, None) for key, read in readers.items()}
    settings = {key: value for key, value in given.items() if value is not None}
    return settings, table.whole("kv_blocks", None)


def _content_hash(
    read: dict[str, str],
    deployment: Deployment,
    workload: Workload,
    observed: tuple[Observed, ...],
) -> str:
    """Digest of what was read, with names and remarks in one spelling or left out."""
    parts = (".deployment", ".workload")
    remarks = {".workload." + key for key in ("name", "kind", "order", "repetition_evidence")}
    meaning = {k: v for k, v in read.items() if k.startswith(parts) and k not in remarks}
    meaning[".deployment.model"] = deployment.llm.name
    meaning[".deployment.gpu"] = deployment.accelerator.name
    meaning[".workload.arrivals"] = f"{workload.process.process} {workload.process.cv}"
    for kind in workload.classes:
        if kind.repeat is not None:
            meaning[f".workload.order {kind.name}"] = kind.repeat.order
    for record in observed:
        value = f"{record.value:.9g} {record.n_requests}"
        meaning[f".observed {record.stage} {record.metric} {record.statistic}"] = value
    return hashlib.sha256(json.dumps(meaning, sort_keys=True).encode()).hexdigest()
