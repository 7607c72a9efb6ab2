"""Scrapes of an engine's metrics: histograms of latencies and lengths."""

import math
from pathlib import Path

from tailcast.errors import InputError
from tailcast.traces.importers.exposition import Exposition, Histogram, read_exposition
from tailcast.traces.importers.findings import Findings
from tailcast.traces.importers.imported import Imported, ReadOptions, imported
from tailcast.traces.importers.sample import Sample
from tailcast.traces.observed import Observed
from tailcast.traces.run_summary import Lengths, QuantileBounds, RunSummary, Stage
from tailcast.traces.trace_files import FILE_NAMES
from tailcast.traces.trace_header import TraceServer

NAME = "prometheus"

_STATISTICS = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
# vLLM's time_per_output_token_seconds observes every gap, whatever its name says.
_FAMILIES = {
    "time_to_first_token_seconds": "ttft",
    "inter_token_latency_seconds": "itl",
    "time_per_output_token_seconds": "itl",
    "request_time_per_output_token_seconds": "tpot",
    "e2e_request_latency_seconds": "e2e",
    "request_queue_time_seconds": "queue_delay",
    "queue_time_seconds": "queue_delay",
}
_INPUT = ("request_prompt_tokens", "prompt_tokens_histogram")
_OUTPUT = ("request_generation_tokens", "generation_tokens_histogram")
_ENGINES = {"vllm:": "vllm", "sglang:": "sglang"}


def recognises(sample: Sample) -> bool:
    """Whether a file is a scrape of an engine, or a folder has one and no trace.

    Parameters
    ----------
    sample : Sample
        What may be one.

    Returns
    -------
    bool
        By the names of the series or of the files.
    """
    if sample.is_folder:
        return FILE_NAMES["metrics_after"] in sample.names and (
            FILE_NAMES["requests"] not in sample.names
        )
    return any(line.startswith(tuple(_ENGINES)) for line in sample.head.splitlines())


def read(sample: Sample, options: ReadOptions) -> Imported:
    """Statistics of a scrape, or of what happened between two.

    Means are exact (sum over count); of a quantile only the bucket that it lies in is known, so
    quantiles are bounds and no values. Times are the server's: TTFT and E2E count from the arrival
    at the API server, without the network.

    Parameters
    ----------
    sample : Sample
        Scrape, or a folder with one from before and one from after a run.
    options : ReadOptions
        The scrape from before.

    Returns
    -------
    Imported
        The statistics of one run.

    Raises
    ------
    InputError
        If the scrapes do not belong together, hold several models, or no latency at all.
    """
    before = options.before
    if sample.is_folder:
        earlier = FILE_NAMES["metrics_before"]
        if before is None and earlier in sample.names:
            before = sample.path / earlier
        sample = sample.inside(FILE_NAMES["metrics_after"])
    findings = Findings(str(sample.path))
    page = read_exposition(sample)
    findings.count("read", page.n_lines)
    prefix = next((p for p in _ENGINES if any(n.startswith(p) for n in page.samples)), None)
    if prefix is None:
        raise InputError(f"{sample.path}: no series of vLLM or SGLang in this scrape")
    models = page.labels("model_name", prefix)
    if len(models) > 1:
        raise InputError(
            f"{sample.path}: series of several models ({', '.join(models)}) are not mixed; keep "
            "the lines of one"
        )
    first = None if before is None else _earlier(before, models, prefix, findings)
    if first is None:
        findings.note(
            "counts are since the server started, warm-up included; give a scrape from "
            "before the run to take it off"
        )
    stage = _stage(page, first, prefix, findings)
    server = _server(page, prefix, models)
    run = RunSummary(id=sample.path.stem, server=server, stages=(stage,))
    findings.note(
        "times are the server's own, from arrival at the API server; quantiles are known "
        "by bucket only, means are exact"
    )
    return imported(NAME, findings, (run,))


def _earlier(path: Path, models: tuple[str, ...], prefix: str, findings: Findings) -> Exposition:
    page = read_exposition(Sample(path))
    found = page.labels("model_name", prefix)
    if found and found != models:
        raise InputError(f"{path}: is of {', '.join(found)}, not of {', '.join(models)}")
    findings.note(f"the counts of {path.name} were taken off")
    return page


def _family(
    page: Exposition, first: Exposition | None, name: str, findings: Findings
) -> Histogram | None:
    try:
        last = page.histogram(name)
        earlier = None if first is None else first.histogram(name)
        if last is None or earlier is None:
            return last
        return last.since(earlier)
    except InputError as error:
        raise InputError(f"{findings.path}: {name}: {error}") from error


def _stage(page: Exposition, first: Exposition | None, prefix: str, findings: Findings) -> Stage:
    records: list[Observed] = []
    bounds: list[QuantileBounds] = []
    seen: set[str] = set()
    n_requests = 0
    for name, metric in _FAMILIES.items():
        histogram = _family(page, first, prefix + name, findings)
        if histogram is None or metric in seen or not histogram.n:
            continue
        seen.add(metric)
        if name == "time_per_output_token_seconds":
            findings.note("time_per_output_token_seconds observes every gap; it is taken as ITL")
        if metric == "e2e":
            n_requests = histogram.n
        bounds += _bounds(metric, histogram)
        if histogram.mean > 0:
            records.append(Observed(stage=0, metric=metric, statistic="mean", value=histogram.mean))
    if not records:
        raise InputError(f"{findings.path}: no latencies between these scrapes")
    inputs = _lengths(page, first, prefix, _INPUT, findings)
    outputs = _lengths(page, first, prefix, _OUTPUT, findings)
    return Stage(
        name="scrape",
        n_requests=n_requests,
        input_tokens=inputs,
        output_tokens=outputs,
        observed=tuple(records),
        bounds=tuple(bounds),
    )


def _bounds(metric: str, histogram: Histogram) -> list[QuantileBounds]:
    found = []
    for statistic, q in _STATISTICS.items():
        low, high = histogram.bounds(q)
        found.append(
            QuantileBounds(metric=metric, statistic=statistic, low=low, high=high, n=histogram.n)
        )
    return found


def _lengths(
    page: Exposition,
    first: Exposition | None,
    prefix: str,
    names: tuple[str, ...],
    findings: Findings,
) -> Lengths:
    for name in names:
        histogram = _family(page, first, prefix + name, findings)
        if histogram is not None and histogram.n:
            return Lengths(mean=histogram.mean)
    return Lengths()


def _server(page: Exposition, prefix: str, models: tuple[str, ...]) -> TraceServer:
    info = dict(page.samples.get(f"{prefix}cache_config_info", [((), 0.0)])[0][0])

    def whole(key: str) -> int | None:
        return int(info[key]) if info.get(key, "").isdigit() else None

    caching = info.get("enable_prefix_caching")
    share = info.get("gpu_memory_utilization", "")
    return TraceServer(
        type=_ENGINES[prefix],
        model=models[0] if models else None,
        block_size=whole("block_size"),
        kv_blocks=whole("num_gpu_blocks"),
        prefix_caching=None if caching is None else caching == "True",
        gpu_memory_utilization=_share(share),
    )


def _share(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
