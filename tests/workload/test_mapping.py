"""The [workload] table of a study."""

import gzip
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailcast.errors import CatalogError, InputError
from tailcast.workload.arrivals import Arrivals, Stage
from tailcast.workload.lengths import Constant, Empirical, Gaussian, LogNormal, Uniform
from tailcast.workload.mapping import workload_from_mapping
from tailcast.workload.materialise import materialise
from tailcast.workload.spec import Concurrency, RepeatedPrompts, Session, SharedPrefix

law = settings(max_examples=40, deadline=None, derandomize=True)

PLAIN: dict[str, Any] = {"rate": 2, "input_tokens": 100, "output_tokens": 50}


def parsed(**keys: Any) -> Any:
    table = {key: value for key, value in {**PLAIN, **keys}.items() if value is not None}
    return workload_from_mapping(table, "study.toml [workload]")


def refusal(**keys: Any) -> str:
    with pytest.raises(InputError) as caught:
        parsed(**keys)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith("study.toml [workload]")
    return message


def test_plain_keys_make_one_open_ended_class() -> None:
    workload = parsed(n_requests=10)
    assert workload.stages == (Stage(rate=2.0),)
    assert workload.classes[0].input_tokens == Constant(value=100)
    assert len(materialise(workload, 0)) == 10
    assert "Poisson" in workload.notes[0]


def test_every_key_is_read() -> None:
    workload = parsed(
        rate=None,
        name="mix",
        stages=[{"rate": 1, "duration": "10s"}, {"rate": 2.5, "duration": "1min"}],
        arrivals={"process": "gamma", "cv": 2},
        input_tokens={"law": "uniform", "min": 1, "max": 9},
        output_tokens={"law": "gaussian", "mean": 10, "sd": 2, "min": 1, "max": 20},
        prefix={"tokens": 64, "groups": 2},
        session={
            "turns": {"law": "empirical", "values": [1, 5], "weights": [3, 1]},
            "think_time": "2s",
            "think_law": "constant",
            "history": False,
        },
        priority=3,
        timeout="5min",
    )
    kind = workload.classes[0]
    assert workload.name == "mix"
    assert workload.stages == (Stage(rate=1, duration=10.0), Stage(rate=2.5, duration=60.0))
    assert workload.arrivals == Arrivals(process="gamma", cv=2.0)
    assert kind.input_tokens == Uniform(minimum=1, maximum=9)
    assert kind.output_tokens == Gaussian(mean=10, sd=2, minimum=1, maximum=20)
    assert kind.prefix == SharedPrefix(tokens=64, groups=2)
    assert kind.session == Session(
        turns=Empirical(values=(1, 5), weights=(3, 1)),
        think_time=2.0,
        think_law="constant",
        history=False,
    )
    assert (kind.priority, kind.timeout) == (3, 300.0)
    assert workload.notes == ("The rate counts session starts, not the turns that follow.",)


def test_concurrency_and_repeats_are_read() -> None:
    repeat = {"distinct": 5, "order": "random"}
    workload = parsed(rate=None, concurrency=4, n_requests=7, repeat=repeat)
    assert workload.concurrency == Concurrency(users=4)
    assert workload.classes[0].repeat == RepeatedPrompts(distinct=5, order="random")
    loop = {"users": 4, "think_time": "1s", "ramp": "2s"}
    assert parsed(rate=None, concurrency=loop).concurrency == Concurrency(
        users=4, think_time=1.0, ramp=2.0
    )


def test_lognormal_takes_moments_or_median() -> None:
    law = {"law": "log-normal", "median": 80, "sigma": 0.5, "min": 3}
    assert parsed(input_tokens=law).classes[0].input_tokens == LogNormal(
        median=80, sigma=0.5, minimum=3
    )
    law = {"law": "lognormal", "mean": 100, "sd": 50}
    got = parsed(input_tokens=law).classes[0].input_tokens
    assert got.median * math.exp(got.sigma**2 / 2) == pytest.approx(100)
    assert got.sigma == pytest.approx(math.sqrt(math.log(1.25)))


def test_classes_have_names_weights_and_presets() -> None:
    classes = [
        {"name": "short", "weight": 3, "input_tokens": 10, "output_tokens": 5},
        {"name": "long", "preset": "summarization", "output_tokens": 7},
    ]
    workload = parsed(input_tokens=None, output_tokens=None, classes=classes)
    assert workload.group_names == ("short", "long")
    assert workload.classes[1].output_tokens == Constant(value=7)
    assert workload.classes[1].input_tokens == Gaussian(
        mean=4096, sd=500, minimum=100, maximum=8192
    )


def test_what_the_table_says_wins_over_the_preset() -> None:
    workload = workload_from_mapping(
        {"preset": "general", "rate": 4, "duration": "100s", "output_tokens": 9}, "w"
    )
    assert workload.classes[0].output_tokens == Constant(value=9)
    assert workload.classes[0].repeat == RepeatedPrompts(distinct=100)
    assert len(materialise(workload, 0)) == 400
    loop = workload_from_mapping({"preset": "general", "concurrency": 4, "n_requests": 9}, "w")
    assert loop.arrivals is None


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz"])
def test_lengths_come_from_files(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"pairs{suffix}"
    text = b"n_in,n_out,w\n10,1,1\n20,2,0\n30,3,2\n"
    path.write_bytes(gzip.compress(text) if suffix == ".csv.gz" else text)
    lengths = {"file": path.name, "input_column": "n_in", "output_column": "n_out"}
    workload = workload_from_mapping({"rate": 1, "lengths": lengths}, "w", folder=tmp_path)
    table = materialise(workload, 0)
    np.testing.assert_array_equal(table.input_tokens, table.output_tokens * 10)
    law = {"law": "empirical", "file": path.name, "column": "n_in", "weights_column": "w"}
    workload = workload_from_mapping({**PLAIN, "input_tokens": law}, "w", folder=tmp_path)
    assert workload.classes[0].input_tokens == Empirical(values=(10, 20, 30), weights=(1, 0, 2))


def test_bad_length_files_are_refused_with_their_place(tmp_path: Path) -> None:
    path = tmp_path / "lengths.csv"
    law = {"law": "empirical", "file": "lengths.csv", "column": "n_in"}
    table = {**PLAIN, "input_tokens": law}
    for text, message in (
        (None, "cannot be read"),
        ("", "empty file"),
        ("n_in\n", "no rows"),
        ("n_im\n3\n", "did you mean 'n_im'"),
        ("n_in\n3\nnan\n", "lengths.csv:3: n_in must be a finite number"),
        ("n_in\n3\nx\n", "lengths.csv:3: n_in must be a finite number, got 'x'"),
        ("n_in\n0\n", "1 to 100000000 tokens"),
        ("n_in\n3,4\n", "lengths.csv:2: 2 cells for 1 columns"),
    ):
        if text is not None:
            path.write_text(text)
        with pytest.raises(InputError, match=message):
            workload_from_mapping(table, "w", folder=tmp_path)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"rat": 3}, "unknown key 'rat'; did you mean 'rate'"),
        ({"rate": 0}, "rate must be positive"),
        ({"rate": -1}, "rate must be positive"),
        ({"rate": math.nan}, "rate must be a finite number"),
        ({"rate": math.inf}, "rate must be a finite number"),
        ({"rate": "fast"}, "rate must be a finite number, got 'fast'"),
        ({"rate": True}, "rate must be a finite number"),
        ({"rate": None}, "no load given"),
        ({"rate": None, "duration": "5s"}, "a duration needs a rate"),
        ({"duration": 5}, "a duration with a unit"),
        ({"duration": "5"}, "has no unit"),
        ({"duration": "5s", "n_requests": 5}, "not both"),
        ({"stages": [{"rate": 1, "duration": "5s"}]}, "stages or a rate"),
        ({"rate": None, "stages": [{"rate": 1}]}, r"stages\[0\]: duration is missing"),
        ({"rate": None, "stages": []}, "list of tables"),
        ({"rate": None, "stages": [{"rate": 1, "duration": "1s", "x": 1}]}, "unknown key 'x'"),
        ({"n_requests": 1.5}, "whole number"),
        ({"n_requests": 0}, "at least 1"),
        ({"arrivals": "gama"}, "did you mean 'gamma'"),
        ({"arrivals": "gamma"}, "need cv"),
        ({"arrivals": {"process": "gamma", "cv": math.nan}}, "cv must be a finite number"),
        ({"arrivals": {"process": "gamma", "vc": 2}}, "need cv"),
        ({"concurrency": 3}, "either a rate"),
        ({"input_tokens": None}, "input_tokens is missing"),
        ({"input_tokens": 0}, "1 to 100000000 tokens"),
        ({"input_tokens": "many"}, "whole number"),
        ({"input_tokens": {"law": "gausian", "mean": 1}}, "did you mean 'gaussian'"),
        ({"input_tokens": {"mean": 1}}, "law is missing"),
        ({"input_tokens": {"law": "uniform", "min": 1}}, "max is missing"),
        ({"input_tokens": {"law": "uniform", "min": 5, "max": 1}}, "above the maximum"),
        ({"input_tokens": {"law": "constant", "value": 1, "mean": 1}}, "unknown key 'mean'"),
        ({"input_tokens": {"law": "lognormal", "mean": -1, "sd": 1}}, "mean must be positive"),
        ({"input_tokens": {"law": "empirical", "values": 3}}, "list of numbers"),
        ({"input_tokens": {"law": "empirical", "values": ["a"]}}, "list of numbers"),
        ({"input_tokens": {"law": "empirical", "values": [1, math.nan]}}, "1 to 100000000 tokens"),
        ({"lengths": {"file": "x"}}, "input_column is missing"),
        ({"prefix": 5}, "expected a table"),
        ({"prefix": {"tokens": -5}}, "prefix tokens must be"),
        ({"prefix": {"token": 5}}, "tokens is missing"),
        ({"repeat": {"distinct": 5, "order": "sorted"}}, "cycled or random"),
        ({"session": {"turns": 3, "think_time": 2}}, "duration with a unit"),
        ({"session": {"turns": 3, "history": "yes"}}, "true or false"),
        ({"timeout": "0s"}, "must be positive"),
        ({"classes": [{"name": "a"}]}, "belongs into each of the classes"),
        ({"preset": "chatbot", "classes": [{"name": "a"}]}, "name presets within the classes"),
    ],
)
def test_bad_keys_are_refused_with_their_place(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        parsed(**keys)
    refusal(**keys)


def test_arrivals_do_not_belong_into_a_class() -> None:
    item = {"name": "a", "input_tokens": 1, "output_tokens": 1, "arrivals": "poisson"}
    with pytest.raises(InputError, match="belong to the whole workload"):
        workload_from_mapping({"rate": 1, "classes": [item]}, "w")


def test_an_unknown_preset_is_refused_with_a_hint() -> None:
    with pytest.raises(CatalogError, match="did you mean 'chatbot'"):
        workload_from_mapping({"preset": "chatbott", "rate": 1}, "w")


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=5), inner, max_size=2)
    ),
    max_leaves=4,
)
KEYS = (
    "rate duration n_requests arrivals stages concurrency input_tokens output_tokens lengths "
    "prefix repeat session priority timeout classes other"
)


@law
@given(st.dictionaries(st.sampled_from(KEYS.split(" ")), anything, max_size=3))
def test_nonsense_is_refused_in_one_line_and_never_crashes(table: dict[str, Any]) -> None:
    try:
        workload_from_mapping({**PLAIN, **table}, "w")
    except InputError as error:
        message = str(error)
        assert len(message.splitlines()) == 1
