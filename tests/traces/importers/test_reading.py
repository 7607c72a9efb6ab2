"""Recognition, and what every importer does with a file that is spoilt."""

import gzip
import re
from pathlib import Path

import pytest

from tailcast.errors import InputError, UsageError
from tailcast.traces.importers.imported import ReadOptions
from tailcast.traces.importers.reading import IMPORTERS, read_any, recognise
from tailcast.traces.importers.sample import Sample
from traces.tool_files import MAKERS, bench_content, lines, written

NAMES = tuple(importer.name for importer in IMPORTERS)
LINES_MAY_BE_WHOLE = ("vllm-steps",)
# A number that occurs in the file, as a pattern; what makes it impossible.
SPOILT = {
    "tracev2": r"(?<=,)81000(?=,)",
    "experiment": r"77\.7",
    "vllm-bench": r"0\.0777",
    "vllm-bench-table": r"77\.7",
    "inference-perf": r"(?<=\"start_time\": )27536\.75",
    "guidellm": r"(?<=\"prompt_tokens\": )81",
    "guidellm-csv": r"0\.0777",
    "aiperf": r"77\.7\d*",
    "genai-perf": r"77\.7",
    "genai-perf-records": r"(?<=\"timestamp\": )\d+",
    "llmservingsim": r"(?<=\"input_toks\": )81",
    "prometheus": r"(?<=_sum\{engine=\"0\",model_name=\"tiny\"\} )5\.5",
    "otlp": r"(?<=\"doubleValue\": )0\.0777",
    "steps-csv": r"77\.7",
    "azure": r"(?<=,)81(?=,)",
    "burstgpt": r"(?<=,)81(?=,0)",
    "mooncake": r"77\.7",
    "servegen": r"0\.777(?=,)",
    "arrivals-csv": r"(?<=,)81(?=,)",
}


def file_of(path: Path) -> Path:
    """The file that holds the numbers, where the format is a folder."""
    if not path.is_dir():
        return path
    return path / ("requests.csv" if path.name == "own" else "chunk-1-trace.csv")


@pytest.mark.parametrize("name", NAMES)
def test_every_format_has_a_file_that_is_recognised_as_it_alone(name: str, tmp_path: Path) -> None:
    path = MAKERS[name](tmp_path)
    assert recognise(path).name == name
    sample = Sample(path)
    assert [importer.name for importer in IMPORTERS if importer.recognises(sample)] == [name]


@pytest.mark.parametrize("name", NAMES)
def test_every_format_is_read_and_says_how_much(name: str, tmp_path: Path) -> None:
    found = read_any(MAKERS[name](tmp_path))
    assert found.format == name
    assert found.counts["read"] >= 1
    assert not [fault for fault in found.faults if fault.severe]
    gives = next(i.gives for i in IMPORTERS if i.name == name)
    assert found.kind in gives.replace("workload", "trace")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("way", ["empty", "binary", "wrong type", "truncated"])
def test_a_spoilt_file_ends_in_one_line(name: str, way: str, tmp_path: Path) -> None:
    path = MAKERS[name](tmp_path)
    file = file_of(path)
    content = file.read_bytes()
    if way == "truncated":
        content = content[: len(content) * 2 // 3].rstrip(b"0123456789.") + b"7"
    else:
        content = {"empty": b"", "binary": bytes(range(256)) * 40, "wrong type": b"[1, 2]"}[way]
    file.write_bytes(content)
    # What is left of a log or of lines may be whole; then the end is a fault that is named.
    if way == "truncated" and name in LINES_MAY_BE_WHOLE:
        assert any(fault.kind == "truncated" for fault in read_any(path, name=name).faults)
        return
    with pytest.raises(InputError) as caught:
        read_any(path, name=name)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(str(tmp_path))


@pytest.mark.parametrize("name", SPOILT)
@pytest.mark.parametrize("bad", ["NaN", "-1"])
def test_an_impossible_number_ends_in_one_line_with_its_place(
    name: str, bad: str, tmp_path: Path
) -> None:
    path = MAKERS[name](tmp_path)
    file = file_of(path)
    text, n = re.subn(SPOILT[name], bad, file.read_text(), count=1)
    assert n == 1
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        read_any(path)
    assert "\n" not in str(caught.value)
    assert "must" in str(caught.value) or "valid" in str(caught.value)


def test_a_step_that_is_no_number_is_no_step(tmp_path: Path) -> None:
    path = MAKERS["vllm-steps"](tmp_path)
    path.write_text(path.read_text().replace("77.70 ms", "NaN ms"))
    found = read_any(path)
    assert found.counts == {"read": 3, "lines that are no whole step": 1}
    assert str(found.faults[0]).startswith("vllm.log:4: names an iteration but is no step line")


def test_an_unknown_file_names_the_known_formats(tmp_path: Path) -> None:
    for path in (written(tmp_path / "a.csv", "a,b\n1,2\n"), written(tmp_path / "b.json", {"a": 1})):
        with pytest.raises(InputError, match="known: tracev2, experiment, vllm-bench") as caught:
            read_any(path)
        assert all(name in str(caught.value) for name in NAMES)
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="not a folder of a known format"):
        recognise(tmp_path / "folder")
    with pytest.raises(InputError, match="no such file"):
        read_any(tmp_path / "nothing.json")
    with pytest.raises(InputError, match="empty file"):
        read_any(written(tmp_path / "empty.json", ""))


def test_a_file_that_looks_like_two_formats_is_not_guessed(tmp_path: Path) -> None:
    both = {**bench_content(), "experiments": [], "requests": []}
    path = written(tmp_path / "both.json", both)
    with pytest.raises(InputError, match="vllm-bench and genai-perf-records; say which"):
        read_any(path)
    assert read_any(path, name="vllm-bench").format == "vllm-bench"


def test_gzip_is_unpacked_and_a_cut_one_refused(tmp_path: Path) -> None:
    plain = MAKERS["arrivals-csv"](tmp_path).read_bytes()
    whole = tmp_path / "w.csv.gz"
    whole.write_bytes(gzip.compress(plain * 1))
    assert len(read_any(whole).content) == 3
    whole.write_bytes(gzip.compress(plain)[:-12])
    with pytest.raises(InputError, match="gzip"):
        read_any(whole)


def test_keys_behind_long_lists_are_found(tmp_path: Path) -> None:
    content = bench_content()
    late = {"generated_texts": ["x" * 9000] * 10, "a": 1, **dict(reversed(content.items()))}
    late["generated_texts"] = ["x" * 9000] * 10
    assert recognise(written(tmp_path / "late.json", late)).name == "vllm-bench"


def test_options_that_mean_nothing_are_refused(tmp_path: Path) -> None:
    path = MAKERS["vllm-bench"](tmp_path)
    with pytest.raises(UsageError, match="clock means nothing for vllm-bench; it is for llmserv"):
        read_any(path, options=ReadOptions(clock="queued"))
    with pytest.raises(UsageError, match="limit means nothing"):
        read_any(path, options=ReadOptions(limit=3))
    with pytest.raises(UsageError, match="did you mean 'vllm-bench'"):
        read_any(path, name="vllm-bnch")
    with pytest.raises(UsageError, match="no clock"):
        ReadOptions(clock="noon")
    with pytest.raises(UsageError, match="run forwards"):
        ReadOptions(window=(5.0, 1.0))


def test_a_line_that_is_no_object_has_its_number(tmp_path: Path) -> None:
    path = MAKERS["mooncake"](tmp_path)
    path.write_text(path.read_text().replace('"hash_ids": [9]}', '"hash_ids": "9"}'))
    with pytest.raises(InputError, match=r"trace\.jsonl:4: hash_ids must be a list"):
        read_any(path)
    lines(path, [{"timestamp": 1, "input_length": 0, "output_length": 1}])
    with pytest.raises(InputError, match=r":1: input_length must be at least 1, got 0"):
        read_any(path)
