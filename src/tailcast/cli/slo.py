"""`tailcast slo`: a gate on objectives; exit 1 where they are not held at the accepted risk."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tailcast.cli.emit import emit, emit_json, say
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

if TYPE_CHECKING:
    from tailcast.risk.assessment import Assessment

RiskOption = Annotated[
    float | None, typer.Option("--risk", help="Accepted P(miss), 0.05 unless the study says.")
]
PlotOption = Annotated[
    Path | None, typer.Option("--plot", help="Draw risk curves into a file (.svg, .png, .pdf).")
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
    plot: PlotOption = None,
    style: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """Gate on objectives: exit 0 when P(any missed) is within the risk, else 1.

    Objectives: metric.stat=target, one class by ttft.p99[chat]=300ms, or
    goodput(ttft=300ms,tpot=50ms)=0.95. Replicas, horizon (window or process) and curves (rate,
    target, replicas) stand in the study file.
    """
    from dataclasses import replace

    from tailcast.cli.predict import question_json, title
    from tailcast.cli.question import question
    from tailcast.errors import UsageError

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
    if not 0 < asked.risk < 1:
        raise UsageError(f"risk must lie between 0 and 1, got {asked.risk:g}")
    if asked.mode == "blis":
        raise UsageError("mode blis gives points without P(miss); only predict and replay show it")
    from tailcast.posteriors import load_posterior
    from tailcast.risk.assessment import assess
    from tailcast.risk.fleet import Fleet
    from tailcast.risk.trial import Question

    if plot is not None:
        from tailcast.report.slo_plot import check_plot

        check_plot(plot)
        asked = replace(asked, curves=tuple(dict.fromkeys((*asked.curves, "rate", "target"))))
    known = load_posterior(asked.posterior)
    wanted = Question(objectives=asked.objectives, groups=asked.workload.group_names)
    for note in asked.workload.notes:
        say(note)
    found = assess(
        known,
        Fleet(deployment=asked.deployment, replicas=asked.replicas),
        asked.workload,
        wanted,
        risk=asked.risk,
        horizon=asked.horizon,
        n_draw=draws,
        seed=seed,
        curves=asked.curves,
        progress=say,
    )
    inputs = {**question_json(asked, draws, seed), "replicas": asked.replicas}
    heading = title(asked) + (f", {asked.replicas} replicas" if asked.replicas > 1 else "")
    _render(found, heading, ci_prob, style, output, inputs)
    if plot is not None:
        from tailcast.report.slo_plot import plot_risk

        plot_risk(found, plot)
    if found.verdict().word != "yes":
        raise typer.Exit(1)


def _render(
    found: "Assessment",
    heading: str,
    ci_prob: float,
    style: Format,
    output: Path | None,
    inputs: dict[str, object],
) -> None:
    from tailcast.report.slo import slo_csv, slo_json, slo_rows, slo_text
    from tailcast.report.tables import render_rows

    if style is Format.json:
        emit_json(slo_json(found, ci_prob, inputs), output)
        return
    lines = slo_text(found, ci_prob)
    if style is Format.csv:
        emit(render_rows(*slo_csv(found, ci_prob), style.value), output)
        for line in lines:
            say(line)
        return
    table = render_rows(*slo_rows(found, ci_prob), style.value)
    emit("\n".join([heading, "", table, "", *lines]), output)
