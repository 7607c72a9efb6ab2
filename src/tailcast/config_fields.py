"""Typed reading of a ``config.json``: a bad or missing field names itself and its file."""

from collections.abc import Mapping
from dataclasses import dataclass

from tailcast.errors import InputError

# No count of an architecture comes near; a larger one is a damaged file.
_MOST = 10**9


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

    def count(self, *keys: str, most: int = _MOST) -> int:
        """Whole number of at least 1 under the first key present.

        Parameters
        ----------
        *keys : str
            Spellings of one field, the most common first.
        most : int
            Largest value allowed.

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
        return self._whole(key, least=1, most=most)

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
        return default if key is None else self._whole(key, least=least, most=_MOST)

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
            raise InputError(f"{self.where}: {key} must be a text, got {value!r:.60}")
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
            raise InputError(f"{self.where}: {key} must be true or false, got {value!r:.60}")
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
            raise InputError(f"{self.where}: {key} must be a list, got {value!r:.60}")
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
            raise InputError(f"{self.where}: {key} must be an object, got {value!r:.60}")
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

    def _whole(self, key: str, least: int, most: int) -> int:
        value = self.values[key]
        if (
            isinstance(value, int | float)
            and not isinstance(value, bool)
            and least <= value <= most
            and value == int(value)
        ):
            return int(value)
        raise InputError(
            f"{self.where}: {key} must be a whole number from {least} to {most}, got {value!r:.60}"
        )
