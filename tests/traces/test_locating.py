"""Finding the files of a trace."""

from pathlib import Path

import pytest

from tailcast.errors import InputError
from tailcast.traces.trace_files import trace_files


def _touch(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).touch()
    return folder


def test_a_folder_is_found_whole_from_any_of_its_parts(tmp_path: Path) -> None:
    _touch(tmp_path, "header.yaml", "requests.csv", "token_times.csv", "metrics.csv")
    found = trace_files(tmp_path)
    assert found.token_times == tmp_path / "token_times.csv"
    assert found.metrics == tmp_path / "metrics.csv"
    assert found.extra is None
    assert trace_files(tmp_path / "header.yaml") == found
    assert trace_files(tmp_path / "requests.csv") == found


def test_header_and_data_of_one_name_belong_together(tmp_path: Path) -> None:
    _touch(tmp_path, "t.yaml", "t.csv", "t.itl.csv")
    found = trace_files(tmp_path / "t.yaml")
    assert (found.requests.name, found.header.name) == ("t.csv", "t.yaml")
    assert found.token_times == tmp_path / "t.itl.csv"
    assert trace_files(tmp_path / "t.csv") == found


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        trace_files(tmp_path / "nothing")
    with pytest.raises(InputError, match=r"no header\.yaml"):
        trace_files(tmp_path)
    _touch(tmp_path, "alone.csv")
    with pytest.raises(InputError, match=r"no alone\.yaml"):
        trace_files(tmp_path / "alone.csv")
