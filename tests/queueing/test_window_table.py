"""A table of windows: units, what was not measured, and mistakes by line."""

import math
from pathlib import Path

import pytest

from tailcast.errors import InputError
from tailcast.queueing.window_table import is_window_table, read_window_table


def written(folder: Path, text: str) -> Path:
    path = folder / "table.csv"
    path.write_text(text)
    return path


def test_cells_are_in_the_fields_units_and_may_be_empty(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        "tokens_in, tokens_out, rate_rps, itl_ms, n_request, label\n512, 256, 4.5, 8, 900, noon\n"
        "512,256,9,,,\n",
    )
    assert is_window_table(path)
    first, second = read_window_table(path)
    assert (first.rate, first.itl, first.n_request) == (4.5, 0.008, 900)
    assert first.label == "noon"
    assert math.isnan(first.ttft)
    assert math.isnan(second.itl)
    assert math.isinf(second.n_request)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tokens_in,tokens_out,rate_rps,itl\n1,1,1,1\n", "did you mean 'itl_ms'"),
        ("tokens_in,tokens_out,rate_rps\n1,1,x\n", "line 2: rate_rps 'x' is not a number"),
        ("tokens_in,tokens_out,rate_rps\n1,1,1\n1,1,-1\n", "line 3: .*rate must be positive"),
        ("tokens_in,tokens_out,rate_rps\n1,,1\n", "line 2: .*tokens_out"),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_window_table(written(tmp_path, text))


def test_other_files_are_no_tables(tmp_path: Path) -> None:
    assert not is_window_table(written(tmp_path, "a,b\n1,2\n"))
    assert not is_window_table(tmp_path)
    assert not is_window_table(tmp_path / "absent.csv")
