"""OpenTelemetry spans in OTLP's JSON, with the attributes that vLLM and SGLang give a request."""

import math
from collections.abc import Iterator
from typing import Any

from tailcast.errors import InputError
from tailcast.traces.importers.findings import Findings
from tailcast.traces.importers.imported import Imported, ReadOptions, imported
from tailcast.traces.importers.json_table import JsonTable
from tailcast.traces.importers.request_rows import RequestRows
from tailcast.traces.importers.sample import Sample
from tailcast.traces.trace_header import TraceHeader, TraceServer

NAME = "otlp"

_INPUT = ("gen_ai.usage.prompt_tokens", "gen_ai.usage.input_tokens")
_OUTPUT = ("gen_ai.usage.completion_tokens", "gen_ai.usage.output_tokens")
_TTFT, _E2E = "gen_ai.latency.time_to_first_token", "gen_ai.latency.e2e"
_QUEUE = "gen_ai.latency.time_in_queue"
_MODEL = ("gen_ai.response.model", "gen_ai.request.model")
_CACHED = ("gen_ai.usage.cached_tokens", "gen_ai.usage.cache_read.input_tokens")
_FAILED = [2, "STATUS_CODE_ERROR"]
# A latency in seconds that is this many times the span's length is in another unit.
_WRONG_UNIT = 20.0


def recognises(sample: Sample) -> bool:
    """Whether a file holds spans in OTLP's JSON.

    Parameters
    ----------
    sample : Sample
        What may be one.

    Returns
    -------
    bool
        By the keys at its start.
    """
    return "resourceSpans" in sample.keys


def read(sample: Sample, options: ReadOptions) -> Imported:
    """Trace of the spans that are requests to an LLM.

    A span starts when the request arrives at the API server; TTFT and E2E are its attributes, in
    seconds from there. Spans without ``gen_ai`` token counts are other work and are left out.

    Parameters
    ----------
    sample : Sample
        One export, or one a line.
    options : ReadOptions
        Nothing of it applies.

    Returns
    -------
    Imported
        A trace.

    Raises
    ------
    InputError
        If there is no such span, a span is malformed, or its latencies are in another unit.
    """
    findings = Findings(str(sample.path))
    rows = RequestRows(findings=findings, column="spans")
    n_other = n_ended = 0
    models: set[str] = set()
    for span in _spans(sample):
        attributes = _attributes(span)
        if not any(key in attributes for key in (*_OUTPUT, _TTFT)):
            n_other += 1
            continue
        n_ended += _add_span(rows, span, attributes)
        models |= {str(attributes[key]) for key in _MODEL if attributes.get(key)}
    findings.count("spans that are no request, left out", n_other)
    if not len(rows):
        raise InputError(f"{sample.path}: no span has gen_ai token counts or latencies")
    findings.note("TTFT and E2E are the server's, from arrival at the API server, without network")
    if n_ended:
        findings.note(f"{n_ended} spans have no E2E attribute; their end was taken for it")
    model = models.pop() if len(models) == 1 else None
    trace, _ = rows.trace(TraceHeader(mode="real", server=TraceServer(model=model)))
    return imported(NAME, findings, trace)


def _spans(sample: Sample) -> Iterator[JsonTable]:
    for _, export in sample.documents():
        for resource in export.tables("resourceSpans"):
            for key in ("scopeSpans", "instrumentationLibrarySpans"):
                for scope in resource.tables(key):
                    yield from scope.tables("spans")


def _attributes(span: JsonTable) -> dict[str, Any]:
    """Attributes by name; OTLP writes 64-bit integers as text."""
    found: dict[str, Any] = {}
    for entry in span.tables("attributes"):
        value = entry.table("value").value
        name = entry.text("key", "")
        if "intValue" in value:
            found[name] = _integer(value["intValue"], f"{span.where} {name}")
        elif "doubleValue" in value:
            found[name] = value["doubleValue"]
        else:
            found[name] = next(iter(value.values()), None)
    return found


def _integer(value: object, where: str) -> int:
    try:
        return int(value)  # type: ignore[call-overload, no-any-return]
    except (TypeError, ValueError):
        raise InputError(f"{where} must be a whole number, got {value!r:.40}") from None


def _seconds(attributes: dict[str, Any], key: str, where: str) -> float:
    return JsonTable(attributes, where).maybe(key, least=0)


def _count(attributes: dict[str, Any], keys: tuple[str, ...], where: str) -> int:
    table = JsonTable(attributes, where)
    return next((table.whole(key) for key in keys if key in table), 0)


def _nanoseconds(span: JsonTable, key: str) -> float:
    return _integer(span.text(key), f"{span.where}: {key}") * 1e-9 if key in span else math.nan


def _add_span(rows: RequestRows, span: JsonTable, attributes: dict[str, Any]) -> bool:
    """Add the request of a span; whether its end stood in for its E2E."""
    start, end = _nanoseconds(span, "startTimeUnixNano"), _nanoseconds(span, "endTimeUnixNano")
    if not start > 0:
        raise InputError(f"{span.where}: startTimeUnixNano is missing or not positive")
    ttft, e2e = (_seconds(attributes, key, span.where) for key in (_TTFT, _E2E))
    length = end - start
    for name, value in (("TTFT", ttft), ("E2E", e2e)):
        if value > _WRONG_UNIT * max(length, 0.05):
            raise InputError(
                f"{span.where}: {name} {value:g} in a span of {length:.3g} s: not in seconds"
            )
    ended = math.isnan(e2e)
    failed = span.table("status").value.get("code") in _FAILED
    n_output = _count(attributes, _OUTPUT, span.where)
    rows.add(
        arrival=start,
        send=start,
        first=math.nan if failed else start + ttft,
        last=math.nan if failed else (end if ended else start + e2e),
        input_tokens=_count(attributes, _INPUT, span.where),
        output_tokens=n_output,
        status="error" if failed else "ok",
        error_message=span.table("status").text("message", "")[:200] if failed else "",
        cached_tokens=_count(attributes, _CACHED, span.where),
        x_request_id=str(attributes.get("gen_ai.request.id") or ""),
        model=next((str(attributes[k]) for k in _MODEL if attributes.get(k)), ""),
    )
    queue = _seconds(attributes, _QUEUE, span.where)
    if queue > ttft:
        rows.findings.whole(
            "order", f"{queue:.3g} s in the queue, but TTFT {ttft:.3g} s", f"spans[{len(rows) - 1}]"
        )
    return ended and not failed
