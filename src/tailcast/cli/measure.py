"""`tailcast measure`: which run to observe next for the decision of a search."""

import typer

from tailcast.cli.emit import emit, emit_json, say
from tailcast.cli.options import (
    Format,
    FormatOption,
    OutputOption,
    PosteriorOption,
    SeedOption,
)
from tailcast.cli.search import (
    DaskOption,
    Ongoing,
    RaceDrawsOption,
    ResultsOption,
    SearchArgument,
    ThreadsOption,
    begin,
    inputs_of,
)


def measure(
    study: SearchArgument,
    results: ResultsOption = None,
    threads: ThreadsOption = 2,
    dask: DaskOption = None,
    posterior: PosteriorOption = None,
    draws: RaceDrawsOption = None,
    seed: SeedOption = 0,
    style: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """Rank runs that could be observed by how likely they settle the decision of a search.

    Deployments, rates and lengths come from the contenders, or from [measure] in the study.
    """
    from tailcast.report.search import worth_json, worth_rows
    from tailcast.report.tables import render_rows

    begun = begin(
        study,
        results=results,
        threads=threads,
        dask=dask,
        posterior=posterior,
        draws=draws,
        seed=seed,
    )
    with Ongoing(begun) as running:
        worth = running.observe_next()
    say("P(settles): some contender holds the risk and no cheaper one is left open")
    if style is Format.json:
        content = {
            "schema": "tailcast/measure/1",
            "inputs": inputs_of(begun, seed),
            "runs": worth_json(worth),
        }
        emit_json(content, output)
        return
    if not worth:
        say("no contender was simulated: bounds alone rule every candidate out")
        raise typer.Exit(1)
    lines = [
        "",
        "Each row: the run is simulated from every posterior draw in turn, the other draws are "
        "weighted by how likely it is under them, and the decision is made again.",
    ]
    table = render_rows(*worth_rows(worth), style.value)
    emit(table if style is Format.csv else "\n".join([table, *lines]), output)
