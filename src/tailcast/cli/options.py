"""Options that mean the same in every command."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tailcast.cli.emit import check_output
from tailcast.errors import UsageError


class Format(StrEnum):
    """Rendering of an answer."""

    table = "table"
    json = "json"
    csv = "csv"
    markdown = "markdown"


FormatOption = Annotated[Format, typer.Option("--format", help="Rendering of the answer.")]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "-o",
        "--output",
        help="File for the answer instead of stdout.",
        callback=check_output,
    ),
]
SeedOption = Annotated[int, typer.Option("--seed", min=0, help="Same seed, same answer.")]
DrawsOption = Annotated[
    int, typer.Option("--draws", min=1, help="Posterior draws; one engine run each.")
]
CiProbOption = Annotated[
    float,
    typer.Option("--ci-prob", min=0.01, max=0.999, help="Mass of the credible interval (ETI)."),
]


def _named(value: str | None) -> str | None:
    if value == "":
        raise UsageError("--posterior is empty; give a name or a folder, or leave it out")
    return value


LeaveOutOption = Annotated[
    list[str] | None,
    typer.Option(
        "--leave-out", help="Sweep file, or pattern of step sources, to skip; repeatable."
    ),
]
PosteriorOption = Annotated[
    str | None,
    typer.Option(
        "--posterior",
        help="Shipped posterior or folder; NAME@RUN: the server of that run.",
        callback=_named,
    ),
]


class Mode(StrEnum):
    """Engine of a latency model without priors."""

    vllm = "vllm"
    blis = "blis"


ModeOption = Annotated[
    Mode | None,
    typer.Option("--mode", help="vllm, or blis: exactly what BLIS answers, a point."),
]
