"""Plots of a checked posterior by ArviZ."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from tailcast.diagnostics.check import PosteriorCheck
from tailcast.errors import UsageError
from tailcast.streams import stream
from tailcast.whole_file import whole_file


def plot_posterior(check: PosteriorCheck, folder: Path, seed: int = 0) -> list[Path]:
    """Write the plots of a check.

    Parameters
    ----------
    check : PosteriorCheck
        Of a posterior.
    folder : pathlib.Path
        Made where missing.
    seed : int
        Of the replications.

    Returns
    -------
    list of pathlib.Path
        PNG files: ranks, forest, prior and posterior, replications, leave-one-out PIT, Pareto
        shapes, and coverage on other runs where an evaluation was given.

    Raises
    ------
    UsageError
        If the plots extra is missing or the folder cannot be written.
    """
    try:
        import matplotlib as mpl
    except ModuleNotFoundError as error:
        raise UsageError("plots need matplotlib: pip install 'tailcast[plots]'") from error
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be made ({error.strerror})") from error
    tree = arviz_tree(check, seed)
    made = []
    with warnings.catch_warnings(), mpl.rc_context({"figure.max_open_warning": 0}):
        warnings.simplefilter("ignore")
        mpl.use("Agg", force=False)
        for name, draw in _plots(check, tree).items():
            made.append(_written(draw, folder / f"{name}.png"))
    return made


def _plots(check: PosteriorCheck, tree: xr.DataTree) -> dict[str, Callable[[], Any]]:
    import arviz as az

    names = list(tree["posterior"].to_dataset().data_vars)
    wide = {"figure_kwargs": {"figsize": (14, 11), "layout": "constrained"}}
    plots: dict[str, Callable[[], Any]] = {
        "rank": lambda: az.plot_rank(tree, var_names=names, backend="matplotlib", **wide),
        "forest": lambda: az.plot_forest(
            tree,
            var_names=names,
            combined=True,
            backend="matplotlib",
            figure_kwargs={"figsize": (8, 8), "layout": "constrained"},
        ),
        "prior_posterior": lambda: az.plot_prior_posterior(
            tree, var_names=names, kind="ecdf", backend="matplotlib", **wide
        ),
        "replications": lambda: az.plot_ppc_interval(
            tree,
            var_names=list(dict.fromkeys(_variable(k) for k in check.data.kinds)),
            backend="matplotlib",
            **wide,
        ),
        "loo_pit": lambda: az.plot_loo_pit(tree, var_names=["datum"], backend="matplotlib"),
        "loo_coverage": lambda: az.plot_loo_pit(
            tree, var_names=["datum"], coverage=True, backend="matplotlib"
        ),
        "khat": lambda: az.plot_khat(
            az.loo(tree, var_name="datum", pointwise=True), backend="matplotlib"
        ),
    }
    if check.evaluation is not None:
        plots["coverage"] = lambda: az.plot_ecdf_pit(
            tree, group="evaluation", coverage=True, sample_dims=["record"], backend="matplotlib"
        )
    return plots


def arviz_tree(check: PosteriorCheck, seed: int = 0) -> xr.DataTree:
    """Posterior, prior, replications and likelihood in ArviZ's groups.

    Parameters
    ----------
    check : PosteriorCheck
        Of a posterior.
    seed : int
        Of the replications.

    Returns
    -------
    xarray.DataTree
        ``posterior`` and ``prior`` hold each coefficient's log excess over its prior median in
        prior standard deviations; ``posterior_predictive``, ``observed_data`` and
        ``log_likelihood`` the log of each datum over its posterior mean, all together as
        ``datum`` and by kind.
    """
    posterior = check.posterior
    stored = posterior.tree()
    data = check.data
    n_chain = stored["posterior"].sizes["chain"]
    shape = (n_chain, -1, len(data.names))
    centre = data.mean.mean(axis=0)
    noise = stream(seed, "replication").standard_t(data.nu, size=data.mean.shape)
    replicated = (data.mean - centre + data.scale * noise).reshape(shape)
    observed = data.observed - centre
    log_likelihood = data.log_likelihood.reshape(shape)
    groups = {
        name: _standardised(stored[name].to_dataset(), posterior.latency_model)
        for name in ("posterior", "prior")
    }
    kinds = {"datum": np.ones(len(data.names), dtype=bool)}
    for kind in dict.fromkeys(data.kinds):
        kinds[_variable(kind)] = np.array([k == kind for k in data.kinds])
    for name, values in (
        ("posterior_predictive", replicated),
        ("log_likelihood", log_likelihood),
        ("observed_data", observed),
    ):
        dims = ("chain", "draw") if values.ndim == 3 else ()
        groups[name] = xr.Dataset(
            {kind: ((*dims, f"{kind}_dim"), values[..., own]) for kind, own in kinds.items()}
        )
    if check.evaluation is not None:
        groups["evaluation"] = xr.Dataset({"pit": ("record", np.array(check.evaluation.pits))})
    return xr.DataTree.from_dict({name: _numbered(data) for name, data in groups.items()})


def _numbered(group: xr.Dataset) -> xr.Dataset:
    """Number what has no coordinate: ArviZ tells chains apart by it."""
    free = {str(dim): np.arange(n) for dim, n in group.sizes.items() if dim not in group.coords}
    return group.assign_coords(free)


def _variable(kind: str) -> str:
    return kind.replace(".", "_")


def _standardised(group: xr.Dataset, model: Any) -> xr.Dataset:
    variables = {}
    for name in (str(v) for v in group["coefficient"].values):
        c = model.coefficient(name)
        excess = np.maximum(group["value"].sel(coefficient=name).values - c.floor, 1e-12)
        variables[name] = (("chain", "draw"), np.log(excess / (c.centre - c.floor)) / c.sd)
    return xr.Dataset(variables)


def _written(draw: Callable[[], Any], path: Path) -> Path:
    from matplotlib import pyplot

    try:
        with whole_file(path, suffix=".png") as temporary:
            draw().savefig(temporary, dpi=90, bbox_inches="tight")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror})") from error
    finally:
        pyplot.close("all")
    return path
