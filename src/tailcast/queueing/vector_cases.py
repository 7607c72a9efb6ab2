"""Cases of a vector file: reading them, and comparing what is found with what they expect."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml

from tailcast.errors import InputError

# a number that should be exactly zero may come out as the rounding of the sum it is left of
_ROUNDING = 1e-12
_DEFAULT_REL_TOL = 1e-6

Sense = Literal["equal", "at least", "at most"]


class SkipCaseError(Exception):
    """A case that cannot be run here; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorCase:
    """One case of a vector file.

    Parameters
    ----------
    file : Path
        File that holds it.
    name, kind, variant : str
        Its id, what it tests, and the version of the work model.
    inputs, expected : mapping
        As written.
    rel_tol : float
        Relative tolerance of its numbers.
    """

    file: Path
    name: str
    kind: str
    variant: str
    inputs: Mapping[str, object]
    expected: Mapping[str, object]
    rel_tol: float

    def fault(self, problem: str) -> InputError:
        """Error about this case.

        Parameters
        ----------
        problem : str
            What is wrong with it.

        Returns
        -------
        InputError
            Names the file and the case.
        """
        return InputError(f"{self.file}: case {self.name}: {problem}")

    def number(self, field: str, default: float | None = None) -> float:
        """Number among the inputs.

        Parameters
        ----------
        field : str
            Name of the input.
        default : float, optional
            Taken where the input is absent.

        Returns
        -------
        float
            The value.

        Raises
        ------
        InputError
            If it is absent without default, or not a number.
        """
        if field not in self.inputs:
            if default is None:
                raise self.fault(f"input {field!r} is missing")
            return default
        value = self.inputs[field]
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.fault(f"input {field!r} must be a number, got {value!r}")
        return float(value)

    def numbers(self, field: str) -> list[float]:
        """List of numbers among the inputs.

        Parameters
        ----------
        field : str
            Name of the input.

        Returns
        -------
        list of float
            The values.

        Raises
        ------
        InputError
            If it is absent or not a list of numbers.
        """
        value = self.inputs.get(field)
        if not isinstance(value, list) or not all(
            isinstance(x, (int, float)) and not isinstance(x, bool) for x in value
        ):
            raise self.fault(f"input {field!r} must be a list of numbers, got {value!r}")
        return [float(x) for x in value]

    def rows(self, field: str, n_column: int) -> list[list[float]]:
        """Table of numbers among the inputs.

        Parameters
        ----------
        field : str
            Name of the input.
        n_column : int
            Numbers in a row.

        Returns
        -------
        list of list of float
            The rows.

        Raises
        ------
        InputError
            If it is absent or of another form.
        """
        value = self.inputs.get(field)
        if not isinstance(value, list) or not all(
            isinstance(row, list)
            and len(row) == n_column
            and all(isinstance(x, (int, float)) for x in row)
            for row in value
        ):
            raise self.fault(f"input {field!r} must hold rows of {n_column} numbers, got {value!r}")
        return [[float(x) for x in row] for row in value]

    def text(self, field: str) -> str:
        """Text among the inputs.

        Parameters
        ----------
        field : str
            Name of the input.

        Returns
        -------
        str
            The value.

        Raises
        ------
        InputError
            If it is absent or not a text.
        """
        value = self.inputs.get(field)
        if not isinstance(value, str):
            raise self.fault(f"input {field!r} must be a text, got {value!r}")
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A quantity found, and how it is compared with the one expected.

    Parameters
    ----------
    value : float, bool, str or list of float
        What was found.
    rel_tol, abs_tol : float, optional
        Tolerances, where they are not the case's own.
    sense : {"equal", "at least", "at most"}
        Whether the expected number is a value or a bound.
    """

    value: float | bool | str | list[float]
    rel_tol: float | None = None
    abs_tol: float = 0.0
    sense: Sense = "equal"


Results = Mapping[str, "Found | float | bool | str | list[float]"]


def _number_differs(found: float, expected: float, how: Found, rel_tol: float) -> str | None:
    if how.sense == "at least":
        return None if found >= expected else f"got {found:.9g}, expected at least {expected:.9g}"
    if how.sense == "at most":
        return None if found <= expected else f"got {found:.9g}, expected at most {expected:.9g}"
    allowed = rel_tol * abs(expected) + how.abs_tol + _ROUNDING
    if found == expected or abs(found - expected) <= allowed:
        return None
    off = abs(found - expected) / abs(expected) if expected else math.inf
    return f"got {found:.9g}, expected {expected:.9g} (off by {off:.2g}, tolerance {rel_tol:g})"


def difference(case: VectorCase, field: str, found: object) -> str | None:
    """How a quantity differs from the expected one.

    Parameters
    ----------
    case : VectorCase
        Holds the expected value and the tolerance.
    field : str
        Name of the quantity.
    found : Found or plain value
        What was found.

    Returns
    -------
    str or None
        None where it is within its tolerance.
    """
    how = found if isinstance(found, Found) else Found(value=found)  # type: ignore[arg-type]
    expected, value = case.expected[field], how.value
    rel_tol = case.rel_tol if how.rel_tol is None else how.rel_tol
    if isinstance(expected, list):
        if not isinstance(value, list) or len(value) != len(expected):
            return f"{field}: got {value!r}, expected {len(expected)} numbers"
        for place, (one, other) in enumerate(zip(value, expected, strict=True)):
            text = _number_differs(float(one), float(other), how, rel_tol)
            if text:
                return f"{field}[{place}]: {text}"
        return None
    if isinstance(expected, bool) or isinstance(value, (bool, str)):
        same = value == expected
        return None if same else f"{field}: got {value!r}, expected {expected!r}"
    if not isinstance(expected, (int, float)) or isinstance(value, list):
        return f"{field}: got {value!r}, expected {expected!r}"
    text = _number_differs(float(value), float(expected), how, rel_tol)
    return f"{field}: {text}" if text else None


def _case(file: Path, place: int, entry: object) -> VectorCase:
    where = f"{file}: case {place}"
    if not isinstance(entry, dict):
        raise InputError(f"{where}: must be a mapping, got {entry!r}")
    name = entry.get("id")
    if not isinstance(name, str) or not name:
        raise InputError(f"{where}: has no id")
    if not isinstance(entry.get("kind"), str):
        raise InputError(f"{where} ({name}): has no kind")
    for field in ("inputs", "expected"):
        if not isinstance(entry.get(field), dict) or not entry[field]:
            raise InputError(f"{where} ({name}): {field} must be a mapping with entries")
    rel_tol = entry.get("rel_tol", _DEFAULT_REL_TOL)
    if isinstance(rel_tol, bool) or not isinstance(rel_tol, (int, float)) or not rel_tol >= 0:
        raise InputError(f"{where} ({name}): rel_tol must not be negative, got {rel_tol!r}")
    return VectorCase(
        file=file,
        name=name,
        kind=entry["kind"],
        variant=str(entry.get("variant", "V2")),
        inputs=entry["inputs"],
        expected=entry["expected"],
        rel_tol=float(rel_tol),
    )


def read_cases(path: Path) -> list[VectorCase]:
    """Read a vector file.

    Parameters
    ----------
    path : Path
        YAML with a list ``cases``; each has id, kind, variant, inputs, expected and rel_tol.

    Returns
    -------
    list of VectorCase
        In the file's order.

    Raises
    ------
    InputError
        If the file cannot be read or is not of this form.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path} is not a text file") from None
    except (yaml.YAMLError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path} is not YAML: {reason}") from None
    entries = document.get("cases") if isinstance(document, dict) else None
    if not isinstance(entries, list) or not entries:
        raise InputError(f"{path} has no list of cases")
    cases = [_case(path, place, entry) for place, entry in enumerate(entries)]
    names = [case.name for case in cases]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"{path}: the id {twice[0]!r} is used more than once")
    return cases
