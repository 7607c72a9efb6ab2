"""`tailcast search`: the cheapest candidate that holds the risk; exit 1 where there is none."""

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tailcast.cli.emit import VERBOSITY, emit, emit_json, say
from tailcast.cli.options import (
    CiProbOption,
    Format,
    FormatOption,
    OutputOption,
    PosteriorOption,
    SeedOption,
)

if TYPE_CHECKING:
    from tailcast.search.search import Search

SearchArgument = Annotated[Path, typer.Argument(help="Study file (TOML) with a [search] table.")]
ResultsOption = Annotated[
    Path | None,
    typer.Option("--results", help="File that runs are kept in; STUDY.results.sqlite by default."),
]
ThreadsOption = Annotated[int, typer.Option("--threads", min=1, help="Threads of this process.")]
DaskOption = Annotated[
    str | None, typer.Option("--dask", help="Scheduler address in place of threads.")
]
RaceDrawsOption = Annotated[
    int | None,
    typer.Option("--draws", min=8, help="Blocks of a candidate in the race."),
]
MeasureOption = Annotated[
    bool, typer.Option("--measure", help="Say what to observe next even when one was found.")
]


def search(
    study: SearchArgument,
    results: ResultsOption = None,
    threads: ThreadsOption = 2,
    dask: DaskOption = None,
    measure: MeasureOption = False,
    posterior: PosteriorOption = None,
    draws: RaceDrawsOption = None,
    seed: SeedOption = 0,
    ci_prob: CiProbOption = 0.89,
    style: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """Search a space of deployments for the cheapest that holds the risk.

    Exit 1 where nothing met the objectives. An interrupted search goes on with the same command.
    """
    from tailcast.report.search import search_json, search_rows, search_text
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
        found = running.run()
        if measure and not found.next_runs:
            found = replace(found, next_runs=running.observe_next(found.race))
    if style is Format.json:
        emit_json(search_json(found, ci_prob, inputs_of(begun, seed)), output)
    else:
        lines = search_text(found, ci_prob)
        table = render_rows(*search_rows(found, ci_prob), style.value) if found.outcomes else ""
        if style is Format.csv:
            emit(table, output)
            for line in lines:
                say(line)
        else:
            shown = ["", table, ""] if table else []
            emit("\n".join([lines[0], *shown, *lines[1:]]), output)
    if not found.is_found:
        raise typer.Exit(1)


def begin(
    study: Path,
    *,
    results: Path | None,
    threads: int,
    dask: str | None,
    posterior: str | None,
    draws: int | None,
    seed: int,
) -> "Search":
    """A search that is ready to run.

    Parameters
    ----------
    study : pathlib.Path
        Study file.
    results : pathlib.Path, optional
        Where runs are kept; beside the study by default.
    threads : int
        Threads of this process.
    dask : str, optional
        Scheduler address in place of threads.
    posterior : str, optional
        In place of the study's.
    draws : int, optional
        In place of the study's.
    seed : int
        Of everything.

    Returns
    -------
    Search
        With its space built and its posteriors loaded.
    """
    from tailcast.posteriors import load_posterior
    from tailcast.search.executors import Dask, Executor, Threads
    from tailcast.search.search import Search
    from tailcast.search.settings import load_search_study
    from tailcast.search.space import build_space

    asked = load_search_study(study)
    if posterior is not None:
        asked = replace(asked, posterior=posterior)
    if draws is not None:
        asked = replace(asked, settings=replace(asked.settings, draws=draws))
    for note in asked.workload.notes:
        say(note)
    space = build_space(asked)
    say(f"{len(space.candidates)} candidates, {space.n_invalid} combinations cannot exist")
    names = sorted({candidate.posterior for candidate in space.candidates})
    executor: Executor = Dask(dask) if dask else Threads(threads)
    kept = results or study.with_suffix(".results.sqlite")
    progress = Progress()
    begun = Search(
        study=asked,
        space=space,
        posteriors={name: load_posterior(name) for name in names},
        executor=executor,
        results=kept,
        seed=seed,
        tell=progress.tell,
        progress=progress.batch,
    )
    n = begun.simulator.store.n_stored
    say(f"runs are kept in {kept}" + (f"; {n} are there already" if n else ""))
    return begun


def inputs_of(begun: "Search", seed: int) -> dict[str, Any]:
    """The question as the ``inputs`` of a JSON answer.

    Parameters
    ----------
    begun : Search
        The search.
    seed : int
        Of everything.

    Returns
    -------
    dict
        Ready for `json.dumps`.
    """
    study, settings = begun.study, begun.study.settings
    return {
        "study": study.path.name,
        "deployment": dict(study.base),
        "space": {axis: list(values) for axis, values in settings.space.items()},
        "workload": study.workload.name,
        "assumptions": list(study.workload.notes),
        "objectives": [str(o) for o in study.terms.objectives],
        "risk": study.terms.risk,
        "horizon": study.terms.horizon,
        "goal": settings.goal,
        "rank": begun.simulator.context.question.ranked.name,
        "zone": settings.zone,
        "prices": dict(settings.prices),
        "draws": settings.draws,
        "confirm": settings.confirm,
        "seed": seed,
    }


class Ongoing:
    """Closes a search at the end, and says after an interrupt how it goes on."""

    def __init__(self, begun: "Search") -> None:
        self._begun = begun

    def __enter__(self) -> "Search":
        """The search."""
        return self._begun

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        """Close; an interrupt is passed on."""
        n = self._begun.simulator.store.n_stored
        if kind is KeyboardInterrupt:
            say(f"interrupted; {n} runs are kept, the same command goes on from there")
        self._begun.close()


class Progress:
    """Steps and batches of a search on stderr, with the time that is left."""

    _EVERY = 2.0

    def __init__(self) -> None:
        self._begun = self._told = time.monotonic()
        self._batch: tuple[float, int] | None = None

    def tell(self, line: str) -> None:
        """One step.

        Parameters
        ----------
        line : str
            What is being done.
        """
        say(f"[{time.monotonic() - self._begun:5.0f} s] {line}")

    def batch(self, done: int, wanted: int) -> None:
        """Progress of a batch, at most every two seconds.

        Parameters
        ----------
        done, wanted : int
            Blocks.
        """
        now = time.monotonic()
        if self._batch is None or done < self._batch[1]:
            self._batch = now, done
        began, first = self._batch
        if done >= wanted:
            self._batch = None
            return
        if now - self._told < self._EVERY or VERBOSITY["level"] == 0:
            return
        self._told = now
        speed = (done - first) / max(now - began, 1e-9)
        left = f", about {(wanted - done) / speed:.0f} s left" if speed > 0 else ""
        say(f"[{now - self._begun:5.0f} s]   {done} of {wanted} runs of this batch{left}")
