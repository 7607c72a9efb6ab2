"""`tailcast autoscale`: the control loop offline, with the engine as the plant."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailcast.cli.emit import emit, emit_json, say
from tailcast.cli.options import Format, FormatOption, OutputOption, PosteriorOption, SeedOption
from tailcast.cli.queue import (
    GpuOption,
    InputOption,
    ModelOption,
    OutputTokensOption,
    SloOption,
    TpOption,
)
from tailcast.errors import UsageError, near_name

if TYPE_CHECKING:
    from tailcast.autoscale.experiment import AutoscaleQuestion

CI_PROB = 0.89

LoadArgument = Annotated[
    str,
    typer.Argument(
        help="480rpm/30min, trapezoid:120rpm,480rpm/38min, 0s=2rps,5min=8rps,... or a CSV file "
        "with time_s and rate_rps."
    ),
]
TruthOption = Annotated[
    str | None,
    typer.Option("--numbers", help="True alpha,beta,gamma: 6.7ms,20us,55ns, each with +-10%."),
]
ControllerOption = Annotated[
    str, typer.Option("--controller", help="tuner, tuner:STATE, wva, or fixed:4.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", help="cycle=15s, pod_start=90s, most=16, risk=0.05...; repeatable."),
]
RunsOption = Annotated[
    int, typer.Option("--draws", min=1, help="Draws of truth and arrivals; one run each.")
]
PlotOption = Annotated[Path | None, typer.Option("--plot", help="Figure: PNG, SVG or PDF.")]

_DURATIONS = (
    "cycle",
    "scrape_interval",
    "scrape_delay",
    "window",
    "settle",
    "pod_start",
    "stabilisation",
)
_COUNTS = ("least", "most", "first", "max_num_seqs", "max_num_batched_tokens")
_NUMBERS = ("risk", "schedule_lag", "length_spread")
_WORDS = ("routing",)


def autoscale(
    load: LoadArgument,
    input_tokens: InputOption,
    output_tokens: OutputTokensOption,
    slo: SloOption,
    numbers: TruthOption = None,
    model: ModelOption = None,
    gpu: GpuOption = None,
    tensor_parallel: TpOption = 1,
    posterior: PosteriorOption = None,
    controller: ControllerOption = "tuner",
    settings: SetOption = None,
    draws: RunsOption = 4,
    seed: SeedOption = 0,
    plot: PlotOption = None,
    style: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """Run tuner, sizing and actuator on a load; replicas, latency and misses by time.

    The truth is --numbers, else a draw of --posterior, else of the datasheet's prior; the
    controller starts from the datasheet of --model and --gpu and never sees the truth.
    """
    from tailcast.autoscale.experiment import first_belief, make_plant, run_draws
    from tailcast.autoscale.replica import Source
    from tailcast.report.figures import check_figure_path

    if plot is not None:
        check_figure_path(plot)
    given = _settings(settings or [])
    question = _question(load, input_tokens, output_tokens, slo, controller, given, seed)
    source = Source(
        numbers=numbers,
        llm_name=model,
        gpu=gpu,
        tensor_parallel=tensor_parallel,
        posterior=posterior,
    )
    if numbers is not None and posterior is not None:
        raise UsageError("the truth is --numbers or --posterior, not both")
    lag = float(given.get("schedule_lag", 1.0))
    plant = make_plant(source, question.limits, draws, schedule_lag=lag, seed=seed)
    belief = first_belief(source, question.limits, seed=seed)
    outcomes = list(run_draws(question, plant, belief, say))
    notes = [
        f"Truth: {plant.source}. Controller: {controller}"
        + (f", first belief from {belief.source}." if controller.startswith("tuner") else "."),
        f"Target on the mean of a minute; requests count where they arrive. "
        f"Intervals: {CI_PROB:.0%} over {draws} runs.",
    ]
    _render(question, outcomes, notes, plot, style, output)


def _settings(texts: list[str]) -> dict[str, Any]:
    from tailcast.units import parse_duration

    known = (*_DURATIONS, *_COUNTS, *_NUMBERS, *_WORDS)
    found: dict[str, Any] = {}
    for text in texts:
        name, is_there, value = text.partition("=")
        name = name.strip().replace("-", "_")
        if not is_there or name not in known:
            raise UsageError(f"--set {text!r}: no setting {name!r}; {near_name(name, known)}")
        if name in _WORDS:
            found[name] = value.strip()
            continue
        try:
            if name in _DURATIONS:
                found[name] = 0.0 if value.strip() in {"0", "0s"} else parse_duration(value)
            else:
                found[name] = int(value) if name in _COUNTS else float(value)
        except ValueError as error:
            raise UsageError(f"--set {text!r}: {error}") from None
    return found


def _question(
    load: str,
    input_tokens: float,
    output_tokens: float,
    slo: list[str],
    controller: str,
    given: dict[str, Any],
    seed: int,
) -> "AutoscaleQuestion":
    from dataclasses import fields

    from tailcast.autoscale.experiment import AutoscaleQuestion
    from tailcast.autoscale.load import parse_load
    from tailcast.autoscale.loop import LoopSettings
    from tailcast.queueing.field_units import parse_targets
    from tailcast.queueing.server import RequestShape, ServerLimits

    targets = parse_targets(slo)
    if not (targets.ttft or targets.itl):
        raise UsageError("autoscale needs a target on latency: --slo ttft=60ms or itl=20ms")
    shape = RequestShape(tokens_in=input_tokens, tokens_out=output_tokens)
    shape.check_served()
    loop_fields = {field.name for field in fields(LoopSettings)}
    own = ("risk", "stabilisation", "routing", "length_spread")
    return AutoscaleQuestion(
        load=parse_load(load),
        shape=shape,
        targets=targets,
        loop=LoopSettings(**{k: v for k, v in given.items() if k in loop_fields}),
        limits=ServerLimits(
            max_batch=given.get("max_num_seqs", 256),
            max_batched_tokens=given.get("max_num_batched_tokens", 8192),
        ),
        controller=controller,
        seed=seed,
        **{k: v for k, v in given.items() if k in own},
    )


def _render(
    question: "AutoscaleQuestion",
    outcomes: list[Any],
    notes: list[str],
    plot: Path | None,
    style: Format,
    output: Path | None,
) -> None:
    from dataclasses import asdict

    from tailcast.report.autoscale import (
        autoscale_json,
        draw_plot,
        shown_run,
        summary_rows,
        timeline_rows,
    )
    from tailcast.report.tables import render_rows

    shown = outcomes[shown_run(outcomes)]
    if plot is not None:
        draw_plot(outcomes, question.targets, notes[0], plot)
    if style is Format.json:
        load = question.load
        inputs = {
            **{k: v for k, v in asdict(question).items() if k != "load"},
            "load": {"time": load.times.tolist(), "rate": load.rates.tolist()},
            "notes": notes,
        }
        emit_json(autoscale_json(outcomes, inputs, CI_PROB), output)
        return
    table = render_rows(*timeline_rows(shown), style.value)
    if style is Format.csv:
        emit(table, output)
        for note in notes:
            say(note)
        return
    paths = f"Ready replicas of the run shown: {shown.path_text}."
    summary = render_rows(*summary_rows(outcomes, CI_PROB), style.value)
    emit("\n".join([table, "", paths, "", summary, "", *notes]), output)
