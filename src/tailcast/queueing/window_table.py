"""Windows typed by hand: a CSV table with one row a window."""

import csv
import math
from pathlib import Path

from tailcast.errors import InputError, near_name
from tailcast.queueing.server import MS
from tailcast.queueing.windows import Window

_NEEDED = ("tokens_in", "tokens_out", "rate_rps")
_LATENCIES = ("ttft_ms", "itl_ms")
_OPTIONAL = ("throughput_rps", "n_request", "label")
_KNOWN = (*_NEEDED, *_LATENCIES, *_OPTIONAL)


def is_window_table(path: Path) -> bool:
    """Whether a file's first line names the columns that a window needs.

    Parameters
    ----------
    path : Path
        CSV file.

    Returns
    -------
    bool
        False for anything else.
    """
    if path.suffix.lower() != ".csv" or not path.is_file():
        return False
    try:
        with path.open(encoding="utf-8") as file:
            return set(_NEEDED) <= {name.strip() for name in file.readline().split(",")}
    except (OSError, UnicodeDecodeError):
        return False


def read_window_table(path: Path) -> list[Window]:
    """Windows of a table with the columns ``tokens_in,tokens_out,rate_rps,ttft_ms,itl_ms``.

    Parameters
    ----------
    path : Path
        CSV file; ``throughput_rps``, ``n_request`` and ``label`` may follow, and an empty cell is
        a value that was not measured.

    Returns
    -------
    list of Window
        In the order of the rows.

    Raises
    ------
    InputError
        If a column is unknown or a cell impossible; the line is named.
    """
    try:
        with path.open(encoding="utf-8", newline="") as file:
            reader = csv.DictReader(file, skipinitialspace=True)
            names = [name.strip() for name in reader.fieldnames or ()]
            reader.fieldnames = names
            for name in names:
                if name not in _KNOWN:
                    raise InputError(f"{path}: no column {name!r}; {near_name(name, _KNOWN)}")
            return [_window(path, place, row) for place, row in enumerate(reader, start=2)]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} cannot be read: {error}") from None


def _window(path: Path, line: int, row: dict[str, str | None]) -> Window:
    def number(name: str, absent: float = math.nan) -> float:
        text = (row.get(name) or "").strip()
        if not text:
            return absent
        try:
            return float(text)
        except ValueError:
            raise InputError(f"{path} line {line}: {name} {text!r} is not a number") from None

    try:
        return Window(
            tokens_in=number("tokens_in"),
            tokens_out=number("tokens_out"),
            rate=number("rate_rps"),
            ttft=number("ttft_ms") * MS,
            itl=number("itl_ms") * MS,
            throughput=number("throughput_rps"),
            n_request=number("n_request", math.inf),
            label=(row.get("label") or "").strip() or f"line {line}",
        )
    except ValueError as error:
        raise InputError(f"{path} line {line}: {error}") from None
