"""Answers of `tailcast predict` that are points, alone or beside the posterior's intervals."""

from pathlib import Path
from typing import TYPE_CHECKING

from tailcast.cli.emit import emit, emit_json, say
from tailcast.cli.options import Format

if TYPE_CHECKING:
    from tailcast.engine.point_model import PointModel
    from tailcast.study import Study


def point_model_of(asked: "Study", *, is_named: bool) -> "PointModel | None":
    """Latency model without priors that a question names, by its name or its mode.

    Parameters
    ----------
    asked : Study
        Question.
    is_named : bool
        Whether a flag names the posterior; otherwise the default one counts as not named.

    Returns
    -------
    PointModel or None
        None where a posterior answers.
    """
    from tailcast.artifacts import DEFAULT_POSTERIOR
    from tailcast.engine.point_model import names_latency_model, point_model

    if asked.mode != "blis" and not names_latency_model(asked.posterior):
        return None
    unnamed = asked.posterior == DEFAULT_POSTERIOR and not is_named
    return point_model(None if unnamed else asked.posterior, asked.mode)


def answer(
    model: "PointModel", asked: "Study", *, seed: int, style: Format, output: Path | None
) -> None:
    """Answer with one number a statistic, and say that it is one.

    Parameters
    ----------
    model : PointModel
        Latency model and mode.
    asked : Study
        Question.
    seed : int
        Of the workload.
    style : Format
        Rendering.
    output : pathlib.Path, optional
        File for the answer.
    """
    from tailcast.cli.predict import question_json, title, wanted_quantiles
    from tailcast.comparison import point_answer
    from tailcast.errors import CapacityError
    from tailcast.report.point import outcome_line, point_json, point_rows, point_text
    from tailcast.report.tables import render_rows
    from tailcast.workload.materialise import materialise

    found = point_answer(
        model,
        asked.deployment,
        materialise(asked.workload, seed),
        quantiles=wanted_quantiles(asked),
    )
    if found.run is not None and not found.run.outcome["completed"]:
        raise CapacityError(
            f"{outcome_line(found.run).rstrip('.')}; a request here has at most "
            f"{asked.deployment.max_model_len} tokens, prompt and output together"
        )
    for note in asked.workload.notes:
        say(note)
    kv_blocks = None if found.run is None else found.run.kv_blocks
    if style is Format.json:
        inputs = {**question_json(asked, 1, seed), "kv_blocks": kv_blocks}
        emit_json(point_json(found, asked.objectives, inputs), output)
        return
    header, rows = point_rows(found, asked.objectives)
    table = render_rows(header, rows, style.value)
    write_table(title(asked, kv_blocks), table, point_text(found), style, output)


def comparison(
    asked: "Study", *, draws: int, seed: int, ci_prob: float, style: Format, output: Path | None
) -> None:
    """Set BLIS and the roofline beside the posterior.

    Parameters
    ----------
    asked : Study
        Question; its posterior gives the interval.
    draws, seed : int
        Posterior draws and seed.
    ci_prob : float
        Mass of the interval.
    style : Format
        Rendering.
    output : pathlib.Path, optional
        File for the answer.

    Raises
    ------
    UsageError
        If a mode is given, or a latency model in place of a posterior.
    """
    from tailcast.cli.predict import question_json, title, wanted_quantiles
    from tailcast.comparison import compare
    from tailcast.engine.point_model import names_latency_model
    from tailcast.errors import UsageError
    from tailcast.posteriors import load_posterior
    from tailcast.report.point import comparison_json, comparison_rows, comparison_text
    from tailcast.report.tables import render_rows
    from tailcast.workload.materialise import materialise

    if asked.mode is not None or names_latency_model(asked.posterior):
        raise UsageError("--compare runs both modes and the point models itself; name none")
    found = compare(
        load_posterior(asked.posterior),
        asked.deployment,
        lambda s: materialise(asked.workload, s),
        n_draw=draws,
        seed=seed,
        quantiles=wanted_quantiles(asked),
    )
    for note in asked.workload.notes:
        say(note)
    if style is Format.json:
        inputs = question_json(asked, draws, seed)
        emit_json(comparison_json(found, asked.objectives, ci_prob, asked.risk, inputs), output)
        return
    header, rows = comparison_rows(found, asked.objectives, ci_prob)
    lines = comparison_text(found, asked.objectives, ci_prob, asked.risk)
    write_table(title(asked), render_rows(header, rows, style.value), lines, style, output)


def write_table(
    heading: str, table: str, lines: list[str], style: Format, output: Path | None
) -> None:
    """Write heading, table and remarks; CSV has the table alone and remarks go to stderr.

    Parameters
    ----------
    heading : str
        One line above the table.
    table : str
        Rendered rows.
    lines : list of str
        Remarks.
    style : Format
        Rendering.
    output : pathlib.Path, optional
        File for the answer.
    """
    if style is Format.csv:
        emit(table, output)
        for line in lines:
            say(line)
    else:
        emit("\n".join([heading, "", table, "", *lines]), output)
