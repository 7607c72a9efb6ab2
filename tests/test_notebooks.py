"""The notebooks run, and the rendered ones show what their scripts say."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
SCRIPTS = sorted(FOLDER.glob("[0-9]*.py"))


@pytest.fixture(scope="module")
def render() -> ModuleType:
    """The renderer beside the notebooks."""
    pytest.importorskip("nbclient")
    spec = importlib.util.spec_from_file_location("render", FOLDER / "render.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_there_are_notebooks_for_each_story() -> None:
    assert [path.stem[:2] for path in SCRIPTS] == ["01", "02", "03", "04", "05", "06"]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_rendered_notebook_has_the_cells_of_its_script(script: Path, render: ModuleType) -> None:
    nbformat = pytest.importorskip("nbformat")
    rendered = nbformat.read(script.with_suffix(".ipynb"), as_version=4)
    wanted = [(cell.cell_type, cell.source) for cell in render.cells(script.read_text())]
    assert [(cell.cell_type, cell.source) for cell in rendered.cells] == wanted
    errors = [
        output
        for cell in rendered.cells
        for output in cell.get("outputs", [])
        if output.output_type == "error"
    ]
    assert errors == []


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_notebook_runs(script: Path, render: ModuleType) -> None:
    notebook = render.executed(script)
    figures = [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "image/png" in output.get("data", {})
    ]
    assert figures
