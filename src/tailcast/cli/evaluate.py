"""`tailcast evaluate`: predicted against observed on experiments."""

from pathlib import Path
from typing import Annotated

import typer

from tailcast.cli.emit import emit, emit_json, say
from tailcast.cli.options import (
    DrawsOption,
    Format,
    FormatOption,
    OutputOption,
    PosteriorOption,
    SeedOption,
)


def evaluate(
    paths: Annotated[list[Path], typer.Argument(help="Experiment files or folders of them.")],
    posterior: PosteriorOption = None,
    peers: Annotated[
        Path | None,
        typer.Option(
            "--peers",
            help="CSV of point predictions to score beside: "
            "experiment,stage,metric,statistic,value_s[,peer].",
        ),
    ] = None,
    draws: DrawsOption = 200,
    seed: SeedOption = 0,
    plot: Annotated[
        Path | None,
        typer.Option("--plot", help="Figure of coverage, PIT, predicted against observed."),
    ] = None,
    style: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """Predict each experiment blind, then score error, coverage, PIT and CRPS."""
    from tailcast.artifacts import DEFAULT_POSTERIOR
    from tailcast.evaluation import evaluate as run_evaluate
    from tailcast.posteriors import load_posterior
    from tailcast.report.evaluation import evaluation_report
    from tailcast.report.evaluation_plot import plot_evaluation
    from tailcast.report.figures import check_figure_path
    from tailcast.scoring.peers import load_peers

    if plot is not None:
        check_figure_path(plot)
    found = run_evaluate(
        paths,
        load_posterior(posterior or DEFAULT_POSTERIOR),
        n_draw=draws,
        seed=seed,
        peers=load_peers(peers) if peers is not None else (),
        report=say,
    )
    if plot is not None:
        plot_evaluation(found, plot)
    if style is Format.json:
        emit_json(found.as_json(), output)
    else:
        emit(evaluation_report(found, style.value), output)
    for name, reason in found.errors:
        say(f"experiment {name} could not be simulated: {reason}")
    if found.errors:
        raise typer.Exit(1)
