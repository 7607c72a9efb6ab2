"""Where answers and progress go: stdout or a file, and stderr."""

import json
import math
import os
import sys
from pathlib import Path
from typing import Any, TextIO

from tailcast.errors import UsageError
from tailcast.whole_file import write_whole

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
        try:
            print(text, flush=True)
        except BrokenPipeError:  # the reader has seen enough; what the command decides stands
            silence(sys.stdout)
        return
    try:
        write_whole(output, text + "\n")
    except OSError as error:
        raise UsageError(f"{output}: cannot be written ({error.strerror})") from error


def check_output(output: Path | None) -> Path | None:
    """Refuse a file that cannot be written before any work is done for it.

    Parameters
    ----------
    output : pathlib.Path, optional
        What ``-o`` gave.

    Returns
    -------
    pathlib.Path or None
        The same.

    Raises
    ------
    UsageError
        If it is a folder, lies in none, or may not be written.
    """
    if output is None:
        return None
    try:
        if output.is_dir():
            raise UsageError(f"{output}: is a folder; give a file for the answer")
        if not output.parent.is_dir():
            raise UsageError(f"{output}: there is no folder {output.parent}; make it first")
        if not os.access(output if output.exists() else output.parent, os.W_OK):
            raise UsageError(f"{output}: cannot be written (Permission denied)")
    except OSError as error:
        raise UsageError(f"{output}: cannot be written ({error.strerror})") from error
    return output


def silence(stream: TextIO) -> None:
    """Send what is still written to a stream whose reader has gone to nowhere.

    Parameters
    ----------
    stream : file
        ``sys.stdout`` or ``sys.stderr``.
    """
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


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
        try:
            print(line, file=sys.stderr, flush=True)
        except BrokenPipeError:
            silence(sys.stderr)
