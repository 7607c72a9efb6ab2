"""`tailcast posterior`: list, show, check, compare."""

from pathlib import Path
from typing import Annotated

import typer

from tailcast.cli.emit import emit, emit_json
from tailcast.cli.options import Format, FormatOption, OutputOption, SeedOption

app = typer.Typer(
    help="Posteriors: what is shipped, what one holds, whether it may be used.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

NameArgument = Annotated[str | None, typer.Argument(help="Shipped name or folder.")]


@app.command("list")
def list_posteriors(style: FormatOption = Format.table, output: OutputOption = None) -> None:
    """Shipped posteriors with model, data and convergence."""
    from tailcast.artifacts import DEFAULT_POSTERIOR
    from tailcast.posteriors import load_posterior, posterior_names
    from tailcast.report.tables import render_rows

    cards = [load_posterior(name).card for name in posterior_names()]
    if style is Format.json:
        emit_json(cards, output)
        return
    rows = [
        [
            f"{card['name']}{' (default)' if card['name'] == DEFAULT_POSTERIOR else ''}",
            str(card["latency_model"]),
            ", ".join(card["scope"]["accelerator"]),
            str(card["method"]["n_run"]),
            f"{card['diagnostics']['rhat']:.3f}",
        ]
        for card in cards
    ]
    header = ["posterior", "latency model", "accelerators", "runs", "r-hat"]
    emit(render_rows(header, rows, style.value), output)


@app.command("show")
def show(
    name: NameArgument = None,
    style: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """Card and coefficients of a posterior, prior beside posterior."""
    from tailcast.artifacts import DEFAULT_POSTERIOR
    from tailcast.posteriors import load_posterior
    from tailcast.report.posterior import coefficient_rows, posterior_text
    from tailcast.report.tables import render_rows

    found = load_posterior(name or DEFAULT_POSTERIOR)
    if style is Format.json:
        emit_json(dict(found.card), output)
        return
    found.card_entry("diagnostics", "rhat", "ess_bulk", "divergences", "n_draw")
    found.card_entry("method", "n_run", "n_summary", "n_timing")
    tree = found.tree("posterior", "prior")
    if style is Format.table:
        emit(posterior_text(found.card, tree), output)
    else:
        header, rows = coefficient_rows(found.card, tree)
        emit(render_rows(header, rows, style.value), output)


@app.command("check")
def check(
    name: NameArgument = None,
    evaluation: Annotated[
        Path | None,
        typer.Option("--evaluation", help="JSON of tailcast evaluate: coverage must hold too."),
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", help="Folder for ArviZ's plots; made where missing.")
    ] = None,
    seed: SeedOption = 0,
    style: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """Convergence, contraction, fit, emulators and floors against what a posterior must meet."""
    from tailcast.artifacts import DEFAULT_POSTERIOR
    from tailcast.diagnostics.check import check_posterior
    from tailcast.diagnostics.stored_evaluation import load_evaluation
    from tailcast.posteriors import load_posterior
    from tailcast.report.posterior_check import check_report

    found = check_posterior(
        load_posterior(name or DEFAULT_POSTERIOR),
        evaluation=load_evaluation(evaluation) if evaluation is not None else None,
        seed=seed,
    )
    if plot is not None:
        from tailcast.cli.emit import say
        from tailcast.report.posterior_plots import plot_posterior

        for path in plot_posterior(found, plot, seed=seed):
            say(f"wrote {path}")
    if style is Format.json:
        emit_json(found.as_json(), output)
    else:
        emit(check_report(found, style.value), output)
    if not found.passed:
        raise typer.Exit(1)


@app.command("compare")
def compare(
    first: Annotated[str, typer.Argument(help="Shipped name or folder.")],
    second: Annotated[str, typer.Argument(help="Shipped name or folder.")],
    style: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """Which coefficients moved from one posterior to another, and which became surer."""
    from tailcast.diagnostics.posterior_comparison import compare_posteriors
    from tailcast.posteriors import load_posterior
    from tailcast.report.posterior_check import comparison_rows, comparison_text
    from tailcast.report.tables import render_rows

    found = compare_posteriors(load_posterior(first), load_posterior(second))
    if style is Format.json:
        emit_json(found.as_json(), output)
        return
    table = render_rows(*comparison_rows(found), style.value)
    emit(table if style is Format.csv else f"{table}\n\n{comparison_text(found)}", output)
