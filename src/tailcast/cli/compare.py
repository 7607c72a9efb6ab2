"""`tailcast compare`: latency models by how well they predict runs left out of the fit."""

from pathlib import Path
from typing import Annotated

import typer

from tailcast.cli.emit import emit, emit_json, say
from tailcast.cli.options import Format, FormatOption, LeaveOutOption, OutputOption, SeedOption
from tailcast.errors import UsageError


def compare(
    arguments: Annotated[
        list[str], typer.Argument(help="Latency models (name or folder), then data paths.")
    ],
    leave_out: LeaveOutOption = None,
    seed: SeedOption = 0,
    style: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """Compare latency models: log predictive density, CRPS and residuals of runs left out."""
    from tailcast.inference.model_comparison import compare_models
    from tailcast.latency_model import load_latency_model
    from tailcast.report.model_comparison import compare_rows, compare_text
    from tailcast.report.tables import render_rows

    models, paths = _split(arguments)
    loaded = [load_latency_model(name) for name in models]
    found = compare_models(loaded, paths, seed=seed, leave_out=leave_out or (), report=say)
    if style is Format.json:
        emit_json(found.as_json(), output)
        return
    table = render_rows(*compare_rows(found), style.value)
    text = table if style is Format.csv else f"{table}\n\n{compare_text(found, style.value)}"
    emit(text, output)


def _split(arguments: list[str]) -> tuple[list[str], list[Path]]:
    """Latency models first, data after: what is a model is known by its ``model.toml``."""
    from tailcast.artifacts import artifact_names

    shipped = artifact_names("models")
    models: list[str] = []
    paths: list[Path] = []
    for argument in arguments:
        if argument in shipped or (Path(argument) / "model.toml").is_file():
            if paths:
                raise UsageError(f"latency model {argument!r} stands after data; give models first")
            models.append(argument)
            continue
        if not Path(argument).exists():
            raise UsageError(
                f"{argument!r} is neither a latency model ({', '.join(shipped)}) nor a data path"
            )
        paths.append(Path(argument))
    if not models:
        raise UsageError("no latency model given; write tailcast compare MODEL MODEL ... DATA")
    if not paths:
        raise UsageError("no data given; write tailcast compare MODEL MODEL ... DATA")
    return models, paths
