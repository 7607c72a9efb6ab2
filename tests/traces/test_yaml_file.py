"""Reading of YAML files."""

from pathlib import Path

import pytest

from tailcast.errors import InputError
from tailcast.traces.yaml_file import read_yaml


def written(tmp_path: Path, content: str | bytes) -> Path:
    path = tmp_path / "x.yaml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_dates_stay_text_and_a_byte_order_mark_passes(tmp_path: Path) -> None:
    path = written(tmp_path, "\ufeffat: 2026-11-29T13:09:12Z\nn: 3\n")
    assert read_yaml(path) == {"at": "2026-11-29T13:09:12Z", "n": 3}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [1\nb: 2\n", r"x\.yaml:2:2: not valid YAML"),
        ("a: 1\n b: 2\n", r"x\.yaml:2:3: not valid YAML"),
        ("a: 1\nb:\n  c: 1\n  c: 2\n", r"x\.yaml:4:3: not valid YAML: key 'c' is given twice"),
        ("a: 1\n---\nb: 2\n", r"x\.yaml:2:1: not valid YAML"),
        ("a: !!python/object:os.system {}\n", r"x\.yaml:1:4: not valid YAML"),
        ("? [1, 2]\n: 3\n", r"x\.yaml:1:3: not valid YAML"),
        ("\tx: 1", r"x\.yaml:1:1: not valid YAML"),
        (b"a: \xff", "not UTF-8"),
        (b"a: \x00", "not valid YAML"),
        ("[" * 400, "not valid YAML"),
    ],
)
def test_malformed_files_are_refused_in_one_line_with_the_place(
    tmp_path: Path, content: str | bytes, message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        read_yaml(written(tmp_path, content))
    assert "\n" not in str(caught.value)


def test_unreadable_paths_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "absent.yaml"):
        with pytest.raises(InputError, match="cannot be read"):
            read_yaml(path)
