"""Posteriors on disk: a netCDF DataTree with a card; saving, loading, listing."""

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tailcast.artifacts import DEFAULT_POSTERIOR, artifact_folder, artifact_names
from tailcast.errors import InputError, UsageError
from tailcast.inference.evidence import Evidence
from tailcast.inference.population import Population, Server
from tailcast.inference.stored_population import Arrays, stored_population
from tailcast.latency_model import LatencyModel, load_latency_model
from tailcast.whole_file import whole_folder

if TYPE_CHECKING:
    import xarray as xr

FILE = "posterior.nc"
CARD = "card.json"
MAX_BYTES = 1_000_000
"""A shipped posterior is at most this large."""

_SMALL = 2000
"""Bytes below which compression costs more than it saves."""

_CARD_KEYS = ("schema", "name", "latency_model", "model_sha256", "scope", "method", "seed")
_CARD_TABLES = ("scope", "method", "diagnostics", "contraction", "basis_range", "checks_made")
_SINGLE = {"posterior", "prior", "sample_stats"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Posterior:
    """A fitted posterior with its latency model and card.

    Parameters
    ----------
    name : str
        Name or path it was loaded by.
    latency_model : LatencyModel
        The model whose coefficients it holds.
    population : Population
        Its draws.
    card : mapping
        Provenance, scope, diagnostics, checks.
    path : pathlib.Path
        Folder.
    """

    name: str
    latency_model: LatencyModel
    population: Population
    card: Mapping[str, Any]
    path: Path

    def tree(self, *needed: str) -> "xr.DataTree":
        """All groups, for ArviZ.

        Parameters
        ----------
        *needed : str
            Groups without which the caller cannot go on.

        Returns
        -------
        xarray.DataTree
            Groups posterior, prior, sample_stats, observed_data, evidence, emulator_check.

        Raises
        ------
        InputError
            If the file cannot be read or lacks a group that is needed.
        """
        tree = read_tree(self.path / FILE)
        for name in needed:
            if name not in tree.children:
                raise InputError(f"{self.path / FILE}: has no group {name!r}; fit it again")
        return tree

    def card_entry(self, table: str, *names: str) -> Mapping[str, Any]:
        """A table of the card with entries that the caller cannot go without.

        Parameters
        ----------
        table : str
            For example ``"diagnostics"``.
        *names : str
            Entries that must be numbers.

        Returns
        -------
        mapping
            The table.

        Raises
        ------
        InputError
            If table or entry is missing, or an entry is no number.
        """
        found: Mapping[str, Any] = self.card.get(table, {})
        for name in names:
            if isinstance(found.get(name), bool) or not isinstance(found.get(name), int | float):
                raise InputError(
                    f"{self.path / CARD}: {table}.{name} must be a number, got "
                    f"{found.get(name)!r:.60}; fit it again"
                )
        return found

    def evidence(self) -> Evidence:
        """What the posterior was conditioned on.

        Returns
        -------
        Evidence
            Runs with emulators, step timings.

        Raises
        ------
        InputError
            If the file carries none.
        """
        from tailcast.inference.tree import evidence_of

        return evidence_of(self.tree())


def read_tree(path: Path) -> "xr.DataTree":
    """Read a stored DataTree into memory.

    Parameters
    ----------
    path : pathlib.Path
        netCDF file.

    Returns
    -------
    xarray.DataTree
        Detached from the file.

    Raises
    ------
    InputError
        If the file is missing, truncated or no netCDF.
    """
    import xarray as xr

    with _reading(path), xr.open_datatree(path, engine="h5netcdf") as stored:
        return stored.load()


def read_arrays(path: Path, group: str) -> Arrays:
    """Read one group of a stored DataTree as plain arrays: quick, and all that a prediction needs.

    Parameters
    ----------
    path : pathlib.Path
        netCDF file.
    group : str
        For example ``"posterior"``.

    Returns
    -------
    mapping of str to ndarray
        Variables and coordinates.

    Raises
    ------
    InputError
        If the file is missing, truncated or no netCDF, or has no such group.
    """
    import h5py

    with _reading(path), h5py.File(path, "r") as stored:
        if group not in stored:
            raise InputError(f"{path}: has no group {group!r}; fit it again")
        return {
            name: (item.asstr() if h5py.check_string_dtype(item.dtype) else item)[()]
            for name, item in stored[group].items()
            if isinstance(item, h5py.Dataset)
        }


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Say in one line what is wrong with a file."""
    if not path.is_file():
        raise InputError(f"{path}: no such file; is {path.parent.name!r} a posterior folder?")
    try:
        yield
    except InputError:
        raise
    except (OSError, ValueError, KeyError, RuntimeError, TypeError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(
            f"{path}: not a readable posterior ({reason}); fetch or fit it again"
        ) from error


def load_posterior(name: str = DEFAULT_POSTERIOR) -> Posterior:
    """Load a posterior and the latency model it belongs to.

    Parameters
    ----------
    name : str
        Shipped name, or the path of a folder. ``NAME@RUN`` is the same posterior for the very
        server that a fitted run was made on: predictions of its deployment use what was learned
        of it, instead of a server drawn anew.

    Returns
    -------
    Posterior
        With its draws in memory.

    Raises
    ------
    UsageError
        If there is no such posterior, or it has no such run.
    InputError
        If card or file is malformed, or the latency model has changed since the fit.
    """
    plain, run = split_server(name)
    folder = artifact_folder("posteriors", plain)
    card = _read_card(folder / CARD)
    model = load_latency_model(str(card["latency_model"]))
    if model.sha256 != card["model_sha256"]:
        raise InputError(
            f"{folder / CARD}: fitted with another version of latency model {model.name!r} "
            f"(hash {str(card['model_sha256'])[:12]}, now {model.sha256[:12]}); fit it again"
        )
    _check_file(folder / FILE, card)
    population = stored_population(read_arrays(folder / FILE, "posterior"), model)
    if run is not None:
        population = replace(population, server=_server(folder / FILE, run, population.servers))
    return Posterior(name=name, latency_model=model, population=population, card=card, path=folder)


def split_server(name: str) -> tuple[str, str | None]:
    """Take the run out of ``NAME@RUN``.

    Parameters
    ----------
    name : str
        As the user has it; an existing folder with such a name stays whole.

    Returns
    -------
    tuple
        Posterior, and run or None.
    """
    plain, mark, run = name.rpartition("@")
    return (plain, run) if mark and plain and not Path(name).exists() else (name, None)


def _server(path: Path, run: str, known: Iterable[str]) -> Server:
    """The server behind a fitted run, with the deployment that it served."""
    import h5py

    if run not in known:
        told = ", ".join(sorted(known)) or "none"
        raise UsageError(f"posterior {path.parent.name}: no run {run!r}; its runs are {told}")
    with _reading(path), h5py.File(path, "r") as stored:
        for group in stored.get("evidence", {}).values():
            found: list[Mapping[str, Any]] = [group.attrs]
            if "entry" in group:
                found = [json.loads(text) for text in group["entry"].asstr()]
            for item in found:
                if item.get("name") == run:
                    return Server(run=run, deployment=str(item["deployment"]))
    raise InputError(f"{path}: nothing says which deployment run {run!r} had; fit it again")


def _check_file(path: Path, card: Mapping[str, Any]) -> None:
    """Refuse draws that are damaged or belong to another card."""
    stated = card.get("file_sha256")
    if stated is None:
        return
    with _reading(path):
        found = hashlib.sha256(path.read_bytes()).hexdigest()
        if found != stated:
            reason = f"hash {found[:12]}, its card says {str(stated)[:12]}"
            raise ValueError(f"damaged, or of another fit: {reason}")


def _read_card(path: Path) -> dict[str, Any]:
    try:
        card = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read; is this a posterior folder?") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid JSON ({error}); fit the posterior again") from error
    if not isinstance(card, dict):
        raise InputError(f"{path}: a card is a JSON object, got {type(card).__name__}")
    for key in _CARD_KEYS:
        if key not in card:
            raise InputError(f"{path}: card lacks {key!r}; fit the posterior again")
    for key in _CARD_TABLES:
        if not isinstance(card.get(key, {}), dict):
            raise InputError(f"{path}: {key} must be an object, got {card[key]!r:.60}")
    return card


def posterior_names() -> list[str]:
    """Names of the shipped posteriors.

    Returns
    -------
    list of str
        Sorted.
    """
    return artifact_names("posteriors")


def check_folder(folder: Path) -> None:
    """Refuse a folder that a posterior cannot be written to, before it is fitted.

    Parameters
    ----------
    folder : pathlib.Path
        New, empty, or one with a posterior that may be replaced.

    Raises
    ------
    UsageError
        If it is a file, holds something else or may not be written.
    """
    try:
        if folder.exists() and not folder.is_dir():
            raise UsageError(f"{folder}: is a file; give a folder for the posterior")
        if folder.is_dir() and any(folder.iterdir()) and not (folder / CARD).is_file():
            raise UsageError(f"{folder}: is not empty and holds no posterior; give a new folder")
        there = next(p for p in (folder, *folder.resolve().parents) if p.exists())
        if not there.is_dir() or not os.access(there, os.W_OK):
            raise UsageError(f"{folder}: cannot be written in {there}; give another folder")
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written ({error.strerror})") from error


def save_posterior(folder: Path, tree: "xr.DataTree", card: Mapping[str, Any], readme: str) -> None:
    """Write a posterior folder; a new one appears whole or not at all.

    Parameters
    ----------
    folder : pathlib.Path
        Created where missing; an existing posterior in it is replaced file by file, its card last.
    tree : xarray.DataTree
        Groups to store. Volatile attributes are stripped, so that equal draws give equal bytes.
    card : mapping
        Provenance; the hash of the stored file is added as ``file_sha256``.
    readme : str
        Text of the folder's README.md.

    Raises
    ------
    UsageError
        If the folder cannot be written or holds something else.
    """
    check_folder(folder)
    stored = _netcdf(tree)
    named = {**card, "file_sha256": hashlib.sha256(stored).hexdigest()}
    try:
        with whole_folder(folder, CARD) as scratch:
            (scratch / FILE).write_bytes(stored)
            (scratch / "README.md").write_text(readme, encoding="utf-8")
            text = json.dumps(named, indent=2, sort_keys=True) + "\n"
            (scratch / CARD).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{folder}: cannot be written ({error.strerror})") from error


def _netcdf(tree: "xr.DataTree") -> bytes:
    """Bytes of a DataTree: float32 draws, compressed, without clocks or volatile attributes."""
    import xarray as xr

    stored = xr.DataTree.from_dict(
        {node.path: _stored(node) for node in tree.subtree if node.path != "/"}
    )
    encoding = {
        node.path: {
            str(name): {"zlib": True, "complevel": 6, "shuffle": True}
            for name, variable in node.to_dataset(inherit=False).variables.items()
            if variable.dtype.kind in "fiub" and variable.nbytes > _SMALL
        }
        for node in stored.subtree
        if node.path != "/"
    }
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / FILE
        stored.to_netcdf(path, engine="h5netcdf", encoding=encoding)
        return path.read_bytes()


def _stored(node: "xr.DataTree") -> "xr.Dataset":
    data = node.to_dataset(inherit=False)
    group = node.path.strip("/").split("/")[0]
    if group in _SINGLE:
        data = data.map(
            lambda v: v.astype(np.float32) if v.dtype == np.float64 else v, keep_attrs=False
        )
    keep = data.attrs if group == "evidence" else {}
    return data.assign_attrs({}).drop_attrs(deep=True).assign_attrs(keep)
