"""Reports of guidellm in CSV: three header rows, then one benchmark a row."""

import csv
import math

import numpy as np

from tailcast.errors import InputError
from tailcast.traces.importers.findings import Findings
from tailcast.traces.importers.guidellm_json import refuse_guidellm_metrics, strategy_load
from tailcast.traces.importers.imported import Imported, ReadOptions, imported
from tailcast.traces.importers.json_table import number_list
from tailcast.traces.importers.sample import Sample
from tailcast.traces.importers.stage_statistics import statistic_records, under_contract
from tailcast.traces.run_summary import Lengths, RunSummary, Stage
from tailcast.traces.trace_header import TraceServer

NAME = "guidellm-csv"

type Cells = dict[tuple[str, str, str], str]

_QUANTILES = ("min", "p0.1", "p1", "p5", "p10", "p25", "p75", "p90", "p95", "p99", "max")
_STRATEGY = ("Benchmark", "Strategy", "")


def recognises(sample: Sample) -> bool:
    """Whether a file is a CSV report of guidellm.

    Parameters
    ----------
    sample : Sample
        What may be one.

    Returns
    -------
    bool
        By its first header row.
    """
    return sample.has_columns("Run Info", "Benchmark", "Timings", "Request Counts")


def read(sample: Sample, options: ReadOptions) -> Imported:
    """Statistics of a CSV report, one run a row.

    Parameters
    ----------
    sample : Sample
        The file.
    options : ReadOptions
        Nothing of it applies.

    Returns
    -------
    Imported
        The statistics; the rate is the one achieved, since the file has no other.

    Raises
    ------
    InputError
        If a row has another number of cells than the headers, or a value is impossible.
    """
    findings = Findings(str(sample.path))
    try:
        table = list(csv.reader(line for _, line in sample.lines()))
    except csv.Error as error:
        raise InputError(f"{sample.path}: not a CSV file: {error}") from error
    if len(table) < 4:
        raise InputError(f"{sample.path}: no benchmark below the three header rows")
    if len({len(row) for row in table[:3]}) > 1:
        raise InputError(f"{sample.path}: the three header rows differ in length")
    keys = [tuple(part.strip() for part in parts) for parts in zip(*table[:3], strict=True)]
    runs = []
    for number, row in enumerate(table[3:], start=4):
        if len(row) != len(keys):
            raise InputError(f"{sample.path}:{number}: {len(row)} cells for {len(keys)} columns")
        cells = {key: cell.strip() for key, cell in zip(keys, row, strict=True)}
        runs.append(_run(cells, f"{sample.path}:{number}", number - 4, findings))
    findings.count("read", len(runs))
    refuse_guidellm_metrics(findings)
    return imported(NAME, findings, tuple(runs))


def _run(cells: Cells, where: str, index: int, findings: Findings) -> RunSummary:
    place = f"row {index}"
    n = int(_number(cells, ("Request Counts", "Successful", ""), where))
    outputs = _lengths(cells, "Output Tokens", where)
    records = []
    for group, unit, metric, scale in (
        ("Time to First Token", "ms", "ttft", 1e-3),
        ("Request Latency", "Sec", "e2e", 1.0),
    ):
        records += statistic_records(
            metric,
            _statistics(cells, group, f"Successful {unit}", where),
            scale=scale,
            n_requests=n,
            findings=findings,
            place=f"{place} {group}",
        )
    failed = [
        _maybe(cells, ("Request Counts", key, ""), where) for key in ("Errored", "Incomplete")
    ]
    strategy = cells.get(_STRATEGY, "")
    achieved = _maybe(cells, ("Server Throughput", "Successful Requests/Sec", "Mean"), where)
    users = _maybe(cells, ("Server Throughput", "Successful Concurrency", "Mean"), where)
    closed = strategy in {"concurrent", "throughput"}
    load = strategy_load(strategy, achieved, float(round(users)) if users >= 1 else math.nan)
    if closed:
        findings.note(f"{place}: the concurrency is the mean seen; the one asked is not there")
    elif strategy != "synchronous":
        findings.note(f"{place}: the rate is the one achieved; the one asked is not there")
    stage = Stage(
        name=strategy or place,
        rate_is_offered=False,
        duration=_maybe(cells, ("Timings", "Duration", "Sec"), where),
        n_requests=n,
        n_failed=int(np.nansum(failed)),
        input_tokens=_lengths(cells, "Input Tokens", where),
        output_tokens=outputs,
        observed=under_contract(records, outputs, findings, place),
        **load,
    )
    return RunSummary(id=f"{strategy or 'row'}-{index}", server=TraceServer(), stages=(stage,))


def _statistics(cells: Cells, group: str, field: str, where: str) -> dict[str, float]:
    values = {
        "mean": _maybe(cells, (group, field, "Mean"), where),
        "p50": _maybe(cells, (group, field, "Median"), where),
    }
    text = cells.get((group, field, "Percentiles"), "")
    if text:
        try:
            found = [float(part) for part in text.strip("[]").split(",")]
        except ValueError:
            raise InputError(f"{where}: {group} percentiles {text!r:.60} are no list") from None
        if len(found) == len(_QUANTILES):
            listed = number_list(found, f"{where}: {group} percentiles", 0.0)
            values.update(zip(_QUANTILES, listed.tolist(), strict=True))
    return values


def _lengths(cells: Cells, field: str, where: str) -> Lengths:
    values = _statistics(cells, "Token Metrics", f"Successful {field}", where)
    sd = _maybe(cells, ("Token Metrics", f"Successful {field}", "Std Dev"), where)
    quantiles = {float(k[1:]) / 100: v for k, v in values.items() if k[0] == "p" and v >= 0}
    return Lengths(
        mean=values["mean"],
        sd=sd,
        low=values.get("min", math.nan),
        high=values.get("max", math.nan),
        quantiles=dict(sorted(quantiles.items())),
    )


def _maybe(cells: Cells, key: tuple[str, str, str], where: str) -> float:
    return _number(cells, key, where) if cells.get(key) else math.nan


def _number(cells: Cells, key: tuple[str, str, str], where: str) -> float:
    text = cells.get(key, "")
    name = " ".join(part for part in key if part)
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"{where}: {name} must be a number, got {text!r:.40}") from None
    if not (math.isfinite(value) and value >= 0):
        raise InputError(f"{where}: {name} must be finite and not negative, got {text}")
    return value
