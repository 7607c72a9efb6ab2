"""An observed run as a trace in a folder."""

import csv
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import InputError
from tailcast.observe.metrics import GAUGES, NAMES, kept_lines
from tailcast.observe.record import RequestRecord
from tailcast.observe.run import Observation
from tailcast.traces.token_times import TokenTimes, write_token_times
from tailcast.traces.trace_files import FILE_NAMES
from tailcast.traces.trace_header import TraceHeader, TraceServer
from tailcast.traces.trace_replay import run_trace
from tailcast.traces.tracev2 import Trace, write_trace
from tailcast.whole_file import whole_folder

_EXTRA_COLUMNS = (
    "request_id",
    "phase",
    "max_tokens",
    "http_status",
    "connect_us",
    "resent",
    "headers_time_us",
    "end_time_us",
    "cached_tokens",
    "send_lateness_us",
    "counted_by",
)
_SERIES = tuple(name for name in NAMES if not name.endswith(("_sum", "_count")))


def new_folder(path: Path) -> None:
    """Make the folder of a trace, before anything is sent.

    Parameters
    ----------
    path : pathlib.Path
        New, or an empty folder.

    Raises
    ------
    InputError
        If there is something in the way.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        taken = next(path.iterdir(), None)
    except OSError as error:
        raise InputError(f"{path}: cannot hold a trace: {error.strerror or error}") from error
    if taken is not None:
        raise InputError(f"{path}: folder is not empty ({taken.name}); name a new one")


@contextmanager
def reserved_folder(path: Path) -> Iterator[None]:
    """Make the folder of a trace before anything is sent, and unmake it if nothing is recorded.

    Parameters
    ----------
    path : pathlib.Path
        New, or an empty folder.

    Yields
    ------
    None
        While the run lasts.

    Raises
    ------
    InputError
        If there is something in the way.
    """
    made = [folder for folder in (path, *path.parents) if not folder.exists()]
    new_folder(path)
    try:
        yield
    except BaseException:
        for folder in made:
            with suppress(OSError):  # one that holds something stays
                folder.rmdir()
        raise


def save_observation(
    observation: Observation,
    folder: Path,
    server: TraceServer | None = None,
    *,
    workload_seed: int | None = None,
) -> Trace:
    """Write a run as TraceV2, with token times, client figures and the server's counters beside it.

    Parameters
    ----------
    observation : Observation
        What was seen.
    folder : pathlib.Path
        New or empty folder; the trace appears in it whole or not at all.
    server : TraceServer, optional
        What the user knows of the deployment; what the server tells itself wins.
    workload_seed : int, optional
        Seed that the requests were drawn with.

    Returns
    -------
    Trace
        As written: one row a request that was sent, sorted by when it was due.
    """
    trace = observed_trace(observation, server, workload_seed=workload_seed)
    with whole_folder(folder, FILE_NAMES["header"]) as scratch:
        _write_files(observation, trace, scratch)
    return trace


def _write_files(observation: Observation, trace: Trace, folder: Path) -> None:
    write_trace(trace, folder / FILE_NAMES["header"], folder / FILE_NAMES["requests"])
    records = _in_order(observation.records)
    write_token_times(_token_times(records), trace, folder / FILE_NAMES["token_times"])
    _write_extra(records, observation, trace, folder / FILE_NAMES["extra"])
    scrapes = observation.scrapes
    if scrapes.pages:
        for key, text in (("metrics_before", scrapes.first), ("metrics_after", scrapes.last)):
            (folder / FILE_NAMES[key]).write_text(kept_lines(text), encoding="utf-8", newline="\n")
        _write_series(observation, folder / FILE_NAMES["metrics"])


def observed_trace(
    observation: Observation,
    server: TraceServer | None = None,
    *,
    workload_seed: int | None = None,
) -> Trace:
    """Trace of a run; all its times are on one clock, seconds from the start of the run.

    Parameters
    ----------
    observation : Observation
        What was seen.
    server : TraceServer, optional
        What the user knows of the deployment.
    workload_seed : int, optional
        Seed that the requests were drawn with.

    Returns
    -------
    Trace
        Requests that were never sent are no rows; the header counts them.

    Raises
    ------
    InputError
        If nothing was sent at all.
    """
    records = _in_order(observation.records)
    if not records:
        raise InputError("nothing was sent, so there is no trace")
    n = len(observation.requests)
    due, first, last = (np.full(n, np.nan) for _ in range(3))
    status = np.full(n, "incomplete")
    cached = np.zeros(n, dtype=np.int64)
    for record in records:
        due[record.row] = record.due
        status[record.row] = record.status
        cached[record.row] = max(record.cached_tokens, 0)
        if record.token_times:
            first[record.row], last[record.row] = record.token_times[0], record.token_times[-1]
    trace = run_trace(
        observation.requests,
        first_token=first,
        finish=last,
        header=_header(observation, server or TraceServer(), workload_seed),
        arrival=due,
        status=status,
        cached_tokens=cached,
    )
    return replace(trace, columns={**trace.columns, **_seen(records)})


def _in_order(records: Sequence[RequestRecord]) -> list[RequestRecord]:
    """Records as `run_trace` sorts its rows."""
    return sorted(records, key=lambda record: (record.due, record.row))


def _seen(records: Sequence[RequestRecord]) -> dict[str, NDArray[Any]]:
    """Columns that only a real run fills."""
    counted = [max(record.server_output_tokens, record.n_tokens) for record in records]
    sent = [r.started if np.isnan(r.sent) else r.sent for r in records]
    return {
        "output_tokens": np.array(counted, dtype=np.int64),
        "server_input_tokens": np.array([max(r.server_input_tokens, 0) for r in records]),
        "send_time": np.array(sent),
        "num_chunks": np.array([len(r.token_times) for r in records], dtype=np.int64),
        "error_message": np.array([r.error for r in records], dtype=np.str_),
        "finish_reason": np.array([r.finish_reason for r in records], dtype=np.str_),
        "x_request_id": np.array([r.request_id for r in records], dtype=np.str_),
    }


def _token_times(records: Sequence[RequestRecord]) -> TokenTimes:
    lengths = [len(record.token_times) for record in records]
    times = [np.array(record.token_times, dtype=np.float64) for record in records]
    counts = [np.array(record.token_counts, dtype=np.int64) for record in records]
    return TokenTimes(
        row=np.repeat(np.arange(len(records)), lengths),
        time=np.concatenate(times),
        n_tokens=np.concatenate(counts),
    )


def _header(observation: Observation, known: TraceServer, workload_seed: int | None) -> TraceHeader:
    requests = observation.requests
    accumulates = bool(np.any(requests.session_output & (requests.parent >= 0)))
    start = datetime.fromtimestamp(observation.start, UTC)
    return TraceHeader(
        mode="real",
        created_at=start.strftime("%Y-%m-%dT%H:%M:%SZ"),
        workload_seed=workload_seed,
        session_context_growth="accumulate" if accumulates else "",
        server=_server(observation, known),
        other={
            "epoch_unix_s": observation.start,
            "complete": not observation.stopped,
            "unsent": {
                "stopped": observation.n_unsent,
                "parent_failed": len(observation.parent_failed),
            },
            "client": _client(observation),
            "counters": _counters(observation),
        },
    )


def _server(observation: Observation, known: TraceServer) -> TraceServer:
    """What the server told, over what the user said; contradictions are kept as notes."""
    server, pages = observation.server, observation.scrapes.pages
    told: dict[str, Any] = {"type": server.dialect.name, "version": server.version or None}
    told["max_model_len"] = server.max_model_len
    told |= server.facts
    told |= pages[-1].settings if pages else {}
    fields = {name for name in TraceServer.__slots__ if name != "other"}
    told = {key: value for key, value in told.items() if value is not None}
    said = {key: getattr(known, key) for key in fields if getattr(known, key) is not None}
    differs = {
        key: said[key] for key in sorted(said.keys() & told.keys()) if said[key] != told[key]
    }
    merged = {"model": server.llm, **said, **{k: v for k, v in told.items() if k in fields}}
    other = {"served_model_name": server.llm, **known.other}
    other |= {key: value for key, value in told.items() if key not in fields}
    if differs:
        other["contradicted"] = differs
    return TraceServer(other=other, **merged)


def _client(observation: Observation) -> dict[str, Any]:
    settings, server, late = observation.settings, observation.server, observation.lateness
    ways = sorted({record.counted_by for record in observation.records} - {""})
    return {
        "endpoint": settings.endpoint,
        "dialect": server.dialect.name,
        "prompts": "token_ids" if server.vocabulary.exact else "text",
        "prompt_seed": settings.prompt_seed,
        "exact_output": server.dialect.exact_output,
        "tokens_counted_by": ways,
        "cached_tokens_reported": any(r.cached_tokens >= 0 for r in observation.records),
        "clock": "monotonic",
        "warm_up_requests": settings.warm_up,
        "send_lateness_us": _microseconds(late.send_p50, late.send_p99, late.send_max),
        "read_lateness_us": _microseconds(late.read_p50, late.read_p99, late.read_max),
        "resent": sum(record.resent for record in observation.records),
        "cpu_share": round(late.cpu_share, 3),
        "bottleneck": late.bottleneck,
        "bottleneck_reasons": list(late.reasons),
        "notes": list(server.notes),
    }


def _counters(observation: Observation) -> dict[str, Any]:
    """Increases of the server's counters over the run, and peaks of its gauges."""
    scrapes = observation.scrapes
    if not scrapes.pages:
        return {"scrapes": 0, "failed_scrapes": scrapes.n_failed}
    gained = dict(scrapes.increases())
    content: dict[str, Any] = {
        "scrapes": len(scrapes.pages),
        "failed_scrapes": scrapes.n_failed,
        "restarts": scrapes.n_restarts,
        "names": dict(scrapes.pages[-1].found),
    }
    for name, value in gained.items():
        if name.endswith("_sum"):
            count = gained.get(name.removesuffix("_sum") + "_count", 0.0)
            if count > 0:
                content[f"mean_{name.removesuffix('_sum')}_s"] = round(value / count, 9)
        elif not name.endswith("_count"):
            content[name] = int(value)
    content |= {f"peak_{name}": value for name, value in scrapes.peaks().items()}
    received = sum(record.n_tokens for record in observation.records)
    content["tokens_received"] = received
    return content


def _microseconds(p50: float, p99: float, largest: float) -> dict[str, int | None]:
    values = {"p50": p50, "p99": p99, "max": largest}
    return {key: None if np.isnan(v) else round(v * 1e6) for key, v in values.items()}


def _write_extra(
    records: Sequence[RequestRecord], observation: Observation, trace: Trace, path: Path
) -> None:
    def cell(seconds: float) -> int | str:
        return "" if np.isnan(seconds) else round(seconds * 1e6)

    names, group = trace["request_id"].tolist(), observation.requests.group
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_EXTRA_COLUMNS)
        for name, record in zip(names, records, strict=True):
            writer.writerow(
                (
                    name,
                    int(group[record.row]),
                    record.output_tokens,
                    record.http_status,
                    round(record.connect * 1e6),
                    int(record.resent),
                    cell(record.headers),
                    cell(record.ended),
                    "" if record.cached_tokens < 0 else record.cached_tokens,
                    cell(record.lateness),
                    record.counted_by,
                )
            )


def _write_series(observation: Observation, path: Path) -> None:
    scrapes = observation.scrapes
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(("time_us", *_SERIES))
        for time, page in zip(scrapes.times, scrapes.pages, strict=True):
            cells = [
                "" if name not in page.values else _cell(name, page.values[name])
                for name in _SERIES
            ]
            writer.writerow((round(time * 1e6), *cells))


def _cell(name: str, value: float) -> str:
    return f"{value:g}" if name in GAUGES else str(int(value))
