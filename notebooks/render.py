"""Render the notebooks: `python notebooks/render.py [NAME ...]` runs each and writes the .ipynb."""

import sys
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).parent
SECONDS = 900


def cells(source: str) -> list[Any]:
    """Cells of a script in percent format."""
    found = []
    for part in source.split("# %%")[1:]:
        head, _, body = part.partition("\n")
        if "[markdown]" in head:
            lines = [line.removeprefix("#").removeprefix(" ") for line in body.strip().splitlines()]
            found.append(nbformat.v4.new_markdown_cell("\n".join(lines)))
        elif body.strip():
            found.append(nbformat.v4.new_code_cell(body.strip()))
    for k, cell in enumerate(found):
        cell["id"] = f"cell-{k:02d}"
    return found


def executed(path: Path) -> Any:
    """Notebook of a script, executed."""
    notebook = nbformat.v4.new_notebook(cells=cells(path.read_text()))
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
    NotebookClient(notebook, timeout=SECONDS, kernel_name="python3").execute()
    for cell in notebook.cells:
        cell.get("metadata", {}).pop("execution", None)
    return notebook


def main() -> None:
    """Render the named notebooks, or all."""
    wanted = [Path(name).stem for name in sys.argv[1:]]
    for path in sorted(HERE.glob("[0-9]*.py")):
        if wanted and path.stem not in wanted:
            continue
        nbformat.write(executed(path), path.with_suffix(".ipynb"))
        print(path.with_suffix(".ipynb").name, flush=True)


if __name__ == "__main__":
    main()
