"""Results survive, are told apart by question, and a broken file is refused."""

from pathlib import Path

import numpy as np
import pytest

from tailcast.errors import InputError, UsageError
from tailcast.search.store import Store

NUMBERS = np.arange(6.0).reshape(3, 2)


def test_what_was_kept_is_known_again(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    store = Store(path, {"seed": 1})
    store.keep([("a", "race", range(4, 7), NUMBERS)])
    assert store.n_stored == 3
    store.close()
    again = Store(path, {"seed": 1})
    known = again.known("a", "race", [5, 6])
    assert known is not None
    np.testing.assert_array_equal(known, NUMBERS[1:])
    assert again.known("a", "race", [5, 7]) is None
    assert again.known("a", "confirm", [5]) is None


def test_another_question_knows_nothing_but_destroys_nothing(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    first = Store(path, {"seed": 1})
    first.keep([("a", "race", range(3), NUMBERS)])
    other = Store(path, {"seed": 2})
    assert other.n_stored == 0
    other.keep([("a", "race", range(3), -NUMBERS)])
    found = Store(path, {"seed": 1}).known("a", "race", range(3))
    assert found is not None
    np.testing.assert_array_equal(found, NUMBERS)


def test_not_a_number_is_kept(tmp_path: Path) -> None:
    store = Store(tmp_path / "r.sqlite", {})
    store.keep([("a", "race", [0], np.array([[np.nan, np.inf]]))])
    found = Store(tmp_path / "r.sqlite", {}).known("a", "race", [0])
    np.testing.assert_array_equal(found, [[np.nan, np.inf]])


def test_a_file_of_another_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.sqlite"
    path.write_text("no database " * 100)
    with pytest.raises(InputError, match="is no results file"):
        Store(path, {})


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        Store(tmp_path / "missing" / "results.sqlite", {})
