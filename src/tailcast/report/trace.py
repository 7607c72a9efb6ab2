"""Recorded runs as text: requests, statistics, engine steps."""

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from tailcast.report.tables import render_rows
from tailcast.traces.importers.imported import Imported
from tailcast.traces.run_summary import Lengths, RunSummary, Stage
from tailcast.traces.step_log import StepLog
from tailcast.traces.step_noise import StepNoise, step_noise
from tailcast.traces.trace_summary import Spread, TraceSummary, trace_summary
from tailcast.traces.tracev2 import Trace

_SECONDS = ("ttft", "tpot", "itl", "e2e", "lateness")
_HEADER = ("group", "quantity", "n", "mean", "p50", "p90", "p95", "p99", "max")
_STATISTICS = ("mean", "p50", "p90", "p95", "p99")
_QUANTILES = (0.5, 0.9, 0.99)


def imported_text(found: Imported, style: str) -> str:
    """Summary of what was imported.

    Parameters
    ----------
    found : Imported
        Trace, statistics or steps.
    style : {"table", "markdown", "csv"}
        Rendering of its table; CSV is the table alone.

    Returns
    -------
    str
        Without a final newline.
    """
    content = found.content
    if isinstance(content, Trace):
        summary = trace_summary(content, found.token_times)
        return trace_text(summary, style, _fault_lines(found))
    if isinstance(content, StepLog):
        header, rows = step_rows(content)
        lines = _step_lines(content, step_noise(content))
    else:
        header, rows = summary_rows(content)
        lines = _run_lines(content)
    table = render_rows(header, rows, style)
    return table if style == "csv" else "\n".join([*lines, *_fault_lines(found), "", table])


def imported_json(found: Imported) -> dict[str, Any]:
    """Summary of what was imported, for JSON: seconds and tokens.

    Parameters
    ----------
    found : Imported
        Trace, statistics or steps.

    Returns
    -------
    dict
        With ``schema``, ``format``, ``notes`` and ``counts``.
    """
    content = found.content
    told = {"format": found.format, "notes": list(found.notes), "counts": dict(found.counts)}
    told["faults"] = [str(fault) for fault in found.faults]
    if isinstance(content, Trace):
        return {**trace_summary(content, found.token_times).as_json(), **told}
    if isinstance(content, StepLog):
        noise = asdict(step_noise(content))
        noise.pop("residual")
        noise["coefficients"] = noise["coefficients"].tolist()
        counts = {
            "n_step": len(content),
            "n_segment": content.n_segment,
            "prefill_tokens": int(content.prefill_tokens.sum()),
            "decode_tokens": int(content.decode_tokens.sum()),
            "busy": float(content.elapsed.sum()),
        }
        return {"schema": "tailcast/steps/1", **counts, "noise": noise, **told}
    runs = [_run_json(run) for run in content]
    return {"schema": "tailcast/runs/1", "runs": runs, **told}


def trace_text(summary: TraceSummary, style: str, more: Sequence[str] = ()) -> str:
    """Summary of a trace.

    Parameters
    ----------
    summary : TraceSummary
        What it holds.
    style : {"table", "markdown", "csv"}
        Rendering of its table; CSV is the table alone.
    more : sequence of str
        Further lines above the table.

    Returns
    -------
    str
        Without a final newline.
    """
    rows = [_row(spread) for spread in summary.spreads if spread.n]
    table = render_rows(_HEADER, rows, style)
    return table if style == "csv" else "\n".join([*_trace_lines(summary), *more, "", table])


def summary_rows(runs: Sequence[RunSummary]) -> tuple[list[str], list[list[str]]]:
    """Rows of statistics, one a run, stage and metric; milliseconds.

    Parameters
    ----------
    runs : sequence of RunSummary
        Runs.

    Returns
    -------
    header : list of str
        Column names.
    rows : list of list of str
        Cells; a range where only the bucket of a quantile is known.
    """
    header = ["run", "load", "n", "metric", *(f"{s} ms" for s in _STATISTICS)]
    rows = []
    for run in runs:
        for stage in run.stages:
            for metric in stage.metrics:
                cells = [_statistic(stage, metric, statistic) for statistic in _STATISTICS]
                rows.append([run.id, _load(stage), str(stage.n_requests), metric, *cells])
    return header, rows


def step_rows(log: StepLog) -> tuple[list[str], list[list[str]]]:
    """Rows of step durations by what the batch held.

    Parameters
    ----------
    log : StepLog
        Steps.

    Returns
    -------
    header : list of str
        Column names.
    rows : list of list of str
        Cells; durations in milliseconds, the rest by step.
    """
    header = ["steps", "n", "mean ms", "p50 ms", "p90 ms", "p99 ms", "prefill tokens", "decodes"]
    prefill, decode = log.prefill_requests > 0, log.decode_requests > 0
    kinds = {
        "all": prefill | decode,
        "decode only": decode & ~prefill,
        "prefill only": prefill & ~decode,
        "mixed": prefill & decode,
    }
    rows = []
    for name, mine in kinds.items():
        if mine.any():
            elapsed = log.elapsed[mine] * 1e3
            values = [elapsed.mean(), *np.quantile(elapsed, _QUANTILES)]
            means = [log.prefill_tokens[mine].mean(), log.decode_requests[mine].mean()]
            rows.append([name, str(mine.sum()), *(_cell(float(v)) for v in [*values, *means])])
    return header, rows


def _row(spread: Spread) -> list[str]:
    """Cells of one line: milliseconds for times, tokens for lengths."""
    in_ms = spread.quantity in _SECONDS
    name = f"{spread.quantity} ms" if in_ms else spread.quantity.replace("_", " ")
    values = (spread.mean, spread.p50, spread.p90, spread.p95, spread.p99, spread.max)
    cells = [_cell(value * 1e3 if in_ms else value) for value in values]
    return ["all" if spread.group < 0 else str(spread.group), name, str(spread.n), *cells]


def _fault_lines(found: Imported) -> list[str]:
    n_severe = sum(fault.severe for fault in found.faults)
    if not n_severe:
        return []
    return [f"{n_severe} faults and {len(found.faults) - n_severe} remarks; see trace check"]


def _cell(value: float) -> str:
    if math.isnan(value):
        return "n/a"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _trace_lines(summary: TraceSummary) -> list[str]:
    states = ", ".join(f"{n} {status}" for status, n in sorted(summary.n_by_status.items()))
    rates = [f"{_cell(summary.request_rate)} requests/s"]
    served = summary.n_counted > 0
    if served:
        rates += [
            f"{_cell(summary.input_rate)} prompt tokens/s",
            f"{_cell(summary.output_rate)} output tokens/s",
            f"{_cell(summary.concurrency)} in flight",
        ]
    lines = [
        f"{summary.n_request} requests ({states}) in {summary.duration:.1f} s"
        + ("" if summary.complete else "; the run was stopped"),
        ", ".join(rates) + ("" if served else "; no latencies: a workload"),
    ]
    if not math.isnan(summary.cached_share):
        lines.append(f"{summary.cached_share:.1%} of the prompt tokens were cached")
    if summary.n_merged:
        lines.append(f"{summary.n_merged} token events came together with the one before")
    told = {key: value for key, value in summary.server.items() if not isinstance(value, dict)}
    if told:
        lines.append("server: " + ", ".join(f"{key} {value}" for key, value in told.items()))
    plain = {k: v for k, v in summary.counters.items() if not isinstance(v, dict)}
    if plain:
        lines.append("counters: " + ", ".join(f"{k} {_number(v)}" for k, v in plain.items()))
    for reason in summary.client.get("bottleneck_reasons", ()):
        lines.append(f"the client was the bottleneck: {reason}")
    return lines


def _number(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _run_lines(runs: Sequence[RunSummary]) -> list[str]:
    n = sum(len(run.stages) for run in runs)
    lines = [
        f"{len(runs)} runs, {n} stages"
        if len(runs) > 1
        else f"{n} stage{'s' if n > 1 else ''} of {runs[0].id}"
    ]
    for run in runs[:1]:
        told = {k: v for k, v in asdict(run.server).items() if v is not None and v != {}}
        if told:
            lines.append("server: " + ", ".join(f"{key} {value}" for key, value in told.items()))
    stages = [stage for run in runs for stage in run.stages]
    for name, key in (("prompt", "input_tokens"), ("output", "output_tokens")):
        known = [getattr(s, key) for s in stages if getattr(s, key).known]
        if known:
            lines.append(
                f"{name} tokens: {_lengths(known[0])}"
                + ("" if _same_mean(known) else f" .. {_lengths(known[-1])}")
            )
    failed = sum(stage.n_failed for stage in stages)
    if failed:
        lines.append(f"{failed} requests did not succeed; they enter no latency")
    return lines


def _same_mean(known: Sequence[Lengths]) -> bool:
    return all(abs(k.mean - known[0].mean) < 0.5 for k in known)


def _lengths(lengths: Lengths) -> str:
    text = f"mean {_cell(lengths.mean)}"
    if math.isfinite(lengths.low) and math.isfinite(lengths.high):
        text += f", {_cell(lengths.low)} to {_cell(lengths.high)}"
    return text


def _load(stage: Stage) -> str:
    if stage.concurrency is not None:
        return f"{stage.concurrency} users"
    if math.isnan(stage.rate):
        return stage.name or "n/a"
    return f"{stage.rate:.3g}/s" + ("" if stage.rate_is_offered else " achieved")


def _statistic(stage: Stage, metric: str, statistic: str) -> str:
    value = stage.value(metric, statistic)
    if math.isfinite(value):
        return _cell(value * 1e3)
    for bound in stage.bounds:
        if (bound.metric, bound.statistic) == (metric, statistic):
            if math.isinf(bound.high):
                return f"over {_cell(bound.low * 1e3)}"
            return f"{_cell(bound.low * 1e3)}..{_cell(bound.high * 1e3)}"
    return "n/a"


def _run_json(run: RunSummary) -> dict[str, Any]:
    stages = []
    for stage in run.stages:
        lengths = {
            key: {"mean": getattr(stage, key).mean} for key in ("input_tokens", "output_tokens")
        }
        stages.append(
            {
                "name": stage.name,
                "rate": stage.rate,
                "rate_is_offered": stage.rate_is_offered,
                "concurrency": stage.concurrency,
                "duration": stage.duration,
                "n_requests": stage.n_requests,
                "n_failed": stage.n_failed,
                **lengths,
                "observed": [
                    {"metric": o.metric, "statistic": o.statistic, "value": o.value}
                    for o in stage.observed
                ],
                "bounds": [asdict(bound) for bound in stage.bounds],
            }
        )
    server = {k: v for k, v in asdict(run.server).items() if v is not None}
    return {"id": run.id, "server": server, "stages": stages}


def _step_lines(log: StepLog, noise: StepNoise) -> list[str]:
    busy = float(log.elapsed.sum())
    times = log.log_time[np.isfinite(log.log_time)]
    span = float(times.max() - times.min()) if len(times) else math.nan
    lines = [
        f"{len(log)} steps in {log.n_segment} segments, {busy:.1f} s of computing"
        + (f" in {span:.1f} s" if span > 0 else ""),
        f"{int(log.prefill_tokens.sum())} prefill tokens, {int(log.decode_tokens.sum())} decode "
        f"tokens; at most {int(log.decode_requests.max())} decodes and "
        f"{int(log.new_tokens.max())} new tokens in a step",
    ]
    if np.isfinite(log.kv_usage).any():
        lines.append(f"KV cache: {np.nanmax(log.kv_usage):.1%} in use at most")
    if math.isfinite(noise.sd):
        lines.append(
            f"noise about a linear law: log sd {noise.sd:.3f}, skew {noise.skew:+.2f}, "
            f"correlation of neighbours {noise.lag1:.2f}"
        )
        lines.append(
            f"effective number of steps: {noise.n_effective:.0f} of {noise.n_step} for the level "
            f"of this run ({noise.n_effective_short:.0f} beside a level of its own)"
        )
    return lines
