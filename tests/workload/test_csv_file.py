"""Reading of CSV files."""

import gzip
from pathlib import Path

import pytest

from tailcast.errors import InputError
from tailcast.workload.csv_file import CsvFile


def opened(tmp_path: Path, content: str | bytes, name: str = "x.csv") -> CsvFile:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return CsvFile(path)


def test_numbers_whole_numbers_and_text_are_read(tmp_path: Path) -> None:
    file = opened(tmp_path, '\ufeffa,b,c\r\n1.5,9007199254740993,"x,y"\r\n\r\n,2.0,\r\n')
    assert len(file) == 2
    assert "a" in file
    assert "d" not in file
    assert file.numbers("a", empty=0.0).tolist() == [1.5, 0.0]
    assert file.whole("b").tolist() == [9007199254740993, 2]
    assert file.text("c") == ["x,y", ""]


@pytest.mark.parametrize("cell", ["", "nan", "inf", "x", "1e999"])
def test_cells_that_are_no_numbers_are_refused_with_their_line(tmp_path: Path, cell: str) -> None:
    file = opened(tmp_path, f"a,b\n1,1\n{cell},1\n")
    with pytest.raises(InputError, match=r"x\.csv:3: a must be a finite number"):
        file.numbers("a")
    with pytest.raises(InputError, match=r"x\.csv:3: a must be a whole number"):
        file.whole("a")


def test_fractions_are_no_whole_numbers(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"whole number, got '1\.5'"):
        opened(tmp_path, "a\n1.5\n").whole("a")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty file"),
        (b"a,a\n1,2\n", "column 'a' is there twice"),
        (b"a,b\n1\n", "x.csv:2: 1 cells for 2 columns"),
        (b"a\n\xff\n", "not UTF-8"),
        (b'a\n"' + b"x" * 200_000, "not a CSV file"),
    ],
)
def test_broken_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        opened(tmp_path, content)


def test_broken_gzip_is_refused(tmp_path: Path) -> None:
    whole = gzip.compress(b"a\n" + b"1\n" * 999)
    for content in (b"a\n1\n", whole[:-9], whole[:12] + b"\x00" * 9 + whole[21:]):
        with pytest.raises(InputError, match=r"x\.csv\.gz"):
            opened(tmp_path, content, "x.csv.gz")


def test_missing_columns_and_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no column 'rates'; did you mean 'rate'"):
        opened(tmp_path, "rate\n1\n").text("rates")
    with pytest.raises(InputError, match="cannot be read"):
        CsvFile(tmp_path / "absent.csv")
    with pytest.raises(InputError, match="cannot be read"):
        CsvFile(tmp_path)
