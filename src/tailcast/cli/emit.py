"""Where answers and progress go: stdout or a file, and stderr."""

import json
import math
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from tailcast.errors import UsageError

VERBOSITY = {"level": 1}
"""0 quiet, 1 normal, 2 verbose; set once by the main callback."""


def emit(text: str, output: Path | None = None) -> None:
    """Write an answer.

    Parameters
    ----------
    text : str
        Without a final newline.
    output : pathlib.Path, optional
        File; it appears whole or not at all. Standard output where absent.

    Raises
    ------
    UsageError
        If the file cannot be written.
    """
    if output is None:
        print(text)
        return
    try:
        handle, temporary = tempfile.mkstemp(dir=output.parent, prefix=f".{output.name}.")
        with os.fdopen(handle, "w") as file:
            file.write(text + "\n")
        os.chmod(temporary, 0o644)
        os.replace(temporary, output)
    except OSError as error:
        raise UsageError(f"{output}: cannot be written ({error.strerror})") from error


def emit_json(content: Any, output: Path | None = None) -> None:
    """Write an answer as JSON: sorted as given, NaN and infinities as null.

    Parameters
    ----------
    content : object
        Dicts, lists, texts, numbers.
    output : pathlib.Path, optional
        As for `emit`.
    """
    emit(json.dumps(_plain(content), indent=2, allow_nan=False), output)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, bool) or value is None or isinstance(value, int | str):
        return value
    number = float(value)
    return number if math.isfinite(number) else None


def say(line: str) -> None:
    """Progress and remarks, to stderr unless quiet.

    Parameters
    ----------
    line : str
        One line.
    """
    if VERBOSITY["level"] > 0:
        print(line, file=sys.stderr, flush=True)
