"""Typed reading of a mapping that a person wrote, with the place in every complaint."""

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
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
    path : str
        Dotted path of this table, for `read`.
    read : dict, optional
        Shared with the table around this one.

    Attributes
    ----------
    read : dict of str
        Every value that was looked at and present, as text by dotted path: what the file means,
        free of its layout, order and remarks.
    """

    def __init__(
        self, mapping: object, where: str, path: str = "", read: dict[str, str] | None = None
    ) -> None:
        if not isinstance(mapping, Mapping):
            raise InputError(f"{where}: expected a table of keys, got {mapping!r:.60}")
        for key in mapping:
            if not isinstance(key, str):
                raise InputError(f"{where}: key {key!r} is not text")
        self._mapping: Mapping[str, Any] = mapping
        self._known: list[str] = []
        self._path = path
        self.where = where
        self.read: dict[str, str] = {} if read is None else read

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
        if value is None:
            if default is _REQUIRED:
                raise InputError(f"{self.where}: {key} is missing")
            return default
        if not isinstance(value, Mapping) and not _of_tables(value):
            number = _as_number(value)
            self.read[f"{self._path}.{key}"] = repr(value if number is None else number)
        return value

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
        return None if value is None else self.nested(value, key)

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
        return [self.nested(item, f"{key}[{i}]") for i, item in enumerate(value)]

    def unused(self) -> tuple[str, ...]:
        """Keys of the table that nobody has looked at.

        Returns
        -------
        tuple of str
            In the order of the file.
        """
        return tuple(key for key in self._mapping if key not in self._known)

    def ignore_unused(self) -> tuple[str, ...]:
        """Let remarks pass, but not a key that looks like a misspelt one.

        Returns
        -------
        tuple of str
            Dotted paths of the keys that were ignored.

        Raises
        ------
        InputError
            If an unknown key is nearly a known one.
        """
        for key in self.unused():
            near = difflib.get_close_matches(key, self._known, n=1, cutoff=0.8)
            if near:
                raise InputError(f"{self.where}: unknown key {key!r}; did you mean {near[0]!r}?")
        return tuple(f"{self._path}.{key}".lstrip(".") for key in self.unused())

    def nested(self, value: object, key: str) -> "Fields":
        """Reader of a value that is known to be a table.

        Parameters
        ----------
        value : object
            The table.
        key : str
            Its key in this table.

        Returns
        -------
        Fields
            Shares `read` with this table.
        """
        return Fields(value, f"{self.where} {key}", f"{self._path}.{key}", self.read)

    def over(self, defaults: Mapping[str, Any]) -> "Fields":
        """Reader of this table with values for what it leaves out.

        Parameters
        ----------
        defaults : mapping
            Values by key.

        Returns
        -------
        Fields
            Shares `read` with this table.
        """
        return Fields({**defaults, **self._mapping}, self.where, self._path, self.read)

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


def _of_tables(value: object) -> bool:
    return isinstance(value, list | tuple) and any(isinstance(item, Mapping) for item in value)


def _as_number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:  # YAML 1.1 reads 1e-3 as text
        return float(value)
    except (ValueError, OverflowError):
        return None


def placed[T](where: str, build: Callable[..., T], **arguments: Any) -> T:
    """Build something that checks itself, and put the place in front of its complaint.

    Parameters
    ----------
    where : str
        Place named in messages.
    build : callable
        For example a frozen dataclass.
    **arguments : object
        Passed on.

    Returns
    -------
    object
        What `build` returns.

    Raises
    ------
    InputError
        If `build` raises one.
    """
    try:
        return build(**arguments)
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
