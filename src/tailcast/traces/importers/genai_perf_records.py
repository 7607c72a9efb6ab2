"""Records of genai-perf's Perf Analyzer: every response of every request, in nanoseconds."""

import json
import math
from typing import Any

import numpy as np

from tailcast.errors import InputError
from tailcast.traces.importers.findings import Findings
from tailcast.traces.importers.imported import Imported, ReadOptions, imported
from tailcast.traces.importers.json_table import JsonTable
from tailcast.traces.importers.request_rows import RequestRows
from tailcast.traces.importers.sample import Sample
from tailcast.traces.trace_header import TraceHeader

NAME = "genai-perf-records"


def recognises(sample: Sample) -> bool:
    """Whether a file is Perf Analyzer's export.

    Parameters
    ----------
    sample : Sample
        What may be one.

    Returns
    -------
    bool
        By the keys at its start.
    """
    return sample.has_keys("experiments", "requests") and not sample.has_keys("benchmarks")


def read(sample: Sample, options: ReadOptions) -> Imported:
    """Trace of an export; experiments are groups.

    The first and the last two responses of a chat may be empty: only responses with content are
    taken for tokens, and TTFT is the first of them. The length of an answer is the server's usage
    where it is streamed, else the number of responses with content.

    Parameters
    ----------
    sample : Sample
        The file.
    options : ReadOptions
        Nothing of it applies.

    Returns
    -------
    Imported
        A trace.

    Raises
    ------
    InputError
        If the file is malformed.
    """
    findings = Findings(str(sample.path))
    rows = RequestRows(findings=findings)
    n_counted = 0
    for group, experiment in enumerate(sample.table().tables("experiments")):
        for table in experiment.tables("requests"):
            n_counted += _add_request(rows, table, group)
    if n_counted:
        findings.note(
            f"in {n_counted} requests the answer's length is the number of its chunks, since no "
            "usage was streamed; chunks need not be tokens"
        )
    findings.note("prompt lengths are not in the file but for a usage that was streamed")
    trace, tokens = rows.trace(TraceHeader(mode="real"))
    return imported(NAME, findings, trace, tokens)


def _add_request(rows: RequestRows, table: JsonTable, group: int) -> bool:
    """Add one request; whether its chunks had to be counted."""
    start = table.number("timestamp", least=0) * 1e-9
    stamps = table.numbers("response_timestamps", least=0) * 1e-9
    outputs = table.listed("response_outputs") if "response_outputs" in table else []
    if outputs and len(outputs) != len(stamps):
        raise InputError(
            f"{table.where}: {len(stamps)} response_timestamps for {len(outputs)} response_outputs"
        )
    found = [_content(output, table.where) for output in outputs]
    usage: dict[str, Any] = next((used for _, used in reversed(found) if used), {})
    keep = np.array([bool(text) for text, _ in found], dtype=np.bool_)
    events = stamps[keep] if len(keep) else stamps
    told = usage.get("completion_tokens")
    counted = not isinstance(told, int)
    prompt = usage.get("prompt_tokens")
    good = bool(len(events))
    rows.add(
        arrival=start,
        send=start,
        first=float(events[0]) if good else math.nan,
        last=float(events[-1]) if good else math.nan,
        input_tokens=prompt if isinstance(prompt, int) and prompt > 0 else 0,
        output_tokens=told if isinstance(told, int) and told >= 0 else len(events),
        events=events if good else None,
        status="ok" if good else "error",
        error_message="" if good else "no response with content",
        group=group,
    )
    return counted and good


def _content(output: Any, where: str) -> tuple[str, dict[str, Any]]:
    """Text of one response and the usage in it; an event stream or a bare JSON object."""
    text = JsonTable(output, f"{where} response_outputs").text("response", "")
    content = ""
    usage: Any = {}
    for line in text.splitlines():
        body = line.removeprefix("data:").strip()
        if not body or body == "[DONE]":
            continue
        try:
            message = json.loads(body)
        except ValueError:
            continue
        if not isinstance(message, dict):
            continue
        usage = message.get("usage") or usage
        for choice in message.get("choices") or ():
            delta = choice.get("delta") or choice.get("message") or {}
            piece = choice.get("text") or delta.get("content") or delta.get("reasoning_content")
            content += piece or ""
    return content, usage if isinstance(usage, dict) else {}
