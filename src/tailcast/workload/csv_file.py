"""Columns of CSV files, gzipped or not, with file and line in every complaint."""

import csv
import gzip
import math
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import InputError, near_name


class CsvFile:
    """One CSV file, read whole.

    Parameters
    ----------
    path : pathlib.Path
        File with a header line; gzip where the name ends in ``.gz``.

    Attributes
    ----------
    names : tuple of str
        Names of the columns, in order.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.names: tuple[str, ...] = ()
        self._rows: list[list[str]] = []
        self._lines: list[int] = []
        opener = gzip.open if path.suffix == ".gz" else open
        try:
            with opener(path, "rt", encoding="utf-8-sig", newline="") as file:
                self._read(file)
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: not UTF-8 text (byte {error.start})") from error
        except (EOFError, zlib.error, csv.Error) as error:
            raise InputError(f"{path}: not a CSV file: {error}") from error
        if not self.names:
            raise InputError(f"{path}: empty file")

    def _read(self, file: Iterable[str]) -> None:
        reader = csv.reader(file)
        for row in reader:
            if not row:
                continue
            if not self.names:
                self.names = tuple(name.strip() for name in row)
                for name in self.names:
                    if self.names.count(name) > 1:
                        raise InputError(f"{self.path}: column {name!r} is there twice")
                continue
            if len(row) != len(self.names):
                raise InputError(
                    f"{self.path}:{reader.line_num}: {len(row)} cells for {len(self.names)} columns"
                )
            self._rows.append(row)
            self._lines.append(reader.line_num)

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def require(self, names: Sequence[str]) -> None:
        """Complain where a column is missing.

        Parameters
        ----------
        names : sequence of str
            Columns that must be there.

        Raises
        ------
        InputError
            If one is not; the message suggests the nearest name.
        """
        for name in names:
            if name not in self.names:
                hint = near_name(name, self.names)
                raise InputError(f"{self.path}: no column {name!r}; {hint}")

    def text(self, name: str) -> list[str]:
        """Cells of a column.

        Parameters
        ----------
        name : str
            Name of the column.

        Returns
        -------
        list of str
            As the file has them.
        """
        self.require([name])
        index = self.names.index(name)
        return [row[index] for row in self._rows]

    def numbers(self, name: str, *, empty: float | None = None) -> NDArray[np.float64]:
        """Finite numbers of a column.

        Parameters
        ----------
        name : str
            Name of the column.
        empty : float, optional
            What an empty cell stands for; refused where absent.

        Returns
        -------
        ndarray, shape (n_row,)
            Values as written.

        Raises
        ------
        InputError
            If a cell is no finite number.
        """
        values = np.empty(len(self))
        for row, cell in enumerate(self.text(name)):
            if not cell.strip() and empty is not None:
                values[row] = empty
                continue
            try:
                values[row] = float(cell)
            except ValueError:
                values[row] = math.nan
            if not math.isfinite(values[row]):
                raise self.error(row, f"{name} must be a finite number, got {cell!r}")
        return values

    def whole(self, name: str, *, empty: int | None = None) -> NDArray[np.int64]:
        """Whole numbers of a column, exact up to 64 bits.

        Parameters
        ----------
        name : str
            Name of the column.
        empty : int, optional
            What an empty cell stands for; refused where absent.

        Returns
        -------
        ndarray of int, shape (n_row,)
            Values as written.

        Raises
        ------
        InputError
            If a cell is no whole number.
        """
        values = np.empty(len(self), dtype=np.int64)
        for row, cell in enumerate(self.text(name)):
            if not cell.strip() and empty is not None:
                values[row] = empty
                continue
            try:
                values[row] = int(cell)
            except (ValueError, OverflowError):
                number = _whole(cell)
                if number is None:
                    raise self.error(row, f"{name} must be a whole number, got {cell!r}") from None
                values[row] = number
        return values

    def error(self, row: int, message: str) -> InputError:
        """Complaint about one row.

        Parameters
        ----------
        row : int
            Position from 0.
        message : str
            What is wrong.

        Returns
        -------
        InputError
            To be raised; it names file and line.
        """
        return InputError(f"{self.path}:{self._lines[row]}: {message}")


def _whole(cell: str) -> int | None:
    """Whole number written as a decimal, such as ``12.0``; None for anything else."""
    try:
        value = float(cell)
    except ValueError:
        return None
    exact = math.isfinite(value) and value == int(value) and abs(value) < 2**53
    return int(value) if exact else None
