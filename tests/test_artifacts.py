"""Latency models and posteriors are found from a checkout and from an installed wheel alike."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tailcast.artifacts import (
    DEFAULT_LATENCY_MODEL,
    DEFAULT_POSTERIOR,
    artifact_folder,
    artifact_names,
    artifact_root,
)
from tailcast.errors import UsageError

ROOT = Path(__file__).resolve().parents[1]
STUDY = """\
[deployment]
model = "llama-3.1-8b"
gpu = "h100"
[workload]
rate = 2
n_requests = 20
input_tokens = 64
output_tokens = 8
"""


@pytest.mark.parametrize("kind", ["models", "posteriors"])
def test_a_checkout_has_its_own_artifacts(kind: str) -> None:
    assert artifact_root(kind) == ROOT / kind
    names = artifact_names(kind)
    assert names == sorted(names)
    for name in names:
        assert artifact_folder(kind, name) == ROOT / kind / name
        assert (ROOT / kind / name / "README.md").is_file()


def test_the_defaults_are_shipped() -> None:
    assert DEFAULT_LATENCY_MODEL in artifact_names("models")
    assert DEFAULT_POSTERIOR in artifact_names("posteriors")


def test_a_folder_or_its_marker_is_as_good_as_a_name(tmp_path: Path) -> None:
    (tmp_path / "card.json").touch()
    (tmp_path / "posterior.nc").touch()
    for given in (tmp_path, tmp_path / "card.json", tmp_path / "posterior.nc"):
        assert artifact_folder("posteriors", str(given)) == tmp_path


def test_a_folder_here_does_not_hide_a_shipped_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / DEFAULT_POSTERIOR).mkdir()
    assert artifact_folder("posteriors", DEFAULT_POSTERIOR).parent == ROOT / "posteriors"
    assert artifact_folder("posteriors", f"./{DEFAULT_POSTERIOR}") == Path(DEFAULT_POSTERIOR)


@pytest.mark.parametrize(
    ("kind", "name", "message"),
    [
        ("models", "phisics", "no model 'phisics', .*; did you mean 'physics'"),
        ("posteriors", "nowhere/at-all", "no posterior 'nowhere/at-all', neither shipped nor"),
        ("posteriors", "", "no posterior ''"),
        ("models", "../models", "no model"),
    ],
)
def test_what_is_not_there_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, name: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=message):
        artifact_folder(kind, name)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    place = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(place), str(ROOT)],
        check=True,
        capture_output=True,
        timeout=300,
    )
    (found,) = place.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder that the wheel alone is installed in; its dependencies are those of the tests."""
    site = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run(
        [*pip, "--disable-pip-version-check", "--target", str(site), str(wheel)],
        check=True,
        capture_output=True,
        timeout=300,
    )
    kept = site / "tailcast" / "engine" / "__pycache__"
    kept.mkdir(exist_ok=True)
    for code in (ROOT / "src" / "tailcast" / "engine" / "__pycache__").glob("*.code"):
        shutil.copy(code, kept)  # the same sources: a compilation of half a minute less
    return site


def outside(site: Path, folder: Path, *words: str, **variables: str) -> str:
    """What the installed command prints, far from the checkout."""
    code = "import sys; from tailcast.cli.main import main; main(sys.argv[1:])"
    found = subprocess.run(
        [sys.executable, "-c", code, *words],
        env={**os.environ, "PYTHONPATH": str(site), **variables},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_every_artifact(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    for kind in ("models", "posteriors"):
        for path in (ROOT / kind).rglob("*"):
            if path.is_file():
                assert f"tailcast/_artifacts/{path.relative_to(ROOT)}" in names
    for path in (ROOT / "src" / "tailcast").rglob("*"):
        if path.is_file() and path.suffix in {".py", ".toml", ".json", ".html", ".css", ".js"}:
            assert str(path.relative_to(ROOT / "src")) in names
    assert not [name for name in names if name.startswith(("tests/", "benchmarks/", "models/"))]


@pytest.mark.slow
def test_an_installed_wheel_finds_its_artifacts(installed: Path, tmp_path: Path) -> None:
    code = "from tailcast import artifacts as a; print(a.artifact_root('models'))"
    found = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(installed)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert Path(found.stdout.strip()) == installed / "tailcast" / "_artifacts" / "models"
    cards = json.loads(outside(installed, tmp_path, "posterior", "list", "--format", "json"))
    assert [card["name"] for card in cards] == artifact_names("posteriors")
    assert "h100-sxm-80gb" in outside(installed, tmp_path, "catalog", "gpus")
    assert "llama-3.1-8b" in outside(installed, tmp_path, "catalog", "models")


@pytest.mark.slow
@pytest.mark.parametrize("model", ["roofline", "blis-trained-physics", DEFAULT_POSTERIOR])
def test_an_installed_wheel_answers(installed: Path, tmp_path: Path, model: str) -> None:
    """Few requests, uncompiled but for the kept kernel: compiling would take half a minute."""
    study = tmp_path / "study.toml"
    study.write_text(STUDY)
    asked = ["predict", str(study), "--posterior", model, "--draws", "2", "--format", "json"]
    answer = json.loads(outside(installed, tmp_path, *asked, NUMBA_DISABLE_JIT="1"))
    assert answer["inputs"]["posterior"] == model
    assert len(answer["results"]) >= 20
    assert list(tmp_path.iterdir()) == [study]
