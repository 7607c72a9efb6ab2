"""Typed reading of tables."""

import math
from typing import Any

import pytest

from tailcast.errors import InputError
from tailcast.workload.fields import Fields, placed
from tailcast.workload.lengths import Constant


@pytest.mark.parametrize("value", [None, 3, "x", [1], math.nan])
def test_only_tables_are_read(value: object) -> None:
    with pytest.raises(InputError, match="file: expected a table"):
        Fields(value, "file")


def test_keys_must_be_text() -> None:
    with pytest.raises(InputError, match="key 3 is not text"):
        Fields({3: 1}, "file")


def test_values_are_typed_and_defaults_pass() -> None:
    fields = Fields({"n": 3.0, "x": "1e-3", "t": 17, "f": False, "d": "2s", "null": None}, "file")
    assert fields.whole("n") == 3
    assert fields.number("x") == 0.001
    assert fields.text("t") == "17"
    assert fields.flag("f") is False
    assert fields.duration("d") == 2.0
    assert fields.number("null", 5.0) == 5.0
    assert fields.whole("absent", None) is None
    assert "null" not in fields
    assert fields.unused() == ()


@pytest.mark.parametrize(
    ("reader", "value", "message"),
    [
        ("number", math.nan, "finite number"),
        ("number", [1], "finite number"),
        ("number", 10**400, "finite number"),
        ("whole", 1.5, "whole number"),
        ("whole", math.inf, "whole number"),
        ("whole", True, "whole number"),
        ("text", "", "must be text"),
        ("text", True, "must be text"),
        ("text", {}, "must be text"),
        ("flag", 1, "true or false"),
        ("duration", "2", "no unit"),
        ("duration", 2, "with a unit"),
        ("tables", {}, "list of tables"),
        ("tables", [3], r"key\[0\]: expected a table"),
        ("table", 3, "file key: expected a table"),
    ],
)
def test_wrong_values_are_refused_with_their_place(reader: str, value: Any, message: str) -> None:
    fields = Fields({"key": value}, "file")
    with pytest.raises(InputError, match=message) as caught:
        getattr(fields, reader)("key")
    assert str(caught.value).startswith("file")


@pytest.mark.parametrize("reader", ["number", "whole", "text", "flag", "duration"])
def test_missing_values_are_refused(reader: str) -> None:
    with pytest.raises(InputError, match="file: key is missing"):
        getattr(Fields({}, "file"), reader)("key")


def test_unknown_keys_are_refused_or_pass_as_remarks() -> None:
    fields = Fields({"rate": 1, "zzz": "somebody"}, "file")
    fields.number("rate")
    assert fields.ignore_unused() == ("zzz",)
    with pytest.raises(InputError, match="unknown key 'zzz'; known: rate"):
        fields.refuse_unused()
    misspelt = Fields({"rates": 1}, "file")
    misspelt.number("rate", None)
    with pytest.raises(InputError, match="did you mean 'rate'"):
        misspelt.ignore_unused()


def test_what_was_read_is_free_of_layout_and_remarks() -> None:
    tables = []
    for content in (
        {"a": 1, "inner": {"b": "x", "c": 2.0}, "remark": "one"},
        {"inner": {"c": 2, "b": "x"}, "a": 1.0},
    ):
        fields = Fields(content, "file")
        fields.number("a")
        inner = fields.table("inner")
        assert inner is not None
        inner.text("b")
        inner.whole("c")
        tables.append(fields.read)
    assert tables[0] == tables[1] == {".a": "1.0", ".inner.b": "'x'", ".inner.c": "2.0"}


def test_complaints_get_their_place() -> None:
    with pytest.raises(InputError, match=r"^here: length must be"):
        placed("here", Constant, value=0)
