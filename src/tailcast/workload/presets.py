"""Named workloads that ship with the package."""

import tomllib
from importlib.resources import files
from typing import Any

from tailcast.errors import CatalogError, near_name


def preset_names() -> tuple[str, ...]:
    """Names of all presets.

    Returns
    -------
    tuple of str
        Sorted.

    Examples
    --------
    >>> "chatbot" in preset_names()
    True
    """
    folder = files("tailcast.catalog").joinpath("workloads")
    entries = [entry.name for entry in folder.iterdir()]
    return tuple(sorted(name.removesuffix(".toml") for name in entries if name.endswith(".toml")))


def preset_table(name: str) -> dict[str, Any]:
    """Keys of a preset, as they would stand in a study's ``[workload]``.

    Parameters
    ----------
    name : str
        One of `preset_names`; case does not matter.

    Returns
    -------
    dict
        Without a rate: that is the user's.

    Raises
    ------
    CatalogError
        If there is no such preset.
    """
    known = preset_names()
    if name.lower() not in known:
        raise CatalogError(f"no workload preset {name!r}; {near_name(name.lower(), known)}")
    path = files("tailcast.catalog").joinpath("workloads", f"{name.lower()}.toml")
    table = tomllib.loads(path.read_text(encoding="utf-8"))
    table.pop("source", None)
    return table
