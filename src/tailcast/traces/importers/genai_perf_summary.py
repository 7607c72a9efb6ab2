"""Summaries of aiperf and genai-perf: one metric a key or a line, in JSON or CSV."""

import csv
import math
import re

from tailcast.errors import InputError
from tailcast.traces.importers.aiperf_records import FILE as RECORDS_FILE
from tailcast.traces.importers.aiperf_records import SECONDS_BY_UNIT, unit_seconds
from tailcast.traces.importers.findings import Findings
from tailcast.traces.importers.imported import Imported, ReadOptions, imported
from tailcast.traces.importers.json_table import JsonTable
from tailcast.traces.importers.sample import Sample
from tailcast.traces.importers.stage_statistics import statistic_records, under_contract
from tailcast.traces.observed import Observed
from tailcast.traces.run_summary import Lengths, RunSummary, Stage
from tailcast.traces.trace_header import TraceServer

NAME = "genai-perf"

_FILES = (
    "profile_export_aiperf.json",
    "profile_export_genai_perf.json",
    "profile_export_aiperf.csv",
    "profile_export_genai_perf.csv",
)
# The tools' inter-token latency is (E2E - TTFT)/(output - 1) of a request: this project's TPOT.
_METRICS = {"time_to_first_token": "ttft", "request_latency": "e2e", "inter_token_latency": "tpot"}
_NAMED = {
    "time to first token": "time_to_first_token",
    "request latency": "request_latency",
    "inter token latency": "inter_token_latency",
    "output sequence length": "output_sequence_length",
    "input sequence length": "input_sequence_length",
    "usage completion tokens": "usage_completion_tokens",
    "request throughput": "request_throughput",
    "request count": "request_count",
    "benchmark duration": "benchmark_duration",
    "error request count": "error_request_count",
}
_PERCENTILE = re.compile(r"p\d{1,2}(?:\.\d+)?")


def recognises(sample: Sample) -> bool:
    """Whether a file is a summary of aiperf or genai-perf, or a folder has one and no records.

    Parameters
    ----------
    sample : Sample
        What may be one.

    Returns
    -------
    bool
        By the keys or columns at its start, or the names of the files.
    """
    if sample.is_folder:
        return RECORDS_FILE not in sample.names and any(name in sample.names for name in _FILES)
    if sample.has_columns("Metric", "avg"):
        return True
    return sample.has_keys("request_latency", "unit", "avg") and not sample.has_keys("metadata")


def read(sample: Sample, options: ReadOptions) -> Imported:
    """Statistics of a summary.

    TTFT and E2E count from sending. What these tools call inter-token latency is the mean of a
    request without its first token, so it becomes TPOT; there is no statistic of gaps. Times to
    the second token and of chunks are no like quantities and are refused.

    Parameters
    ----------
    sample : Sample
        The file, or the folder that it is in.
    options : ReadOptions
        Nothing of it applies.

    Returns
    -------
    Imported
        The statistics of one run.

    Raises
    ------
    InputError
        If a value is impossible or a unit unknown.
    """
    if sample.is_folder:
        sample = sample.inside(next(name for name in _FILES if name in sample.names))
    findings = Findings(str(sample.path))
    if sample.looks_like_json:
        table = sample.table()
        blocks = {k: table.table(k) for k in table.value if isinstance(table.value[k], dict)}
        config = blocks.get("input_config", JsonTable({}, table.where))
    else:
        blocks, config = _blocks(sample), JsonTable({}, str(sample.path))
    run = _run(blocks, config, sample.path.stem.split(".")[0], findings)
    findings.count("read", 1)
    return imported(NAME, findings, (run,))


def _blocks(sample: Sample) -> dict[str, JsonTable]:
    """Metrics of a CSV summary, as the JSON has them."""
    blocks: dict[str, JsonTable] = {}
    header: list[str] = []
    numbered = list(sample.lines())
    try:
        rows = [next(csv.reader([line]), []) for _, line in numbered]
    except csv.Error as error:
        raise InputError(f"{sample.path}: not a CSV file: {error}") from error
    for (number, _), row in zip(numbered, rows, strict=True):
        if not row:
            header = []
        elif row[0] == "Metric" or not header:
            header = row
        elif header[0] == "Metric" and header[1:2] != ["GPU"]:
            where = f"{sample.path}:{number}"
            name, unit = _name_and_unit(row[0])
            if name is None:
                continue
            if len(row) != len(header):
                raise InputError(f"{where}: {len(row)} cells for {len(header)} columns")
            cells = {
                "avg" if key == "Value" else key: _number(cell, f"{where}: {key}")
                for key, cell in zip(header[1:], row[1:], strict=True)
                if cell.strip()
            }
            blocks[name] = JsonTable({"unit": unit, **cells}, where)
    return blocks


def _name_and_unit(text: str) -> tuple[str | None, str]:
    name, _, rest = text.partition("(")
    return _NAMED.get(name.strip().lower()), rest.rstrip(") ").strip()


def _number(text: str, where: str) -> float:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        raise InputError(f"{where} must be a number, got {text!r:.40}") from None


def _run(
    blocks: dict[str, JsonTable], config: JsonTable, name: str, findings: Findings
) -> RunSummary:
    outputs, recounted = _output(blocks)
    n = _value(blocks, "request_count")
    duration = _value(blocks, "benchmark_duration")
    achieved = _value(blocks, "request_throughput")
    if math.isnan(n) and duration > 0 and achieved > 0:
        n = round(duration * achieved)
    records: list[Observed] = []
    for theirs, ours in _METRICS.items():
        if theirs not in blocks:
            continue
        if ours == "tpot" and recounted:
            findings.note(
                f"inter-token latency was counted in other tokens, {recounted:.0%} off; refused"
            )
            continue
        block = blocks[theirs]
        scale = unit_seconds(block)
        records += statistic_records(
            ours,
            _statistics(block),
            scale=scale,
            n_requests=0 if math.isnan(n) else int(n),
            findings=findings,
            place=theirs,
        )
    if not records:
        raise InputError(f"{findings.path}: no latencies in this summary")
    if "inter_token_latency" in blocks and not recounted:
        findings.note("inter-token latency is the mean of a request here, so it is taken as TPOT")
    for key in ("time_to_second_token", "inter_chunk_latency"):
        if key in blocks:
            findings.note(f"{key.replace('_', ' ')} is no like quantity; refused")
    rate, users = _load(config)
    if math.isnan(rate) and users is None:
        findings.note("the rate is the one achieved; the one asked for is not there")
    failed = _value(blocks, "error_request_count")
    stage = Stage(
        name=f"{users} users" if users else "",
        rate=math.nan if users else (rate if rate > 0 else achieved),
        rate_is_offered=rate > 0,
        concurrency=users,
        arrivals="poisson",
        duration=duration,
        n_requests=0 if math.isnan(n) else int(n),
        n_failed=0 if math.isnan(failed) else int(failed),
        input_tokens=_lengths(blocks, "input_sequence_length"),
        output_tokens=outputs,
        observed=under_contract(records, outputs, findings, "run"),
    )
    return RunSummary(id=name, server=TraceServer(model=_model(config)), stages=(stage,))


def _statistics(block: JsonTable) -> dict[str, float]:
    found = {"mean": block.maybe("avg", least=0)}
    for key in block.value:
        if key in {"min", "max"} or _PERCENTILE.fullmatch(key):
            found[key] = block.maybe(key, least=0)
    return found


def _lengths(blocks: dict[str, JsonTable], key: str) -> Lengths:
    if key not in blocks or "avg" not in blocks[key]:
        return Lengths()
    block = blocks[key]
    if block.text("unit", "") in SECONDS_BY_UNIT:
        raise InputError(f"{block.where}: {key} has the unit of a time")
    values = _statistics(block)
    quantiles = {float(k[1:]) / 100: v for k, v in values.items() if k[0] == "p" and v >= 0}
    return Lengths(
        mean=values["mean"],
        sd=block.maybe("std", least=0),
        low=values.get("min", math.nan),
        high=values.get("max", math.nan),
        quantiles=dict(sorted(quantiles.items())),
    )


def _output(blocks: dict[str, JsonTable]) -> tuple[Lengths, float]:
    """Output lengths; by how much the client's count is off where the server told its own."""
    told = _lengths(blocks, "usage_completion_tokens")
    client = _lengths(blocks, "output_sequence_length")
    if told.known and client.known and told.mean > 0:
        off = abs(client.mean / told.mean - 1)
        return told, off if off > 0.02 else 0.0
    return (told if told.known else client), 0.0


def _value(blocks: dict[str, JsonTable], key: str) -> float:
    return blocks[key].maybe("avg", least=0) if key in blocks else math.nan


def _load(config: JsonTable) -> tuple[float, int | None]:
    """Rate and concurrency that were asked for, wherever the version keeps them."""
    rate, users = math.nan, None
    stack = [config]
    while stack:
        table = stack.pop()
        for key, value in table.value.items():
            if isinstance(value, dict):
                stack.append(JsonTable(value, f"{table.where} {key}"))
            elif isinstance(value, bool) or not isinstance(value, int | float):
                continue
            elif key == "request_rate" and value > 0:
                rate = float(value)
            elif key == "concurrency" and value >= 1:
                users = int(value)
    return rate, users if math.isnan(rate) else None


def _model(config: JsonTable) -> str | None:
    for source in (config, config.table("endpoint") if "endpoint" in config else config):
        for key in ("model", "model_names", "model_name"):
            value = source.value.get(key)
            value = value[0] if isinstance(value, list) and value else value
            if isinstance(value, str):
                return value
    return None
