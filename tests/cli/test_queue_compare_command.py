"""The command queue compare."""

import json
from collections.abc import Callable

import pytest

Run = Callable[..., tuple[int, str, str]]
WORDS = (
    *("queue", "compare", "--numbers", "6.678ms,20.08us,55.16ns", "--runs", 4),
    *("--input-tokens", 64, "--output-tokens", 32),
)


def test_json_holds_every_place(tailcast: Run) -> None:
    code, out, _ = tailcast(*WORDS, "--format", "json")
    found = json.loads(out)
    assert code == 0
    assert found["schema"] == "tailcast/queue-compare/1"
    assert [entry["load"] for entry in found["places"]] == [0.2, 0.6, 0.9]
    for entry in found["places"]:
        assert entry["engine"]["ttft"] < entry["engine"]["ttft_p99"]
        assert entry["control_variate"]["itl"]["se"] > 0
        assert any("decode step" in reason for reason in entry["reasons"])


@pytest.mark.parametrize("style", ["table", "csv", "markdown"])
def test_renderings_say_where_and_why(tailcast: Run, style: str) -> None:
    code, out, err = tailcast(*WORDS, "--format", style)
    assert code == 0
    assert "64/32" in out
    assert "half a step is waited" in (err if style == "csv" else out)


def test_half_a_shape_is_refused(tailcast: Run) -> None:
    code, _, err = tailcast(*WORDS[:-2])
    assert (code, "give both" in err) == (2, True)
