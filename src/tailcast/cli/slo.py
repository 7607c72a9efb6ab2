"""`tailcast slo`: a gate on objectives; exit 1 where they are not held at the accepted risk."""

from typing import Annotated

import typer

from tailcast.cli.options import (
    CiProbOption,
    DrawsOption,
    Format,
    FormatOption,
    OutputOption,
    PosteriorOption,
    SeedOption,
)
from tailcast.cli.predict import (
    GpuOption,
    InputOption,
    ModelOption,
    OutputTokensOption,
    RateOption,
    SloOption,
    StudyArgument,
    TpOption,
)

RiskOption = Annotated[
    float | None, typer.Option("--risk", help="Accepted P(miss), 0.05 unless the study says.")
]


def slo(
    study: StudyArgument = None,
    model: ModelOption = None,
    gpu: GpuOption = None,
    tensor_parallel: TpOption = None,
    rate: RateOption = None,
    input_tokens: InputOption = None,
    output_tokens: OutputTokensOption = None,
    objective: SloOption = None,
    risk: RiskOption = None,
    posterior: PosteriorOption = None,
    draws: DrawsOption = 400,
    seed: SeedOption = 0,
    ci_prob: CiProbOption = 0.89,
    style: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """Gate on objectives: exit 0 when P(any missed) is within the risk, else 1."""
    from dataclasses import replace

    from tailcast.cli.predict import answer
    from tailcast.cli.question import question
    from tailcast.errors import UsageError
    from tailcast.slo import verdict

    asked = question(
        study,
        llm=model,
        gpu=gpu,
        tensor_parallel=tensor_parallel,
        rate=rate,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        objectives=objective or [],
        posterior=posterior,
    )
    if risk is not None:
        asked = replace(asked, risk=risk)
    if not asked.objectives:
        raise UsageError("no objective given; add for example --slo ttft.p99=300ms")
    if not 0 < asked.risk < 1:
        raise UsageError(f"risk must lie between 0 and 1, got {asked.risk:g}")
    prediction = answer(asked, draws=draws, seed=seed, ci_prob=ci_prob, style=style, output=output)
    if verdict(prediction, asked.objectives, asked.risk).word != "yes":
        raise typer.Exit(1)
