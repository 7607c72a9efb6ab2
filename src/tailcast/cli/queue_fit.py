"""`tailcast queue fit`: the three numbers of one kind of replica from measured windows."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tailcast.cli.emit import emit, emit_json, say
from tailcast.cli.options import CiProbOption, Format, FormatOption, SeedOption

if TYPE_CHECKING:
    from tailcast.deployment import Deployment
    from tailcast.inference.queue_summary import QueueSummary
    from tailcast.queueing.parameter_prior import NumbersPrior
    from tailcast.queueing.server import RequestShape


def fit(
    paths: Annotated[
        list[Path],
        typer.Argument(help="Guidellm sweeps, experiments, traces, or runs of other tools."),
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", help="Folder for posterior, tuner state and plots.")
    ],
    model: Annotated[
        str | None, typer.Option("--model", help="LLM, where the files do not name it.")
    ] = None,
    gpu: Annotated[str | None, typer.Option("--gpu", help="Accelerator, e.g. h100-sxm.")] = None,
    tensor_parallel: Annotated[
        int, typer.Option("-tp", "--tensor-parallel-size", min=1, help="Accelerators per replica.")
    ] = 1,
    max_num_seqs: Annotated[
        int | None, typer.Option("--max-num-seqs", min=1, help="Requests served at once.")
    ] = None,
    max_num_batched_tokens: Annotated[
        int | None, typer.Option("--max-num-batched-tokens", help="Tokens computed in a step.")
    ] = None,
    window: Annotated[
        str, typer.Option("--window", help="Length of a window of a trace, e.g. 60s.")
    ] = "60s",
    wide_prior: Annotated[
        bool,
        typer.Option("--wide-prior", help="Trust the datasheet little, even on known hardware."),
    ] = False,
    at: Annotated[
        str | None,
        typer.Option("--at", help="Prompt/output tokens where capacity is needed, e.g. 512/256."),
    ] = None,
    slo: Annotated[
        list[str] | None,
        typer.Option("--slo", help="Target on a mean: ttft=60ms, itl=20ms; repeatable."),
    ] = None,
    draws: Annotated[int, typer.Option("--draws", min=50, help="Draws a chain.")] = 400,
    seed: SeedOption = 0,
    ci_prob: CiProbOption = 0.89,
    style: FormatOption = Format.table,
) -> None:
    """Fit alpha, beta and gamma to one window or hundreds, and say what they cannot tell."""
    from tailcast.inference.queue_fit import QueueSampler, fit_queue
    from tailcast.inference.queue_predict import tuner_from_fit
    from tailcast.inference.queue_sources import read_windows
    from tailcast.inference.queue_store import save_queue_fit
    from tailcast.inference.queue_summary import summarise_fit
    from tailcast.queueing.field_units import parse_targets
    from tailcast.queueing.server import ServerLimits
    from tailcast.units import parse_duration

    targets, shape = parse_targets(slo or []), _shape(at)
    sources = read_windows(paths, parse_duration(window), _deployment(model, gpu, tensor_parallel))
    for note in sources.notes:
        say(note)
    prior, known = _prior(sources.deployment, wide_prior), sources.limits or ServerLimits()
    seqs = max_num_seqs or known.max_batch
    limits = ServerLimits(
        max_batch=seqs,
        max_queue=seqs,
        max_batched_tokens=max_num_batched_tokens or known.max_batched_tokens,
    )
    say(f"{len(sources.windows)} windows; sampling")
    tree = fit_queue(sources.windows, prior, limits, seed=seed, sampler=QueueSampler(draws=draws))
    summary = summarise_fit(tree, targets, shape=shape, deployment=sources.deployment, seed=seed)
    file = save_queue_fit(tree, output)
    emit(tuner_from_fit(tree, summary.shape).to_json(), output / "tuner.json")
    _plots(tree, output)
    say(f"{file}; state for the tuner in {output / 'tuner.json'}")
    _show(summary, ci_prob, style)


def _deployment(model: str | None, gpu: str | None, tensor_parallel: int) -> "Deployment | None":
    from tailcast.catalog.accelerators import accelerator
    from tailcast.catalog.llms import llm
    from tailcast.deployment import Deployment
    from tailcast.errors import UsageError

    if (model is None) != (gpu is None):
        raise UsageError("--model and --gpu go together")
    if model is None or gpu is None:
        return None
    return Deployment(llm=llm(model), accelerator=accelerator(gpu), tensor_parallel=tensor_parallel)


def _prior(deployment: "Deployment | None", wide: bool) -> "NumbersPrior":
    from tailcast.errors import UsageError
    from tailcast.queueing.parameter_prior import hardware_prior, numbers_prior

    if deployment is None:
        raise UsageError("the files name no deployment: give --model and --gpu for the prior")
    prior = hardware_prior(deployment)
    if not wide:
        return prior
    return numbers_prior(prior.numbers, source=f"{prior.source}, wide")


def _shape(text: str | None) -> "RequestShape | None":
    from tailcast.errors import UsageError
    from tailcast.queueing.server import RequestShape

    if text is None:
        return None
    parts = text.split("/")
    try:
        prompt, output = (float(part) for part in parts)
    except ValueError:
        raise UsageError(f"--at takes prompt/output tokens, e.g. 512/256, got {text!r}") from None
    shape = RequestShape(tokens_in=prompt, tokens_out=output)
    shape.check_served()
    return shape


def _plots(tree: object, folder: Path) -> None:
    from tailcast.errors import UsageError
    from tailcast.report.queue_fit_plots import plot_queue_fit

    try:
        plot_queue_fit(tree, folder)  # type: ignore[arg-type]
    except UsageError as error:
        say(f"no plots: {error}")


def _show(summary: "QueueSummary", ci_prob: float, style: Format) -> None:
    from tailcast.report.queue_fit import fit_json, fit_notes, fit_rows
    from tailcast.report.tables import render_rows

    if style is Format.json:
        emit_json(fit_json(summary, ci_prob))
        return
    table = render_rows(*fit_rows(summary, ci_prob), style.value)
    notes = fit_notes(summary, ci_prob)
    if style is Format.csv:
        emit(table)
        for note in notes:
            say(note)
    else:
        emit("\n".join([table, "", *notes]))
