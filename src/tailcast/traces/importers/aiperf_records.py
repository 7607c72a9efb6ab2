"""Records of aiperf: one request a line, each value with its unit."""

import math

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import InputError
from tailcast.traces.importers.findings import Findings
from tailcast.traces.importers.imported import Imported, ReadOptions, imported
from tailcast.traces.importers.json_table import JsonTable, number_list
from tailcast.traces.importers.request_rows import RequestRows
from tailcast.traces.importers.sample import Sample
from tailcast.traces.trace_header import TraceHeader

NAME = "aiperf"

FILE = "profile_export.jsonl"
SECONDS_BY_UNIT = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "sec": 1.0,
    "seconds": 1.0,
    "nanoseconds": 1e-9,
    "microseconds": 1e-6,
    "milliseconds": 1e-3,
}
_DIFFERS = 0.02


def recognises(sample: Sample) -> bool:
    """Whether a file holds records of aiperf, or a folder has such a file.

    Parameters
    ----------
    sample : Sample
        What may be one.

    Returns
    -------
    bool
        By the keys at its start, or the name of the file.
    """
    if sample.is_folder:
        return FILE in sample.names
    return sample.has_keys("metadata", "request_start_ns", "metrics")


def read(sample: Sample, options: ReadOptions) -> Imported:
    """Trace of aiperf's records.

    A request is due when its credit was issued and is sent at its start; TTFT and E2E count from
    sending. Token counts are the server's usage where it is there: aiperf's own count is of text
    tokenised again. Its inter-token latency is the mean of a request, so it is no gap; gaps are
    taken from the chunks, where these match the tokens. Records of the warm-up are left out.

    Parameters
    ----------
    sample : Sample
        The file, or the folder that it is in.
    options : ReadOptions
        Nothing of it applies.

    Returns
    -------
    Imported
        A trace.

    Raises
    ------
    InputError
        If a record is malformed or a unit unknown.
    """
    sample = sample.inside(FILE) if sample.is_folder else sample
    findings = Findings(str(sample.path), lines=[])
    rows = RequestRows(findings=findings, column="metrics")
    n_warm, lines, own, usage = 0, [], [], []
    for number, table in sample.objects():
        phase = table.table("metadata").text("benchmark_phase", "profiling")
        if phase != "profiling":
            n_warm += 1
            continue
        lines.append(number)
        findings.lines = lines
        counted = _add_record(rows, table)
        if counted is not None:
            own.append(counted[0])
            usage.append(counted[1])
    findings.count("records of the warm-up, left out", n_warm)
    _say_counts(np.array(own), np.array(usage), findings)
    trace, tokens = rows.trace(TraceHeader(mode="real"))
    return imported(NAME, findings, trace, tokens)


def seconds_of(table: JsonTable, key: str) -> float:
    """Duration of a metric with its unit.

    Parameters
    ----------
    table : JsonTable
        Metrics of a record, or of a summary.
    key : str
        Name of the metric.

    Returns
    -------
    float
        Seconds; NaN where the metric is absent.

    Raises
    ------
    InputError
        If the unit is none of time, or the value impossible.
    """
    if key not in table:
        return math.nan
    metric = table.table(key)
    return metric.number("value", least=0) * unit_seconds(metric)


def unit_seconds(metric: JsonTable) -> float:
    """Seconds per unit of a metric.

    Parameters
    ----------
    metric : JsonTable
        With the key ``unit``.

    Returns
    -------
    float
        For example 1e-3.

    Raises
    ------
    InputError
        If the unit is none of time.
    """
    unit = metric.text("unit")
    if unit.lower() not in SECONDS_BY_UNIT:
        raise InputError(f"{metric.where}: unit {unit!r} is none of time")
    return SECONDS_BY_UNIT[unit.lower()]


def _count(table: JsonTable, key: str) -> int | None:
    return table.table(key).whole("value") if key in table else None


def _add_record(rows: RequestRows, table: JsonTable) -> tuple[int, int] | None:
    """Add a record; its own and the server's count of the answer, where both are there."""
    meta, metrics = table.table("metadata"), table.table("metrics")
    start = meta.number("request_start_ns", least=0) * 1e-9
    due = meta.maybe("credit_issued_ns", least=0) * 1e-9
    failed = "error" in table or meta.value.get("was_cancelled") is True
    ttft, e2e = seconds_of(metrics, "time_to_first_token"), seconds_of(metrics, "request_latency")
    own, told = (
        _count(metrics, "output_sequence_length"),
        _count(metrics, "usage_completion_tokens"),
    )
    own = own if own is not None else _count(metrics, "output_token_count")
    prompt = _count(metrics, "usage_prompt_tokens")
    sent = prompt if prompt is not None else _count(metrics, "input_sequence_length")
    sent = sent if sent is not None else _count(metrics, "error_isl")
    output = told if told is not None else own
    rows.add(
        arrival=start if math.isnan(due) else due,
        send=start,
        first=math.nan if failed else start + ttft,
        last=math.nan if failed else start + e2e,
        input_tokens=sent or 0,
        output_tokens=output or 0,
        events=None if failed or math.isnan(ttft) else _events(metrics, start + ttft, ttft, output),
        status=_status(table, meta) if failed else "ok",
        error_message=_message(table),
        server_input_tokens=prompt or 0,
        cached_tokens=_count(metrics, "usage_prompt_cache_read_tokens") or 0,
        session_id=meta.text("conversation_id", "") if meta.whole("turn_index", 0) else "",
        round_index=meta.whole("turn_index", 0),
        x_request_id=meta.text("x_request_id", ""),
    )
    return (own, told) if own is not None and told is not None and not failed else None


def _events(
    metrics: JsonTable, first: float, ttft: float, output: int | None
) -> NDArray[np.float64] | None:
    if "inter_chunk_latency" not in metrics:
        return np.array([first]) if output == 1 else None
    metric = metrics.table("inter_chunk_latency")
    value = metric.value.get("value")
    gaps = number_list(value, f"{metric.where}: value", 0.0) * unit_seconds(metric)
    if output is not None and len(gaps) == output > 1 and abs(gaps[0] - ttft) < 1e-6:
        gaps = gaps[1:]  # the gaps begin at sending
    return first + np.append(0.0, np.cumsum(gaps))


def _status(table: JsonTable, meta: JsonTable) -> str:
    if meta.value.get("was_cancelled") is True:
        return "incomplete"
    kind = table.table("error").text("type", "").lower()
    return "timeout" if "timeout" in kind else "error"


def _message(table: JsonTable) -> str:
    if "error" not in table:
        return ""
    error = table.table("error")
    return (error.text("message", "") or error.text("type", "error"))[:200]


def _say_counts(own: NDArray[np.int64], usage: NDArray[np.int64], findings: Findings) -> None:
    if not len(usage):
        findings.note(
            "output lengths are the client's re-tokenised text: ask the server for its usage "
            "(--use-server-token-count) to be exact"
        )
        return
    off = float(np.mean(own) / max(float(np.mean(usage)), 1e-9) - 1)
    if abs(off) > _DIFFERS:
        findings.note(
            f"lengths are the server's usage; aiperf's own count of the text is {off:+.1%} off"
        )
