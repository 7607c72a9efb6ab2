"""`tailcast calibrate`: recorded runs against their replay; changes nothing."""

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
from tailcast.cli.predict import GpuOption, ModelOption, TpOption
from tailcast.cli.stated import ServedByOption, stated_server


def calibrate(
    paths: Annotated[
        list[Path], typer.Argument(help="Traces, benchmark results, experiments or folders.")
    ],
    posterior: PosteriorOption = None,
    study: ServedByOption = None,
    model: ModelOption = None,
    gpu: GpuOption = None,
    tensor_parallel: TpOption = None,
    min_coverage: Annotated[
        float | None,
        typer.Option(
            "--min-coverage",
            min=0.0,
            max=1.0,
            help="Exit 1 where the 90 % intervals hold a smaller share of the statistics.",
        ),
    ] = None,
    draws: DrawsOption = 200,
    seed: SeedOption = 0,
    style: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """Compare recorded runs with their replay: error, bias, coverage, PIT, regimes, mismatches."""
    from tailcast.artifacts import DEFAULT_POSTERIOR
    from tailcast.calibration import calibrate as run_calibrate
    from tailcast.posteriors import load_posterior
    from tailcast.report.calibration import calibration_json, calibration_text

    found = run_calibrate(
        paths,
        load_posterior(posterior or DEFAULT_POSTERIOR),
        stated=stated_server(study, model, gpu, tensor_parallel),
        n_draw=draws,
        seed=seed,
        report=say,
    )
    if style is Format.json:
        emit_json(calibration_json(found), output)
    else:
        emit(calibration_text(found, style.value), output)
    if found.errors:
        for name, reason in found.errors:
            say(f"{name} could not be replayed: {reason}")
        raise typer.Exit(1)
    if min_coverage is not None and not found.coverage() >= min_coverage:
        say(f"the 90 % intervals hold {found.coverage():.1%}, less than {min_coverage:.1%}")
        raise typer.Exit(1)
