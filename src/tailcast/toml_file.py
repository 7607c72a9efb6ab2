"""Reading a TOML file that a person wrote: whatever is wrong with it is one line."""

import tomllib
from pathlib import Path
from typing import Any

from tailcast.errors import InputError


def read_toml(path: Path) -> dict[str, Any]:
    """Content of a TOML file.

    Parameters
    ----------
    path : pathlib.Path
        File to read.

    Returns
    -------
    dict
        Tables by name.

    Raises
    ------
    InputError
        If the file cannot be read or is not TOML; with line and column where they are known.
    """
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except ValueError as error:
        raise InputError(f"{path}: is no path of a file ({error})") from error
    return parsed_toml(raw, path)


def parsed_toml(raw: bytes, path: Path) -> dict[str, Any]:
    """Content of a TOML file whose bytes are at hand.

    Parameters
    ----------
    raw : bytes
        What the file holds.
    path : pathlib.Path
        File named in messages.

    Returns
    -------
    dict
        Tables by name.

    Raises
    ------
    InputError
        If it is not TOML; with line and column where they are known.
    """
    try:
        return tomllib.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start})") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path}: not valid TOML: {error}") from error
    except RecursionError as error:
        raise InputError(f"{path}: not valid TOML: nested too deep") from error
