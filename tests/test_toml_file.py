"""Reading TOML files."""

from pathlib import Path

import pytest

from tailcast.errors import InputError
from tailcast.toml_file import read_toml


def test_tables_come_back(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(b"\xef\xbb\xbf[a]\nb = 1\n")
    assert read_toml(tmp_path / "a.toml") == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[a]\nb = \n", r"a\.toml: not valid TOML: Invalid value \(at line 2, column 5\)"),
        (b"[a]\n[a]\n", r"not valid TOML: .* \(at line 2, column 3\)"),
        (b"a = 1\nb = \xff\n", r"not UTF-8 text \(byte 10\)"),
        (b"a = " + b"[" * 9000, "not valid TOML: nested too deep"),
        (b"a = 1\x00", "not valid TOML"),
    ],
)
def test_damage_is_placed(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.toml").write_bytes(content)
    with pytest.raises(InputError, match=message) as refused:
        read_toml(tmp_path / "a.toml")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("path", ["nowhere.toml", ".", "a\0b.toml"])
def test_what_is_no_file_is_refused(path: str) -> None:
    with pytest.raises(InputError, match=r": (cannot be read \(|is no path of a file)"):
        read_toml(Path(path))
