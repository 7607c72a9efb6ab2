"""Experiment files: reading, repeating, telling apart."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from tailcast.errors import CapacityError, CatalogError, InputError
from tailcast.traces.experiment import (
    Experiment,
    UnusableExperiment,
    attempt_experiments,
    duplicate_runs,
    experiment_files,
    experiment_requests,
    load_experiment,
    load_experiments,
)

RUN: dict[str, Any] = {
    "id": "a",
    "split": "train",
    "deployment": {
        "model": "meta-llama/Llama-2-7b-hf",
        "gpu": "H100-SXM-80GB",
        "tensor_parallel": 1,
        "data_parallel": 1,
        "weights": "bf16",
        "engine": {
            "name": "vllm",
            "version": "0.15.1",
            "max_num_batched_tokens": 2048,
            "max_num_seqs": 128,
            "max_model_len": 4096,
            "block_size": 16,
            "gpu_memory_utilization": 0.9,
            "prefix_caching": True,
            "chunked_prefill": True,
            "kv_cpu_offload": False,
            "kv_blocks": 7463,
        },
    },
    "workload": {
        "kind": "repeated-prompts",
        "distinct_prompts": 10,
        "prompt_groups": 2,
        "system_prompt_tokens": 20,
        "prompt_tokens": {"nominal": 80},
        "output_tokens": 30,
        "repetition_evidence": "seen",
        "stages": [{"rate_rps": 2, "duration_s": 10}, {"rate_rps": 4, "duration_s": 10}],
    },
    "observed": [
        {"stage": 0, "requests": 20, "latency_ms": {"ttft": {"mean": 25.0, "p99": 60}}},
        {"stage": 1, "requests": 40, "latency_ms": {"e2e": {"mean": 2500}}},
    ],
}


def changed(path: str = "", value: Any = None, **top: Any) -> dict[str, Any]:
    """Copy of RUN with one key replaced; None removes it."""
    content: dict[str, Any] = yaml.safe_load(yaml.safe_dump(RUN)) | top
    if path:
        *outer, key = path.split(".")
        table = content
        for name in outer:
            table = table[name]
        table[key] = value
        if value is None:
            del table[key]
    return content


def written(folder: Path, content: dict[str, Any], name: str = "a.yaml") -> Path:
    path = folder / name
    path.write_text(yaml.safe_dump(content))
    return path


def loaded(folder: Path, content: dict[str, Any]) -> Experiment:
    return load_experiment(written(folder, content))


def test_an_experiment_is_read_whole(tmp_path: Path) -> None:
    run = loaded(tmp_path, RUN)
    assert (run.id, run.split, run.repetition_evidence) == ("a", "train", "seen")
    assert run.deployment.kv_block_count == 7463
    assert run.deployment.engine.max_num_seqs == 128
    assert run.deployment.accelerator.name.startswith("h100")
    assert [(r.stage, r.metric, r.statistic, r.value) for r in run.observed] == [
        (0, "ttft", "mean", 0.025),
        (0, "ttft", "p99", 0.06),
        (1, "e2e", "mean", 2.5),
    ]
    assert run.ignored == ()
    table = experiment_requests(run, 1)
    assert np.bincount(table.group).tolist() == [20, 40]


def test_a_minimal_experiment_takes_defaults(tmp_path: Path) -> None:
    content = changed(id=None, split=None, observed=None)
    content["deployment"] = {"model": "llama-2-7b", "gpu": "h100", "weights": "fp16"}
    run = loaded(tmp_path, {k: v for k, v in content.items() if v is not None})
    assert (run.id, run.split, run.observed) == ("a", "", ())
    assert run.deployment.engine.name == "vllm"


def test_remarks_pass_and_are_listed(tmp_path: Path) -> None:
    content = changed("deployment.engine.attention_kernel", "flash", provenance={"repo": "x"})
    content["workload"]["caveat"] = "none"
    content["deployment"]["nodes"] = 1
    run = loaded(tmp_path, content)
    assert set(run.ignored) == {
        "provenance",
        "workload.caveat",
        "deployment.nodes",
        "deployment.engine.attention_kernel",
    }
    assert run.content_hash == loaded(tmp_path, RUN).content_hash


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("deployment", None, "deployment is missing"),
        ("workload", None, "workload is missing"),
        ("deployment", 3, "expected a table"),
        ("deployment.model", None, "model is missing"),
        ("deployment.tensor_parallel", 0, "tensor_parallel must be"),
        ("deployment.tensor_parallel", 1.5, "whole number"),
        ("deployment.weights", "fp3", "weights 'fp3'"),
        ("deployment.pipeline_parallel", 2, "not supported"),
        ("deployment.tensor_parallell", 2, "did you mean 'tensor_parallel'"),
        ("deployment.engine.max_num_seq", 2, "did you mean 'max_num_seqs'"),
        ("deployment.engine.max_num_seqs", 0, "max_num_seqs must be"),
        ("deployment.engine.gpu_memory_utilization", float("nan"), "finite number"),
        ("deployment.engine.prefix_caching", "on", "true or false"),
        ("deployment.engine.scheduler", "sjf", "scheduler 'sjf'"),
        ("workload.distinct_prompt", 5, "did you mean 'distinct_prompts'"),
        ("workload.stages", None, "one of stages"),
        ("observed", 5, "list of tables"),
        ("id", [1], "id must be text"),
    ],
)
def test_bad_files_are_refused_in_one_line_with_their_place(
    tmp_path: Path, path: str, value: Any, message: str
) -> None:
    file = written(tmp_path, changed(path, value))
    with pytest.raises(InputError, match=message) as caught:
        load_experiment(file)
    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)


def test_unknown_hardware_and_llms_are_told_apart_from_bad_files(tmp_path: Path) -> None:
    written(tmp_path, changed("deployment.gpu", "H1000", id="x"), "x.yaml")
    big = changed("deployment.model", "meta-llama/Llama-3.1-70B-Instruct", id="y")
    del big["deployment"]["engine"]["kv_blocks"]
    written(tmp_path, big, "y.yaml")
    written(tmp_path, RUN)
    with pytest.raises(CatalogError, match=r"x\.yaml deployment: "):
        load_experiment(tmp_path / "x.yaml")
    with pytest.raises(CapacityError, match=r"y\.yaml deployment: "):
        load_experiment(tmp_path / "y.yaml")
    found = attempt_experiments(tmp_path)
    assert [run.id for run in found] == ["a", "x", "y"]
    assert isinstance(found[0], Experiment)
    assert isinstance(found[1], UnusableExperiment)
    assert isinstance(found[1].error, CatalogError)
    assert isinstance(found[2], UnusableExperiment)
    assert isinstance(found[2].error, CapacityError)


def test_files_and_folders_are_listed_once_in_order(tmp_path: Path) -> None:
    second = written(tmp_path, changed(id="b"), "b.yml")
    first = written(tmp_path, RUN)
    (tmp_path / "notes.txt").write_text("no experiment")
    assert [run.id for run in load_experiments(tmp_path)] == ["a", "b"]
    assert experiment_files([second, tmp_path]) == (second, first)
    assert experiment_files(str(first)) == (first,)


def test_folders_and_paths_without_experiments_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no \.yaml file in this folder$"):
        load_experiments(tmp_path)
    (tmp_path / "train").mkdir()
    written(tmp_path / "train", RUN)
    with pytest.raises(InputError, match="name one of its folders: train"):
        load_experiments(tmp_path)
    with pytest.raises(InputError, match="no such file or folder"):
        load_experiments([tmp_path / "absent"])
    with pytest.raises(InputError, match="no experiment files given"):
        load_experiments([])


def test_two_files_with_one_id_are_refused(tmp_path: Path) -> None:
    written(tmp_path, RUN)
    written(tmp_path, RUN, "b.yaml")
    for load in (load_experiments, attempt_experiments):
        with pytest.raises(InputError, match="id 'a' is also that of"):
            load(tmp_path)


def test_copies_of_a_run_have_one_hash_whatever_their_spelling(tmp_path: Path) -> None:
    copy = changed("deployment.gpu", "h100", id="copy", split="held-out")
    copy["deployment"]["model"] = "LLAMA-2-7B"
    copy["workload"]["name"] = "renamed"
    copy["workload"]["order"] = "one shuffled list, cycled"
    copy["observed"].reverse()
    written(tmp_path, RUN)
    written(tmp_path, copy, "b.yaml")
    runs = load_experiments(tmp_path)
    assert duplicate_runs(runs) == (("a", "copy"),)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("deployment.engine.max_num_seqs", 64),
        ("deployment.tensor_parallel", 2),
        ("deployment.gpu", "A100-SXM-80GB"),
        ("workload.output_tokens", 31),
        ("workload.arrivals", "poisson"),
        (
            "workload.stages",
            [{"rate_rps": 2, "duration_s": 10}, {"rate_rps": 4.5, "duration_s": 10}],
        ),
        ("observed", RUN["observed"][:1]),
    ],
)
def test_different_runs_have_different_hashes(tmp_path: Path, path: str, value: Any) -> None:
    one, two = loaded(tmp_path, RUN), loaded(tmp_path, changed(path, value))
    assert one.content_hash != two.content_hash
    assert duplicate_runs([one, two]) == ()


def test_the_public_campaign_is_read_and_repeated(shared_data: Path) -> None:
    folder = shared_data / "experiments"
    runs = load_experiments([folder / "train", folder / "validation"])
    assert len(runs) == 27
    assert duplicate_runs(runs) == ()
    for run in runs:
        assert run.ignored == ()
        table = experiment_requests(run, 1)
        counts = {record.stage: record.n_requests for record in run.observed}
        assert np.bincount(table.group).tolist() == [counts[i] for i in sorted(counts)]
        assert len(np.unique(table.content_stream)) == 100
        assert len(np.unique(table.prefix_stream)) == 10
        assert {record.metric for record in run.observed} == {"ttft", "e2e", "tpot"}


def test_every_percentile_of_the_campaign_is_there(shared_data: Path) -> None:
    run = load_experiment(shared_data / "experiments" / "train" / "t-llama2-7b-codegen.yaml")
    names = [r.statistic for r in run.observed if r.metric == "ttft" and r.stage == 0]
    assert names == (
        "mean min p0.1 p1 p5 p10 p25 p50 p75 p90 p95 p99 p99.9 max".split()  # noqa: SIM905
    )
    assert run.deployment.kv_blocks == 7463


def test_an_overload_label_is_no_experiment(shared_data: Path) -> None:
    with pytest.raises(InputError, match="is this an experiment file"):
        load_experiments(shared_data / "overload")
