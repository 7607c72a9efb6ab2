"""`tailcast observe`: drive a real server and write what happened as a trace."""

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailcast.cli.emit import emit, emit_json, say
from tailcast.cli.options import Format, FormatOption, OutputOption, SeedOption
from tailcast.cli.predict import InputOption, OutputTokensOption, RateOption
from tailcast.errors import InputError, UsageError

if TYPE_CHECKING:
    from tailcast.observe.run import Progress
    from tailcast.observe.settings import ObserveSettings
    from tailcast.request import RequestTable
    from tailcast.traces.trace_header import TraceServer


UrlArgument = Annotated[str, typer.Argument(help="Server, e.g. http://localhost:8000.")]
FolderArgument = Annotated[Path, typer.Argument(help="New folder for the trace.")]
StudyOption = Annotated[
    Path | None, typer.Option("--study", help="Study file: [workload], [deployment].")
]
ReplayOption = Annotated[
    Path | None, typer.Option("--replay", help="Trace or workload of any format, to be sent again.")
]
ModelOption = Annotated[
    str | None, typer.Option("--model", help="Served model name; the only one by default.")
]
ConcurrencyOption = Annotated[
    int | None, typer.Option("--concurrency", min=1, help="Requests in flight, closed loop.")
]
CountOption = Annotated[int | None, typer.Option("--num-requests", min=1, help="How many to send.")]
EndpointOption = Annotated[str, typer.Option("--endpoint", help="completions or chat.")]
DialectOption = Annotated[str, typer.Option("--dialect", help="auto, vllm, llamacpp or plain.")]
TimeoutOption = Annotated[
    str | None, typer.Option("--timeout", help="Give a request up after this, e.g. 300s.")
]
WarmupOption = Annotated[
    int, typer.Option("--warmup", min=0, help="Requests before the run, not recorded.")
]


def observe(
    url: UrlArgument,
    folder: FolderArgument,
    study: StudyOption = None,
    replay: ReplayOption = None,
    model: ModelOption = None,
    rate: RateOption = None,
    concurrency: ConcurrencyOption = None,
    num_requests: CountOption = None,
    input_tokens: InputOption = None,
    output_tokens: OutputTokensOption = None,
    endpoint: EndpointOption = "completions",
    dialect: DialectOption = "auto",
    timeout: TimeoutOption = None,
    warmup: WarmupOption = 0,
    seed: SeedOption = 0,
    style: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """Drive an OpenAI-compatible server and record every token; Ctrl-C keeps what there is.

    The API key is read from TAILCAST_API_KEY or OPENAI_API_KEY.
    """
    from tailcast.cli.trace import show_trace
    from tailcast.observe.save import reserved_folder
    from tailcast.observe.settings import ObserveSettings
    from tailcast.units import parse_duration

    settings = ObserveSettings(
        url=url,
        llm=model,
        endpoint=endpoint,
        dialect=dialect,
        warm_up=warmup,
        timeout=parse_duration(timeout) if timeout else math.inf,
    )
    load = {
        "rate": rate,
        "concurrency": concurrency,
        "n_requests": num_requests,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
    }
    given = {key: value for key, value in load.items() if value is not None}
    known = _known(study, replay)
    requests, notes = _replayed(replay, given) if replay else _drawn(study, given, seed)
    with reserved_folder(folder):
        for note in notes:
            say(note)
        stopped = _recorded(settings, requests, known, folder, None if replay else seed)
    show_trace(folder, style, lambda text: emit(text, output), lambda c: emit_json(c, output))
    if stopped:
        raise typer.Exit(130)


def _recorded(
    settings: "ObserveSettings",
    requests: "RequestTable",
    known: "TraceServer | None",
    folder: Path,
    seed: int | None,
) -> bool:
    """Run, write the trace, tell what went wrong; whether the run was stopped."""
    from tailcast.observe.run import observe as run_observe
    from tailcast.observe.save import save_observation
    from tailcast.units import format_duration

    _more_files()
    say(f"{len(requests)} requests to {settings.url}")
    seen = run_observe(settings, requests, progress=_progress)
    save_observation(seen, folder, known, workload_seed=seed)
    late = seen.lateness
    say(
        f"client: sent {format_duration(late.send_p50)} late at the median, "
        f"{format_duration(late.send_p99)} at P99"
    )
    for note in (*seen.server.notes, *_failures(seen.records)):
        say(note)
    for reason in late.reasons:
        say(f"the client was the bottleneck: {reason}")
    if seen.parent_failed:
        say(f"{len(seen.parent_failed)} turns were not sent because the one before them failed")
    if seen.stopped:
        say(f"stopped; {seen.n_unsent} requests were not sent, the rest is in {folder}")
    return seen.stopped


def _drawn(
    study: Path | None, given: dict[str, Any], seed: int
) -> "tuple[RequestTable, tuple[str, ...]]":
    """Requests of a study's workload with the flags on top, and what was assumed."""
    from tailcast.study import read_study
    from tailcast.workload.mapping import workload_from_mapping
    from tailcast.workload.materialise import materialise

    table: dict[str, Any] = dict(read_study(study).get("workload", {})) if study else {}
    if study and not table and not given:
        raise InputError(f"{study}: table [workload] is missing; add it, or give --rate")
    if "rate" in given and "concurrency" in given:
        raise UsageError("give --rate or --concurrency, not both")
    if "rate" in given or "concurrency" in given:  # the flag replaces whatever the load was
        for key in ("rate", "stages", "concurrency", "duration"):
            table.pop(key, None)
        if "concurrency" in given:
            table.pop("arrivals", None)
    if "n_requests" in given:
        table.pop("duration", None)
    table |= given
    missing = [
        f"--{name.replace('_', '-')}"
        for name in ("input_tokens", "output_tokens")
        if name not in table and not any(key in table for key in ("preset", "classes", "lengths"))
    ]
    if not any(key in table for key in ("rate", "stages", "concurrency", "preset")):
        missing.insert(0, "--rate or --concurrency")
    if missing:
        raise UsageError(f"give {', '.join(missing)}, or a study file or a trace")
    try:
        where = f"{study} [workload]" if study else "flags"
        workload = workload_from_mapping(table, where, folder=study.parent if study else None)
    except InputError as error:
        if study:
            raise
        raise UsageError(str(error)) from error
    return materialise(workload, seed), tuple(workload.notes)


def _replayed(path: Path, given: dict[str, Any]) -> "tuple[RequestTable, tuple[str, ...]]":
    """Requests of a trace, at their times or at a fixed concurrency, and what is left out."""
    from tailcast.observe.run import closed_loop
    from tailcast.traces.importers.reading import read_requests
    from tailcast.traces.trace_replay import trace_requests

    if odd := [key for key in given if key not in {"concurrency", "n_requests"}]:
        raise UsageError(f"--{odd[0].replace('_', '-')} does not go with --replay")
    trace, imported = read_requests(path)
    spoken = trace.columns.get("session_output")
    sessions = spoken is not None and bool(spoken.any())
    requests = trace_requests(trace, sessions="closed-loop" if sessions else "recorded")
    n_left = len(trace) - len(requests)
    left = (f"{n_left} requests of {path} have no output and are left out",) if n_left else ()
    notes = (*imported.notes, *left)
    if "n_requests" in given:
        from tailcast.request import RequestTable

        columns = {name: getattr(requests, name) for name in RequestTable.__slots__}
        requests = replace(requests, **{k: v[: given["n_requests"]] for k, v in columns.items()})
    if "concurrency" in given:
        requests = closed_loop(requests, given["concurrency"])
    return requests, notes


def _known(study: Path | None, replay: Path | None) -> "TraceServer | None":
    """What the user knows of the deployment: the study's table."""
    from tailcast.study import deployment_from_mapping, read_study
    from tailcast.traces.trace_server import server_of

    if study and replay:
        raise UsageError("give --study or --replay, not both")
    table = read_study(study).get("deployment") if study else None
    return server_of(deployment_from_mapping(table, f"{study} [deployment]")) if table else None


def _progress(now: "Progress") -> None:
    failed = f", {now.n_failed} failed" if now.n_failed else ""
    say(f"{now.time:.0f} s: {now.n_sent} of {now.n_request} sent, {now.n_open} open{failed}")


def _failures(records: Any) -> list[str]:
    """One line a kind of failure."""
    counts: dict[str, int] = {}
    for record in records:
        if record.error:
            counts[record.error] = counts.get(record.error, 0) + 1
    most = sorted(counts.items(), key=lambda item: -item[1])
    lines = [f"{count} requests failed: {reason}" for reason, count in most[:5]]
    if len(most) > 5:
        lines.append(f"{sum(count for _, count in most[5:])} requests failed for other reasons")
    return lines


def _more_files() -> None:
    """Let this process open as many connections as the system allows."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 65536 if hard == resource.RLIM_INFINITY else min(65536, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
