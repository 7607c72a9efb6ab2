"""Typed reading of a mapping that a person wrote, with the place in every complaint."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from tailcast.errors import InputError, UsageError, near_name
from tailcast.units import parse_duration

_REQUIRED: Any = object()


class Fields:
    """One table of a study or experiment file; remembers which keys were looked at.

    Parameters
    ----------
    mapping : object
        What the file holds at this place; anything but a table is refused.
    where : str
        Place named in messages, for example ``"study.toml [workload]"``.
    """

    def __init__(self, mapping: object, where: str) -> None:
        if not isinstance(mapping, Mapping):
            raise InputError(f"{where}: expected a table of keys, got {mapping!r:.60}")
        for key in mapping:
            if not isinstance(key, str):
                raise InputError(f"{where}: key {key!r} is not text")
        self._mapping: Mapping[str, Any] = mapping
        self._known: list[str] = []
        self.where = where

    def __contains__(self, key: str) -> bool:
        return self._mapping.get(key) is not None

    def raw(self, key: str, default: Any = None) -> Any:
        """Value as the file has it.

        Parameters
        ----------
        key : str
            Key of this table.
        default : object
            Returned where the key is absent or null.

        Returns
        -------
        object
            Unchecked value.

        Raises
        ------
        InputError
            If there is neither a value nor a default.
        """
        self._known.append(key)
        value = self._mapping.get(key)
        if value is not None:
            return value
        if default is _REQUIRED:
            raise InputError(f"{self.where}: {key} is missing")
        return default

    def number(self, key: str, default: Any = _REQUIRED) -> Any:
        """Finite number.

        Parameters
        ----------
        key : str
            Key of this table.
        default : object
            Returned where the key is absent; required without it.

        Returns
        -------
        float
            The value, or the default untouched.

        Raises
        ------
        InputError
            If the value is no finite number.
        """
        value = self.raw(key, default)
        if value is default:
            return value
        number = _as_number(value)
        if number is None or not math.isfinite(number):
            raise InputError(f"{self.where}: {key} must be a finite number, got {value!r:.60}")
        return number

    def whole(self, key: str, default: Any = _REQUIRED) -> Any:
        """Whole number.

        Parameters
        ----------
        key : str
            Key of this table.
        default : object
            Returned where the key is absent; required without it.

        Returns
        -------
        int
            The value, or the default untouched.

        Raises
        ------
        InputError
            If the value is no whole number.
        """
        value = self.raw(key, default)
        if value is default:
            return value
        number = _as_number(value)
        if number is None or not math.isfinite(number) or number != int(number):
            raise InputError(f"{self.where}: {key} must be a whole number, got {value!r:.60}")
        return int(number)

    def text(self, key: str, default: Any = _REQUIRED) -> Any:
        """Text; a bare number is read as text, since YAML turns ``id: 17`` into one.

        Parameters
        ----------
        key : str
            Key of this table.
        default : object
            Returned where the key is absent; required without it.

        Returns
        -------
        str
            The value, or the default untouched.

        Raises
        ------
        InputError
            If the value is a table, a list or a flag, or empty.
        """
        value = self.raw(key, default)
        if value is default:
            return value
        if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
            raise InputError(f"{self.where}: {key} must be text, got {value!r:.60}")
        return str(value)

    def flag(self, key: str, default: Any = _REQUIRED) -> Any:
        """True or false.

        Parameters
        ----------
        key : str
            Key of this table.
        default : object
            Returned where the key is absent; required without it.

        Returns
        -------
        bool
            The value, or the default untouched.

        Raises
        ------
        InputError
            If the value is neither true nor false.
        """
        value = self.raw(key, default)
        if value is not default and not isinstance(value, bool):
            raise InputError(f"{self.where}: {key} must be true or false, got {value!r:.60}")
        return value

    def duration(self, key: str, default: Any = _REQUIRED) -> Any:
        """Seconds of a duration written with its unit.

        Parameters
        ----------
        key : str
            Key of this table.
        default : object
            Returned where the key is absent; required without it.

        Returns
        -------
        float
            Seconds, or the default untouched.

        Raises
        ------
        InputError
            If the value is no text such as ``"300ms"``.
        """
        value = self.raw(key, default)
        if value is default:
            return value
        if not isinstance(value, str):
            raise InputError(
                f"{self.where}: {key} must be a duration with a unit such as '30s', got {value!r}"
            )
        try:
            return parse_duration(value)
        except UsageError as error:
            raise InputError(f"{self.where}: {key}: {error}") from error

    def table(self, key: str) -> "Fields | None":
        """Nested table.

        Parameters
        ----------
        key : str
            Key of this table.

        Returns
        -------
        Fields or None
            Reader of the nested table; None where the key is absent.
        """
        value = self.raw(key)
        return None if value is None else Fields(value, f"{self.where} {key}")

    def tables(self, key: str) -> "list[Fields]":
        """List of nested tables.

        Parameters
        ----------
        key : str
            Key of this table.

        Returns
        -------
        list of Fields
            Empty where the key is absent.

        Raises
        ------
        InputError
            If the value is no list, or an empty one.
        """
        value = self.raw(key)
        if value is None:
            return []
        if not isinstance(value, list | tuple) or not value:
            raise InputError(f"{self.where}: {key} must be a list of tables, got {value!r:.60}")
        return [Fields(item, f"{self.where} {key}[{i}]") for i, item in enumerate(value)]

    def unused(self) -> tuple[str, ...]:
        """Keys of the table that nobody has looked at.

        Returns
        -------
        tuple of str
            In the order of the file.
        """
        return tuple(key for key in self._mapping if key not in self._known)

    def refuse_unused(self, known: Iterable[str] = ()) -> None:
        """Complain about the first key that nobody has looked at.

        Parameters
        ----------
        known : iterable of str
            Further keys to suggest.

        Raises
        ------
        InputError
            If there is such a key; the message suggests the nearest known one.
        """
        for key in self.unused():
            hint = near_name(key, {*self._known, *known})
            raise InputError(f"{self.where}: unknown key {key!r}; {hint}")


def _as_number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:  # YAML 1.1 reads 1e-3 as text
        return float(value)
    except (ValueError, OverflowError):
        return None
