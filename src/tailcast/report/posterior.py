"""A posterior for people: its card, its coefficients."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from tailcast.report.tables import render_rows


def coefficient_rows(
    card: Mapping[str, Any], tree: xr.DataTree, ci_prob: float = 0.89
) -> tuple[list[str], list[list[str]]]:
    """Population coefficients with interval and contraction.

    Parameters
    ----------
    card : mapping
        Of the posterior.
    tree : xarray.DataTree
        With groups posterior and prior.
    ci_prob : float
        Mass of the equal-tailed interval.

    Returns
    -------
    tuple
        Header and rows of text.
    """
    posterior, prior = tree["posterior"].to_dataset(), tree["prior"].to_dataset()
    tails = [(1 - ci_prob) / 2, 0.5, (1 + ci_prob) / 2]
    rows = []
    for name in posterior["coefficient"].values:
        now = np.quantile(posterior["value"].sel(coefficient=name).values, tails)
        before = np.quantile(prior["value"].sel(coefficient=name).values, tails)
        learned = float(card.get("contraction", {}).get(str(name), 1.0))
        rows.append(
            [
                str(name),
                f"{before[1]:.3g}",
                f"{before[0]:.3g} .. {before[2]:.3g}",
                f"{now[1]:.3g}",
                f"{now[0]:.3g} .. {now[2]:.3g}",
                f"{learned:.2f}",
                "prior" if learned > 0.8 else "",
            ]
        )
    header = ["coefficient", "prior", "", "posterior", "", "sd ratio", "leans on"]
    return header, rows


def posterior_text(card: Mapping[str, Any], tree: xr.DataTree) -> str:
    """What a fit found.

    Parameters
    ----------
    card : mapping
        Of the posterior.
    tree : xarray.DataTree
        With groups posterior and prior.

    Returns
    -------
    str
        Table of coefficients and lines on data and convergence.
    """
    header, rows = coefficient_rows(card, tree)
    found, method = card["diagnostics"], card["method"]
    lines = [
        f"{card['name']}: latency model {card['latency_model']}, {method.get('route', '?')}, "
        f"{method['n_run']} runs ({method['n_summary']} summaries), {method['n_timing']} timings",
        "",
        render_rows(header, rows, "table"),
        "",
        f"r-hat {found['rhat']:.3f}, bulk ESS {found['ess_bulk']:.0f}, "
        f"{found['divergences']} divergences of {found['n_draw']} draws. 89 % equal-tailed "
        "intervals of the population; sd ratio is posterior over prior at the best known level.",
    ]
    return "\n".join(lines)


def posterior_readme(card: Mapping[str, Any]) -> str:
    """README of a posterior folder.

    Parameters
    ----------
    card : mapping
        Of the posterior.

    Returns
    -------
    str
        Markdown.
    """
    scope, method = card["scope"], card["method"]
    data = "\n".join(f"- `{name}` {digest[:16]}" for name, digest in card["data_sha256"].items())
    return f"""# {card["name"]}

Posterior of latency model `{card["latency_model"]}` by {method["route"]}, seed {card["seed"]}.

What it has seen: {method["n_run"]} runs and {method["n_timing"]} step timings.

- accelerators: {", ".join(scope["accelerator"])}
- engine versions: {", ".join(scope["engine_version"])}
- LLMs: {", ".join(scope["llm"])}

Elsewhere a prediction draws new level effects: wider intervals, not average ones.

Diagnostics: r-hat {card["diagnostics"]["rhat"]}, bulk ESS {card["diagnostics"]["ess_bulk"]},
{card["diagnostics"]["divergences"]} divergences.

Data (first 16 digits of SHA-256):

{data}
"""
