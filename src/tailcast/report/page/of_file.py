"""Which page a file of results is for."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tailcast.errors import InputError
from tailcast.report.page.candidates import candidates_page
from tailcast.report.page.risk import risk_page
from tailcast.report.page.scores import scores_page

PAGES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "tailcast/slo/1": risk_page,
    "tailcast/evaluate/1": scores_page,
    "tailcast/search/1": candidates_page,
}
"""Renderer by the ``schema`` of a file."""


def page_of_file(path: Path) -> str:
    """Page of a JSON file that `tailcast slo`, `evaluate` or `search` wrote.

    Parameters
    ----------
    path : pathlib.Path
        File.

    Returns
    -------
    str
        HTML.

    Raises
    ------
    InputError
        If the file cannot be read, is no such JSON, or lacks an entry.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not valid JSON ({error})") from error
    schema = content.get("schema") if isinstance(content, dict) else None
    if schema not in PAGES:
        raise InputError(
            f"{path}: schema {schema!r} has no page; give JSON of tailcast slo, evaluate or search"
        )
    try:
        return PAGES[str(schema)](content)
    except (KeyError, TypeError, IndexError, ValueError, AttributeError) as error:
        reason = f"{type(error).__name__} {error}"
        raise InputError(
            f"{path}: not a whole {schema} ({reason}); write it again with this version"
        ) from error
