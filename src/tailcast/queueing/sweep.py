"""Windows of a guidellm sweep: one row a run, many rates for each request shape."""

import csv
import gzip
import io
import math
from pathlib import Path

from tailcast.errors import InputError
from tailcast.queueing.server import MS
from tailcast.queueing.windows import Window

_COLUMNS = (
    "prompt_nominal",
    "output_nominal",
    "strategy",
    "target_rps",
    "n_ok",
    "rps_ok_mean",
    "prompt_tok_mean",
    "output_tok_mean",
    "ttft_ms_p50",
    "ttft_ms_std",
    "itl_ms_mean",
    "itl_ms_std",
)


def sweep_file(path: Path) -> Path:
    """The table behind a path to a sweep.

    Parameters
    ----------
    path : Path
        A CSV file, plain or gzipped, or a folder with ``sweep.csv`` or ``sweep.csv.gz``.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InputError
        If there is none.
    """
    candidates = (path / "sweep.csv.gz", path / "sweep.csv") if path.is_dir() else (path,)
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise InputError(f"no sweep at {path}; expected a CSV file or a folder with sweep.csv[.gz]")


def is_sweep(path: Path) -> bool:
    """Whether a path holds a sweep in this table's columns.

    Parameters
    ----------
    path : Path
        File or folder.

    Returns
    -------
    bool
        By the name of the file in a folder, by the first line of a file.
    """
    try:
        table = sweep_file(path)
        with gzip.open(table, "rt") if table.suffix == ".gz" else table.open() as file:
            return set(_COLUMNS) <= set(file.readline().rstrip("\n").split(","))
    except (InputError, OSError, EOFError, UnicodeDecodeError):
        return False


def sweep_runs(path: Path) -> int:
    """Number of runs in a sweep, used or not.

    Parameters
    ----------
    path : Path
        Sweep file or folder.

    Returns
    -------
    int
        Rows of the table.

    Raises
    ------
    InputError
        If the table cannot be read.
    """
    return len(_rows(sweep_file(path)))


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        content = path.read_bytes()
        text = (gzip.decompress(content) if path.suffix == ".gz" else content).decode()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    reader = csv.DictReader(io.StringIO(text))
    missing = sorted(set(_COLUMNS) - set(reader.fieldnames or ()))
    if missing:
        raise InputError(f"{path} lacks the columns {', '.join(missing)}")
    return list(reader)


def _number(path: Path, row: dict[str, str], field: str) -> float:
    try:
        return float(row[field] or "nan")
    except (TypeError, ValueError):
        raise InputError(f"{path}: {field} {row[field]!r} is not a number") from None


def _window(path: Path, row: dict[str, str]) -> Window:
    def number(field: str) -> float:
        return _number(path, row, field)

    # the median: means of TTFT hold sentinel values in some runs, and so may their deviation
    ttft, deviation = number("ttft_ms_p50"), number("ttft_ms_std")
    ttft_cv = deviation / ttft if 0 < deviation < ttft else 0.24
    shape = f"i{row['prompt_nominal']}-o{row['output_nominal']}"
    return Window(
        tokens_in=number("prompt_tok_mean"),
        tokens_out=number("output_tok_mean"),
        rate=number("rps_ok_mean"),
        ttft=ttft * MS,
        itl=number("itl_ms_mean") * MS,
        n_request=number("n_ok"),
        ttft_cv=ttft_cv,
        itl_cv=number("itl_ms_std") / number("itl_ms_mean"),
        label=shape,
    )


def read_sweep(path: Path, n_load: int = 6) -> list[Window]:
    """Windows of a sweep: by request shape, the lone client and the lowest constant rates.

    The throughput run and the highest rates are left out, as in the published fits: there the
    server was past its batch cap. TTFT is the median over requests, ITL the mean.

    Parameters
    ----------
    path : Path
        Sweep file or folder.
    n_load : int
        Constant rates kept for each shape.

    Returns
    -------
    list of Window
        Grouped by shape, in rising load; the label is ``i<prompt>-o<output>``.

    Raises
    ------
    InputError
        If the table cannot be read or lacks a column.
    """
    table = sweep_file(path)
    by_shape: dict[str, list[tuple[float, Window]]] = {}
    for row in _rows(table):
        if row["strategy"] not in ("synchronous", "constant"):
            continue
        lone = row["strategy"] == "synchronous"
        load = -math.inf if lone else _number(table, row, "target_rps")
        window = _window(table, row)
        by_shape.setdefault(window.label, []).append((load, window))
    kept: list[Window] = []
    for _, runs in sorted(by_shape.items()):
        runs.sort(key=lambda run: run[0])
        lone_runs = [w for load, w in runs if math.isinf(load)]
        kept += lone_runs + [w for load, w in runs if not math.isinf(load)][:n_load]
    return kept
