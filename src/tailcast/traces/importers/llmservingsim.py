"""Benchmark of LLMServingSim: requests as a vLLM engine timed them, with its settings."""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import InputError
from tailcast.traces.importers.findings import Findings
from tailcast.traces.importers.imported import Imported, ReadOptions, imported
from tailcast.traces.importers.json_table import JsonTable
from tailcast.traces.importers.request_rows import RequestRows
from tailcast.traces.importers.sample import Sample
from tailcast.traces.trace_header import TraceHeader, TraceServer
from tailcast.workload.csv_file import CsvFile

NAME = "llmservingsim"

_REQUESTS, _META = "requests.jsonl", "meta.json"
_TIMES = ("arrival_time", "queued_ts", "scheduled_ts", "first_token_ts", "last_token_ts")
_CSV_TIMES = ("arrival_s", "queued_s", "scheduled_s", "first_token_s", "last_token_s")


def recognises(sample: Sample) -> bool:
    """Whether a folder or file is a benchmark of LLMServingSim.

    Parameters
    ----------
    sample : Sample
        What may be one.

    Returns
    -------
    bool
        By the names of the files, or the keys or columns at the start.
    """
    if sample.is_folder:
        return _REQUESTS in sample.names
    keys = sample.has_keys("request_id", "input_toks", "first_token_ts")
    return keys or sample.has_columns("n_in", "n_out", *_CSV_TIMES)


def read(sample: Sample, options: ReadOptions) -> Imported:
    """Trace of the requests.

    The file has two clocks: arrivals in Unix time, the engine's times on a monotonic one. They are
    laid together where the quickest request was accepted at its arrival, so a constant of a few
    milliseconds is unknown. TTFT and E2E count from arrival; the tool's own summaries count from
    the time that the engine accepted the request (``--clock queued``).

    Parameters
    ----------
    sample : Sample
        Folder with ``requests.jsonl``, that file, or a table of the same in CSV.
    options : ReadOptions
        The clock.

    Returns
    -------
    Imported
        A trace; the server's settings are from ``meta.json`` beside it.

    Raises
    ------
    InputError
        If a row is malformed.
    """
    sample = sample.inside(_REQUESTS) if sample.is_folder else sample
    findings = Findings(str(sample.path))
    names, lengths, times = _from_lines(sample, findings)
    sent, first, last = _from_one_clock(times, options.clock, findings)
    rows = RequestRows(findings=findings, column="requests")
    for i, name in enumerate(names):
        rows.add(
            arrival=float(sent[i]),
            send=float(sent[i]),
            first=float(first[i]),
            last=float(last[i]),
            input_tokens=int(lengths[i, 0]),
            output_tokens=int(lengths[i, 1]),
            request_id=name,
            finish_reason="length",
        )
    trace, _ = rows.trace(TraceHeader(mode="real", server=_server(sample, findings)))
    return imported(NAME, findings, trace)


def _from_one_clock(
    times: NDArray[np.float64], clock: str, findings: Findings
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Sending, first and last token on the clock of the arrivals."""
    arrival, queued, scheduled, first, last = times.T
    ahead = float(np.min(queued - arrival))
    if abs(ahead) > 60.0:
        findings.note(
            "arrivals are Unix times and the engine's times monotonic; laid together where the "
            "quickest request was accepted on arrival, so a constant of a few ms is unknown"
        )
        queued, scheduled, first, last = (c - ahead for c in (queued, scheduled, first, last))
    wait = queued - arrival
    sent = queued if clock == "queued" else arrival
    text = "the tool's own summaries count from then (--clock queued)"
    if clock == "queued":
        text = "so these requests were sent when the engine accepted them"
    findings.note(
        f"TTFT counts from {clock}; requests were accepted {np.mean(wait) * 1e3:.3g} ms "
        f"after their arrival on average, {np.max(wait) * 1e3:.3g} ms at most: {text}"
    )
    late = scheduled < queued - 1e-6
    findings.rows("order", late, "scheduled_ts", "scheduled before it was queued")
    return sent, first, last


def _from_lines(
    sample: Sample, findings: Findings
) -> tuple[list[str], NDArray[np.int64], NDArray[np.float64]]:
    """Names, lengths (n, 2) and times (n, 5) of the requests."""
    if not sample.looks_like_json:
        file = CsvFile(sample.path)
        if not len(file):
            raise InputError(f"{sample.path}: no rows")
        columns = [_not_negative(file, name) for name in ("n_in", "n_out", *_CSV_TIMES)]
        cells = np.stack(columns, axis=1)
        findings.lines = list(range(2, len(file) + 2))
        ids = file.text("request_id") if "request_id" in file else map(str, range(len(file)))
        return list(ids), cells[:, :2].astype(np.int64), cells[:, 2:]
    names, lengths, times, lines = [], [], [], []
    for number, table in sample.objects():
        lines.append(number)
        names.append(table.text("request_id"))
        lengths.append([table.whole("input_toks", least=1), table.whole("output_toks", least=0)])
        times.append([table.number(key, least=0) for key in _TIMES])
    if not names:
        raise InputError(f"{sample.path}: no requests")
    findings.lines = lines
    return names, np.array(lengths), np.array(times)


def _not_negative(file: CsvFile, name: str) -> NDArray[np.float64]:
    values = file.numbers(name)
    for row in np.flatnonzero(values < 0):
        raise file.error(int(row), f"{name} must not be negative, got {values[row]}")
    return values


def _server(sample: Sample, findings: Findings) -> TraceServer:
    path = sample.path.parent / _META
    if not path.is_file():
        findings.note(f"there is no {_META} beside the requests, so the server is not known")
        return TraceServer(type="vllm")
    meta = Sample(path).table()
    if "engine_kwargs" not in meta:  # one file for several sets: the set is in the file's name
        name = sample.path.name.split(".csv")[0].split("requests_")[-1]
        meta = meta.table(name)
    engine, kv = meta.table("engine_kwargs"), meta.table("kv_cache")
    hardware = meta.text("gpu", "") or meta.table("hardware").text("device_name", "")
    caching = meta.table("resolved_config").table("cache_config").value.get("enable_prefix_caching")
    caching = kv.value.get("enable_prefix_caching", caching)
    resolved = meta.table("resolved_config").table("scheduler_config")
    other: dict[str, Any] = {}
    if isinstance(value := resolved.value.get("async_scheduling"), bool):
        other["async_scheduling"] = value
    return TraceServer(
        type="vllm",
        model=meta.text("model", "") or None,
        version=meta.text("vllm_version", "") or None,
        accelerator=hardware or None,
        tensor_parallel=_maybe(engine, "tensor_parallel_size"),
        data_parallel=_maybe(engine, "data_parallel_size"),
        max_num_seqs=_maybe(engine, "max_num_seqs"),
        max_num_batched_tokens=_maybe(engine, "max_num_batched_tokens"),
        max_model_len=_maybe(engine, "max_model_len"),
        kv_blocks=_maybe(kv, "num_gpu_blocks"),
        block_size=_maybe(kv, "block_size"),
        gpu_memory_utilization=_share(kv.maybe("gpu_memory_utilization")),
        prefix_caching=caching if isinstance(caching, bool) else None,
        other=other,
    )


def _maybe(table: JsonTable, key: str) -> int | None:
    return table.whole(key) if key in table else None


def _share(value: float) -> float | None:
    return None if math.isnan(value) else value
