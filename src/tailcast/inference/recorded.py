"""Any recorded run, whatever tool wrote it, with the deployment that it was recorded on."""

import hashlib
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tailcast.deployment import Deployment
from tailcast.errors import InputError, UsageError
from tailcast.inference.evidence import content_hash
from tailcast.inference.population import deployment_key
from tailcast.inference.trace_input import StagedTrace, staged_trace
from tailcast.traces.experiment import Experiment, load_experiment
from tailcast.traces.experiment_file import Told, experiment_mappings, write_experiment
from tailcast.traces.importers.imported import Imported
from tailcast.traces.importers.reading import read_any, recognise
from tailcast.traces.run_summary import RunSummary
from tailcast.traces.step_log import StepLog
from tailcast.traces.token_times import TokenTimes
from tailcast.traces.trace_files import FILE_NAMES
from tailcast.traces.trace_header import TraceHeader, TraceServer, read_header
from tailcast.traces.trace_server import trace_deployment
from tailcast.traces.tracev2 import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """What the user says of the deployment, where a file does not say it or is wrong.

    Parameters
    ----------
    deployment : Deployment, optional
        All of it, from a study; what headers say is not looked at then.
    llm, gpu : str, optional
        Name or path; also where `deployment` is given.
    tensor_parallel : int, optional
        Accelerators per replica.
    """

    deployment: Deployment | None = None
    llm: str | None = None
    gpu: str | None = None
    tensor_parallel: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One run on record; one of `trace`, `log` and `experiment` is there.

    Parameters
    ----------
    name : str
        File or folder without its ending; the id of an experiment.
    path : str
        As the user named it.
    format : str
        Which tool's file it is.
    deployment : Deployment
        What served.
    sha256 : str
        Hash of the file.
    notes : tuple of str
        What was converted or assumed.
    trace : Trace, optional
        Requests one by one.
    staged : StagedTrace, optional
        The same, by stage.
    token_times : TokenTimes, optional
        Times of its tokens.
    log : StepLog, optional
        Engine steps one by one.
    experiment : Experiment, optional
        Statistics alone.
    """

    name: str
    path: str
    format: str
    deployment: Deployment
    sha256: str
    notes: tuple[str, ...] = ()
    trace: Trace | None = None
    staged: StagedTrace | None = None
    token_times: TokenTimes | None = None
    log: StepLog | None = None
    experiment: Experiment | None = None


def is_recorded(path: Path) -> bool:
    """Whether a path is a trace, step log or benchmark file rather than experiments.

    Parameters
    ----------
    path : pathlib.Path
        File or folder.

    Returns
    -------
    bool
        False also for what is not recognised at all.
    """
    try:
        return recognise(path).name != "experiment"
    except (InputError, OSError):
        return False


def header_deployment(header: TraceHeader, stated: Stated) -> Deployment:
    """Deployment that a trace was recorded on, with what the user says over what the header says.

    Parameters
    ----------
    header : TraceHeader
        Of the trace.
    stated : Stated
        What the user says.

    Returns
    -------
    Deployment
        Figures that belong to another LLM or accelerator (KV blocks, weights) are dropped.

    Raises
    ------
    UsageError
        If LLM or accelerator stand neither in the header nor in `stated`.
    CatalogError, CapacityError
        If they are unknown or do not fit.
    """
    if stated.deployment is not None:
        return stated.deployment
    server = header.server
    given = {
        "model": stated.llm,
        "accelerator": stated.gpu,
        "tensor_parallel": stated.tensor_parallel,
    }
    changed = {k: v for k, v in given.items() if v is not None and v != getattr(server, k)}
    told = any(getattr(server, key) is not None for key in changed)
    server = replace(server, **changed)  # type: ignore[arg-type]
    if told:
        server = replace(server, kv_blocks=None)
    if "model" in changed:
        server = replace(server, dtype=None)
    for key, flag in (("model", "--model"), ("accelerator", "--gpu")):
        if not getattr(server, key):
            raise UsageError(f"the trace header has no server.{key}; give {flag}")
    return trace_deployment(replace(header, server=server))


def read_recorded(path: Path, stated: Stated | None = None) -> tuple[Recorded, ...]:
    """Runs of a file or folder of any known format.

    Parameters
    ----------
    path : pathlib.Path
        Trace, step log, benchmark result, or experiment.
    stated : Stated, optional
        What the user says of the deployment.

    Returns
    -------
    tuple of Recorded
        One for a trace or log; one an experiment for summaries.

    Raises
    ------
    InputError
        If it is not recognised, malformed, or a workload without latencies.
    UsageError
        If LLM, accelerator or load are not known.
    CatalogError, CapacityError
        If they are unknown or do not fit.
    """
    stated = stated or Stated()
    found = read_any(path)
    notes = (*found.notes, *(str(fault) for fault in found.faults if fault.severe))
    name = path.resolve().name.split(".csv")[0].removesuffix(path.suffix)
    digest = _sha256(path)
    if found.kind == "summary":
        return _experiments(found, path, stated, notes, digest)
    header = _header(found, path)
    try:
        deployment = header_deployment(header, stated)
    except UsageError as error:
        raise UsageError(f"{path}: {error}") from error
    both = {
        "name": name,
        "path": str(path),
        "format": found.format,
        "deployment": deployment,
        "sha256": digest,
    }
    if isinstance(found.content, StepLog):
        return (Recorded(**both, log=found.content, notes=notes),)  # type: ignore[arg-type]
    trace = found.content
    if not isinstance(trace, Trace):
        raise InputError(f"{path}: neither requests nor steps one by one")
    try:
        staged = staged_trace(trace, token_times=found.token_times)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    return (
        Recorded(**both, trace=trace, staged=staged, token_times=found.token_times, notes=notes),  # type: ignore[arg-type]
    )


def _header(found: Imported, path: Path) -> TraceHeader:
    """Header of a trace; for a step log that of the trace beside it."""
    if isinstance(found.content, Trace):
        return found.content.header
    beside = path.parent / FILE_NAMES["header"]
    return read_header(beside) if beside.is_file() else TraceHeader(server=TraceServer())


def _experiments(
    found: Imported, path: Path, stated: Stated, notes: Sequence[str], digest: str
) -> tuple[Recorded, ...]:
    runs = found.content
    if not isinstance(runs, tuple):
        raise InputError(f"{path}: no statistics of runs")
    if found.format == "experiment":
        experiments = [load_experiment(path)]
    else:
        experiments = [e for run in runs for e in _of_summary(run, path, stated)]
    return tuple(
        Recorded(
            name=experiment.id,
            path=str(path),
            format=found.format,
            deployment=experiment.deployment,
            sha256=digest,
            notes=tuple(notes),
            experiment=experiment,
        )
        for experiment in experiments
    )


def _of_summary(run: RunSummary, path: Path, stated: Stated) -> list[Experiment]:
    """Experiments of another tool's summary, read as if they stood in files."""
    told = Told(model=stated.llm, gpu=stated.gpu, tensor_parallel=stated.tensor_parallel)
    experiments = []
    with tempfile.TemporaryDirectory() as scratch:
        for k, mapping in enumerate(experiment_mappings(run, told)):
            file = Path(scratch) / f"{k}.yaml"
            write_experiment(mapping, file)
            experiment = replace(load_experiment(file), path=str(path))
            experiments.append(_on(experiment, stated.deployment))
    return experiments


def _on(experiment: Experiment, deployment: Deployment | None) -> Experiment:
    if deployment is None:
        return experiment
    identity = (experiment.content_hash, deployment_key(deployment), deployment.engine)
    return replace(experiment, deployment=deployment, content_hash=content_hash(*identity))


def _sha256(path: Path) -> str:
    """Hash of a file; of a folder, of its requests."""
    digest = hashlib.sha256()
    if not path.exists():  # the common name of a header and a data file
        files = sorted(path.parent.glob(f"{path.name}.*"))
    elif path.is_dir():
        own = path / FILE_NAMES["requests"]
        files = [own] if own.is_file() else sorted(p for p in path.iterdir() if p.is_file())
    else:
        files = [path]
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest()
