"""`tailcast replay`: serve a recorded run's requests again, by a posterior or a point model."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailcast.cli.emit import check_output, emit_json, say
from tailcast.cli.options import (
    CiProbOption,
    DrawsOption,
    Format,
    FormatOption,
    Mode,
    ModeOption,
    OutputOption,
    PosteriorOption,
    SeedOption,
)
from tailcast.cli.predict import GpuOption, ModelOption, TpOption
from tailcast.cli.trace import FromOption
from tailcast.errors import UsageError

if TYPE_CHECKING:
    from tailcast.engine.point_model import PointModel
    from tailcast.replay import Replay


class Sessions(StrEnum):
    """When the later turns of a session are sent."""

    recorded = "recorded"
    closed_loop = "closed-loop"


TraceArgument = Annotated[
    Path, typer.Argument(help="Trace, or file or folder of another tool (see trace formats).")
]
LatencyModelOption = Annotated[
    str | None,
    typer.Option("--latency-model", help="Fixed coefficients: one run instead of a posterior."),
]
SessionsOption = Annotated[
    Sessions, typer.Option("--sessions", help="Later turns: recorded times or closed-loop.")
]
HorizonOption = Annotated[
    str | None, typer.Option("--horizon", help="Start no step after this, e.g. 600s.")
]
ExportOption = Annotated[
    Path | None,
    typer.Option("--export", help="Write the simulated run as PREFIX.yaml and PREFIX.csv."),
]


def replay(
    trace: TraceArgument,
    name: FromOption = None,
    model: ModelOption = None,
    gpu: GpuOption = None,
    tensor_parallel: TpOption = None,
    posterior: PosteriorOption = None,
    latency_model: LatencyModelOption = None,
    mode: ModeOption = None,
    sessions: SessionsOption = Sessions.recorded,
    horizon: HorizonOption = None,
    export: ExportOption = None,
    draws: DrawsOption = 200,
    seed: SeedOption = 0,
    ci_prob: CiProbOption = 0.89,
    style: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """Replay a recorded run's requests: intervals of a posterior, or one run of fixed numbers.

    LLM, accelerator and limits come from the trace's header; flags go before it.
    """
    from tailcast.cli.trace import say_imported
    from tailcast.replay import replay_deployment, replay_draws, replay_point
    from tailcast.traces.importers.reading import read_requests
    from tailcast.units import parse_duration

    check_output(None if export is None else export.with_name(f"{export.name}.yaml"))
    limit = float("inf") if horizon is None else parse_duration(horizon)
    point = _point_model(posterior, latency_model, mode)
    recorded, imported = read_requests(trace, name=name)
    say_imported(imported)
    deployment = replay_deployment(
        recorded.header,
        llm=model,
        gpu=gpu,
        tensor_parallel=tensor_parallel,
        mode="vllm" if point is None else point.mode,
    )
    if point is not None:
        found = replay_point(
            recorded,
            deployment,
            point,
            sessions=sessions.value,
            horizon=limit,
            export=export is not None,
        )
    else:
        from tailcast.artifacts import DEFAULT_POSTERIOR
        from tailcast.posteriors import load_posterior

        found = replay_draws(
            recorded,
            deployment,
            load_posterior(DEFAULT_POSTERIOR if posterior is None else posterior),
            n_draw=draws,
            seed=seed,
            sessions=sessions.value,
            horizon=limit,
            export=export is not None,
        )
    if export is not None:
        _write_export(found, export)
    asked = {"trace": str(trace), "sessions": sessions.value, "horizon": limit, "seed": seed}
    _render(found, asked, ci_prob, style, output)


def _point_model(
    posterior: str | None, latency_model: str | None, mode: Mode | None
) -> "PointModel | None":
    from tailcast.engine.point_model import names_latency_model, point_model

    if posterior is not None and latency_model is not None:
        raise UsageError("give either --posterior or --latency-model")
    name = latency_model or posterior
    is_point = latency_model is not None or mode is Mode.blis
    if not is_point and (name is None or not names_latency_model(name)):
        return None
    return point_model(name, None if mode is None else mode.value)


def _write_export(found: "Replay", prefix: Path) -> None:
    from tailcast.traces.tracev2 import write_trace
    from tailcast.whole_file import whole_file

    if found.exported is None:
        return
    paths = [prefix.with_name(prefix.name + ending) for ending in (".yaml", ".csv")]
    try:
        with whole_file(paths[0]) as header, whole_file(paths[1]) as rows:
            write_trace(found.exported, header, rows)
    except OSError as error:
        raise UsageError(f"{prefix}: cannot be written ({error.strerror})") from error
    say(f"the simulated run is in {paths[0]} and {paths[1].name}")


def _render(
    found: "Replay", asked: dict[str, Any], ci_prob: float, style: Format, output: Path | None
) -> None:
    from dataclasses import asdict

    from tailcast.cli.point import write_table
    from tailcast.comparison import PointAnswer
    from tailcast.report.replay import replay_json, replay_rows, replay_text
    from tailcast.report.tables import render_rows

    d, kv_blocks = found.deployment, found.deployment.kv_block_count
    if isinstance(found.answer, PointAnswer) and found.answer.run is not None:
        kv_blocks = found.answer.run.kv_blocks
    if style is Format.json:
        inputs = {
            **asked,
            "model": d.llm.name,
            "gpu": d.accelerator.name,
            "tensor_parallel": d.tensor_parallel,
            "kv_blocks": kv_blocks,
            "engine": asdict(d.engine),
        }
        emit_json(replay_json(found, ci_prob, inputs), output)
        return
    header, rows = replay_rows(found, ci_prob)
    heading = (
        f"{asked['trace']} on {d.llm.name}, {d.n_accelerators} x {d.accelerator.name} "
        f"(TP {d.tensor_parallel}), {d.engine.name} {d.engine.version}, {kv_blocks} KV blocks"
    )
    table = render_rows(header, rows, style.value)
    write_table(heading, table, replay_text(found, ci_prob), style, output)
