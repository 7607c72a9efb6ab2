"""`tailcast fit`: real runs to a posterior."""

from pathlib import Path
from typing import Annotated

import typer

from tailcast.cli.emit import emit, say
from tailcast.cli.options import LeaveOutOption
from tailcast.cli.predict import GpuOption, ModelOption, TpOption
from tailcast.cli.stated import ServedByOption, stated_server


def fit(
    paths: Annotated[
        list[Path], typer.Argument(help="Experiments, traces, step logs, step sweep folders.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for the posterior.")],
    latency_model: Annotated[
        str | None, typer.Option("--latency-model", help="Latency model, shipped or a folder.")
    ] = None,
    leave_out: LeaveOutOption = None,
    study: ServedByOption = None,
    model: ModelOption = None,
    gpu: GpuOption = None,
    tensor_parallel: TpOption = None,
    route: Annotated[
        str, typer.Option("--route", help="emulator-nuts, smc-abc, or steps (timings alone).")
    ] = "emulator-nuts",
    draws: Annotated[int, typer.Option("--draws", min=50, help="Sampled draws a chain.")] = 1000,
    tune: Annotated[int, typer.Option("--tune", min=50, help="Tuning steps a chain.")] = 400,
    chains: Annotated[int, typer.Option("--chains", min=1, help="Chains.")] = 4,
    stored: Annotated[
        int, typer.Option("--stored", min=20, help="Draws a chain that are kept, evenly thinned.")
    ] = 200,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Same seed, same bytes.")] = 0,
    allow_unconverged: Annotated[
        bool, typer.Option("--allow-unconverged", help="Store even if diagnostics fail.")
    ] = False,
) -> None:
    """Fit a latency model to runs and step timings, and store posterior, card and README."""
    from tailcast.artifacts import DEFAULT_LATENCY_MODEL
    from tailcast.errors import InferenceError
    from tailcast.inference.card import posterior_card
    from tailcast.inference.nuts import Sampler
    from tailcast.inference.routes import fit_by
    from tailcast.inference.scope import settings_of
    from tailcast.inference.sources import load_sources
    from tailcast.latency_model import load_latency_model
    from tailcast.posteriors import check_folder, save_posterior
    from tailcast.report.posterior import posterior_readme, posterior_text

    check_folder(output)
    law = load_latency_model(latency_model or DEFAULT_LATENCY_MODEL)
    stated = stated_server(study, model, gpu, tensor_parallel)
    sources = load_sources(paths, law, leave_out=leave_out or (), stated=stated)
    for note in sources.notes:
        say(note)
    sampler = Sampler(draws=draws, tune=tune, chains=chains, stored=stored)
    fitted = fit_by(route, law, sources.runs, sources.steps, seed=seed, sampler=sampler, report=say)
    found = fitted.diagnostics
    if not found.passed and not allow_unconverged:
        raise InferenceError(
            f"not converged: r-hat {found.rhat:.3f} at {found.worst}, bulk ESS "
            f"{found.ess_bulk:.0f}, {found.divergences} divergences; raise --tune or --draws, or "
            "store it with --allow-unconverged"
        )
    card = posterior_card(
        output.resolve().name,
        law,
        fitted,
        files=sources.files,
        notes=sources.notes,
        seed=seed,
        sampler=sampler,
        method=route,
        settings=settings_of(sources.deployments),
    )
    save_posterior(output, fitted.tree, card, posterior_readme(card))
    emit(posterior_text(card, fitted.tree))
