"""What was imported, written as this project's files."""

from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

from tailcast.errors import InputError, TailcastError, UsageError, near_name
from tailcast.traces.experiment import load_experiment
from tailcast.traces.experiment_file import (
    Told,
    experiment_mappings,
    summary_of_trace,
    write_experiment,
)
from tailcast.traces.importers.imported import Imported
from tailcast.traces.run_summary import RunSummary
from tailcast.traces.step_log import StepLog, write_step_log
from tailcast.traces.token_times import write_token_times
from tailcast.traces.trace_files import FILE_NAMES
from tailcast.traces.tracev2 import Trace, write_trace
from tailcast.whole_file import whole_file, whole_folder

TARGETS = ("tracev2", "experiment", "steps")
_USUAL = {"trace": "tracev2", "summary": "experiment", "steps": "steps"}


def write_imported(
    found: Imported, destination: Path, *, to: str | None = None, told: Told | None = None
) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    """Write what was imported; files and folders appear whole or not at all.

    Parameters
    ----------
    found : Imported
        What to write.
    destination : pathlib.Path
        New folder of a trace; YAML file of an experiment, or new folder where there are several;
        CSV file of steps.
    to : str, optional
        ``tracev2``, ``experiment`` or ``steps``; by its kind where absent.
    told : Told, optional
        What the user says where the file does not.

    Returns
    -------
    paths : tuple of pathlib.Path
        What was written.
    notes : tuple of str
        What was assumed on the way.

    Raises
    ------
    UsageError
        If the content cannot become that, or the destination cannot be written.
    InputError
        If something is missing in the file.
    """
    told = told or Told()
    to = to or _USUAL[found.kind]
    if to not in TARGETS:
        raise UsageError(f"no target {to!r}; {near_name(to, TARGETS)}")
    content = found.content
    try:
        if to == "tracev2" and isinstance(content, Trace):
            return _write_trace(found, content, destination, told), ()
        if to == "steps" and isinstance(content, StepLog):
            with _new_file(destination) as scratch:
                write_step_log(content, scratch)
            return (destination,), ()
        if to == "experiment" and not isinstance(content, StepLog):
            return _write_experiments(found, content, destination, told)
    except OSError as error:
        raise UsageError(f"{destination}: cannot be written ({error.strerror})") from error
    what = {"trace": "requests", "summary": "statistics", "steps": "engine steps"}[found.kind]
    raise UsageError(f"{found.path} holds {what}, which cannot become {to}")


def _write_trace(found: Imported, trace: Trace, destination: Path, told: Told) -> tuple[Path, ...]:
    server = trace.header.server
    server = replace(
        server,
        model=told.model or server.model,
        accelerator=told.gpu or server.accelerator,
        tensor_parallel=told.tensor_parallel or server.tensor_parallel,
    )
    origin = {"format": found.format, "file": Path(found.path).name, "notes": list(found.notes)}
    other = {**trace.header.other, "imported": {**origin, "counts": dict(found.counts)}}
    told_trace = replace(trace, header=replace(trace.header, server=server, other=other))

    with _new_folder(destination, FILE_NAMES["header"]) as scratch:
        write_trace(told_trace, scratch / FILE_NAMES["header"], scratch / FILE_NAMES["requests"])
        if found.token_times is not None:
            write_token_times(found.token_times, told_trace, scratch / FILE_NAMES["token_times"])
    return (destination,)


def _write_experiments(
    found: Imported, content: Trace | tuple[RunSummary, ...], destination: Path, told: Told
) -> tuple[tuple[Path, ...], tuple[str, ...]]:
    notes: tuple[str, ...] = ()
    if isinstance(content, Trace):
        run, notes = summary_of_trace(content, found.token_times, Path(found.path).stem)
        runs: tuple[RunSummary, ...] = (run,)
    else:
        runs = content
    mappings = [mapping for run in runs for mapping in experiment_mappings(run, told)]
    if len(mappings) == 1:
        with _new_file(destination) as scratch:
            write_experiment(mappings[0], scratch)
        paths: tuple[Path, ...] = (destination,)
    else:
        names = [f"{i:03d}-{_plain(mapping['id'])}.yaml" for i, mapping in enumerate(mappings)]
        for index, mapping in enumerate(mappings):
            mapping["id"] = names[index].removesuffix(".yaml")
        with _new_folder(destination, names[-1]) as scratch:
            for name, mapping in zip(names, mappings, strict=True):
                write_experiment(mapping, scratch / name)
        paths = tuple(destination / name for name in names)
    try:
        for path in paths:
            load_experiment(path)
    except TailcastError as error:
        notes = (*notes, f"cannot be simulated as it is: {error}")
    return paths, notes


def _plain(name: str) -> str:
    kept = "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in name)
    return kept.strip("-.") or "run"


def _new_file(path: Path) -> AbstractContextManager[Path]:
    if path.is_dir():
        raise InputError(f"{path}: is a folder; name a file")
    return whole_file(path)


def _new_folder(path: Path, last: str) -> AbstractContextManager[Path]:
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InputError(f"{path}: is there already; name a new folder")
    if not path.parent.is_dir():  # a slip in a name must not make folders
        raise UsageError(f"{path}: cannot be written (no folder {path.parent})")
    return whole_folder(path, last)
