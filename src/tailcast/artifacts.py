"""Where `models/` and `posteriors/` are, from a checkout and from an installed wheel alike."""

from pathlib import Path

from tailcast.errors import UsageError, near_name

DEFAULT_LATENCY_MODEL = "physics"
"""Latency model that `fit` uses unless told otherwise."""

DEFAULT_POSTERIOR = "physics-h100-vllm015"
"""Shipped posterior that every command uses unless told otherwise."""

_KINDS = {"models": "model.toml", "posteriors": "card.json"}


def artifact_root(kind: str) -> Path:
    """Folder that holds the shipped artifacts of a kind.

    Parameters
    ----------
    kind : {"models", "posteriors"}
        Which artifacts.

    Returns
    -------
    pathlib.Path
        The checkout's folder where the package runs from one, otherwise the copy in the package.
    """
    package = Path(__file__).resolve().parent
    checkout = package.parents[1]
    if (checkout / "pyproject.toml").is_file() and (checkout / kind).is_dir():
        return checkout / kind
    return package / "_artifacts" / kind


def artifact_names(kind: str) -> list[str]:
    """Names of the shipped artifacts of a kind, sorted.

    Parameters
    ----------
    kind : {"models", "posteriors"}
        Which artifacts.

    Returns
    -------
    list of str
        Folder names that hold the kind's marker file.
    """
    root = artifact_root(kind)
    return sorted(p.parent.name for p in root.glob(f"*/{_KINDS[kind]}")) if root.is_dir() else []


def artifact_folder(kind: str, name: str) -> Path:
    """Folder of one artifact, by shipped name or by path.

    Parameters
    ----------
    kind : {"models", "posteriors"}
        Which artifacts.
    name : str
        Name of a shipped artifact, or the path of a folder (or of its marker file).

    Returns
    -------
    pathlib.Path
        Existing folder.

    Raises
    ------
    UsageError
        If neither a shipped artifact nor a folder has that name.
    """
    shipped = artifact_root(kind) / name
    if name and "/" not in name and (shipped / _KINDS[kind]).is_file():
        return shipped
    path = Path(name or " ")
    if path.is_file() and path.name in {_KINDS[kind], "posterior.nc"}:
        return path.parent
    if path.is_dir():
        return path
    hint = near_name(name, artifact_names(kind)) if artifact_names(kind) else "none are shipped"
    raise UsageError(f"no {kind[:-1]} {name!r}, neither shipped nor a folder; {hint}")
