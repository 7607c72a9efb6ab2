"""Finding a catalogue entry by any spelling of any of its names."""

import re
from collections.abc import Callable, Iterable, Mapping

from tailcast.errors import CatalogError, near_name

_MOST_LISTED = 25


def plain_name(name: str) -> str:
    """Lower case with single hyphens: the form in which names are compared.

    Parameters
    ----------
    name : str
        Name as people write it.

    Returns
    -------
    str
        For example ``"h100-sxm-80gb"`` for ``"H100_SXM 80GB"``.

    Examples
    --------
    >>> plain_name("H100_SXM 80GB")
    'h100-sxm-80gb'
    """
    return re.sub(r"[\s_-]+", "-", name.strip().lower()).strip("-")


def name_index(
    names_by_entry: Mapping[str, Iterable[str]], spelling: Callable[[str], str]
) -> dict[str, str]:
    """Entry by every spelling of its names.

    Parameters
    ----------
    names_by_entry : mapping of str to iterable of str
        Canonical name to its aliases.
    spelling : callable
        Normal form of a name.

    Returns
    -------
    dict of str to str
        Normal form to canonical name.

    Raises
    ------
    CatalogError
        If two entries claim one name.
    """
    index: dict[str, str] = {}
    for entry, aliases in names_by_entry.items():
        for name in (entry, *aliases):
            if index.setdefault(spelling(name), entry) != entry:
                raise CatalogError(f"{name!r} names both {index[spelling(name)]!r} and {entry!r}")
    return index


def find_entry(
    kind: str, name: str, spelled: str, index: Mapping[str, str], *, otherwise: str = ""
) -> str:
    """Canonical name of the entry meant.

    Parameters
    ----------
    kind : str
        What is looked for, for the error message.
    name : str
        Name as given.
    spelled : str
        Its normal form.
    index : mapping of str to str
        Normal form to canonical name.
    otherwise : str
        What else could be given, to end the message about an unknown name.

    Returns
    -------
    str
        Canonical name.

    Raises
    ------
    CatalogError
        If the name is unknown (with the nearest one) or begins several (with the choices).
    """
    if spelled in index:
        return index[spelled]
    choices = sorted({entry for key, entry in index.items() if key.startswith(f"{spelled}-")})
    if len(choices) > 1:
        raise CatalogError(f"{kind} {name!r} is ambiguous: {', '.join(choices)}")
    if choices:
        raise CatalogError(f"no {kind} {name!r}; did you mean {choices[0]!r}?{otherwise}")
    entries = sorted(set(index.values()))
    hint = near_name(spelled, {*index, *entries})
    if not hint.startswith("did you"):
        hint = f"known: {', '.join(entries[:_MOST_LISTED])}"
        if len(entries) > _MOST_LISTED:
            hint += f" and {len(entries) - _MOST_LISTED} more (tailcast catalog)"
        hint += "." if otherwise else ""
    raise CatalogError(f"no {kind} {name!r:.80}; {hint}{otherwise}")
