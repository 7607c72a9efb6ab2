"""A module is read in one sitting, a function on one screen."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MOST_LINES_OF_A_MODULE = 500
MOST_LINES_OF_A_FUNCTION = 60
FOLDERS = ("src", "tests", "benchmarks", "examples")
# Samples of what twenty tools write, one short function each.
SAMPLES = {"tests/traces/tool_files.py"}
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


def code_lines(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function's body; neither its signature (a list of options) nor its docstring."""
    first = node.body[0]
    lines = (node.end_lineno or 0) - first.lineno + 1
    if ast.get_docstring(node) is not None:
        lines -= (first.end_lineno or 0) - first.lineno + 1
    return lines


def long_functions(text: str, most: int) -> Iterator[tuple[str, int]]:
    """Names and lengths of functions over the limit."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = code_lines(node)
            if length > most:
                yield node.name, length


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_and_functions_stay_short(path: Path) -> None:
    name, text = str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
    if name not in SAMPLES:
        assert text.count("\n") <= MOST_LINES_OF_A_MODULE
    if not name.startswith("tests/"):  # there a function may hold a table of cases
        assert dict(long_functions(text, MOST_LINES_OF_A_FUNCTION)) == {}


def test_a_long_function_is_seen() -> None:
    body = "".join(f"    x = {n}\n" for n in range(70))
    text = f'def short():\n    """Say.\n{"    more\n" * 70}    """\n    return 1\n'
    assert list(long_functions(text, 60)) == []
    assert list(long_functions(f"async def long():\n{body}", 60)) == [("long", 70)]
