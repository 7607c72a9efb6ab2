"""Public sets by the file that gives each away."""

from collections.abc import Mapping
from pathlib import Path

from tailcast.errors import InputError
from tailcast.traces import (
    public_argonne,
    public_doks,
    public_inferencex,
    public_inferno,
    public_llm_pilot,
    public_llmservingsim,
    public_splitwise,
)
from tailcast.traces.public_set import Loader, PublicSet

LOADERS: Mapping[str, Loader] = {
    public_llm_pilot.FILE: public_llm_pilot.load_llm_pilot,
    public_inferno.FILE: public_inferno.load_inferno,
    public_inferencex.FILE: public_inferencex.load_inferencex,
    public_doks.FILE: public_doks.load_doks,
    public_splitwise.FILE: public_splitwise.load_splitwise,
    public_argonne.FILE: public_argonne.load_argonne,
    public_llmservingsim.FILE: public_llmservingsim.load_llmservingsim,
}
"""Loader of each set by the name of the file it is recognised by."""


def is_public_set(path: Path) -> bool:
    """Whether a path is a folder of a public set that is known.

    Parameters
    ----------
    path : pathlib.Path
        Folder, or the file by which a set is recognised.

    Returns
    -------
    bool
        Decided by names alone.
    """
    return _marker(path) is not None


def load_public_set(path: Path) -> PublicSet:
    """Read a public set.

    Parameters
    ----------
    path : pathlib.Path
        Its folder, or the file by which it is recognised.

    Returns
    -------
    PublicSet
        Experiments, step timings and traces, with a count of everything that is not used.

    Raises
    ------
    InputError
        If it is none, or malformed.
    """
    marker = _marker(path)
    if marker is None:
        raise InputError(f"{path}: no public set; known by their files: {', '.join(LOADERS)}")
    return LOADERS[marker](path if path.is_dir() else path.parent)


def _marker(path: Path) -> str | None:
    folder = path if path.is_dir() else path.parent
    names = LOADERS if path.is_dir() else ([path.name] if path.name in LOADERS else [])
    for name in names:
        alone = name != public_llmservingsim.FILE or any(folder.glob(public_llmservingsim.PATTERN))
        if (folder / name).is_file() and alone:
            return name
    return None
