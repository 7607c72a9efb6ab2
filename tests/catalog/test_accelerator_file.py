"""Accelerators from a file of the user's own."""

from pathlib import Path

import pytest

from tailcast.catalog.accelerators import accelerator
from tailcast.errors import InputError

SHEET = """
[[accelerator]]
name = "new-card"
architecture = "next"
peak = { bf16 = 500, fp8 = 1000 }
memory_bandwidth = 2000
memory = 95.0
interconnect = "pcie5"
interconnect_bandwidth = 64
"""


def written(folder: Path, text: str) -> str:
    (folder / "card.toml").write_text(text)
    return str(folder / "card.toml")


def test_figures_are_in_the_catalogues_units(tmp_path: Path) -> None:
    card = accelerator(written(tmp_path, SHEET))
    assert (card.name, card.peak_flops("fp8"), card.memory) == ("new-card", 1e15, 95 * 2**30)
    assert (card.memory_bandwidth, card.interconnect_bandwidth) == (2e12, 64e9)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("memory = 95.0\n", "", "lacks memory"),
        ("memory = 95.0", "memory = 0", "new-card: memory must be positive and finite, got 0"),
        ("memory = 95.0", "memory = nan", "memory must be positive and finite, got nan"),
        ("memory = 95.0", "memory = true", "memory must be a number, got True"),
        ("memory = 95.0", 'memory = "95 GiB"', "memory must be a number, got '95 GiB'"),
        ("memory = 95.0", "memory = 95.0\nmemry = 3", "unknown key 'memry'; did you mean 'memory'"),
        ("peak = {", "peak = 3 #", "peak must be a table by format, got 3"),
        ("bf16 = 500", "bf16 = -1", "peak_flops in bf16 must be positive"),
        ("bf16 = 500", 'bf16 = "fast"', "peak bf16 must be a number, got 'fast'"),
        ("fp8 = 1000", "fp4 = 1000", "no format 'fp4'"),
        ("bf16 = 500, ", "", "a peak in bf16 or fp16 is needed"),
        ('"new-card"', '"H100 SXM"', "'H100 SXM' is in the catalogue already"),
        ('"new-card"', "3", "name must be a text, got 3"),
        ('"new-card"', '"new-card"\naliases = "x"', "aliases must be a list, got 'x'"),
        ("[[accelerator]]", "[accelerator]", "one accelerator, in one table"),
        ("[[accelerator]]", "[[accelerator]]\n[[accelerator]]", "one accelerator, in one table"),
        (SHEET, "accelerator = [3]", "one accelerator, in one table"),
        (SHEET, "", "one accelerator, in one table"),
        (SHEET, "[[accelerator", "not valid TOML: .* at the end of"),
    ],
)
def test_a_bad_sheet_is_refused_by_its_file(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    path = written(tmp_path, SHEET.replace(old, new, 1))
    with pytest.raises(InputError, match=rf"^{path}: .*{message}"):
        accelerator(path)


def test_a_missing_sheet_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.toml: cannot be read \(No such file"):
        accelerator(str(tmp_path / "nowhere.toml"))
