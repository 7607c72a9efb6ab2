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
    draws: DrawsOption = 200,
    seed: SeedOption = 0,
    style: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """Predict each experiment blind, then score error, coverage, PIT and CRPS."""
    from tailcast.artifacts import DEFAULT_POSTERIOR
    from tailcast.evaluation import evaluate as run_evaluate
    from tailcast.posteriors import load_posterior
    from tailcast.report.evaluation import evaluation_text
    from tailcast.report.tables import render_rows

    found = run_evaluate(
        paths,
        load_posterior(posterior or DEFAULT_POSTERIOR),
        n_draw=draws,
        seed=seed,
        report=say,
    )
    if style is Format.json:
        emit_json(found.as_json(), output)
    else:
        from tailcast.report.evaluation import evaluation_rows

        header, rows = evaluation_rows(found)
        table = render_rows(header, rows, style.value)
        text = table if style is Format.csv else f"{table}\n\n{evaluation_text(found)}"
        emit(text, output)
    for name, reason in found.errors:
        say(f"experiment {name} could not be simulated: {reason}")
    if found.errors:
        raise typer.Exit(1)
