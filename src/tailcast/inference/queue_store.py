"""A fit of the three numbers on disk: a netCDF file with everything that made it."""

import os
import tempfile
from pathlib import Path

import xarray as xr

from tailcast.errors import InputError, UsageError
from tailcast.inference.queue_tree import queue_posterior

FILE = "posterior.nc"


def save_queue_fit(tree: xr.DataTree, folder: Path) -> Path:
    """Write a fit; the file appears whole or not at all, and equal draws give equal bytes.

    Parameters
    ----------
    tree : xarray.DataTree
        From `fit_queue`.
    folder : Path
        Made where missing.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    UsageError
        If it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=f".{FILE}.")
        os.close(handle)
        try:
            _without_clocks(tree).to_netcdf(temporary, engine="h5netcdf", encoding=_packed(tree))
            os.chmod(temporary, 0o644)
            os.replace(temporary, folder / FILE)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written ({error.strerror})") from error
    return folder / FILE


def _without_clocks(tree: xr.DataTree) -> xr.DataTree:
    """Copy whose groups carry no attributes of the sampler's run; units and the root's stay."""
    groups = {
        node.path: node.to_dataset(inherit=False) for node in tree.subtree if node.path != "/"
    }
    for name, group in groups.items():
        clocks = [v for v in group.data_vars if name == "/sample_stats" and _timed(str(v))]
        groups[name] = group.drop_vars(clocks)
        groups[name].attrs = {}
    plain = xr.DataTree.from_dict(groups)
    plain.attrs = dict(tree.attrs)
    return plain


def _packed(tree: xr.DataTree) -> dict[str, dict[str, dict[str, object]]]:
    return {
        node.path: {
            str(name): {"zlib": True, "complevel": 6, "shuffle": True}
            for name, variable in node.to_dataset(inherit=False).data_vars.items()
            if variable.dtype.kind in "fiub" and variable.ndim and not _timed(str(name))
        }
        for node in tree.subtree
        if node.path != "/"
    }


def _timed(name: str) -> bool:
    return "time" in name or "perf_counter" in name


def read_queue_fit(path: Path) -> xr.DataTree:
    """Read a fit of the three numbers.

    Parameters
    ----------
    path : Path
        The file, or the folder that `save_queue_fit` wrote it in.

    Returns
    -------
    xarray.DataTree
        In memory.

    Raises
    ------
    InputError
        If it cannot be read or is something else.
    """
    file = path / FILE if path.is_dir() else path
    if not file.is_file():
        raise InputError(f"{file}: no such file; is {path} the folder of a fit?")
    try:
        with xr.open_datatree(file, engine="h5netcdf") as stored:
            tree: xr.DataTree = stored.load()
    except (OSError, ValueError, KeyError, RuntimeError, TypeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{file}: not a readable fit ({reason}); fit it again") from error
    try:
        queue_posterior(tree)
    except InputError as error:
        raise InputError(f"{file}: {error}") from None
    return tree
