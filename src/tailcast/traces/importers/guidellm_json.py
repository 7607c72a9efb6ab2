"""Reports of guidellm in JSON: benchmarks with their requests."""

import math
from typing import Any

from tailcast.errors import InputError
from tailcast.traces.importers.findings import Findings
from tailcast.traces.importers.imported import Imported, ReadOptions, imported
from tailcast.traces.importers.json_table import JsonTable
from tailcast.traces.importers.request_rows import RequestRows
from tailcast.traces.importers.sample import Sample
from tailcast.traces.importers.stage_statistics import statistic_records, under_contract
from tailcast.traces.run_summary import Lengths, RunSummary, Stage
from tailcast.traces.trace_header import TraceHeader, TraceServer

NAME = "guidellm"

_STATUS = {"successful": "ok", "errored": "error", "incomplete": "incomplete"}
_SCHEDULED = {"constant", "poisson", "trace", "async", "replay"}
_PERCENTILES = {
    "p001": 0.001,
    "p01": 0.01,
    "p05": 0.05,
    "p10": 0.1,
    "p25": 0.25,
    "p50": 0.5,
    "p75": 0.75,
    "p90": 0.9,
    "p95": 0.95,
    "p99": 0.99,
    "p999": 0.999,
}


def recognises(sample: Sample) -> bool:
    """Whether a file is a JSON report of guidellm.

    Parameters
    ----------
    sample : Sample
        What may be one.

    Returns
    -------
    bool
        By the keys at its start.
    """
    if not sample.has_keys("benchmarks"):
        return False
    own = {"metadata", "args", "run_stats", "guidellm_version", "config", "type_", "kind"}
    return bool(own & sample.keys)


def read(sample: Sample, options: ReadOptions) -> Imported:
    """Report of guidellm: a trace whose groups are the benchmarks.

    TTFT and E2E count from the start of the request, as the contract has it. The tool's time per
    output token includes the first token and is refused; its inter-token latency is the mean of a
    request, no gap, so only TPOT is taken, from the first and the last token. There are no times
    of single tokens. Without requests in the file the statistics are taken.

    Parameters
    ----------
    sample : Sample
        The file.
    options : ReadOptions
        Nothing of it applies.

    Returns
    -------
    Imported
        A trace, or the statistics.

    Raises
    ------
    InputError
        If the file is malformed.
    """
    findings = Findings(str(sample.path))
    table = sample.table()
    benchmarks = table.tables("benchmarks")
    if not benchmarks:
        raise InputError(f"{sample.path}: no benchmarks")
    rows = RequestRows(findings=findings)
    for group, benchmark in enumerate(benchmarks):
        _add_benchmark(rows, benchmark, group)
    if not len(rows):
        findings.note("the report holds no requests, only statistics")
        runs = tuple(_run(b, i, len(benchmarks), findings) for i, b in enumerate(benchmarks))
        return imported(NAME, findings, runs)
    findings.note("the report has no times of single tokens, so there is no ITL")
    trace, _ = rows.trace(TraceHeader(mode="real", server=_server(table, benchmarks[0])))
    return imported(NAME, findings, trace)


def strategy_load(name: str, rate: float, users: float) -> dict[str, Any]:
    """Load of a stage by guidellm's strategy.

    Parameters
    ----------
    name : str
        ``synchronous``, ``concurrent``, ``throughput``, ``constant`` or ``poisson``.
    rate : float
        Requests/s, NaN where unknown.
    users : float
        Streams or the limit of concurrency, NaN where unknown.

    Returns
    -------
    dict
        ``rate``, ``concurrency``, ``arrivals`` of a `Stage`.
    """
    if name in {"synchronous", "concurrent", "throughput"}:
        limit = 1.0 if name == "synchronous" else users
        return {"rate": math.nan, "concurrency": None if math.isnan(limit) else int(limit)}
    arrivals = "constant" if name == "constant" else "poisson"
    return {"rate": rate, "concurrency": None, "arrivals": arrivals}


def _server(table: JsonTable, benchmark: JsonTable) -> TraceServer:
    config = benchmark.table("config")
    for source in (config.table("backend"), table.table("args"), benchmark.table("args")):
        for key in ("model", "backend_model"):
            if isinstance(source.value.get(key), str):
                return TraceServer(model=source.text(key))
    return TraceServer()


def _strategy(benchmark: JsonTable) -> tuple[str, float, float]:
    """Name, rate and concurrency of a benchmark's strategy, under the keys of any version."""
    for source in (benchmark.table("config"), benchmark.table("args"), benchmark):
        if isinstance(source.value.get("strategy"), dict):
            table = source.table("strategy")
            name = table.text("type_", table.text("kind", ""))
            rate = table.maybe("rate", least=0)
            keys = ("streams", "max_concurrency")
            users = next((table.number(k, least=1) for k in keys if k in table), math.nan)
            return name, rate, users
    return "", math.nan, math.nan


def _add_benchmark(rows: RequestRows, benchmark: JsonTable, group: int) -> None:
    requests = benchmark.table("requests")
    strategy = _strategy(benchmark)[0]
    kept = {}
    for key, status in _STATUS.items():
        tables = requests.tables(key)
        kept[key] = len(tables)
        for table in tables:
            _add_request(rows, table, group, status, strategy in _SCHEDULED)
    totals = benchmark.table("metrics").table("request_totals")
    for key, n in kept.items():
        told = totals.maybe(key, least=0)
        if n and told > n:
            rows.findings.whole(
                "count",
                f"{n} {key} requests of {told:.0f}: the report keeps a part of them",
                f"benchmarks[{group}].requests",
                severe=False,
            )


def _add_request(
    rows: RequestRows, table: JsonTable, group: int, status: str, scheduled: bool
) -> None:
    timings = table.table("info").table("timings")
    if not timings.value:
        timings = table.table("scheduler_info").table("request_timings")
    start = _first(table, timings, ("request_start", "request_start_time", "start_time"))
    end = _first(table, timings, ("request_end", "request_end_time", "end_time"))
    due = _first(table, timings, ("targeted_start",)) if scheduled else math.nan
    first = _first(table, timings, ("first_token_iteration", "first_token_time"))
    last = _first(table, timings, ("last_token_iteration", "last_token_time"))
    queued = _first(table, timings, ("queued", "resolve_start"))
    arrival = next((t for t in (due, start, queued, end) if math.isfinite(t)), math.nan)
    if not math.isfinite(arrival):
        raise InputError(f"{table.where}: the request has no start time")
    ok = status == "ok"
    ttft = table.maybe("time_to_first_token_ms", least=0)
    if math.isnan(first) and math.isfinite(ttft) and math.isfinite(start):
        first = start + ttft * 1e-3
    error = table.table("info").value.get("error") or table.value.get("error")
    rows.add(
        arrival=arrival,
        send=start,
        first=first if ok else math.nan,
        last=(last if math.isfinite(last) else end) if ok else math.nan,
        input_tokens=table.whole("prompt_tokens", 0),
        output_tokens=table.whole("output_tokens", 0),
        status=status,
        error_message=str(error or "")[:200],
        cached_tokens=table.whole("cached_tokens", 0),
        group=group,
    )


def _first(table: JsonTable, timings: JsonTable, keys: tuple[str, ...]) -> float:
    for source in (timings, table):
        for key in keys:
            if key in source:
                return source.number(key, least=0)
    return math.nan


def _run(benchmark: JsonTable, index: int, n_runs: int, findings: Findings) -> RunSummary:
    metrics = benchmark.table("metrics")
    totals = metrics.table("request_totals")
    place = f"benchmarks[{index}]"
    n = totals.whole("successful", 0)
    outputs = _lengths(metrics, "output_token_count")
    records = []
    for theirs, ours, scale in (
        ("time_to_first_token_ms", "ttft", 1e-3),
        ("request_latency", "e2e", 1.0),
    ):
        records += statistic_records(
            ours,
            _values(metrics.table(theirs).table("successful")),
            scale=scale,
            n_requests=n,
            findings=findings,
            place=f"{place} {theirs}",
        )
    refuse_guidellm_metrics(findings)
    strategy, rate, users = _strategy(benchmark)
    achieved = metrics.table("requests_per_second").table("successful").maybe("mean")
    load = strategy_load(strategy, rate if rate > 0 else achieved, users)
    duration = benchmark.maybe("duration", least=0)
    if math.isnan(duration):
        duration = benchmark.maybe("end_time") - benchmark.maybe("start_time")
    stage = Stage(
        name=strategy or place,
        rate_is_offered=rate > 0,
        duration=duration,
        n_requests=n,
        n_failed=totals.whole("errored", 0) + totals.whole("incomplete", 0),
        input_tokens=_lengths(metrics, "prompt_token_count"),
        output_tokens=outputs,
        observed=under_contract(records, outputs, findings, place),
        **load,
    )
    name = f"{strategy or 'benchmark'}-{index}" if n_runs > 1 else strategy or "guidellm"
    return RunSummary(id=name, server=_server(JsonTable({}, place), benchmark), stages=(stage,))


def refuse_guidellm_metrics(findings: Findings) -> None:
    """Note which statistics of guidellm are no like quantities.

    Parameters
    ----------
    findings : Findings
        Takes the notes.
    """
    findings.note("guidellm's time per output token includes the first token; refused")
    findings.note(
        "guidellm's inter-token latency is a mean by request, weighted by tokens: neither a gap "
        "nor a TPOT over requests; refused"
    )


def _values(table: JsonTable) -> dict[str, float]:
    values = {key: table.maybe(key) for key in ("mean", "min", "max")}
    values["p50"] = table.maybe("median")
    percentiles = table.table("percentiles")
    for key, q in _PERCENTILES.items():
        if key in percentiles and q != 0.5:
            values[f"p{q * 100:g}"] = percentiles.number(key)
    return {key: value for key, value in values.items() if math.isfinite(value)}


def _lengths(metrics: JsonTable, key: str) -> Lengths:
    table = metrics.table(key).table("successful")
    if "mean" not in table:
        return Lengths()
    values = _values(table)
    quantiles = {float(k[1:]) / 100: v for k, v in values.items() if k[0] == "p"}
    return Lengths(
        mean=values["mean"],
        sd=table.maybe("std_dev", least=0),
        low=values.get("min", math.nan),
        high=values.get("max", math.nan),
        quantiles=dict(sorted(quantiles.items())),
    )
