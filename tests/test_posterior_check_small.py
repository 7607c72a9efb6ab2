"""The whole check on fits of a small problem: right data pass, wrong data and wrong draws fail."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from small_posterior import saved, small_fit, with_error
from tailcast.cli.main import main
from tailcast.diagnostics.check import check_posterior
from tailcast.diagnostics.definition import failures
from tailcast.diagnostics.posterior_comparison import compare_posteriors
from tailcast.inference.fit import Fit
from tailcast.latency_model import LatencyModel
from tailcast.posteriors import Posterior

pytestmark = pytest.mark.slow


def command(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `tailcast`."""
    with pytest.raises(SystemExit) as left:
        main([str(word) for word in words])
    out, err = capsys.readouterr()
    return int(left.value.code or 0), out, err


@pytest.fixture(scope="module")
def own_fit(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, LatencyModel, Fit]:
    """One fit for all tests, to data that the model made."""
    folder = tmp_path_factory.mktemp("right")
    return folder, *small_fit(folder)


@pytest.fixture(scope="module")
def fitted(own_fit: tuple[Path, LatencyModel, Fit]) -> Posterior:
    """The fit as it would ship."""
    return saved(*own_fit)


@pytest.fixture(scope="module")
def misled(
    own_fit: tuple[Path, LatencyModel, Fit], tmp_path_factory: pytest.TempPathFactory
) -> Posterior:
    """The same draws beside a datum that the model cannot have made."""
    folder, model, found = own_fit
    other = tmp_path_factory.mktemp("wrong")
    shutil.copytree(folder / "model", other / "model")
    return saved(other, model, with_error(found, 0.3))


def test_right_data_pass_and_every_part_is_there(fitted: Posterior) -> None:
    found = check_posterior(fitted)
    assert [r.name for r in failures(found.requirements)] == []
    assert {c.kind for c in found.predictive} == {
        "ttft.mean",
        "ttft.p90",
        "e2e.mean",
        "e2e.p90",
        "step.decode",
    }
    assert len(found.emulators) == 12
    assert found.loo.elpd.shape == (12 + 20,)
    content = found.as_json()
    assert json.loads(json.dumps(content))["schema"] == "tailcast/posterior-check/1"
    assert content["passed"] is True


def test_a_datum_that_the_model_cannot_make_is_found(misled: Posterior) -> None:
    found = check_posterior(misled)
    assert not found.passed
    assert "smallest posterior predictive p" in [r.name for r in failures(found.requirements)]
    residual = np.abs(found.data.residual.mean(axis=0))
    worst = found.data.names[int(np.argmax(residual))]
    assert worst.startswith("a/")


def test_an_unidentified_coefficient_is_named(fitted: Posterior) -> None:
    """No prompt here is long: what a prefill costs is hidden behind the weights."""
    found = check_posterior(fitted)
    contraction = {c.name: c.contraction for c in found.coefficients}
    assert found.unidentified == [name for name, value in contraction.items() if value > 0.8]
    assert min(contraction.values()) < 0.5


def test_the_command_says_yes_and_no_by_its_code(
    capsys: pytest.CaptureFixture[str], fitted: Posterior, misled: Posterior, tmp_path: Path
) -> None:
    code, out, _ = command(capsys, "posterior", "check", fitted.path)
    assert code == 0
    assert f"meets all {len(check_posterior(fitted).requirements)} requirements" in out
    code, out, _ = command(capsys, "posterior", "check", misled.path, "--format", "json")
    assert code == 1
    assert json.loads(out)["passed"] is False
    shutil.copytree(fitted.path, tmp_path / "copy")
    (tmp_path / "copy" / "README.md").unlink()
    code, out, _ = command(capsys, "posterior", "check", tmp_path / "copy", "--format", "csv")
    assert code == 1
    assert "FAILS,README.md" in out


def test_plots_are_written(
    capsys: pytest.CaptureFixture[str], fitted: Posterior, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    code, _, err = command(capsys, "posterior", "check", fitted.path, "--plot", tmp_path / "plots")
    assert code == 0, err
    made = {p.name for p in (tmp_path / "plots").iterdir()}
    assert made == {
        "forest.png",
        "khat.png",
        "loo_coverage.png",
        "loo_pit.png",
        "prior_posterior.png",
        "rank.png",
        "replications.png",
    }


def test_the_same_draws_compare_as_equal(fitted: Posterior, misled: Posterior) -> None:
    found = compare_posteriors(fitted, misled)
    assert {s.name for s in found.shifts} == {c.name for c in check_posterior(fitted).coefficients}
    assert max(abs(s.shift) for s in found.shifts) < 1e-9
