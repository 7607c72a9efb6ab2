"""`tailcast posterior`: every damage to a posterior is one line, the right code, and no file."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.conftest import Run
from prior_posterior import save_prior

Damage = Callable[[Path], None]


def truncated(folder: Path) -> None:
    path = folder / "posterior.nc"
    path.write_bytes(path.read_bytes()[:5000])


def flipped(folder: Path) -> None:
    path = folder / "posterior.nc"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def no_netcdf(folder: Path) -> None:
    (folder / "posterior.nc").write_text("not a netCDF file")


def no_file(folder: Path) -> None:
    (folder / "posterior.nc").unlink()


def no_card(folder: Path) -> None:
    (folder / "card.json").unlink()


def bad_json(folder: Path) -> None:
    path = folder / "card.json"
    path.write_text(path.read_text()[:-30])


def no_object(folder: Path) -> None:
    (folder / "card.json").write_text("[1, 2]")


def card_with(**changes: object) -> Damage:
    def change(folder: Path) -> None:
        path = folder / "card.json"
        card = json.loads(path.read_text()) | changes
        path.write_text(json.dumps({k: v for k, v in card.items() if v is not None}))

    return change


DAMAGES = [
    (truncated, 3, "posterior.nc"),
    (flipped, 3, "posterior.nc"),
    (no_netcdf, 3, "posterior.nc"),
    (no_file, 3, "no such file"),
    (no_card, 3, "card.json"),
    (bad_json, 3, "not valid JSON"),
    (no_object, 3, "JSON object"),
    (card_with(model_sha256="0" * 64), 3, "another version of latency model"),
    (card_with(latency_model="no-such-model"), 2, "no-such-model"),
    (card_with(scope=None), 3, "'scope'"),
    (card_with(method="nuts"), 3, "method must be an object"),
]

PREDICT = "predict --model llama-3.1-8b --gpu h100 --rate 2 --input-tokens 64 --output-tokens 8"
COMMANDS = ["posterior show", "posterior check", f"{PREDICT} --posterior"]


@pytest.mark.parametrize(
    ("damage", "code", "complaint"), DAMAGES, ids=[f"{k}" for k in range(len(DAMAGES))]
)
def test_damage_is_one_line_with_its_code_and_nothing_is_written(
    tailcast: Run, tmp_path: Path, damage: Damage, code: int, complaint: str
) -> None:
    folder = save_prior(tmp_path / "prior")
    damage(folder)
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    for words in COMMANDS:
        found = tailcast(*words.split(), folder)
        assert found[0] == code, words
        assert found[1] == ""
        lines = found[2].strip().splitlines()
        assert len(lines) == 1
        assert complaint in lines[0]
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_an_empty_folder_is_no_posterior(tailcast: Run, tmp_path: Path) -> None:
    code, out, err = tailcast("posterior", "check", tmp_path)
    assert (code, out) == (3, "")
    assert "is this a posterior folder?" in err
    code, _, err = tailcast("posterior", "check", tmp_path / "absent")
    assert code == 2
    assert "absent" in err


def test_a_prior_without_evidence_can_be_shown_but_not_checked(
    tailcast: Run, tmp_path: Path
) -> None:
    folder = save_prior(tmp_path / "prior")
    code, out, _ = tailcast("posterior", "show", folder)
    assert code == 0
    assert "weight_read" in out
    code, out, err = tailcast("posterior", "check", folder)
    assert (code, out) == (3, "")
    assert "no group 'evidence'" in err


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"diagnostics": {}}, "diagnostics.rhat must be a number, got None"),
        ({"diagnostics": {"rhat": "good"}}, "diagnostics.rhat must be a number, got 'good'"),
        ({"method": {}}, "method.n_run must be a number"),
    ],
)
def test_a_card_that_cannot_be_shown_is_one_line(
    tailcast: Run, tmp_path: Path, changes: dict[str, Any], complaint: str
) -> None:
    code, out, err = tailcast("posterior", "show", save_prior(tmp_path / "prior", **changes))
    assert (code, out) == (3, "")
    assert complaint in err
    assert len(err.strip().splitlines()) == 1


def test_compare_takes_models_before_data(tailcast: Run, tmp_path: Path) -> None:
    code, out, err = tailcast("compare", tmp_path, "physics")
    assert (code, out) == (2, "")
    assert "'physics' stands after data" in err


def test_compare_of_a_posterior_with_itself_moves_nothing(tailcast: Run, tmp_path: Path) -> None:
    folder = save_prior(tmp_path / "prior")
    code, out, _ = tailcast("posterior", "compare", folder, folder, "--format", "json")
    assert code == 0
    found = json.loads(out)
    assert found["schema"] == "tailcast/posterior-compare/1"
    assert found["coefficients"]
    for row in found["coefficients"]:
        assert row["shift"] == pytest.approx(0.0, abs=1e-12)
        assert row["sd_ratio"] == pytest.approx(1.0)


def test_compare_tells_parent_and_data_apart(tailcast: Run, tmp_path: Path) -> None:
    first = save_prior(tmp_path / "a", posterior_sha256="aaa", data_sha256={"x.yaml": "1" * 64})
    second = save_prior(
        tmp_path / "b",
        seed=1,
        parent="aaa",
        data_sha256={"renamed.yaml": "1" * 64, "y.yaml": "2" * 64},
    )
    code, out, _ = tailcast("posterior", "compare", first, second)
    assert code == 0
    assert "second updates first" in out
    assert "Data only the second has seen: y.yaml." in out
    assert "renamed" not in out


def test_compare_of_models_without_a_common_coefficient_is_refused(
    tailcast: Run, tmp_path: Path
) -> None:
    folder = save_prior(tmp_path / "prior")
    code, out, err = tailcast("posterior", "compare", folder, tmp_path / "nothing")
    assert (code, out) == (2, "")
    assert len(err.strip().splitlines()) == 1
