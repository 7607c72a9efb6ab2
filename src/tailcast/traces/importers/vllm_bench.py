"""Results of ``vllm bench serve``: JSON with or without every request, and tables of them."""

import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import InputError
from tailcast.traces.importers.findings import Findings
from tailcast.traces.importers.imported import Imported, ReadOptions, imported
from tailcast.traces.importers.json_table import JsonTable, number_list, whole_number
from tailcast.traces.importers.request_rows import RequestRows
from tailcast.traces.importers.sample import Sample
from tailcast.traces.importers.stage_statistics import statistic_records, under_contract
from tailcast.traces.observed import Observed
from tailcast.traces.run_summary import Lengths, RunSummary, Stage, lengths_of
from tailcast.traces.trace_header import TraceHeader, TraceServer
from tailcast.workload.csv_file import CsvFile

NAME = "vllm-bench"
CSV_NAME = "vllm-bench-table"

_DETAILED = ("input_lens", "output_lens", "ttfts", "itls")
_METRICS = {"ttft": "ttft", "tpot": "tpot", "itl": "itl", "e2el": "e2e"}
_STATISTIC = re.compile(r"(mean|median|p\d{1,2}(?:\.\d+)?)_(ttft|tpot|itl|e2el)_ms")
_SAME_GAP = 1e-6
_SAME_END = 2e-3
_STATISTICS = (("mean", None), ("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99))


def recognises(sample: Sample) -> bool:
    """Whether a file is a result of ``vllm bench serve`` (or SGLang's ``bench_serving``).

    Parameters
    ----------
    sample : Sample
        What may be one.

    Returns
    -------
    bool
        By the keys at its start.
    """
    named = sample.has_keys("request_rate", "completed") or sample.has_keys(
        "request_rate", "num_prompts"
    )
    return named and not sample.has_keys("benchmarks")


def recognises_csv(sample: Sample) -> bool:
    """Whether a file is a table of such results, one run a row.

    Parameters
    ----------
    sample : Sample
        What may be one.

    Returns
    -------
    bool
        By the columns.
    """
    return sample.has_columns("request_rate", "completed", "mean_ttft_ms", "mean_tpot_ms")


def read(sample: Sample, options: ReadOptions) -> Imported:
    """Result of a benchmark: a trace where it was saved with ``--save-detailed``.

    TTFT and E2E count from sending, TPOT leaves the first token out and ITL are the gaps between
    chunks, as the contract has it. Several results in one file (``--append-result``) are groups of
    one trace, or runs.

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
        If the lists of a detailed result differ in length, or a value is impossible.
    """
    findings = Findings(str(sample.path))
    results = [table for _, table in sample.documents()]
    if not results:
        raise InputError(f"{sample.path}: empty file")
    timed = [all(key in table for key in (*_DETAILED, "start_times")) for table in results]
    if all(timed):
        rows = RequestRows(findings=findings)
        for group, table in enumerate(results):
            _add_requests(rows, table, group)
        findings.note("times are a monotonic clock's; they count from the first request")
        trace, tokens = rows.trace(_header(results[0]))
        return imported(NAME, findings, trace, tokens)
    if any(timed):
        raise InputError(
            f"{sample.path}: some results have every request and some only statistics; split them"
        )
    runs = tuple(_run(table, i, len(results), findings) for i, table in enumerate(results))
    return imported(NAME, findings, runs)


def read_csv(sample: Sample, options: ReadOptions) -> Imported:
    """Table of results, one run a row, in the columns that the JSON has as keys.

    Parameters
    ----------
    sample : Sample
        The file.
    options : ReadOptions
        Nothing of it applies.

    Returns
    -------
    Imported
        The statistics of each run.

    Raises
    ------
    InputError
        If a cell is impossible.
    """
    file = CsvFile(sample.path)
    if not len(file):
        raise InputError(f"{sample.path}: no rows")
    findings = Findings(str(sample.path))
    columns = {name: file.text(name) for name in file.names}
    runs = []
    for row in range(len(file)):
        cells = {name: _cell(column[row]) for name, column in columns.items()}
        table = JsonTable(cells, f"{sample.path}: row {row}")
        runs.append(_run(table, row, len(file), findings))
    findings.count("read", len(runs))
    return imported(CSV_NAME, findings, tuple(runs))


def _cell(text: str) -> Any:
    if not text.strip():
        return None
    try:
        return float(text)
    except ValueError:
        return text


def _add_requests(rows: RequestRows, table: JsonTable, group: int) -> None:
    findings = rows.findings
    start = table.numbers("start_times", least=0)
    ttft = table.numbers("ttfts", least=0)
    itls, inputs, outputs = (table.listed(key) for key in ("itls", "input_lens", "output_lens"))
    n = len(start)
    errors = table.listed("errors") if "errors" in table else [""] * n
    latencies = table.numbers("latencies", least=0) if "latencies" in table else None
    queued = _queue_times(table, n, findings)
    for key, column in (
        ("ttfts", ttft),
        ("itls", itls),
        ("input_lens", inputs),
        ("output_lens", outputs),
        ("errors", errors),
        ("latencies", start if latencies is None else latencies),
    ):
        if len(column) != n:
            raise InputError(f"{table.where}: {key} has {len(column)} entries, start_times has {n}")
    inside = np.zeros(n, dtype=np.bool_)
    off = np.zeros(n, dtype=np.bool_)
    for i in range(n):
        gaps = number_list(itls[i], f"{table.where}: itls[{i}]", 0.0)
        tokens = _length(outputs[i], f"{table.where}: output_lens[{i}]", 0)
        failed = bool(errors[i]) or (ttft[i] == 0 and tokens == 0)
        streamed = not failed and ttft[i] > 0
        inside[i] = len(gaps) == tokens > 1 and abs(gaps[0] - ttft[i]) < _SAME_GAP
        gaps = gaps[1:] if inside[i] else gaps
        events = start[i] + ttft[i] + np.append(0.0, np.cumsum(gaps))
        last = float(events[-1])
        if latencies is not None and not failed:
            off[i] = abs(start[i] + latencies[i] - last) > max(_SAME_END, 0.01 * latencies[i])
            last = last if len(gaps) else float(start[i] + latencies[i])
        rows.add(
            arrival=float(start[i] - queued[i]),
            send=float(start[i]),
            first=float(start[i] + ttft[i]) if streamed else math.nan,
            last=math.nan if failed else last,
            input_tokens=_length(inputs[i], f"{table.where}: input_lens[{i}]", 1),
            output_tokens=tokens,
            events=events if streamed and (len(gaps) or tokens == 1) else None,
            status="error" if failed else "ok",
            error_message=str(errors[i] or ("no answer" if failed else ""))[:200],
            model=table.text("model_id", ""),
            group=group,
        )
    text = "begins with the TTFT: the first gap was inside ITL, and was taken out"
    findings.rows("first gap", inside, "itls", text)
    findings.rows("order", off, "latencies", "differs from TTFT and the gaps together")


def _queue_times(table: JsonTable, n: int, findings: Findings) -> NDArray[np.float64]:
    """Seconds that requests waited in the client for a place among --max-concurrency."""
    if "queue_times" not in table or len(table.listed("queue_times")) != n:
        return np.zeros(n)
    queued = table.numbers("queue_times", least=-1.0)
    if np.max(queued, initial=0.0) > 1e-3:
        findings.note(
            f"requests waited up to {queued.max():.3g} s in the client (max_concurrency); TTFT "
            "counts from sending, as the tool has it"
        )
    return np.maximum(queued, 0.0)


def _length(value: object, where: str, least: int) -> int:
    (number,) = number_list([value], where, float(least))
    return whole_number(float(number), where)


def _server(table: JsonTable) -> TraceServer:
    tp = table.maybe("tensor_parallel_size")
    return TraceServer(
        type="vllm" if "vllm" in table.text("backend", table.text("endpoint_type", "")) else None,
        model=table.text("model_id", "") or None,
        tensor_parallel=None if math.isnan(tp) else int(tp),
    )


def _header(table: JsonTable) -> TraceHeader:
    return TraceHeader(mode="real", created_at=table.text("date", ""), server=_server(table))


def _run(table: JsonTable, index: int, n_results: int, findings: Findings) -> RunSummary:
    n = table.whole("completed", 0)
    failed = int(np.nan_to_num(table.maybe("failed", least=0)))
    place = f"result {index}" if n_results > 1 else "result"
    records, inputs, outputs = _statistics(table, n, findings, place)
    rate = _rate(table)
    burst = table.maybe("burstiness", least=0)
    arrivals: Any = "conditioned-poisson"
    if burst > 0 and burst != 1:
        arrivals = {"process": "gamma", "cv": burst**-0.5}
    limit = table.maybe("max_concurrency", least=1)
    total = n + failed
    if math.isinf(rate) and math.isnan(limit):
        findings.note(f"{place}: all {total} requests were sent at once")
        limit = float(total)
    elif not math.isinf(rate) and not math.isnan(limit):
        findings.note(
            f"{place}: a rate of {rate:g}/s under max_concurrency {limit:g}: the limit is left out"
        )
        limit = math.nan
    parts = [table.text(key, "") for key in ("variant", "run", "label", "date")]
    name = "-".join(part for part in parts if part) or place
    stage = Stage(
        name=f"{rate:g}/s" if math.isfinite(rate) else f"{limit:g} users",
        rate=rate if math.isfinite(rate) else math.nan,
        concurrency=None if math.isnan(limit) else int(limit),
        arrivals=arrivals,
        duration=total / rate if math.isfinite(rate) else table.maybe("duration", least=0),
        n_requests=n,
        n_failed=failed,
        input_tokens=inputs,
        output_tokens=outputs,
        observed=records,
    )
    return RunSummary(
        id=f"{name}-{rate:g}" if n_results > 1 else name, server=_server(table), stages=(stage,)
    )


def _rate(table: JsonTable) -> float:
    value = table.value.get("request_rate")
    if isinstance(value, str | float) and str(value) == "inf":
        return math.inf
    return table.number("request_rate", least=1e-9)


def _statistics(
    table: JsonTable, n: int, findings: Findings, place: str
) -> tuple[tuple[Observed, ...], Lengths, Lengths]:
    """Records and lengths, from every request where they are there, else as the tool has them."""
    inputs = _mean_length(table, "total_input_tokens", n)
    outputs = _mean_length(table, "total_output_tokens", n)
    records: list[Observed] = []
    if all(key in table for key in _DETAILED):
        values, inputs, outputs = _each(table)
        findings.note(f"{place}: no start times, so statistics instead of a trace")
        for metric, column in values.items():
            found = {k: _statistic(column, q) for k, q in _STATISTICS} if len(column) else {}
            records += statistic_records(
                metric, found, scale=1.0, n_requests=n, findings=findings, place=f"{place} {metric}"
            )
    else:
        for theirs, ours in _METRICS.items():
            found = {
                match[1]: table.number(key)
                for key in table.value
                if (match := _STATISTIC.fullmatch(key)) and match[2] == theirs and key in table
            }
            if "median" in found:
                found["p50"] = found.pop("median")
            records += statistic_records(
                ours,
                found,
                scale=1e-3,
                n_requests=n,
                findings=findings,
                place=f"{place} {theirs}_ms",
            )
    return under_contract(records, outputs, findings, place), inputs, outputs


def _statistic(column: NDArray[np.float64], q: float | None) -> float:
    return float(column.mean() if q is None else np.quantile(column, q))


def _mean_length(table: JsonTable, key: str, n: int) -> Lengths:
    total = table.maybe(key, least=0)
    return Lengths(mean=total / n) if n and math.isfinite(total) else Lengths()


def _each(table: JsonTable) -> tuple[dict[str, NDArray[np.float64]], Lengths, Lengths]:
    ttft = table.numbers("ttfts", least=0)
    outputs = table.numbers("output_lens", least=0).astype(np.int64)
    inputs = table.numbers("input_lens", least=0).astype(np.int64)
    gaps = [
        number_list(v, f"{table.where}: itls[{i}]", 0.0) for i, v in enumerate(table.listed("itls"))
    ]
    if not len(ttft) == len(outputs) == len(inputs) == len(gaps):
        raise InputError(f"{table.where}: lists of requests differ in length")
    ok = (outputs > 0) & (ttft > 0)
    e2e = ttft + np.array([part.sum() for part in gaps])
    tpot = ((e2e - ttft) / np.maximum(outputs - 1, 1))[ok & (outputs > 1)]
    itl = np.concatenate([g for g, good in zip(gaps, ok, strict=True) if good] or [np.empty(0)])
    values = {"ttft": ttft[ok], "tpot": tpot, "itl": itl, "e2e": e2e[ok]}
    return values, lengths_of(inputs[ok]), lengths_of(outputs[ok])
