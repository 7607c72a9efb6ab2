"""What the pages tell a reader to type works, and what they show is what comes out."""

import re
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import typer

from tailcast.cli import main as cli
from tailcast.study import load_study

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/*.md"))]
PAGES += sorted(ROOT.glob("posteriors/**/*.md")) + sorted(ROOT.glob("models/*/README.md"))
_TOLERANCE = 0.03
"""Machines differ in the last digits of a sum; the figures shown have three."""


def blocks(page: Path, language: str = "") -> list[str]:
    """Fenced blocks of a page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.M | re.S)


def commands(page: Path) -> list[str]:
    """Every `tailcast` command in the page's plain blocks, without prompt and comment."""
    found = []
    for block in blocks(page):
        for line in re.sub(r"\\\n\s*", " ", block).splitlines():
            for part in line.split("#")[0].split(" ; "):
                text = part.strip().removeprefix("$ ")
                if text.startswith("tailcast "):
                    found.append(text)
    return found


DOCUMENTED = [(page.relative_to(ROOT), text) for page in PAGES for text in commands(page)]


def parsed(words: list[str]) -> None:
    """Follow the words to their command and refuse an option that it does not have."""
    cli._register()
    command: Any = typer.main.get_command(cli.app)
    while hasattr(command, "commands"):
        assert words, f"{command.name}: a subcommand is missing"
        assert words[0] in command.commands, words[0]
        command = command.commands[words.pop(0)]
    known = {name for parameter in command.params for name in (*parameter.opts,)}
    for word in words:
        flag = word.strip("[]").split("=")[0]
        if flag.startswith("-") and not re.fullmatch(r"-?[\d.]+", flag):
            assert flag in known | {"--help"}, f"{command.name} has no {flag}"


@pytest.mark.parametrize(("page", "text"), DOCUMENTED, ids=lambda value: str(value)[:60])
def test_documented_commands_and_options_exist(page: Path, text: str) -> None:
    parsed(shlex.split(text)[1:])


def test_the_check_of_commands_can_fail() -> None:
    assert len(DOCUMENTED) > 20
    with pytest.raises(AssertionError, match="has no --rates"):
        parsed(["predict", "--rates", "3"])
    with pytest.raises(AssertionError, match="predicts"):
        parsed(["predicts"])


def test_the_readme_shows_what_its_example_answers() -> None:
    """The worked answer, number by number."""
    (block,) = [b for b in blocks(ROOT / "README.md") if b.startswith("$ tailcast predict")]
    command, shown = re.sub(r"\\\n\s*", " ", block).split("\n", 1)
    script = "from tailcast.cli.main import main; main()"
    words = shlex.split(command.removeprefix("$ tailcast "))
    done = subprocess.run(
        [sys.executable, "-c", script, *words], capture_output=True, text=True, check=True
    )
    number = re.compile(r"\d+(?:\.\d+)?")
    assert number.sub("#", done.stdout.strip()) == number.sub("#", shown.strip())
    found, wanted = (
        [float(x) for x in number.findall(text)] for text in (done.stdout.strip(), shown.strip())
    )
    assert found == pytest.approx(wanted, rel=_TOLERANCE)


def test_the_study_of_the_readme_is_one(tmp_path: Path) -> None:
    for k, text in enumerate(blocks(ROOT / "README.md", "toml")):
        path = tmp_path / f"{k}.toml"
        path.write_text(text)
        assert load_study(path).objectives


def test_the_python_of_the_readme_runs() -> None:
    (text,) = blocks(ROOT / "README.md", "python")
    exec(compile(textwrap.dedent(text), "README.md", "exec"), {})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_points_to_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_make_targets_that_pages_name_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.M))
    for page in PAGES:
        for name in re.findall(r"^make ([\w-]+)|`make ([\w-]+)", page.read_text(), re.M):
            assert "".join(name) in targets, (page, name)
