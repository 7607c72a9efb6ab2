"""Plots of a fit of the three numbers by ArviZ."""

import os
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import xarray as xr

from tailcast.errors import UsageError
from tailcast.inference.queue_data import METRICS
from tailcast.queueing.parameter_prior import NAMES

_UNITS = {"alpha": ("ms", 1e3), "beta": ("us", 1e6), "gamma": ("ns", 1e9), "overhead": ("ms", 1e3)}

# windows below which their coverage says nothing
_ENOUGH = 5


def plot_queue_fit(tree: xr.DataTree, folder: Path) -> list[Path]:
    """Write the plots of a fit.

    Parameters
    ----------
    tree : xarray.DataTree
        From `fit_queue`.
    folder : Path
        Of the files; it exists.

    Returns
    -------
    list of Path
        PNG files: prior and posterior, pairs of the numbers, ranks by chain, and where there are
        enough windows how well their intervals hold them.

    Raises
    ------
    UsageError
        If the plots extra is missing or a file cannot be written.
    """
    try:
        import matplotlib as mpl
    except ModuleNotFoundError as error:
        raise UsageError("plots need matplotlib: pip install 'tailcast[plots]'") from error
    with warnings.catch_warnings(), mpl.rc_context({"figure.max_open_warning": 0}):
        warnings.simplefilter("ignore")
        mpl.use("Agg", force=False)
        return [
            _written(draw, folder / f"{name}.png") for name, draw in _plots(_in_units(tree)).items()
        ]


def _in_units(tree: xr.DataTree) -> xr.DataTree:
    """Groups with numbers in the field's units, and latencies in logs around their median."""
    groups = {}
    for group in ("posterior", "prior"):
        data = tree[group].to_dataset()
        groups[group] = xr.Dataset(
            {f"{name} ({unit})": data[name] * factor for name, (unit, factor) in _UNITS.items()}
        )
    drawn, seen = tree["posterior_predictive"].to_dataset(), tree["observed_data"].to_dataset()
    replicated, observed = {}, {}
    for metric in METRICS:
        known = np.isfinite(seen[metric].values)
        if known.any():
            logs = cast("xr.DataArray", np.log(drawn[metric].isel(window=known)))
            center = logs.median(("chain", "draw"))
            name = f"{metric.upper()}, log over its predicted median"
            replicated[name] = logs - center
            observed[name] = np.log(seen[metric].isel(window=known)) - center
    groups["posterior_predictive"] = xr.Dataset(replicated)
    groups["observed_data"] = xr.Dataset(observed)
    return xr.DataTree.from_dict(groups)


def _plots(tree: xr.DataTree) -> dict[str, Callable[[], Any]]:
    import arviz as az

    names = [str(v) for v in tree["posterior"].data_vars]
    numbers = names[: len(NAMES)]
    wide = {"figure_kwargs": {"figsize": (12, 4), "layout": "constrained"}}
    made: dict[str, Callable[[], Any]] = {
        "prior_posterior": lambda: az.plot_prior_posterior(
            tree, var_names=names, kind="ecdf", backend="matplotlib", **wide
        ),
        "pairs": lambda: az.plot_pair(
            tree,
            var_names=numbers,
            backend="matplotlib",
            figure_kwargs={"figsize": (8, 8), "layout": "constrained"},
        ),
    }
    if tree["observed_data"].sizes["window"] >= _ENOUGH:
        made["coverage"] = lambda: az.plot_ppc_pit(
            tree, coverage=True, backend="matplotlib", **wide
        )
        made["windows"] = lambda: az.plot_ppc_interval(tree, backend="matplotlib", **wide)
    if tree["posterior"].sizes["chain"] > 1:
        made["rank"] = lambda: az.plot_rank(tree, var_names=names, backend="matplotlib", **wide)
    return made


def _written(draw: Callable[[], Any], path: Path) -> Path:
    from matplotlib import pyplot

    drawn = draw()
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".png")
    os.close(handle)
    try:
        drawn.savefig(temporary, dpi=90, bbox_inches="tight", metadata={"Software": None})
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror})") from error
    finally:
        pyplot.close("all")
        Path(temporary).unlink(missing_ok=True)
    return path
