"""A file or folder to be recognised: its first text, its keys, its whole content on demand."""

import codecs
import csv
import gzip
import json
import re
import zlib
from collections.abc import Iterator
from functools import cached_property
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Any

from tailcast.errors import InputError
from tailcast.traces.importers.json_table import JsonTable

_HEAD_BYTES = 1 << 16
_KEY = re.compile(r'"([^"\\\n]{1,80})"\s*:')


class Sample:
    """What stands at a path, looked at only as far as it is needed.

    Parameters
    ----------
    path : pathlib.Path
        Existing file (gzip where the name ends in ``.gz``) or folder.

    Raises
    ------
    InputError
        If there is nothing at the path.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            raise InputError(f"{path}: no such file or folder")
        self.path = path
        self.is_folder = path.is_dir()

    @cached_property
    def names(self) -> frozenset[str]:
        """Names of the files in the folder; empty for a file."""
        if not self.is_folder:
            return frozenset()
        return frozenset(entry.name for entry in self.path.iterdir() if entry.is_file())

    @cached_property
    def start(self) -> bytes:
        """First bytes, unpacked; empty for a folder and for a file that cannot be unpacked."""
        if self.is_folder:
            return b""
        try:
            with self._bytes() as file:
                return file.read(_HEAD_BYTES)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            return b""
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read: {error.strerror or error}") from error

    @cached_property
    def head(self) -> str:
        """First text; empty where the file is a folder or no text."""
        if b"\0" in self.start:
            return ""
        decoder = codecs.getincrementaldecoder("utf-8-sig")("strict")
        try:
            return decoder.decode(self.start)
        except UnicodeDecodeError:
            return ""

    @cached_property
    def keys(self) -> frozenset[str]:
        """Keys of JSON objects, of any depth, within the first text."""
        if not self.looks_like_json:
            return frozenset()
        return frozenset(_KEY.findall(self.head))

    @property
    def looks_like_json(self) -> bool:
        """Whether the first sign is a brace or a bracket."""
        return self.head.lstrip()[:1] in {"{", "["}

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Cells of the first line, as of a CSV file; empty for JSON."""
        if self.looks_like_json:
            return ()
        lines = self.head.splitlines()
        try:
            return tuple(cell.strip() for cell in next(csv.reader(lines[:1]), []))
        except csv.Error:
            return ()

    def has_keys(self, *wanted: str) -> bool:
        """Whether all of these occur as keys of JSON objects in the first text.

        Parameters
        ----------
        *wanted : str
            Keys.

        Returns
        -------
        bool
            False for anything but JSON.
        """
        return self.keys.issuperset(wanted)

    def has_columns(self, *wanted: str) -> bool:
        """Whether all of these are columns of a CSV file.

        Parameters
        ----------
        *wanted : str
            Column names.

        Returns
        -------
        bool
            False for anything but CSV.
        """
        return set(self.columns).issuperset(wanted)

    def look_deeper(self) -> bool:
        """Take the keys of the whole file, where long lists hide them from the first text.

        Returns
        -------
        bool
            Whether there is more to see than before.
        """
        if not self.looks_like_json or len(self.start) < _HEAD_BYTES:
            return False
        try:
            document = self.document
        except InputError:
            return False
        entry = document[0] if isinstance(document, list) and document else document
        found = set(self.keys)
        for value in (entry, *(entry.values() if isinstance(entry, dict) else ())):
            found.update(value if isinstance(value, dict) else ())
        more = found > self.keys
        self.keys = frozenset(found)
        return more

    def inside(self, name: str) -> "Sample":
        """File of the folder.

        Parameters
        ----------
        name : str
            One of `names`.

        Returns
        -------
        Sample
            That file.
        """
        return Sample(self.path / name)

    @property
    def cut(self) -> bool:
        """Whether the last line has no end, as where writing was interrupted."""
        if self.is_folder or self.path.suffix == ".gz" or not self.path.stat().st_size:
            return False
        with open(self.path, "rb") as file:
            file.seek(-1, 2)
            return file.read(1) not in b"\r\n"

    def lines(self) -> Iterator[tuple[int, str]]:
        """Lines of the file with their numbers from 1, without their ends.

        Yields
        ------
        tuple of int and str
            Number and text.

        Raises
        ------
        InputError
            If the file cannot be read to its end.
        """
        try:
            with self._bytes() as raw, TextIOWrapper(raw, encoding="utf-8-sig") as file:
                for number, line in enumerate(file, start=1):
                    yield number, line.rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise InputError(f"{self.path}: not UTF-8 text (byte {error.start})") from error
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise InputError(f"{self.path}: not a whole gzip file: {error}") from error
        except OSError as error:
            raise InputError(f"{self.path}: cannot be read: {error.strerror or error}") from error

    @cached_property
    def document(self) -> Any:
        """Whole content as one JSON value.

        Raises
        ------
        InputError
            If it is none; the message has line and column.
        """
        text = "\n".join(line for _, line in self.lines())
        if not text.strip():
            raise InputError(f"{self.path}: empty file")
        return _parsed(text, str(self.path))

    def objects(self) -> Iterator[tuple[int, JsonTable]]:
        """Objects of a JSON Lines file, with the line that each stands in.

        Yields
        ------
        tuple of int and JsonTable
            Line and object; empty lines are passed over.

        Raises
        ------
        InputError
            If a line is no JSON object.
        """
        for number, line in self.lines():
            if line.strip():
                place = f"{self.path}:{number}"
                yield number, JsonTable(_parsed(line, place), place)

    def documents(self) -> list[tuple[int, JsonTable]]:
        """Objects of a file that holds one of any layout, or one in each line.

        Returns
        -------
        list of tuple of int and JsonTable
            Line that each starts in, and its reader.
        """
        first = next((line for _, line in self.lines() if line.strip()), "")
        try:
            alone = json.loads(first)
        except (ValueError, RecursionError):
            alone = None
        if alone is None:
            return [(1, self.table())]
        return list(self.objects())

    def table(self) -> JsonTable:
        """Whole content as one JSON object.

        Returns
        -------
        JsonTable
            Its reader.
        """
        return JsonTable(self.document, str(self.path))

    def _bytes(self) -> IO[bytes]:
        if self.path.suffix == ".gz":
            return gzip.open(self.path, "rb")  # type: ignore[return-value]
        return open(self.path, "rb")


def _parsed(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        where = f"{place}:{error.lineno}:{error.colno}" if "\n" in text else place
        cut = " (cut off?)" if error.pos >= len(text.rstrip()) - 1 else ""
        raise InputError(f"{where}: not valid JSON: {error.msg}{cut}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{place}: not valid JSON: {error}") from error
