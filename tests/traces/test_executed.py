"""The workload of an experiment file."""

import math
from typing import Any

import numpy as np
import pytest

from tailcast.errors import InputError
from tailcast.request import RequestTable
from tailcast.traces.executed import executed_workload
from tailcast.workload.arrivals import Arrivals
from tailcast.workload.fields import Fields
from tailcast.workload.lengths import Gaussian
from tailcast.workload.materialise import materialise
from tailcast.workload.spec import Workload

SENTENCE = (
    "per stage rate*duration requests, exponential gaps rescaled to sum to the duration; "
    "stages back to back"
)
REPEATED: dict[str, Any] = {
    "name": "small",
    "kind": "repeated-prompts",
    "distinct_prompts": 20,
    "prompt_groups": 4,
    "system_prompt_tokens": 50,
    "question_tokens": 100,
    "prompt_tokens": {"nominal": 150},
    "output_tokens": 30,
    "order": "one shuffled list of the distinct prompts, cycled",
    "arrivals": SENTENCE,
    "stages": [{"rate_rps": 2.0, "duration_s": 30}, {"rate_rps": 5, "duration_s": 20}],
}
UNIQUE: dict[str, Any] = {
    "kind": "unique-prompts",
    "prompt_tokens": 200,
    "output_tokens": 10,
    "rate_rps": 4,
    "duration_s": 25,
}


def workload(table: dict[str, Any], **changes: Any) -> Workload:
    content = {key: value for key, value in (table | changes).items() if value is not None}
    return executed_workload(Fields(content, "run.yaml workload", ".workload"))


def requests(table: dict[str, Any], **changes: Any) -> RequestTable:
    return materialise(workload(table, **changes), 7)


def test_repeated_prompts_are_sent_as_described() -> None:
    table = requests(REPEATED)
    assert np.bincount(table.group).tolist() == [60, 100]
    assert table.arrival[59] == pytest.approx(30.0)
    assert table.arrival[-1] == pytest.approx(50.0)
    assert set(table.input_tokens.tolist()) == {150}
    assert set(table.prefix_tokens.tolist()) == {50}
    assert set(table.output_tokens.tolist()) == {30}
    first = table.content_stream[:20]
    assert sorted(first.tolist()) == list(range(20))
    np.testing.assert_array_equal(table.content_stream, np.resize(first, 160))
    groups: dict[int, set[int]] = {}
    for content, prefix in zip(table.content_stream, table.prefix_stream, strict=True):
        groups.setdefault(int(prefix), set()).add(int(content))
    assert [len(members) for members in groups.values()] == [5, 5, 5, 5]


def test_measured_prompt_lengths_win_over_nominal_ones() -> None:
    measured = {"nominal": 150, "measured": {"mean": 161.3, "min": 155, "max": 171}}
    table = requests(REPEATED, prompt_tokens=measured)
    lengths = {
        int(c): int(n) for c, n in zip(table.content_stream, table.input_tokens, strict=True)
    }
    values = list(lengths.values())
    assert (min(values), max(values)) == (155, 171)
    assert np.mean(values) == pytest.approx(161.3, abs=0.5)


def test_unique_prompts_take_rates_laws_and_processes() -> None:
    table = requests(UNIQUE)
    assert len(table) == 100
    assert set(table.content_stream.tolist()) == {-1}
    assert set(table.prefix_stream.tolist()) == {-1}
    assert len(requests(UNIQUE, duration_s=None, requests=33)) == 33
    law = {"law": "gaussian", "mean": 300, "sd": 10}
    assert workload(UNIQUE, prompt_tokens=law).classes[0].input_tokens == Gaussian(mean=300, sd=10)
    bursty = workload(UNIQUE, arrivals={"process": "gamma", "cv": 2})
    assert bursty.arrivals == Arrivals(process="gamma", cv=2)
    shared = requests(UNIQUE, system_prompt_tokens=150, prompt_groups=3)
    assert set(shared.input_tokens.tolist()) == {200}
    assert set(shared.prefix_stream.tolist()) == {0, 1, 2}
    law = {"law": "uniform", "min": 5, "max": 6}
    shared = requests(UNIQUE, prompt_tokens=None, question_tokens=law, system_prompt_tokens=10)
    assert set(shared.input_tokens.tolist()) == {15, 16}


def test_closed_loops_and_studies_are_workloads_too() -> None:
    loop = requests(UNIQUE, rate_rps=None, duration_s=None, concurrency=4, requests=20)
    assert (len(loop), int((loop.parent < 0).sum())) == (20, 4)
    study = {"preset": "chatbot", "rate": 3, "n_requests": 12}
    assert len(materialise(workload({"kind": "study", "study": study}), 0)) == 12


def test_the_kind_may_be_left_out() -> None:
    assert workload(REPEATED, kind=None) == workload(REPEATED)
    assert workload(UNIQUE, kind=None) == workload(UNIQUE)


@pytest.mark.parametrize(
    ("table", "changes", "message"),
    [
        (REPEATED, {"kind": "repeated"}, "did you mean 'repeated-prompts'"),
        (REPEATED, {"distinct_prompts": None}, "distinct_prompts is missing"),
        (REPEATED, {"distinct_prompts": 0}, "distinct prompts must be"),
        (REPEATED, {"prompt_groups": 0}, "prefix groups must be"),
        (REPEATED, {"prompt_groups": 21}, "21 prefix groups for only 20"),
        (REPEATED, {"output_tokens": None}, "output_tokens is missing"),
        (REPEATED, {"output_tokens": -3}, "1 to 100000000 tokens"),
        (REPEATED, {"prompt_tokens": {"nominal": 151}}, r"nominal 151 is not 50 \+ 100"),
        (REPEATED, {"prompt_tokens": {}}, "give nominal, measured or a law"),
        (REPEATED, {"prompt_tokens": 50, "question_tokens": None}, "leaves nothing"),
        (
            REPEATED,
            {"prompt_tokens": {"measured": {"mean": 60, "min": 40, "max": 70}}},
            "leaves nothing",
        ),
        (
            REPEATED,
            {"prompt_tokens": {"measured": {"mean": 90, "min": 60, "max": 70}}},
            "not within",
        ),
        (REPEATED, {"prompt_tokens": {"measured": {"mean": math.nan}}}, "mean must be a finite"),
        (REPEATED, {"order": "alphabetical"}, "cycled or random"),
        (REPEATED, {"arrivals": "as they come"}, "is not understood"),
        (REPEATED, {"arrivals": "gamma"}, "need cv"),
        (REPEATED, {"stages": None}, "one of stages, rate_rps and concurrency"),
        (REPEATED, {"stages": []}, "list of tables"),
        (REPEATED, {"stages": [{"rate_rps": 0, "duration_s": 1}]}, r"stages\[0\]: rate must be"),
        (
            REPEATED,
            {"stages": [{"rate_rps": math.nan, "duration_s": 1}]},
            "rate_rps must be a finite",
        ),
        (REPEATED, {"stages": [{"rate_rps": 1, "duration_s": -1}]}, "duration must be positive"),
        (REPEATED, {"stages": [{"rate_rps": 1, "duration": 1}]}, "duration_s is missing"),
        (REPEATED, {"rate_rps": 1}, "one of stages, rate_rps and concurrency"),
        (REPEATED, {"requests": 10}, "stages have durations"),
        (UNIQUE, {"distinct_prompts": 10}, "cannot have distinct_prompts"),
        (UNIQUE, {"prompt_tokens": None}, "prompt_tokens is missing"),
        (UNIQUE, {"prompt_tokens": {"law": "uniform", "min": 1}}, "max is missing"),
        (
            UNIQUE,
            {"prompt_tokens": {"law": "uniform", "min": 9, "max": 9}, "system_prompt_tokens": 5},
            "give question_tokens",
        ),
        (UNIQUE, {"duration_s": None}, "either duration_s or requests"),
        (UNIQUE, {"requests": 5}, "either duration_s or requests"),
        (UNIQUE, {"rate_rps": None, "concurrency": 3}, "needs the number of requests"),
        ({"kind": "study"}, {}, "needs a table study"),
        ({"kind": "study", "study": {"rate": 1}}, {}, "input_tokens is missing"),
    ],
)
def test_bad_workloads_are_refused_with_their_place(
    table: dict[str, Any], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message) as caught:
        workload(table, **changes)
    assert str(caught.value).startswith("run.yaml workload")
