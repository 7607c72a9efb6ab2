"""Running the whole command, and a posterior that needs no fit."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tailcast.cli.main import main
from tailcast.inference.population import prior_population
from tailcast.latency_model import load_latency_model
from tailcast.posteriors import Posterior

Run = Callable[..., tuple[int, str, str]]


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
def prior_for_posterior(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any posterior is the prior of the shipped latency model, so that none need be shipped."""

    def load(name: str = "") -> Posterior:
        model = load_latency_model("physics")
        population = prior_population(model, 40, 0)
        return Posterior(
            name=name, latency_model=model, population=population, card={}, path=Path()
        )

    monkeypatch.setattr("tailcast.posteriors.load_posterior", load)
