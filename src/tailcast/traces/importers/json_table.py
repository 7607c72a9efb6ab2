"""Typed reading of JSON objects, with the place in every complaint."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import InputError

_LARGEST = 2**53


class JsonTable:
    """One JSON object of a file.

    Parameters
    ----------
    value : object
        What the file holds at this place; anything but an object is refused.
    where : str
        Place named in messages, for example ``"run.json: benchmarks[0]"``.
    """

    __slots__ = ("value", "where")

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, Mapping):
            raise InputError(f"{where}: expected a JSON object, got {_shown(value)}")
        self.value: Mapping[str, Any] = value
        self.where = where

    def __contains__(self, key: str) -> bool:
        return self.value.get(key) is not None

    def number(self, key: str, *, least: float = -math.inf) -> float:
        """Finite number under a key.

        Parameters
        ----------
        key : str
            Key that must be there.
        least : float
            Smallest value allowed.

        Returns
        -------
        float
            As written.

        Raises
        ------
        InputError
            If it is missing, no finite number or too small.
        """
        if key not in self:
            raise InputError(f"{self.where}: {key} is missing")
        return _number(self.value[key], f"{self.where}: {key}", least)

    def maybe(self, key: str, *, least: float = -math.inf) -> float:
        """Finite number under a key, NaN where it is absent or null.

        Parameters
        ----------
        key : str
            Key that may be there.
        least : float
            Smallest value allowed.

        Returns
        -------
        float
            As written, or NaN.
        """
        return self.number(key, least=least) if key in self else math.nan

    def whole(self, key: str, default: int | None = None, *, least: int = 0) -> int:
        """Whole number under a key.

        Parameters
        ----------
        key : str
            Key.
        default : int, optional
            Value where the key is absent or null; required without it.
        least : int
            Smallest value allowed.

        Returns
        -------
        int
            As written.

        Raises
        ------
        InputError
            If it is missing, no whole number or too small.
        """
        if default is not None and key not in self:
            return default
        return whole_number(self.number(key, least=least), f"{self.where}: {key}")

    def text(self, key: str, default: str | None = None) -> str:
        """Text under a key.

        Parameters
        ----------
        key : str
            Key.
        default : str, optional
            Value where the key is absent or null; required without it.

        Returns
        -------
        str
            As written; a bare number as its text.

        Raises
        ------
        InputError
            If it is missing, or a list, an object or a flag.
        """
        if key not in self:
            if default is None:
                raise InputError(f"{self.where}: {key} is missing")
            return default
        value = self.value[key]
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise InputError(f"{self.where}: {key} must be text, got {_shown(value)}")
        return str(value)

    def numbers(self, key: str, *, least: float = -math.inf) -> NDArray[np.float64]:
        """List of finite numbers under a key.

        Parameters
        ----------
        key : str
            Key that must be there.
        least : float
            Smallest value allowed.

        Returns
        -------
        ndarray, shape (n,)
            As written.

        Raises
        ------
        InputError
            If it is missing, no list, or an entry is no finite number; the message has its index.
        """
        return number_list(self.listed(key), f"{self.where}: {key}", least)

    def listed(self, key: str) -> list[Any]:
        """List under a key.

        Parameters
        ----------
        key : str
            Key that must be there.

        Returns
        -------
        list
            Unchecked entries.

        Raises
        ------
        InputError
            If it is missing or no list.
        """
        if key not in self:
            raise InputError(f"{self.where}: {key} is missing")
        value = self.value[key]
        if not isinstance(value, list):
            raise InputError(f"{self.where}: {key} must be a list, got {_shown(value)}")
        return value

    def table(self, key: str) -> "JsonTable":
        """Object under a key; an empty one where it is absent or null.

        Parameters
        ----------
        key : str
            Key.

        Returns
        -------
        JsonTable
            Its reader.

        Raises
        ------
        InputError
            If there is something else.
        """
        return JsonTable(self.value[key] if key in self else {}, f"{self.where} {key}")

    def tables(self, key: str) -> "list[JsonTable]":
        """List of objects under a key; empty where it is absent or null.

        Parameters
        ----------
        key : str
            Key.

        Returns
        -------
        list of JsonTable
            Their readers.

        Raises
        ------
        InputError
            If there is something else.
        """
        entries = self.listed(key) if key in self else []
        return [JsonTable(v, f"{self.where} {key}[{i}]") for i, v in enumerate(entries)]


def whole_number(value: float, where: str) -> int:
    """Whole number that a float holds exactly.

    Parameters
    ----------
    value : float
        Finite number.
    where : str
        Place named in messages.

    Returns
    -------
    int
        The number.

    Raises
    ------
    InputError
        If it is no whole number, or too large for one.
    """
    if value != int(value) or abs(value) > _LARGEST:
        raise InputError(f"{where} must be a whole number, got {value:.15g}")
    return int(value)


def number_list(values: object, where: str, least: float = -math.inf) -> NDArray[np.float64]:
    """Array of a JSON list of finite numbers.

    Parameters
    ----------
    values : object
        What the file has.
    where : str
        Place named in messages.
    least : float
        Smallest value allowed.

    Returns
    -------
    ndarray, shape (n,)
        As written.

    Raises
    ------
    InputError
        If it is no list or an entry is no finite number of at least `least`.
    """
    if not isinstance(values, list):
        raise InputError(f"{where} must be a list, got {_shown(values)}")
    plain = all(type(value) in {int, float} for value in values)
    column = np.array(values, dtype=np.float64) if plain else None
    if column is not None and bool(np.all(np.isfinite(column) & (column >= least))):
        return column
    return np.array([_number(v, f"{where}[{i}]", least) for i, v in enumerate(values)])


def _number(value: object, where: str, least: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{where} must be a number, got {_shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise InputError(f"{where} must be a finite number, got {number}")
    if number < least:
        rule = "must not be negative" if least == 0 else f"must be at least {least:g}"
        raise InputError(f"{where} {rule}, got {number:g}")
    return number


def _shown(value: object) -> str:
    return f"{value!r:.60}".replace("\n", " ")
