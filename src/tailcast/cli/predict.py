"""`tailcast predict`: latency intervals of a deployment under a workload."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailcast.cli.emit import emit, emit_json, say
from tailcast.cli.options import (
    CiProbOption,
    DrawsOption,
    Format,
    FormatOption,
    ModeOption,
    OutputOption,
    PosteriorOption,
    SeedOption,
)

if TYPE_CHECKING:
    from tailcast.study import Study

StudyArgument = Annotated[Path | None, typer.Argument(help="Study file (TOML); flags override it.")]
ModelOption = Annotated[str | None, typer.Option("--model", help="LLM: name or config.json.")]
GpuOption = Annotated[str | None, typer.Option("--gpu", help="Accelerator, e.g. h100-sxm.")]
TpOption = Annotated[
    int | None, typer.Option("-tp", "--tensor-parallel-size", help="Accelerators per replica.")
]
RateOption = Annotated[float | None, typer.Option("--rate", help="Requests per second.")]
InputOption = Annotated[int | None, typer.Option("--input-tokens", help="Prompt length.")]
OutputTokensOption = Annotated[int | None, typer.Option("--output-tokens", help="Output length.")]
SloOption = Annotated[
    list[str] | None, typer.Option("--slo", help="Objective, e.g. ttft.p99=300ms; repeatable.")
]
CompareOption = Annotated[
    bool, typer.Option("--compare", help="BLIS and the roofline beside the posterior.")
]


def predict(
    study: StudyArgument = None,
    model: ModelOption = None,
    gpu: GpuOption = None,
    tensor_parallel: TpOption = None,
    rate: RateOption = None,
    input_tokens: InputOption = None,
    output_tokens: OutputTokensOption = None,
    slo: SloOption = None,
    posterior: PosteriorOption = None,
    mode: ModeOption = None,
    compare: CompareOption = False,
    draws: DrawsOption = 200,
    seed: SeedOption = 0,
    ci_prob: CiProbOption = 0.89,
    style: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """Predict TTFT, TPOT, ITL and E2E with credible intervals, and P(miss) of objectives.

    A latency model without priors (blis-trained-physics, roofline) given as the posterior, or
    mode blis, answers with points.
    """
    from tailcast.cli import point
    from tailcast.cli.question import question

    asked = question(
        study,
        llm=model,
        gpu=gpu,
        tensor_parallel=tensor_parallel,
        rate=rate,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        objectives=slo or [],
        posterior=posterior,
        mode=None if mode is None else mode.value,
    )
    asked = plainly_asked(asked)
    if compare:
        point.comparison(asked, draws=draws, seed=seed, ci_prob=ci_prob, style=style, output=output)
        return
    fixed = point.point_model_of(asked, is_named=posterior is not None)
    if fixed is not None:
        point.answer(fixed, asked, seed=seed, style=style, output=output)
        return
    answer(asked, draws=draws, seed=seed, ci_prob=ci_prob, style=style, output=output)


def answer(
    asked: "Study",
    *,
    draws: int,
    seed: int,
    ci_prob: float,
    style: Format,
    output: Path | None,
) -> Any:
    """Predict what was asked and render it.

    Parameters
    ----------
    asked : Study
        Question.
    draws, seed : int
        Posterior draws and seed.
    ci_prob : float
        Mass of the interval.
    style : Format
        Rendering.
    output : pathlib.Path, optional
        File for the answer.

    Returns
    -------
    Prediction
        For commands that decide on it.
    """
    from tailcast.conformal import load_conformal
    from tailcast.errors import UsageError
    from tailcast.posteriors import load_posterior
    from tailcast.prediction import predictive, refuse_unserved
    from tailcast.report.prediction import prediction_json, prediction_rows, prediction_text
    from tailcast.report.tables import render_rows
    from tailcast.workload.materialise import materialise

    if asked.mode == "blis":
        raise UsageError("mode blis gives points without P(miss); only predict and replay show it")
    posterior = load_posterior(asked.posterior)
    conformal = load_conformal(asked.conformal, posterior) if asked.conformal else None
    prediction = predictive(
        posterior,
        asked.deployment,
        lambda s: materialise(asked.workload, s),
        n_draw=draws,
        seed=seed,
        quantiles=wanted_quantiles(asked),
    )
    refuse_unserved(prediction, asked.deployment)
    for note in asked.workload.notes:
        say(note)
    if style is Format.json:
        inputs = question_json(asked, draws, seed)
        content = prediction_json(
            prediction, asked.objectives, ci_prob, asked.risk, inputs, conformal
        )
        emit_json(content, output)
        return prediction
    header, rows = prediction_rows(prediction, asked.objectives, ci_prob, conformal)
    lines = prediction_text(prediction, asked.objectives, ci_prob, asked.risk)
    table = render_rows(header, rows, style.value)
    if style is Format.csv:
        emit(table, output)
        for line in lines:
            say(line)
    else:
        emit("\n".join([title(asked), "", table, "", *lines]), output)
    return prediction


def plainly_asked(asked: "Study") -> "Study":
    """The question without what only `tailcast slo` can answer, which is said.

    Parameters
    ----------
    asked : Study
        Question.

    Returns
    -------
    Study
        One replica, objectives over all requests.

    Raises
    ------
    UsageError
        If several replicas are asked for.
    """
    from dataclasses import replace

    from tailcast.errors import UsageError
    from tailcast.slo import plain_objectives

    if asked.replicas > 1:
        raise UsageError(f"predict looks at one replica, not {asked.replicas}; use tailcast slo")
    plain = plain_objectives(asked.objectives)
    for objective in asked.objectives:
        if objective not in plain:
            say(f"{objective} is left out here; tailcast slo answers it")
    return replace(asked, objectives=plain)


def wanted_quantiles(asked: "Study") -> dict[str, float]:
    """Quantiles over requests that are shown always, and those that objectives name.

    Parameters
    ----------
    asked : Study
        Question.

    Returns
    -------
    dict of str to float
        By statistic.
    """
    from tailcast.prediction import QUANTILES
    from tailcast.slo import stat_quantile

    extra = {o.stat: stat_quantile(o.stat) for o in asked.objectives}
    return {**QUANTILES, **{k: v for k, v in extra.items() if v is not None}}


def title(asked: "Study", kv_blocks: int | None = None) -> str:
    """One line that repeats the question.

    Parameters
    ----------
    asked : Study
        Question.
    kv_blocks : int, optional
        In place of the deployment's own count.

    Returns
    -------
    str
        LLM, accelerator, parallelism, KV blocks.
    """
    d = asked.deployment
    return (
        f"{d.llm.name} on {d.n_accelerators} x {d.accelerator.name} (TP {d.tensor_parallel}), "
        f"{d.engine.name} {d.engine.version}, {kv_blocks or d.kv_block_count} KV blocks, "
        f"{asked.workload.name}"
    )


def question_json(asked: "Study", draws: int, seed: int) -> dict[str, Any]:
    """The question as the ``inputs`` of a JSON answer.

    Parameters
    ----------
    asked : Study
        Question.
    draws, seed : int
        Posterior draws and seed.

    Returns
    -------
    dict
        Ready for `json.dumps`.
    """
    from dataclasses import asdict

    d = asked.deployment
    return {
        "model": d.llm.name,
        "gpu": d.accelerator.name,
        "tensor_parallel": d.tensor_parallel,
        "data_parallel": d.data_parallel,
        "weights": d.weight_dtype,
        "kv_blocks": d.kv_block_count,
        "engine": asdict(d.engine),
        "workload": asked.workload.name,
        "assumptions": list(asked.workload.notes),
        "objectives": [str(o) for o in asked.objectives],
        "risk": asked.risk,
        "posterior": asked.posterior,
        "draws": draws,
        "seed": seed,
    }
