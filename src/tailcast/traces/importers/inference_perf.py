"""Reports of inference-perf: every request, or the statistics of its stages."""

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import InputError
from tailcast.traces.importers.findings import Findings
from tailcast.traces.importers.imported import Imported, ReadOptions, imported
from tailcast.traces.importers.json_table import JsonTable
from tailcast.traces.importers.request_rows import RequestRows
from tailcast.traces.importers.sample import Sample
from tailcast.traces.importers.stage_statistics import statistic_records, under_contract
from tailcast.traces.run_summary import Lengths, RunSummary, Stage
from tailcast.traces.trace_header import TraceHeader, TraceServer

NAME = "inference-perf"

_EACH = "per_request_lifecycle_metrics.json"
_STAGE = re.compile(r"stage_(\d+)_lifecycle_metrics\.json")
_WHOLE = "summary_lifecycle_metrics.json"
_METRICS = {
    "time_to_first_token": "ttft",
    "request_latency": "e2e",
    "time_per_output_token": "tpot",
    "inter_token_latency": "itl",
}
_PERCENTILE = re.compile(r"p\d{1,2}(?:\.\d+)?")
_COUNTERS = ("completion_tokens", "output_tokens")


def recognises(sample: Sample) -> bool:
    """Whether a folder or file is a report of inference-perf.

    Parameters
    ----------
    sample : Sample
        What may be one.

    Returns
    -------
    bool
        By the names of the files, or the keys at the start.
    """
    if sample.is_folder:
        return any(name in {_EACH, _WHOLE} or _STAGE.fullmatch(name) for name in sample.names)
    stages = sample.has_keys("load_summary", "successes")
    each = sample.head.lstrip()[:1] == "[" and sample.has_keys("start_time", "end_time")
    return stages or (each and ("request" in sample.keys or "info" in sample.keys))


def read(sample: Sample, options: ReadOptions) -> Imported:
    """Report of a run.

    A folder with every request gives a trace, whose groups are the stages where their reports are
    beside it; a folder or file of statistics gives those. TTFT, E2E and TPOT count from the start
    of the request, as the contract has it, ITL are gaps; the tool's normalised time per output
    token is E2E by token, no TPOT, and is refused. Token counts are the server's where it told
    them, else the number asked for where the end of sequence was ignored, else the client's own.

    Parameters
    ----------
    sample : Sample
        Folder of a report, or one of its files.
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
    if sample.is_folder and _EACH in sample.names:
        return _read_each(sample.inside(_EACH), findings, _stage_sizes(sample))
    if not sample.is_folder and sample.head.lstrip()[:1] == "[":
        return _read_each(sample, findings, [])
    if sample.is_folder:
        names = sorted(
            (name for name in sample.names if _STAGE.fullmatch(name)),
            key=lambda name: int(_STAGE.fullmatch(name)[1]),  # type: ignore[index]
        )
        tables = [sample.inside(name).table() for name in names or [_WHOLE]]
    else:
        tables = [sample.table()]
    stages = tuple(_stage(table, i, findings) for i, table in enumerate(tables))
    run = RunSummary(id=_name(sample.path), server=TraceServer(), stages=stages)
    findings.count("read", len(stages))
    return imported(NAME, findings, (run,))


def _name(path: Path) -> str:
    return path.name.removesuffix(".json") or "inference-perf"


def _stage_sizes(sample: Sample) -> list[int]:
    """Requests of each stage, by the reports beside the requests."""
    sizes: dict[int, int] = {}
    for name in sample.names:
        if match := _STAGE.fullmatch(name):
            load = sample.inside(name).table().table("load_summary")
            sizes[int(match[1])] = load.whole("count", 0)
    return [sizes[i] for i in sorted(sizes)]


def _read_each(sample: Sample, findings: Findings, sizes: list[int]) -> Imported:
    document = sample.document
    if not isinstance(document, list):
        raise InputError(f"{sample.path}: expected a list of requests")
    rows = RequestRows(findings=findings)
    sources: dict[str, int] = {}
    starts = []
    for i, entry in enumerate(document):
        table = JsonTable(entry, f"{sample.path}: requests[{i}]")
        starts.append(table.number("start_time", least=0))
        source = _add_request(rows, table)
        sources[source] = sources.get(source, 0) + 1
    if rows.cells:
        rows.cells["group"] = _groups(np.array(starts), sizes, findings).tolist()
    _say_sources(sources, findings, sample.path.name)
    findings.note(
        "arrivals are the starts of the requests: the file does not hold when they were due, so "
        "the client's lateness is not known"
    )
    trace, tokens = rows.trace(TraceHeader(mode="real"))
    return imported(NAME, findings, trace, tokens)


def _say_sources(sources: dict[str, int], findings: Findings, name: str) -> None:
    texts = {
        "asked": "output lengths are those asked for (ignore_eos), since the server told none",
        "client": "output lengths are the client's re-tokenised text, up to a quarter off",
    }
    for source, text in texts.items():
        if n := sources.get(source, 0):
            findings.note(f"in {n} requests {text}")
    if sources.get("client"):
        findings.whole(
            "count", "output tokens were counted again from the text", name, severe=False
        )


def _add_request(rows: RequestRows, table: JsonTable) -> str:
    """Add one request; where its output length is from."""
    info = table.table("info")
    answer = info.table("response_metrics")
    start, end = table.number("start_time", least=0), table.number("end_time", least=0)
    failed = "error" in table
    asked, ignore_eos, prompt = _body(table)
    usage = answer.table("server_usage")
    told = next((usage.whole(key) for key in _COUNTERS if key in usage), None)
    inner = info.table("request_metrics").table("text")
    counted = usage.whole("prompt_tokens", 0) or inner.whole("input_tokens", 0)
    counted = counted or info.whole("input_tokens", 0) or prompt
    client = answer.whole("output_tokens", 0) or info.whole("output_tokens", 0)
    output, source = client, "client"
    if told is not None:
        output, source = told, "server"
    elif ignore_eos and asked:
        output, source = asked, "asked"
    events = _events(info, answer, source == "client", output)
    cached = usage.table("prompt_tokens_details").whole("cached_tokens", 0)
    rows.add(
        arrival=start,
        send=start,
        first=math.nan if failed or events is None else float(events[0]),
        last=math.nan if failed else (float(events[-1]) if events is not None else end),
        input_tokens=counted,
        output_tokens=0 if failed and events is None else output,
        events=None if failed else events,
        status="error" if failed else "ok",
        error_message=_error(table),
        server_input_tokens=usage.whole("prompt_tokens", 0),
        cached_tokens=cached,
        session_id=table.text("session_id", ""),
    )
    return "failed" if failed else source


def _error(table: JsonTable) -> str:
    if "error" not in table:
        return ""
    value = table.value["error"]
    if isinstance(value, dict):
        value = value.get("error_msg") or value.get("error_type") or "error"
    return str(value)[:200]


def _body(table: JsonTable) -> tuple[int, bool, int]:
    """Output tokens asked for, whether the end of sequence is ignored, prompt tokens if listed."""
    text = table.value.get("request")
    body: Any = None
    if isinstance(text, str):
        try:
            body = json.loads(text)
        except ValueError:
            body = None
    if not isinstance(body, dict):
        return 0, False, 0
    asked = body.get("max_tokens") or body.get("max_completion_tokens") or 0
    prompt = body.get("prompt")
    listed = isinstance(prompt, list) and all(isinstance(token, int) for token in prompt)
    ignore = body.get("ignore_eos") is True or body.get("min_tokens") == asked
    whole = asked if isinstance(asked, int) and not isinstance(asked, bool) else 0
    return max(whole, 0), ignore, len(prompt) if listed and prompt else 0


def _events(
    info: JsonTable, answer: JsonTable, recounted: bool, output: int
) -> NDArray[np.float64] | None:
    """Times of the tokens, or of the chunks where these are nearer to the number of tokens."""
    found = []
    for table, key in (
        (answer, "output_token_times"),
        (info, "output_token_times"),
        (answer, "chunk_times"),
    ):
        if key in table and len(table.listed(key)):
            found.append(table.numbers(key, least=0))
    if not found:
        return None
    times = min(found, key=lambda events: abs(len(events) - output)) if not recounted else found[0]
    return np.sort(times)


def _groups(start: NDArray[np.float64], sizes: list[int], findings: Findings) -> NDArray[np.int64]:
    """Stage of each request: the stages follow each other, so that their sizes tell."""
    if not sizes:
        return np.zeros(len(start), dtype=np.int64)
    if sum(sizes) != len(start):
        findings.whole(
            "count", f"{len(start)} requests, but the stages had {sum(sizes)}", severe=True
        )
        return np.zeros(len(start), dtype=np.int64)
    groups = np.empty(len(start), dtype=np.int64)
    groups[np.argsort(start, kind="stable")] = np.repeat(np.arange(len(sizes)), sizes)
    findings.note("groups are the stages, told apart by their sizes and the order of sending")
    return groups


def _stage(table: JsonTable, index: int, findings: Findings) -> Stage:
    load, good = table.table("load_summary"), table.table("successes")
    n = good.whole("count", 0)
    failed = table.table("failures").whole("count", 0)
    outputs, recounted = _output_lengths(good)
    place = f"stage {index}"
    latency = good.table("latency")
    records = []
    for theirs, ours in _METRICS.items():
        values = _values(latency.table(theirs))
        if ours == "tpot" and recounted:
            findings.note(
                f"{place}: TPOT was counted in re-tokenised text, {recounted:.0%} off; refused"
            )
            continue
        records += statistic_records(
            ours,
            values,
            scale=1.0,
            n_requests=n,
            findings=findings,
            place=f"{place} {theirs}",
        )
    if "normalized_time_per_output_token" in latency:
        findings.note("normalised time per output token is E2E by token, no TPOT; refused")
    rate = load.maybe("requested_rate", least=0)
    users = load.maybe("concurrency", least=0)
    delay = load.table("schedule_delay").maybe("p99")
    if delay > 0.005:
        findings.whole(
            "late client",
            f"1 % of the requests were sent over {delay * 1e3:.3g} ms late",
            f"{place} schedule_delay",
            severe=False,
        )
    if math.isnan(rate) and math.isnan(users):
        findings.note(f"{place}: the rate is the one achieved; the one asked for is not there")
    send = load.maybe("send_duration", least=0)
    total = load.whole("count", n + failed)
    achieved = load.maybe("achieved_rate", least=0)
    closed = users > 0
    return Stage(
        name=f"{users:g} users" if closed else f"{rate if rate > 0 else achieved:g}/s",
        rate=math.nan if closed else (rate if rate > 0 else achieved),
        rate_is_offered=rate > 0,
        concurrency=int(users) if closed else None,
        duration=total / rate if rate > 0 and not closed else send,
        n_requests=n,
        n_failed=failed,
        input_tokens=_lengths(good, ("prompt_tokens", "prompt_len")),
        output_tokens=outputs,
        observed=under_contract(records, outputs, findings, place),
    )


def _values(table: JsonTable) -> dict[str, float]:
    inner = table.table("percentiles")
    values = {}
    for source in (table, inner):
        for key in source.value:
            if key in {"mean", "min", "max", "median"} or _PERCENTILE.fullmatch(key):
                values["p50" if key == "median" else key] = source.maybe(key)
    return values


def _lengths(good: JsonTable, keys: tuple[str, ...]) -> Lengths:
    for key in keys:
        table = good.table(key)
        if "mean" in table:
            values = _values(table)
            quantiles = {float(k[1:]) / 100: v for k, v in values.items() if k[0] == "p"}
            return Lengths(
                mean=values["mean"],
                low=values.get("min", math.nan),
                high=values.get("max", math.nan),
                quantiles=dict(sorted(quantiles.items())),
            )
    return Lengths()


def _output_lengths(good: JsonTable) -> tuple[Lengths, float]:
    """Output lengths, and by how much the client's count is off where the server told its own."""
    told, client = _lengths(good, ("output_tokens",)), _lengths(good, ("output_len",))
    if told.known and client.known:
        off = abs(client.mean / told.mean - 1) if told.mean > 0 else 0.0
        return told, off if off > 0.02 else 0.0
    return (told if told.known else client), 0.0
