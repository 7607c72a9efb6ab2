"""The exception tree. Every error a user can cause carries one line and an exit code."""

import difflib
from collections.abc import Iterable


class TailcastError(Exception):
    """Root of all errors raised on purpose; `exit_code` is what the command line returns."""

    exit_code = 3


class UsageError(TailcastError, ValueError):
    """A flag or argument that cannot be used as given."""

    exit_code = 2


class InputError(TailcastError, ValueError):
    """A file or a table whose content cannot be used as given."""

    exit_code = 3


class CatalogError(TailcastError, LookupError):
    """A name that the catalogue does not know, or knows more than once."""

    exit_code = 2


class CapacityError(TailcastError, ValueError):
    """A deployment that cannot exist: the weights do not fit, or heads cannot be split."""

    exit_code = 2


class InferenceError(TailcastError, RuntimeError):
    """A fit that failed or that did not converge well enough to be used."""

    exit_code = 4


def near_name(name: str, known: Iterable[str]) -> str:
    """Hint that ends an unknown-name message.

    Parameters
    ----------
    name : str
        What was given.
    known : iterable of str
        What would have been accepted.

    Returns
    -------
    str
        ``did you mean 'x'?`` or the list of known names.

    Examples
    --------
    >>> near_name("h100-sxn", ["h100-sxm", "a10"])
    "did you mean 'h100-sxm'?"
    """
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(names)}"
