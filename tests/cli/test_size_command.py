"""The command size."""

import json
from collections.abc import Callable

import pytest

Run = Callable[..., tuple[int, str, str]]
WORDS = (
    *("size", "--input-tokens", 1024, "--output-tokens", 1300),
    *("--rate", "480rpm+-15%", "--slo", "itl=25ms"),
)
NUMBERS = ("--numbers", "6.678ms+-3%,20.08us+-5%,55.16ns+-8%")


def test_json_names_replicas_risk_and_what_binds(tailcast: Run) -> None:
    code, out, _ = tailcast(*WORDS, *NUMBERS, "--slo", "ttft=55ms", "--format", "json")
    found = json.loads(out)
    assert code == 0
    assert found["schema"] == "tailcast/size/1"
    assert found["n_replica"] >= 2
    assert found["p_miss"] <= 0.05
    assert found["binding"] == "ttft"
    for name, unit in (("capacity", "requests/s"), ("rate", "requests/s")):
        assert found[name]["low"] < found[name]["median"] < found[name]["high"]
        assert found[name]["unit"] == unit
    assert found["expected"]["ttft"]["median"] < 0.055
    counts = [entry["n_replica"] for entry in found["p_miss_by_replicas"]]
    assert counts == [found["n_replica"] + k for k in (-1, 0, 1)]
    assert sum(found["binding_shares"].values()) == pytest.approx(1.0)


def test_the_same_seed_gives_the_same_bytes(tailcast: Run) -> None:
    words = (*WORDS, *NUMBERS, "--slo", "ttft=55ms", "--format", "json", "--seed", 3)
    assert tailcast(*words)[1] == tailcast(*words)[1]


def test_none_helps_is_exit_1_and_says_why(tailcast: Run) -> None:
    code, out, _ = tailcast(*WORDS, *NUMBERS, "--slo", "ttft=20ms")
    assert code == 1
    assert "No number of replicas can help" in out
    assert "mean ttft alone is" in out
    code, out, _ = tailcast(*WORDS, *NUMBERS, "--slo", "ttft=20ms", "--format", "json")
    assert code == 1
    assert json.loads(out)["n_replica"] is None


@pytest.mark.parametrize("style", ["table", "csv", "markdown"])
def test_renderings_hold_the_answer(tailcast: Run, style: str) -> None:
    code, out, err = tailcast(*WORDS, *NUMBERS, "--slo", "ttft=55ms", "--format", style)
    assert code == 0
    for word in ("replicas", "P(miss)", "binds", "capacity of one"):
        assert word in out
    assert "risk 0.05" in (err if style == "csv" else out)


def test_a_datasheet_is_enough(tailcast: Run) -> None:
    code, out, _ = tailcast(
        *WORDS, "--model", "llama-3.1-8b", "--gpu", "h100", "--slo", "ttft=60ms"
    )
    assert code == 0
    assert "datasheet" in out


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("--slo", "ttft=50"), "unit"),
        (("--slo", "ttft.p99=50ms"), "means only"),
        (("--slo", "ttft=50ms", "--rate", "fast"), "rate"),
        (("--slo", "ttft=50ms"), "name the three numbers"),
    ],
)
def test_usage_errors_are_one_line(tailcast: Run, words: tuple[str, ...], what: str) -> None:
    code, _, err = tailcast(*WORDS, *words)
    assert code == 2
    assert what in err
    assert len(err.strip().splitlines()) == 1
