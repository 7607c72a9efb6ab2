"""A CSV file read as it is, faults and all."""

import csv
import gzip
import math
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One kind of fault in one file.

    Parameters
    ----------
    kind : str
        Short name, for example ``"clock"``.
    file : str
        Name of the file.
    line : int
        Line of the first row that has it (the header is line 1); 0 for the whole file.
    column : str
        Column or key; empty for the whole row.
    message : str
        What is wrong, with the values.
    n_rows : int
        Rows that have it.
    severe : bool
        False for something to know that does not make the trace wrong.
    """

    kind: str
    file: str
    line: int
    column: str
    message: str
    n_rows: int = 1
    severe: bool = True

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        place += f" [{self.column}]" if self.column else ""
        more = f" (in {self.n_rows} rows)" if self.n_rows > 1 else ""
        return f"{place}: {self.message}{more}"


@dataclass(slots=True)
class RawTable:
    """Cells of a CSV file; rows with a wrong number of cells are padded or cut, and noted.

    Parameters
    ----------
    path : pathlib.Path
        The file; gzip where the name ends in ``.gz``.
    faults : list of Fault
        Grows while the table is read and looked at.
    names : tuple of str
        Column names, from the first line.
    rows : list of list of str
        Cells, one list a row.
    lines : list of int
        Line of the file that each row stands in.
    """

    path: Path
    faults: list[Fault] = field(default_factory=list)
    names: tuple[str, ...] = ()
    rows: list[list[str]] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        opener = gzip.open if self.path.suffix == ".gz" else open
        try:
            with opener(self.path, "rt", encoding="utf-8-sig", newline="") as file:
                self._read(file)
        except (OSError, UnicodeDecodeError, EOFError, zlib.error, csv.Error) as error:
            self.whole("unreadable", f"cannot be read to its end: {error}")
        if not self.names:
            self.whole("empty", "empty file")
        elif not self.rows:
            self.whole("empty", "no rows below the column names")

    def _read(self, file: Iterable[str]) -> None:
        last = ""

        def watched() -> Iterable[str]:
            nonlocal last
            for text in file:
                last = text
                yield text

        reader = csv.reader(watched())
        for cells in reader:
            if not cells:
                continue
            if not self.names:
                self.names = tuple(name.strip() for name in cells)
                continue
            self.rows.append(cells)
            self.lines.append(reader.line_num)
        self._check_shape(last)

    def _check_shape(self, last: str) -> None:
        n = len(self.names)
        bad = np.array([len(cells) != n for cells in self.rows], dtype=np.bool_)
        cut = bool(self.rows) and not last.endswith(("\n", "\r"))
        if cut and bad[-1]:
            self.note(
                "truncated",
                np.arange(len(bad)) == len(bad) - 1,
                "",
                f"file ends in the middle of a row: {len(self.rows[-1])} of {n} cells",
            )
            bad[-1] = False
        if bad.any():
            first = int(np.flatnonzero(bad)[0])
            self.note("cells", bad, "", f"{len(self.rows[first])} cells for {n} columns")
        self.rows = [(cells + [""] * n)[:n] for cells in self.rows]

    def __len__(self) -> int:
        return len(self.rows)

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def text(self, name: str) -> NDArray[np.str_]:
        """Cells of a column.

        Parameters
        ----------
        name : str
            Column that is there.

        Returns
        -------
        ndarray of str, shape (n_row,)
            As written.
        """
        index = self.names.index(name)
        return np.array([cells[index].strip() for cells in self.rows], dtype=np.str_)

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Numbers of a column; a cell that is none is noted as a fault.

        Parameters
        ----------
        name : str
            Column.

        Returns
        -------
        ndarray, shape (n_row,)
            NaN for empty and bad cells, and where there is no such column.
        """
        values = np.full(len(self), np.nan)
        if name not in self:
            return values
        bad = np.zeros(len(self), dtype=np.bool_)
        for row, cell in enumerate(self.text(name).tolist()):
            try:
                values[row] = float(cell) if cell else math.nan
                bad[row] = bool(cell) and not math.isfinite(values[row])
            except ValueError:
                bad[row] = True
        if bad.any():
            shown = str(self.text(name)[bad][0])
            self.note("number", bad, name, f"{shown[:40]!r} is no finite number")
        return np.where(bad, np.nan, values)

    def note(
        self, kind: str, rows: NDArray[np.bool_], column: str, message: str, *, severe: bool = True
    ) -> None:
        """Add a fault that some rows have; nothing where no row has it.

        Parameters
        ----------
        kind : str
            Its name.
        rows : ndarray of bool, shape (n_row,)
            Rows that have it.
        column : str
            Where.
        message : str
            About the first of them.
        severe : bool
            Whether it makes the trace wrong.
        """
        if rows.any():
            first = int(np.flatnonzero(rows)[0])
            self.faults.append(
                Fault(
                    kind=kind,
                    file=self.path.name,
                    line=self.lines[first],
                    column=column,
                    message=message,
                    n_rows=int(rows.sum()),
                    severe=severe,
                )
            )

    def whole(self, kind: str, message: str, column: str = "", *, severe: bool = True) -> None:
        """Add a fault of the whole file.

        Parameters
        ----------
        kind : str
            Its name.
        message : str
            What is wrong.
        column : str
            Column or key, where it is about one.
        severe : bool
            Whether it makes the trace wrong.
        """
        self.faults.append(
            Fault(
                kind=kind,
                file=self.path.name,
                line=0,
                column=column,
                message=message,
                severe=severe,
            )
        )
