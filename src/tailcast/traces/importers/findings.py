"""What an importer did to a file, and what is wrong with it."""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import InputError
from tailcast.traces.raw_table import Fault

type Bools = NDArray[np.bool_]


@dataclass(slots=True)
class Findings:
    """Notes, faults and counts of one file; they grow while it is read.

    Parameters
    ----------
    path : str
        File as it was named.
    lines : sequence of int, optional
        Line of the file that each row stands in; without it rows are entries of JSON lists.
    notes : list of str
        What was converted, assumed or refused, one sentence each.
    faults : list of Fault
        What makes the file say something else than what happened.
    counts : dict of str to int
        How many rows were read, and how many were left out for which reason.
    """

    path: str
    lines: list[int] | None = None
    notes: list[str] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """Name of the file without its folder."""
        return self.path.rstrip("/").rsplit("/", 1)[-1]

    def note(self, text: str) -> None:
        """Say what was done; a sentence that was said already is not repeated.

        Parameters
        ----------
        text : str
            One sentence.
        """
        if text not in self.notes:
            self.notes.append(text)

    def count(self, what: str, n: int) -> None:
        """Count rows.

        Parameters
        ----------
        what : str
            ``read``, or why rows were left out.
        n : int
            How many; nothing is kept for zero.
        """
        if n:
            self.counts[what] = self.counts.get(what, 0) + n

    def rows(
        self, kind: str, rows: Bools, column: str, message: str, *, severe: bool = True
    ) -> None:
        """Add a fault that some rows have; nothing where no row has it.

        Parameters
        ----------
        kind : str
            Its name, for example ``"order"``.
        rows : ndarray of bool, shape (n_row,)
            Rows that have it.
        column : str
            Column or key.
        message : str
            About the first of them.
        severe : bool
            Whether it makes the file wrong.
        """
        if not np.any(rows):
            return
        first = int(np.flatnonzero(rows)[0])
        self.faults.append(
            Fault(
                kind=kind,
                file=self.file,
                line=0 if self.lines is None else self.lines[first],
                column=column if self.lines is not None else f"{column}[{first}]",
                message=message,
                n_rows=int(np.sum(rows)),
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
            Whether it makes the file wrong.
        """
        self.faults.append(
            Fault(kind=kind, file=self.file, line=0, column=column, message=message, severe=severe)
        )

    def error(self, row: int, column: str, message: str) -> InputError:
        """Complaint about a row that cannot be read at all.

        Parameters
        ----------
        row : int
            Position from 0.
        column : str
            Column or key.
        message : str
            What is wrong.

        Returns
        -------
        InputError
            To be raised; it names file, row and column.
        """
        if self.lines is not None:
            return InputError(f"{self.path}:{self.lines[row]}: {column} {message}")
        return InputError(f"{self.path}: {column}[{row}] {message}")
