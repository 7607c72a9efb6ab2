"""`tailcast trace`: look at recorded runs, and convert those of other tools."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailcast.cli.emit import emit, emit_json, say
from tailcast.cli.options import Format, FormatOption, OutputOption, SeedOption

if TYPE_CHECKING:
    from tailcast.traces.importers.imported import Imported, ReadOptions
    from tailcast.traces.raw_table import Fault

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Recorded runs.")


class Clock(StrEnum):
    """Instant that TTFT counts from."""

    arrival = "arrival"
    queued = "queued"


class Target(StrEnum):
    """What to convert to."""

    tracev2 = "tracev2"
    experiment = "experiment"
    steps = "steps"


PathArgument = Annotated[
    Path, typer.Argument(help="Trace, or file or folder of another tool (see trace formats).")
]
FromOption = Annotated[
    str | None, typer.Option("--from", help="Format of the file, where it is not recognised.")
]
ClockOption = Annotated[
    Clock, typer.Option("--clock", help="TTFT counts from arrival or queued (LLMServingSim).")
]
BeforeOption = Annotated[
    Path | None, typer.Option("--before", help="Scrape from before the run (Prometheus).")
]
LimitOption = Annotated[
    int | None, typer.Option("--limit", min=1, help="At most so many requests of a workload.")
]
WindowOption = Annotated[
    str | None, typer.Option("--window", help="Part of a workload, e.g. 0s..600s.")
]
PlotOption = Annotated[Path | None, typer.Option("--plot", help="Picture: .svg, .png or .pdf.")]


@app.command("formats")
def formats(style: FormatOption = Format.table, output: OutputOption = None) -> None:
    """List the formats that are recognised."""
    from tailcast.report.tables import render_rows
    from tailcast.traces.importers.reading import IMPORTERS

    if style is Format.json:
        rows = [{"name": i.name, "title": i.title, "gives": i.gives} for i in IMPORTERS]
        emit_json({"schema": "tailcast/formats/1", "formats": rows}, output)
        return
    cells = [[i.name, i.gives, i.title] for i in IMPORTERS]
    emit(render_rows(["name", "gives", "what"], cells, style.value), output)


@app.command("show")
def show(
    path: PathArgument,
    plot: PlotOption = None,
    name: FromOption = None,
    clock: ClockOption = Clock.arrival,
    before: BeforeOption = None,
    limit: LimitOption = None,
    window: WindowOption = None,
    seed: SeedOption = 0,
    style: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """Summarise a recorded run: counts, rates, lengths, latencies, lateness, faults."""
    from tailcast.report.trace import imported_json, imported_text

    found = _read(path, name, _options(clock, before, limit, window, seed))
    if plot is not None:
        from tailcast.report.trace_plot import plot_imported

        plot_imported(found, plot)
    if style is Format.json:
        emit_json(imported_json(found), output)
    else:
        emit(imported_text(found, style.value), output)


@app.command("check")
def check(
    path: PathArgument,
    name: FromOption = None,
    before: BeforeOption = None,
    style: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """Name the faults of a recorded run with row and column; exit 1 where there is a severe one."""
    from dataclasses import asdict

    from tailcast.report.tables import render_rows

    faults, notes = _faults(path, name, before)
    n_severe = sum(fault.severe for fault in faults)
    if style is Format.json:
        content = {
            "schema": "tailcast/trace-check/1",
            "severe": n_severe,
            "faults": [asdict(fault) for fault in faults],
            "notes": list(notes),
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


@app.command("convert")
def convert(
    path: PathArgument,
    output: Annotated[
        Path, typer.Option("-o", "--output", help="New folder (tracev2), YAML or CSV file.")
    ],
    to: Annotated[
        Target | None, typer.Option("--to", help="By the kind of the content where absent.")
    ] = None,
    name: FromOption = None,
    model: Annotated[
        str | None, typer.Option("--model", help="LLM, where the file does not say it.")
    ] = None,
    gpu: Annotated[
        str | None, typer.Option("--gpu", help="Accelerator, where the file does not say it.")
    ] = None,
    tensor_parallel: Annotated[
        int | None,
        typer.Option("--tensor-parallel-size", "-tp", min=1, help="Accelerators per replica."),
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", min=1e-9, help="Requests/s offered, where unknown.")
    ] = None,
    clock: ClockOption = Clock.arrival,
    before: BeforeOption = None,
    limit: LimitOption = None,
    window: WindowOption = None,
    seed: SeedOption = 0,
) -> None:
    """Convert a recorded run to a trace, an experiment or a table of engine steps."""
    from tailcast.traces.experiment_file import Told
    from tailcast.traces.importers.writing import write_imported

    found = _read(path, name, _options(clock, before, limit, window, seed))
    told = Told(model=model, gpu=gpu, tensor_parallel=tensor_parallel, rate=rate)
    paths, notes = write_imported(found, output, to=None if to is None else to.value, told=told)
    for note in notes:
        say(f"note: {note}")
    what = f"{paths[0]}" if len(paths) == 1 else f"{len(paths)} experiments in {output}"
    say(f"{found.path} ({found.format}) is in {what}")


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
    from tailcast.report.trace import trace_text
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
    else:
        text_out(trace_text(summary, style.value))


def _options(
    clock: Clock, before: Path | None, limit: int | None, window: str | None, seed: int
) -> "ReadOptions":
    from tailcast.traces.importers.imported import ReadOptions

    return ReadOptions(
        clock=clock.value,
        before=before,
        limit=limit,
        window=None if window is None else _window(window),
        seed=seed,
    )


def _window(text: str) -> tuple[float, float]:
    from tailcast.errors import UsageError
    from tailcast.units import parse_duration

    low, dots, high = text.partition("..")
    if not dots:
        raise UsageError(f"window {text!r} has no two ends; write for example 0s..600s")
    zero = low.strip().rstrip("smhinu") in {"0", "0."}
    return (0.0 if zero else parse_duration(low)), parse_duration(high)


def _read(path: Path, name: str | None, options: "ReadOptions") -> "Imported":
    """Content of a file; what was done and what is wrong goes to stderr."""
    from tailcast.traces.importers.reading import read_any

    found = read_any(path, name=name, options=options)
    say_imported(found)
    return found


def say_imported(found: "Imported") -> None:
    """Say what was done to a file and what is wrong with it.

    Parameters
    ----------
    found : Imported
        Its content.
    """
    if found.format != "tracev2":
        counts = ", ".join(f"{n} {what}" for what, n in found.counts.items())
        say(f"{found.path}: {found.format}; {counts}")
    for note in found.notes:
        say(f"note: {note}")
    severe = [fault for fault in found.faults if fault.severe]
    for fault in severe[:5]:
        say(f"fault: {fault}")
    if len(severe) > 5:
        say(f"and {len(severe) - 5} further faults; see trace check")


def _faults(
    path: Path, name: str | None, before: Path | None
) -> tuple[tuple["Fault", ...], tuple[str, ...]]:
    """Faults of a recorded run, one that keeps it from being read included."""
    from tailcast.errors import InputError
    from tailcast.traces.importers.imported import ReadOptions
    from tailcast.traces.importers.reading import importer, read_any, recognise
    from tailcast.traces.raw_table import Fault
    from tailcast.traces.trace_faults import trace_faults
    from tailcast.traces.trace_files import trace_files

    if not path.exists() or path.stat().st_size or path.is_dir():
        known = recognise(path) if name is None else importer(name)
        if known.name == "tracev2":
            return trace_faults(trace_files(path)), ()
    try:
        found = read_any(path, name=name, options=ReadOptions(before=before))
    except InputError as error:
        text = " ".join(str(error).split())
        message = text.removeprefix(f"{path}: ").removeprefix(f"{path}:")
        return (Fault(kind="unreadable", file=path.name, line=0, column="", message=message),), ()
    return found.faults, found.notes
