"""Accelerators by name, from the package's data sheets."""

import tomllib
from functools import cache
from importlib.resources import files

from tailcast.catalog.names import find_entry, name_index, plain_name
from tailcast.errors import CatalogError
from tailcast.hardware import Accelerator

_TERA, _GIGA, _GIBI = 1e12, 1e9, 2.0**30
_VENDORS = ("nvidia", "amd")


def accelerator(name: str) -> Accelerator:
    """Accelerator of that name.

    Parameters
    ----------
    name : str
        Any of its names in any case: ``"H100"``, ``"h100-sxm"`` and ``"H100-SXM-80GB"`` are one.

    Returns
    -------
    Accelerator
        Its data sheet.

    Raises
    ------
    CatalogError
        If the name is unknown or ambiguous.
    """
    entries = _entries()
    return entries[find_entry("accelerator", name, _spelling(name), _index())]


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
            entries[name] = Accelerator(
                name=name,
                aliases=tuple(row["aliases"]),
                architecture=row["architecture"],
                peak_flops_by_dtype={key: peak * _TERA for key, peak in row["peak"].items()},
                memory_bandwidth=row["memory_bandwidth"] * _GIGA,
                memory=row["memory"] * _GIBI,
                interconnect=row["interconnect"],
                interconnect_bandwidth=row["interconnect_bandwidth"] * _GIGA,
                sources=dict(row["source"]),
            )
    return entries
