"""Running the whole command, and a posterior that needs no fit."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tailcast.cli.main import main
from tailcast.inference.population import prior_population
from tailcast.latency_model import load_latency_model
from tailcast.posteriors import Posterior

Run = Callable[..., tuple[int, str, str]]
Refused = Callable[..., str]


@pytest.fixture
def tailcast(capsys: pytest.CaptureFixture[str]) -> Run:
    """Exit code, stdout and stderr of `tailcast` with these words."""

    def run(*words: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as left:
            main([str(word) for word in words])
        out, err = capsys.readouterr()
        return int(left.value.code or 0), out, err

    return run


@pytest.fixture
def refused(tailcast: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Refused:
    """The one line in which `tailcast` refuses these words; run in an empty folder of its own.

    Checks the exit code, that there is no answer, no progress and no traceback, and that no file
    appeared, went or changed.
    """
    monkeypatch.chdir(tmp_path)

    def run(code: int, *words: object) -> str:
        before = contents(tmp_path)
        found, out, err = tailcast(*words)
        assert (found, out) == (code, ""), err
        assert "Traceback" not in err
        lines = err.splitlines()
        assert len(lines) == 1, err
        assert lines[0].startswith("tailcast: ")
        assert len(lines[0]) > len("tailcast: ") + 10
        assert contents(tmp_path) == before
        return lines[0]

    return run


def contents(folder: Path) -> dict[str, bytes | None]:
    """Every file below a folder with what it holds; None for a folder."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def prior_for_posterior(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any posterior is the prior of the shipped latency model, so that none need be shipped."""

    def load(name: str = "") -> Posterior:
        model = load_latency_model("physics")
        population = prior_population(model, 40, 0)
        return Posterior(
            name=name, latency_model=model, population=population, card={}, path=Path()
        )

    monkeypatch.setattr("tailcast.posteriors.load_posterior", load)
