"""Where the files of one trace are."""

from dataclasses import dataclass
from pathlib import Path

from tailcast.errors import InputError

FILE_NAMES = {
    "header": "header.yaml",
    "requests": "requests.csv",
    "token_times": "token_times.csv",
    "extra": "requests_ext.csv",
    "metrics": "metrics.csv",
    "metrics_before": "metrics_before.prom",
    "metrics_after": "metrics_after.prom",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceFiles:
    """Files of one trace; None for those that are not there.

    Parameters
    ----------
    header, requests : pathlib.Path
        YAML header and CSV of one row a request.
    token_times, extra, metrics : pathlib.Path, optional
        Time of every token; the client's figures by request; the server's counters over time.
    """

    header: Path
    requests: Path
    token_times: Path | None = None
    extra: Path | None = None
    metrics: Path | None = None


def trace_files(path: Path) -> TraceFiles:
    """Files of a trace.

    Parameters
    ----------
    path : pathlib.Path
        Folder as `observe` writes it; or a header or data file, the other one having the same name
        but for its ending (``run.yaml`` and ``run.csv``) or the usual one; or their common name
        without ending.

    Returns
    -------
    TraceFiles
        Header and requests exist.

    Raises
    ------
    InputError
        If they do not.
    """
    if not path.exists():
        headers = [path.with_name(path.name + ending) for ending in (".yaml", ".yml")]
        path = next((header for header in headers if header.is_file()), path)
    if not path.exists():
        raise InputError(f"{path}: no such file or folder, nor {path.name}.yaml")
    if path.is_dir():
        return _in_folder(path)
    if path.suffix in {".yaml", ".yml"}:
        header, requests = path, _partner(path, (".csv", ".csv.gz"), FILE_NAMES["requests"])
    else:
        header, requests = _partner(path, (".yaml", ".yml"), FILE_NAMES["header"]), path
    named = {header.name, requests.name} == {FILE_NAMES["header"], FILE_NAMES["requests"]}
    if named and header.parent == requests.parent:
        return _in_folder(header.parent)
    token_times = [
        side
        for side in (path.with_name(f"{requests.stem}{end}") for end in (".itl.csv", ".tokens.csv"))
        if side.exists()
    ]
    return TraceFiles(
        header=header, requests=requests, token_times=token_times[0] if token_times else None
    )


def _in_folder(folder: Path) -> TraceFiles:
    for key in ("header", "requests"):
        if not (folder / FILE_NAMES[key]).is_file():
            raise InputError(f"{folder}: no {FILE_NAMES[key]} in this folder; is it a trace?")

    def side(key: str) -> Path | None:
        path = folder / FILE_NAMES[key]
        return path if path.is_file() else None

    return TraceFiles(
        header=folder / FILE_NAMES["header"],
        requests=folder / FILE_NAMES["requests"],
        token_times=side("token_times"),
        extra=side("extra"),
        metrics=side("metrics"),
    )


def _partner(path: Path, endings: tuple[str, ...], usual: str) -> Path:
    tried = [path.with_name(path.name.split(".")[0] + ending) for ending in endings]
    tried.append(path.with_name(usual))
    for candidate in tried:
        if candidate.is_file():
            return candidate
    raise InputError(f"{path}: no {tried[0].name} or {usual} beside it")
