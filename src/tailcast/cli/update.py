"""`tailcast update`: a posterior and new traces to a new posterior."""

from pathlib import Path
from typing import Annotated

import typer

from tailcast.cli.emit import emit, emit_json, say
from tailcast.cli.options import CiProbOption, Format, FormatOption, SeedOption
from tailcast.cli.predict import GpuOption, ModelOption, TpOption
from tailcast.cli.stated import ServedByOption, stated_server


def update(
    posterior: Annotated[str, typer.Argument(help="Shipped posterior or folder of one.")],
    paths: Annotated[
        list[Path], typer.Argument(help="Traces, benchmark results, experiments, step logs.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the new posterior.")],
    study: ServedByOption = None,
    model: ModelOption = None,
    gpu: GpuOption = None,
    tensor_parallel: TpOption = None,
    forget: Annotated[
        float,
        typer.Option("--forget", min=0.0, max=0.99, help="Share of the old evidence to forget."),
    ] = 0.0,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse drift and what is outside the scope: exit 1.")
    ] = False,
    metric: Annotated[
        str, typer.Option("--metric", help="Statistic whose contraction is told.")
    ] = "ttft.p99",
    draws: Annotated[int, typer.Option("--draws", min=50, help="Sampled draws a chain.")] = 500,
    seed: SeedOption = 0,
    ci_prob: CiProbOption = 0.89,
    allow_unconverged: Annotated[
        bool, typer.Option("--allow-unconverged", help="Store even if diagnostics fail.")
    ] = False,
    style: FormatOption = Format.table,
) -> None:
    """Learn from new traces: check them first, refit the grown evidence, tell what contracted.

    The new posterior records its parent and its data; the parent is not changed.
    """
    from dataclasses import replace

    from tailcast.inference.sources import load_sources
    from tailcast.inference.update import UPDATE
    from tailcast.posterior_update import asked_statistic, assess, update_posterior
    from tailcast.posteriors import check_folder, load_posterior, save_posterior
    from tailcast.report.posterior import posterior_readme
    from tailcast.report.update import assessment_text, update_json, update_text

    wanted, stat = asked_statistic(metric)
    check_folder(output)
    parent = load_posterior(posterior)
    stated = stated_server(study, model, gpu, tensor_parallel)
    sources = load_sources(paths, parent.latency_model, stated=stated)
    for note in sources.notes:
        say(note)
    assessment = assess(parent, sources, seed=seed, report=say)
    if strict and assessment.refused:
        emit(assessment_text(assessment))
        for reason in assessment.refused:
            say(f"refused: {reason}")
        raise typer.Exit(1)
    for reason in assessment.refused:
        say(f"warning: {reason}")
    found = update_posterior(
        parent,
        sources,
        assessment,
        name=output.resolve().name,
        seed=seed,
        forget=forget,
        metric=wanted,
        stat=stat,
        sampler=replace(UPDATE, draws=draws),
        allow_unconverged=allow_unconverged,
        report=say,
    )
    save_posterior(output, found.fitted.tree, found.card, posterior_readme(found.card))
    if style is Format.json:
        emit_json(update_json(found, assessment, ci_prob))
    else:
        emit(update_text(found, assessment, style.value, ci_prob))
