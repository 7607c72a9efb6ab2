"""`tailcast report`: one self-contained page of a study, an evaluation or a search."""

from pathlib import Path
from typing import Annotated

import typer

from tailcast.cli.emit import check_output, emit, say
from tailcast.cli.options import CiProbOption, DrawsOption, SeedOption
from tailcast.errors import UsageError


def report(
    source: Annotated[
        Path,
        typer.Argument(help="Study (TOML), or JSON of tailcast slo, evaluate or search."),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Page to write (.html).")],
    draws: DrawsOption = 400,
    seed: SeedOption = 0,
    ci_prob: CiProbOption = 0.89,
) -> None:
    """Write a page without network or scripts: the answer first, then what it rests on.

    A study is assessed as by tailcast slo, with the risk curve over rate.
    """
    from tailcast.report.page.of_file import page_of_file

    check_output(output)
    if not source.is_file():
        raise UsageError(f"{source}: no such file; give a study (TOML) or a JSON result")
    if source.suffix.lower() == ".toml":
        text = _study_page(source, draws, seed, ci_prob)
    else:
        text = page_of_file(source)
    emit(text, output)
    say(f"the page is in {output}")


def _study_page(path: Path, draws: int, seed: int, ci_prob: float) -> str:
    import json

    from tailcast.cli.predict import question_json
    from tailcast.posteriors import load_posterior
    from tailcast.report.page.risk import risk_page
    from tailcast.report.slo import slo_json
    from tailcast.risk.assessment import assess
    from tailcast.risk.fleet import Fleet
    from tailcast.risk.trial import Question
    from tailcast.study import load_study

    asked = load_study(path)
    if not asked.objectives:
        raise UsageError(f'{path}: no objective; add [slo] with, say, "ttft.p99" = "300ms"')
    for note in asked.workload.notes:
        say(note)
    curves = tuple(dict.fromkeys((*asked.curves, "rate")))
    found = assess(
        load_posterior(asked.posterior),
        Fleet(deployment=asked.deployment, replicas=asked.replicas),
        asked.workload,
        Question(objectives=asked.objectives, groups=asked.workload.group_names),
        risk=asked.risk,
        horizon=asked.horizon,
        n_draw=draws,
        seed=seed,
        curves=curves,
        progress=say,
    )
    inputs = {**question_json(asked, draws, seed), "replicas": asked.replicas}
    content = json.loads(json.dumps(slo_json(found, ci_prob, inputs), default=float))
    return risk_page(_without_nan(content))


def _without_nan(value: object) -> "dict[str, object]":
    """NaN as null, as a JSON file holds it."""
    import math

    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_nan(item) for item in value]  # type: ignore[return-value]
    if isinstance(value, float) and not math.isfinite(value):
        return None  # type: ignore[return-value]
    return value  # type: ignore[return-value]
