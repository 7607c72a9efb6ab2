"""Any known file, recognised by itself."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tailcast.errors import InputError, UsageError, near_name
from tailcast.traces.importers import (
    aiperf_records,
    arrival_tables,
    genai_perf_records,
    genai_perf_summary,
    guidellm_csv,
    guidellm_json,
    inference_perf,
    llmservingsim,
    mooncake,
    otlp,
    own_formats,
    prometheus,
    servegen,
    vllm_bench,
    vllm_steps,
)
from tailcast.traces.importers.imported import Imported, ReadOptions
from tailcast.traces.importers.sample import Sample
from tailcast.traces.raw_table import Fault
from tailcast.traces.tracev2 import Trace

_BY_LINE = {
    aiperf_records.NAME,
    arrival_tables.AZURE,
    arrival_tables.BURSTGPT,
    arrival_tables.TABLE,
    llmservingsim.NAME,
    mooncake.NAME,
    prometheus.NAME,
    vllm_bench.CSV_NAME,
    vllm_steps.NAME,
    vllm_steps.CSV_NAME,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Importer:
    """One format that can be read.

    Parameters
    ----------
    name : str
        Short name, for ``--from``.
    title : str
        What it is.
    gives : str
        ``trace``, ``summary``, ``steps`` or ``workload`` (a trace without latencies); with a slash
        where it depends on the file.
    takes : tuple of str
        Read options that mean something for it.
    recognises : callable
        Whether a sample is of it.
    read : callable
        Reads a sample.
    """

    name: str
    title: str
    gives: str
    takes: tuple[str, ...] = ()
    recognises: Callable[[Sample], bool]
    read: Callable[[Sample, ReadOptions], Imported]

    @property
    def by_line(self) -> bool:
        """Whether each line of the file stands for itself, so that a cut leaves a whole file."""
        return self.name in _BY_LINE


def _importer(
    name: str,
    title: str,
    gives: str,
    recognises: Callable[[Sample], bool],
    read: Callable[[Sample, ReadOptions], Imported],
    *takes: str,
) -> Importer:
    return Importer(
        name=name, title=title, gives=gives, takes=takes, recognises=recognises, read=read
    )


IMPORTERS: tuple[Importer, ...] = (
    _importer(
        own_formats.TRACE,
        "TraceV2: header.yaml with requests.csv",
        "trace",
        own_formats.recognises_trace,
        own_formats.read_own_trace,
    ),
    _importer(
        own_formats.EXPERIMENT,
        "experiment: YAML of deployment, workload, observed",
        "summary",
        own_formats.recognises_experiment,
        own_formats.read_own_experiment,
    ),
    _importer(
        vllm_bench.NAME,
        "vllm bench serve, SGLang bench_serving: JSON",
        "trace/summary",
        vllm_bench.recognises,
        vllm_bench.read,
    ),
    _importer(
        vllm_bench.CSV_NAME,
        "table of vllm bench serve results: CSV",
        "summary",
        vllm_bench.recognises_csv,
        vllm_bench.read_csv,
    ),
    _importer(
        inference_perf.NAME,
        "inference-perf: folder, per-request or stage JSON",
        "trace/summary",
        inference_perf.recognises,
        inference_perf.read,
    ),
    _importer(
        guidellm_json.NAME,
        "guidellm: JSON",
        "trace/summary",
        guidellm_json.recognises,
        guidellm_json.read,
    ),
    _importer(
        guidellm_csv.NAME,
        "guidellm: CSV",
        "summary",
        guidellm_csv.recognises,
        guidellm_csv.read,
    ),
    _importer(
        aiperf_records.NAME,
        "aiperf: profile_export.jsonl",
        "trace",
        aiperf_records.recognises,
        aiperf_records.read,
    ),
    _importer(
        genai_perf_summary.NAME,
        "aiperf, genai-perf: summary in JSON or CSV",
        "summary",
        genai_perf_summary.recognises,
        genai_perf_summary.read,
    ),
    _importer(
        genai_perf_records.NAME,
        "genai-perf: profile_export.json of Perf Analyzer",
        "trace",
        genai_perf_records.recognises,
        genai_perf_records.read,
    ),
    _importer(
        llmservingsim.NAME,
        "LLMServingSim bench: requests.jsonl with meta.json",
        "trace",
        llmservingsim.recognises,
        llmservingsim.read,
        "clock",
    ),
    _importer(
        prometheus.NAME,
        "Prometheus text of vLLM or SGLang",
        "summary",
        prometheus.recognises,
        prometheus.read,
        "before",
    ),
    _importer(otlp.NAME, "OpenTelemetry spans: OTLP JSON", "trace", otlp.recognises, otlp.read),
    _importer(
        vllm_steps.NAME,
        "vLLM log with --enable-logging-iteration-details",
        "steps",
        vllm_steps.recognises,
        vllm_steps.read,
    ),
    _importer(
        vllm_steps.CSV_NAME,
        "engine steps: CSV of this project",
        "steps",
        vllm_steps.recognises_csv,
        vllm_steps.read_csv,
    ),
    _importer(
        arrival_tables.AZURE,
        "Azure LLM inference trace 2023, 2024: CSV",
        "workload",
        arrival_tables.recognises_azure,
        arrival_tables.read_azure,
        "limit",
        "window",
    ),
    _importer(
        arrival_tables.BURSTGPT,
        "BurstGPT: CSV",
        "workload",
        arrival_tables.recognises_burstgpt,
        arrival_tables.read_burstgpt,
        "limit",
        "window",
    ),
    _importer(
        mooncake.NAME,
        "Mooncake trace: JSON Lines, Parquet",
        "workload",
        mooncake.recognises,
        mooncake.read,
        "limit",
        "window",
    ),
    _importer(
        servegen.NAME,
        "ServeGen pool: chunk-N-trace.csv with chunk-N-dataset.json",
        "workload",
        servegen.recognises,
        servegen.read,
        "limit",
        "window",
        "seed",
    ),
    _importer(
        arrival_tables.TABLE,
        "arrivals and lengths: CSV",
        "workload",
        arrival_tables.recognises_table,
        arrival_tables.read_table,
        "limit",
        "window",
    ),
)


def importer(name: str) -> Importer:
    """Format by its name.

    Parameters
    ----------
    name : str
        One of ``IMPORTERS``.

    Returns
    -------
    Importer
        The format.

    Raises
    ------
    UsageError
        If there is none of that name.
    """
    for known in IMPORTERS:
        if known.name == name:
            return known
    raise UsageError(f"no format {name!r}; {near_name(name, [i.name for i in IMPORTERS])}")


def recognise(path: Path | str) -> Importer:
    """Format of a file or folder.

    Parameters
    ----------
    path : pathlib.Path or str
        What to look at; only its beginning is read, and the names in a folder.

    Returns
    -------
    Importer
        The one format that it is.

    Raises
    ------
    InputError
        If it is none that is known, or looks like several.
    """
    path = Path(path)
    if own_formats.trace_by_prefix(path) is not None:
        return importer(own_formats.TRACE)
    return _recognised(Sample(path))


def read_any(
    path: Path | str, *, name: str | None = None, options: ReadOptions | None = None
) -> Imported:
    """Content of a file or folder of any known format.

    Parameters
    ----------
    path : pathlib.Path or str
        What to read.
    name : str, optional
        Its format; recognised where absent.
    options : ReadOptions, optional
        What the format may be told.

    Returns
    -------
    Imported
        Content in this project's terms, with notes, faults and counts.

    Raises
    ------
    InputError
        If the format is not recognised or the content malformed.
    UsageError
        If the format is unknown, or an option means nothing for it.
    """
    path, options = Path(path), options or ReadOptions()
    files = own_formats.trace_by_prefix(path)
    if files is not None and name in {None, own_formats.TRACE}:
        return own_formats.read_trace_files(files, path)
    sample = Sample(path)
    known = _recognised(sample) if name is None else importer(name)
    for option in ("clock", "before", "limit", "window"):
        if getattr(options, option) != getattr(ReadOptions(), option) and option not in known.takes:
            takers = [i.name for i in IMPORTERS if option in i.takes]
            raise UsageError(
                f"{option} means nothing for {known.name}; it is for {', '.join(takers)}"
            )
    found = known.read(sample, options)
    if known.by_line and sample.cut and not any(f.kind == "truncated" for f in found.faults):
        message = "the last line has no end: was the file cut off?"
        fault = Fault(
            kind="truncated", file=path.name, line=0, column="", message=message, severe=False
        )
        return replace(found, faults=(*found.faults, fault))
    return found


def read_requests(
    path: Path | str, *, name: str | None = None, options: ReadOptions | None = None
) -> tuple[Trace, Imported]:
    """Requests of a file or folder of any known format that has them one by one.

    Parameters
    ----------
    path : pathlib.Path or str
        What to read.
    name : str, optional
        Its format; recognised where absent.
    options : ReadOptions, optional
        What the format may be told.

    Returns
    -------
    trace : Trace
        Without latencies where the file is a workload.
    found : Imported
        The same with notes, faults and counts.

    Raises
    ------
    InputError
        If the format is not recognised, the content malformed, or of statistics or steps alone.
    UsageError
        If the format is unknown, or an option means nothing for it.
    """
    found = read_any(path, name=name, options=options)
    if not isinstance(found.content, Trace):
        what = {"summary": "statistics", "steps": "engine steps"}[found.kind]
        raise InputError(f"{path} ({found.format}): holds {what}, no requests that can be sent")
    return found.content, found


def _recognised(sample: Sample) -> Importer:
    found = [known for known in IMPORTERS if known.recognises(sample)]
    if not found and sample.look_deeper():
        found = [known for known in IMPORTERS if known.recognises(sample)]
    if len(found) == 1:
        return found[0]
    if found:
        names = " and ".join(known.name for known in found)
        raise InputError(f"{sample.path}: looks like {names}; say which with --from")
    if not sample.is_folder and not sample.start.strip():
        packed = sample.path.suffix == ".gz" and sample.path.stat().st_size > 0
        raise InputError(f"{sample.path}: " + ("not a whole gzip file" if packed else "empty file"))
    what = "folder" if sample.is_folder else "file"
    names = ", ".join(known.name for known in IMPORTERS)
    raise InputError(f"{sample.path}: not a {what} of a known format; known: {names}")
