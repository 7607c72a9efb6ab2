"""Skeleton and style of the page: readable at 400 px, light and dark, printable."""

from collections.abc import Sequence
from html import escape

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2330; --soft: #5b6676; --line: #d5dbe3; --paper: #fff;
  --panel: #f5f7fa; --good: #1a7f4b; --bad: #b3261e; --wait: #8a6100; --mark: #2459b3;
  --band: #2459b333; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --soft: #a3afbf; --line: #3a4555;
  --paper: #14181f; --panel: #1d232d; --good: #5fd39a; --bad: #ff8a80; --wait: #f0c05a;
  --mark: #8ab4ff; --band: #8ab4ff33; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 1.2rem 1rem 3rem; }
h1 { font-size: 1.35rem; margin: 0 0 .3rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
p { margin: .5rem 0; } .soft { color: var(--soft); } .small { font-size: .875rem; }
.answer { border-left: .4rem solid var(--mark); background: var(--panel); padding: .8rem 1rem;
  border-radius: .3rem; font-size: 1.1rem; margin: 1rem 0; }
.answer.good { border-color: var(--good); } .answer.bad { border-color: var(--bad); }
.answer.wait { border-color: var(--wait); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .3rem .7rem .3rem 0; text-align: right; border-bottom: 1px solid var(--line);
  white-space: nowrap; }
th:first-child, td:first-child { text-align: left; } th { color: var(--soft); font-weight: 600; }
figure { margin: 1rem 0; } figcaption { color: var(--soft); font-size: .875rem; }
svg { width: 100%; height: auto; max-width: 40rem; display: block; }
svg text { fill: var(--soft); font-size: 12.5px; } svg .axis { stroke: var(--line); }
svg .ink { stroke: var(--mark); fill: none; stroke-width: 2; } svg .dot { fill: var(--mark); }
svg .band { fill: var(--band); } svg .limit { stroke: var(--bad); stroke-dasharray: 5 4; }
svg .ideal { stroke: var(--soft); stroke-dasharray: 3 4; }
ul { padding-left: 1.2rem; }
"""


def page(title: str, subtitle: str, sections: Sequence[str]) -> str:
    """A whole page.

    Parameters
    ----------
    title, subtitle : str
        Plain text.
    sections : sequence of str
        Markup, in order; the answer first.

    Returns
    -------
    str
        HTML that needs nothing from anywhere else.
    """
    body = "\n".join(sections)
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<link rel="icon" href="data:,">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f'<h1>{escape(title)}</h1>\n<p class="soft">{escape(subtitle)}</p>\n{body}\n'
        "</main>\n</body>\n</html>"
    )


def answer(text: str, *, tone: str = "", small: str = "") -> str:
    """The answer, before all else.

    Parameters
    ----------
    text : str
        One or two sentences.
    tone : str
        ``good``, ``bad``, ``wait`` or nothing.
    small : str
        What to do, in smaller type.

    Returns
    -------
    str
        Markup.
    """
    below = f'<p class="small">{escape(small)}</p>' if small else ""
    return f'<div class="answer {tone}" role="status"><strong>{escape(text)}</strong>{below}</div>'


def section(heading: str, *parts: str) -> str:
    """A headed section; nothing if it has no parts.

    Parameters
    ----------
    heading : str
        Plain text.
    *parts : str
        Markup.

    Returns
    -------
    str
        Markup.
    """
    kept = [part for part in parts if part]
    return f"<section><h2>{escape(heading)}</h2>{''.join(kept)}</section>" if kept else ""


def paragraph(text: str, *, soft: bool = False) -> str:
    """A paragraph of plain text.

    Parameters
    ----------
    text : str
        Plain text.
    soft : bool
        Smaller and paler.

    Returns
    -------
    str
        Markup.
    """
    return f'<p class="soft small">{escape(text)}</p>' if soft else f"<p>{escape(text)}</p>"


def bullets(lines: Sequence[str]) -> str:
    """A list; nothing if it is empty.

    Parameters
    ----------
    lines : sequence of str
        Plain text.

    Returns
    -------
    str
        Markup.
    """
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" if items else ""


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table that scrolls sideways on a narrow screen.

    Parameters
    ----------
    header : sequence of str
        Column names.
    rows : sequence of sequence of str
        Cells as plain text.

    Returns
    -------
    str
        Markup; nothing without rows.
    """
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody>'
        "</table></div>"
    )
