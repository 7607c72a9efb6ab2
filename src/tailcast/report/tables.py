"""Rows as text: aligned table, Markdown, CSV."""

import csv
import io
from collections.abc import Sequence

from tailcast.errors import UsageError

FORMATS = ("table", "json", "csv", "markdown")


def render_rows(header: Sequence[str], rows: Sequence[Sequence[str]], style: str) -> str:
    """Render rows of text.

    Parameters
    ----------
    header : sequence of str
        Column names.
    rows : sequence of sequence of str
        Cells.
    style : {"table", "markdown", "csv"}
        How.

    Returns
    -------
    str
        Without a final newline.

    Raises
    ------
    UsageError
        If the style is unknown.

    Examples
    --------
    >>> print(render_rows(["a", "b"], [["1", "22"]], "markdown"))
    | a | b |
    |---|---|
    | 1 | 22 |
    """
    if style == "csv":
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
        return buffer.getvalue().rstrip("\n")
    if style == "markdown":
        lines = [f"| {' | '.join(header)} |", f"|{'|'.join('---' for _ in header)}|"]
        return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows])
    if style == "table":
        return _aligned(header, rows)
    raise UsageError(f"no format {style!r}; use {', '.join(FORMATS)}")


def _aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """First column left, the others right, but text columns left."""
    table = [list(header), *[list(row) for row in rows]]
    widths = [max(len(row[k]) for row in table) for k in range(len(header))]
    left = [k == 0 or not any(_numeric(row[k]) for row in rows) for k in range(len(header))]
    lines = [
        "  ".join(
            cell.ljust(widths[k]) if left[k] else cell.rjust(widths[k])
            for k, cell in enumerate(row)
        ).rstrip()
        for row in table
    ]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def _numeric(cell: str) -> bool:
    return bool(cell) and (cell[0].isdigit() or (cell[0] in "+-<>~" and len(cell) > 1))
