"""Typed reading of a ``config.json``: a bad or missing field names itself and its file."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from tailcast.errors import InputError


@dataclass(frozen=True, slots=True)
class ConfigFields:
    """The keys of one configuration, read with checks.

    Parameters
    ----------
    values : mapping of str to object
        Parsed JSON. JSON ``null`` counts as absent.
    where : str
        File or name that error messages start with.
    """

    values: Mapping[str, object]
    where: str

    def has(self, *keys: str) -> bool:
        """Whether any of the keys is there and not null.

        Parameters
        ----------
        *keys : str
            Spellings of one field.

        Returns
        -------
        bool
            True if one of them has a value.
        """
        return self._first(keys) is not None

    def count(self, *keys: str) -> int:
        """Whole number of at least 1 under the first key present.

        Parameters
        ----------
        *keys : str
            Spellings of one field, the most common first.

        Returns
        -------
        int
            The value.

        Raises
        ------
        InputError
            If no key is there, or the value is not a positive whole number.
        """
        key = self._first(keys)
        if key is None:
            raise self.missing(keys[0])
        return self._whole(key, least=1)

    def count_or(self, default: int, *keys: str, least: int = 0) -> int:
        """Whole number under the first key present, or what the format says its absence means.

        Parameters
        ----------
        default : int
            Meaning of an absent field.
        *keys : str
            Spellings of one field.
        least : int
            Smallest value allowed.

        Returns
        -------
        int
            The value.

        Raises
        ------
        InputError
            If the value is not a whole number of at least `least`.
        """
        key = self._first(keys)
        return default if key is None else self._whole(key, least=least)

    def text(self, *keys: str) -> str:
        """Text under the first key present.

        Parameters
        ----------
        *keys : str
            Spellings of one field.

        Returns
        -------
        str
            The value, not empty.

        Raises
        ------
        InputError
            If no key is there, or the value is not a text.
        """
        key = self._first(keys)
        if key is None:
            raise self.missing(keys[0])
        value = self.values[key]
        if not isinstance(value, str) or not value:
            raise InputError(f"{self.where}: {key} must be a text, got {value!r}")
        return value

    def flag(self, key: str, default: bool | None) -> bool:
        """Boolean under the key.

        Parameters
        ----------
        key : str
            Field.
        default : bool or None
            Meaning of an absent field; None makes the field required.

        Returns
        -------
        bool
            The value.

        Raises
        ------
        InputError
            If a required field is absent, or the value is not true or false.
        """
        value = self.values.get(key)
        if value is None:
            if default is None:
                raise self.missing(key)
            return default
        if not isinstance(value, bool):
            raise InputError(f"{self.where}: {key} must be true or false, got {value!r}")
        return value

    def items(self, key: str) -> list[object]:
        """List under the key; an absent field is an empty list.

        Parameters
        ----------
        key : str
            Field.

        Returns
        -------
        list
            The value.

        Raises
        ------
        InputError
            If the value is not a list.
        """
        value = self.values.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise InputError(f"{self.where}: {key} must be a list, got {value!r}")
        return list(value)

    def section(self, key: str) -> "ConfigFields | None":
        """Nested object under the key.

        Parameters
        ----------
        key : str
            Field.

        Returns
        -------
        ConfigFields or None
            Its fields, None when absent.

        Raises
        ------
        InputError
            If the value is not an object.
        """
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise InputError(f"{self.where}: {key} must be an object, got {value!r}")
        return ConfigFields(value, f"{self.where}: {key}")

    def missing(self, key: str) -> InputError:
        """Error that says which field is missing from which file.

        Parameters
        ----------
        key : str
            Field.

        Returns
        -------
        InputError
            To be raised by the caller.
        """
        return InputError(f"{self.where}: field {key!r} is missing")

    def _first(self, keys: tuple[str, ...]) -> str | None:
        return next((key for key in keys if self.values.get(key) is not None), None)

    def _whole(self, key: str, least: int) -> int:
        value = self.values[key]
        number = not isinstance(value, bool) and isinstance(value, int | float)
        if not number or not math.isfinite(value) or value != int(value) or value < least:  # type: ignore[arg-type, operator, call-overload]
            raise InputError(
                f"{self.where}: {key} must be a whole number of at least {least}, got {value!r}"
            )
        return int(value)  # type: ignore[call-overload, no-any-return]
