"""`tailcast trace`: look at recorded runs."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailcast.cli.emit import emit, emit_json
from tailcast.cli.options import Format, FormatOption, OutputOption

if TYPE_CHECKING:
    from tailcast.traces.trace_summary import Spread, TraceSummary

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Recorded runs.")

PathArgument = Annotated[Path, typer.Argument(help="Folder of a trace, or its header or CSV.")]
_SECONDS = ("ttft", "tpot", "itl", "e2e", "lateness")


@app.command("show")
def show(
    path: PathArgument, style: FormatOption = Format.table, output: OutputOption = None
) -> None:
    """Summarise a trace: requests, rates, lengths, latencies, lateness, server counters."""
    show_trace(path, style, lambda text: emit(text, output), lambda c: emit_json(c, output))


@app.command("check")
def check(
    path: PathArgument, style: FormatOption = Format.table, output: OutputOption = None
) -> None:
    """Name the faults of a trace with row and column; exit 1 where there is a severe one."""
    from dataclasses import asdict

    from tailcast.report.tables import render_rows
    from tailcast.traces.trace_faults import trace_faults
    from tailcast.traces.trace_files import trace_files

    faults = trace_faults(trace_files(path))
    n_severe = sum(fault.severe for fault in faults)
    if style is Format.json:
        content = {
            "schema": "tailcast/trace-check/1",
            "severe": n_severe,
            "faults": [asdict(fault) for fault in faults],
        }
        emit_json(content, output)
    elif style is Format.table:
        lines = [f"{'fault' if f.severe else 'note '}  {f}" for f in faults]
        verdict = f"{n_severe} faults, {len(faults) - n_severe} notes" if faults else "no faults"
        emit("\n".join([*lines, verdict]), output)
    else:
        header = ["severe", "kind", "file", "line", "column", "rows", "message"]
        rows = [
            [
                "yes" if f.severe else "no",
                f.kind,
                f.file,
                str(f.line or ""),
                f.column,
                str(f.n_rows),
                f.message,
            ]
            for f in faults
        ]
        emit(render_rows(header, rows, style.value), output)
    if n_severe:
        raise typer.Exit(1)


def show_trace(
    path: Path, style: Format, text_out: Callable[[str], None], json_out: Callable[[Any], None]
) -> None:
    """Summarise and render the trace at a path.

    Parameters
    ----------
    path : pathlib.Path
        Folder or file of it.
    style : Format
        Rendering.
    text_out, json_out : callable
        Take the rendered text, or the content for JSON.
    """
    from tailcast.report.tables import render_rows
    from tailcast.traces.token_times import read_token_times
    from tailcast.traces.trace_files import trace_files
    from tailcast.traces.trace_summary import trace_summary
    from tailcast.traces.tracev2 import read_trace

    files = trace_files(path)
    trace = read_trace(files.header, files.requests)
    times = None if files.token_times is None else read_token_times(files.token_times, trace)
    summary = trace_summary(trace, times)
    if style is Format.json:
        json_out(summary.as_json())
        return
    header = ["group", "quantity", "n", "mean", "p50", "p90", "p95", "p99", "max"]
    rows = [_row(spread) for spread in summary.spreads]
    table = render_rows(header, rows, style.value)
    text_out(table if style is Format.csv else "\n".join([*_lines(summary), "", table]))


def _row(spread: "Spread") -> list[str]:
    """Cells of one line: milliseconds for times, tokens for lengths."""
    in_ms = spread.quantity in _SECONDS
    name = f"{spread.quantity} ms" if in_ms else spread.quantity.replace("_", " ")
    values = (spread.mean, spread.p50, spread.p90, spread.p95, spread.p99, spread.max)
    cells = [_cell(value * 1e3 if in_ms else value) for value in values]
    return ["all" if spread.group < 0 else str(spread.group), name, str(spread.n), *cells]


def _cell(value: float) -> str:
    if math.isnan(value):
        return "n/a"
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _lines(summary: "TraceSummary") -> list[str]:
    states = ", ".join(f"{n} {status}" for status, n in sorted(summary.n_by_status.items()))
    lines = [
        f"{summary.n_request} requests ({states}) in {summary.duration:.1f} s"
        + ("" if summary.complete else "; the run was stopped"),
        f"{_cell(summary.request_rate)} requests/s, {_cell(summary.input_rate)} prompt tokens/s, "
        f"{_cell(summary.output_rate)} output tokens/s, {_cell(summary.concurrency)} in flight",
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
