"""Files of this project itself: traces and experiments."""

from pathlib import Path

from tailcast.errors import InputError
from tailcast.traces.experiment import load_experiment
from tailcast.traces.importers.findings import Findings
from tailcast.traces.importers.imported import Imported, ReadOptions, imported
from tailcast.traces.importers.sample import Sample
from tailcast.traces.run_summary import RunSummary, Stage
from tailcast.traces.token_times import read_token_times
from tailcast.traces.trace_faults import trace_faults
from tailcast.traces.trace_files import FILE_NAMES, TraceFiles, trace_files
from tailcast.traces.trace_server import server_of
from tailcast.traces.tracev2 import read_trace

TRACE, EXPERIMENT = "tracev2", "experiment"

_YAML = (".yaml", ".yml")


def recognises_trace(sample: Sample) -> bool:
    """Whether a folder or file is a TraceV2 trace.

    Parameters
    ----------
    sample : Sample
        What may be one.

    Returns
    -------
    bool
        By the names of the files, the header's keys or the columns.
    """
    if sample.is_folder:
        return {FILE_NAMES["header"], FILE_NAMES["requests"]} <= sample.names
    if sample.path.suffix in _YAML:
        return any(line.startswith("trace_version:") for line in sample.head.splitlines())
    return sample.has_columns("request_id", "arrival_time_us", "input_tokens")


def recognises_experiment(sample: Sample) -> bool:
    """Whether a file is an experiment.

    Parameters
    ----------
    sample : Sample
        What may be one.

    Returns
    -------
    bool
        By its keys.
    """
    if sample.path.suffix not in _YAML:
        return False
    starts = {line.split(":")[0] for line in sample.head.splitlines()}
    return {"deployment", "workload"} <= starts


def read_own_trace(sample: Sample, options: ReadOptions) -> Imported:
    """Trace in TraceV2.

    Parameters
    ----------
    sample : Sample
        Folder, or header or data file.
    options : ReadOptions
        Nothing of it applies.

    Returns
    -------
    Imported
        A trace with its token times, and the faults that `trace_faults` finds.

    Raises
    ------
    InputError
        If it cannot be read.
    """
    return read_trace_files(trace_files(sample.path), sample.path)


def read_trace_files(files: TraceFiles, path: Path) -> Imported:
    """Trace of known files.

    Parameters
    ----------
    files : TraceFiles
        Where it is.
    path : pathlib.Path
        As the user named it.

    Returns
    -------
    Imported
        A trace.
    """
    findings = Findings(str(path))
    trace = read_trace(files.header, files.requests)
    times = None if files.token_times is None else read_token_times(files.token_times, trace)
    findings.count("read", len(trace))
    if times is not None:
        findings.count("token times of requests that are not in the trace", times.n_unmatched)
    findings.faults += trace_faults(files)
    return imported(TRACE, findings, trace, times)


def read_own_experiment(sample: Sample, options: ReadOptions) -> Imported:
    """Experiment.

    Parameters
    ----------
    sample : Sample
        YAML file.
    options : ReadOptions
        Nothing of it applies.

    Returns
    -------
    Imported
        The statistics of one run.

    Raises
    ------
    InputError
        If it is malformed.
    """
    findings = Findings(str(sample.path))
    experiment = load_experiment(sample.path)
    stages = []
    loads = experiment.workload.stages or (None,)
    users = experiment.workload.concurrency
    for index, load in enumerate(loads):
        mine = [o for o in experiment.observed if o.stage == index]
        n = max((o.n_requests or 0 for o in mine), default=0)
        stages.append(
            Stage(
                name=f"{users.users} users" if users else "",
                rate=float("nan") if load is None else load.rate,
                concurrency=users.users if users else None,
                duration=float("nan") if load is None or load.duration is None else load.duration,
                n_requests=n,
                observed=tuple(mine),
            )
        )
    findings.count("read", len(stages))
    if not experiment.observed:
        findings.note("nothing was observed: the run is only to be predicted")
    run = RunSummary(
        id=experiment.id, server=server_of(experiment.deployment), stages=tuple(stages)
    )
    return imported(EXPERIMENT, findings, (run,))


def trace_by_prefix(path: Path) -> TraceFiles | None:
    """Files of a trace named without its endings.

    Parameters
    ----------
    path : pathlib.Path
        Common name of a header and a data file.

    Returns
    -------
    TraceFiles or None
        None where there are none.
    """
    if path.exists():
        return None
    try:
        return trace_files(path)
    except InputError:
        return None
