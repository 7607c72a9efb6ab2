"""Accelerators by name, from the package's data sheets, or from a file of the user's own."""

import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from tailcast.catalog.names import find_entry, name_index, plain_name
from tailcast.errors import CatalogError, InputError, near_name
from tailcast.hardware import Accelerator
from tailcast.toml_file import read_toml

_TERA, _GIGA, _GIBI = 1e12, 1e9, 2.0**30
_VENDORS = ("nvidia", "amd")
_OTHERWISE = " Any other accelerator can be given by the path of a .toml file with its data sheet."
_NEEDED = (
    "name",
    "architecture",
    "peak",
    "memory_bandwidth",
    "memory",
    "interconnect",
    "interconnect_bandwidth",
)


def accelerator(name: str) -> Accelerator:
    """Accelerator of that name, or described by that file.

    Parameters
    ----------
    name : str
        Any of its names in any case: ``"H100"``, ``"h100-sxm"`` and ``"H100-SXM-80GB"`` are one.
        Or the path of a ``.toml`` file with one ``[[accelerator]]``, in the catalogue's units:
        ``peak`` in TFLOP/s by format, bandwidths in GB/s, ``memory`` in GiB.

    Returns
    -------
    Accelerator
        Its data sheet.

    Raises
    ------
    CatalogError
        If the name is unknown or ambiguous.
    InputError
        If the file cannot be used.
    """
    if str(name).endswith(".toml"):
        return _from_file(Path(name).expanduser())
    entries = _entries()
    return entries[find_entry("accelerator", name, _spelling(name), _index(), otherwise=_OTHERWISE)]


def names() -> list[str]:
    """Canonical names, sorted.

    Returns
    -------
    list of str
        One for each accelerator.
    """
    return sorted(_entries())


def _spelling(name: str) -> str:
    spelled = plain_name(name)
    for vendor in ("nvidia-", "amd-", "instinct-", "geforce-"):
        spelled = spelled.removeprefix(vendor)
    return spelled


@cache
def _index() -> dict[str, str]:
    return name_index({entry.name: entry.aliases for entry in _entries().values()}, _spelling)


@cache
def _entries() -> dict[str, Accelerator]:
    folder = files("tailcast.catalog") / "accelerators"
    entries: dict[str, Accelerator] = {}
    for vendor in _VENDORS:
        table = tomllib.loads((folder / f"{vendor}.toml").read_text(encoding="utf-8"))
        for row in table["accelerator"]:
            name = row["name"]
            if name in entries:
                raise CatalogError(f"{vendor}.toml lists {name!r} twice")
            entries[name] = _from_row(row)
    return entries


def _from_row(row: Mapping[str, Any]) -> Accelerator:
    return Accelerator(
        name=row["name"],
        aliases=tuple(str(alias) for alias in row.get("aliases", ())),
        architecture=row["architecture"],
        peak_flops_by_dtype={key: peak * _TERA for key, peak in row["peak"].items()},
        memory_bandwidth=row["memory_bandwidth"] * _GIGA,
        memory=row["memory"] * _GIBI,
        interconnect=row["interconnect"],
        interconnect_bandwidth=row["interconnect_bandwidth"] * _GIGA,
        sources=dict(row.get("source", {})),
    )


def _from_file(path: Path) -> Accelerator:
    rows = read_toml(path).get("accelerator")
    if not isinstance(rows, list) or len(rows) != 1 or not isinstance(rows[0], dict):
        raise InputError(f"{path}: a file describes one accelerator, in one table [[accelerator]]")
    (row,) = rows
    for key in _NEEDED:
        if key not in row:
            raise InputError(f"{path}: [[accelerator]] lacks {key}")
    for key in row:
        if key not in {*_NEEDED, "aliases", "source"}:
            raise InputError(f"{path}: unknown key {key!r}; {near_name(key, _NEEDED)}")
    for key in ("name", "architecture", "interconnect"):
        if not isinstance(row[key], str) or not row[key]:
            raise InputError(f"{path}: {key} must be a text, got {row[key]!r:.60}")
    if not isinstance(row.get("aliases", []), list):
        raise InputError(f"{path}: aliases must be a list, got {row['aliases']!r:.60}")
    for key in ("peak", "source"):
        if not isinstance(row.get(key, {}), dict):
            raise InputError(f"{path}: {key} must be a table by format, got {row[key]!r:.60}")
    figures = {f"peak {dtype}": peak for dtype, peak in row["peak"].items()}
    for key in ("memory_bandwidth", "memory", "interconnect_bandwidth"):
        figures[key] = row[key]
    for key, value in figures.items():
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(f"{path}: {key} must be a number, got {value!r:.60}")
    try:
        found = _from_row(row)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error
    if _spelling(found.name) in _index():
        raise InputError(f"{path}: {found.name!r} is in the catalogue already; take another name")
    return found
