"""Results of a search in one SQLite file, so that an interrupted search goes on where it was."""

import hashlib
import json
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import InputError, UsageError

Array = NDArray[np.float64]

_SCHEMA = "tailcast/search-results/1"


class Store:
    """Outcomes by question, candidate, purpose and block.

    Every batch is one transaction: after an interruption it is there as a whole or not at all.
    What is stored is only a memory of simulations; decisions are made again, and come out the same.
    Answers to other questions may stand in the same file and are left alone.

    Parameters
    ----------
    path : pathlib.Path or None
        File; memory only where None.
    identity : mapping
        Everything that outcomes depend on beside candidate and block.

    Raises
    ------
    InputError
        If the file is no results file.
    UsageError
        If it cannot be written.
    """

    def __init__(self, path: Path | None, identity: Mapping[str, Any]) -> None:
        self._path = path
        text = json.dumps(identity, sort_keys=True, default=repr)
        self._question = hashlib.sha256(text.encode()).hexdigest()
        try:
            self._base = sqlite3.connect(str(path) if path else ":memory:")
            self._prepare(text)
        except sqlite3.OperationalError as error:
            raise UsageError(f"{path}: cannot be written ({error})") from error
        except sqlite3.DatabaseError as error:
            raise InputError(f"{path}: is no results file of tailcast search ({error})") from error
        self._known = self._read()

    def _prepare(self, text: str) -> None:
        with self._base:
            self._base.execute("CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value)")
            found = dict(self._base.execute("SELECT name, value FROM about"))
            if found.setdefault("schema", _SCHEMA) != _SCHEMA:
                schema = found["schema"]
                raise InputError(f"{self._path}: holds {schema!r}, not {_SCHEMA!r}; remove it")
            rows = [("schema", _SCHEMA), (self._question, text)]
            self._base.executemany("INSERT OR IGNORE INTO about VALUES (?, ?)", rows)
            self._base.execute(
                "CREATE TABLE IF NOT EXISTS outcome (question TEXT, candidate TEXT, purpose TEXT, "
                "block INTEGER, numbers BLOB, PRIMARY KEY (question, candidate, purpose, block)) "
                "WITHOUT ROWID"
            )

    def _read(self) -> dict[tuple[str, str], dict[int, Array]]:
        known: dict[tuple[str, str], dict[int, Array]] = {}
        rows = self._base.execute(
            "SELECT candidate, purpose, block, numbers FROM outcome WHERE question = ?",
            (self._question,),
        )
        for candidate, purpose, block, numbers in rows:
            known.setdefault((candidate, purpose), {})[block] = np.frombuffer(numbers)
        return known

    @property
    def n_stored(self) -> int:
        """Number of stored outcomes."""
        return sum(map(len, self._known.values()))

    def known(self, candidate: str, purpose: str, blocks: Iterable[int]) -> Array | None:
        """Stored outcomes of some blocks.

        Parameters
        ----------
        candidate : str
            Its key.
        purpose : str
            Which blocks and runs are meant.
        blocks : iterable of int
            Numbers.

        Returns
        -------
        ndarray, shape (n_block, n_number), or None
            None unless all of them are there.
        """
        rows = self._known.get((candidate, purpose), {})
        wanted = [rows.get(block) for block in blocks]
        found = [row for row in wanted if row is not None]
        return np.array(found) if len(found) == len(wanted) else None

    def keep(self, items: Iterable[tuple[str, str, Iterable[int], Array]]) -> None:
        """Store a batch.

        Parameters
        ----------
        items : iterable of tuple
            Candidate key, purpose, block numbers, and outcomes of shape (n_block, n_number).

        Raises
        ------
        UsageError
            If the file cannot be written.
        """
        rows = []
        for candidate, purpose, blocks, numbers in items:
            mine = self._known.setdefault((candidate, purpose), {})
            for block, row in zip(blocks, np.ascontiguousarray(numbers), strict=True):
                mine[int(block)] = row
                rows.append((self._question, candidate, purpose, int(block), row.tobytes()))
        try:
            with self._base:
                self._base.executemany(
                    "INSERT OR REPLACE INTO outcome VALUES (?, ?, ?, ?, ?)", rows
                )
        except sqlite3.OperationalError as error:
            raise UsageError(f"{self._path}: cannot be written ({error})") from error

    def close(self) -> None:
        """Close the file."""
        self._base.close()
