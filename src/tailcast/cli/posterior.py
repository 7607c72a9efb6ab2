"""`tailcast posterior`: list, show."""

from typing import Annotated

import typer

from tailcast.cli.emit import emit, emit_json
from tailcast.cli.options import Format, FormatOption, OutputOption

app = typer.Typer(
    help="Posteriors: what is shipped, what one holds.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


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
    name: Annotated[str | None, typer.Argument(help="Shipped name or folder.")] = None,
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
    elif style is Format.table:
        emit(posterior_text(found.card, found.tree()), output)
    else:
        header, rows = coefficient_rows(found.card, found.tree())
        emit(render_rows(header, rows, style.value), output)
