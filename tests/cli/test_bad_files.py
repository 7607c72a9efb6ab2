"""Whatever is wrong with a file ends in one line that names it, in code 3, and writes nothing."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from cli.conftest import Refused, Run
from cli.test_bad_input import CHAIN, QUESTION, ask, words
from llm_configs import dense_config, moe_config
from tailcast.artifacts import DEFAULT_POSTERIOR, artifact_folder

STUDY = """\
[deployment]
model = "llama-3.1-8b"
gpu = "h100-sxm"
[workload]
rate = 5
n_requests = 20
input_tokens = 100
output_tokens = 10
[slo]
"ttft.p99" = "300ms"
[posterior]
name = "roofline"
"""

EXPERIMENT = {
    "id": "one",
    "deployment": {"model": "llama-3.1-8b", "gpu": "h100-sxm", "tensor_parallel": 1},
    "workload": {
        "kind": "unique-prompts",
        "prompt_tokens": 64,
        "output_tokens": 4,
        "stages": [{"rate_rps": 5, "duration_s": 4}],
    },
    "observed": [{"stage": 0, "latency_ms": {"ttft": {"mean": 20.0}}}],
}

READERS: dict[str, Callable[[str], list[str]]] = {
    "predict": lambda file: ["predict", file],
    "predict-flags": lambda file: [*ask(), file],
    "predict-config": lambda file: ask(model=f"./{file}"),
    "slo": lambda file: ["slo", file],
    "search": lambda file: ["search", file],
    "measure": lambda file: ["measure", file],
    "observe": lambda file: ["observe", "localhost", "new", "--study", file],
    "observe-replay": lambda file: ["observe", "localhost", "new", "--replay", file],
    "evaluate": lambda file: ["evaluate", file],
    "fit": lambda file: ["fit", file, "-o", "new"],
    "compare": lambda file: ["compare", "physics", file],
    "replay": lambda file: ["replay", file, "--latency-model", "roofline"],
    "trace-show": lambda file: ["trace", "show", file],
    "trace-convert": lambda file: ["trace", "convert", file, "-o", "new"],
    "queue-check": lambda file: ["queue", "check", file],
    "queue-solve": lambda file: ["queue", "solve", *words(CHAIN), "--numbers", f"./{file}"],
    "tune": lambda file: ["tune", file, "--numbers", "6.7ms+-10%,20us+-15%,55ns+-25%"],
}

KINDS: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: None,
    "folder": lambda path: path.mkdir(),
    "empty": lambda path: path.touch(),
    "binary": lambda path: path.write_bytes(bytes(range(256))),
    "nested": lambda path: path.write_text("[" * 3000),
    "text": lambda path: path.write_text("nothing that any of them would read\n"),
    "list": lambda path: path.write_text("[1, 2, 3]\n"),
}
MISSING_IS_A_WORD = {"compare"}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reader", READERS)
def test_a_file_of_no_use_is_named(refused: Refused, reader: str, kind: str) -> None:
    KINDS[kind](Path("odd"))
    code = 2 if kind == "missing" and reader in MISSING_IS_A_WORD else 3
    line = refused(code, *READERS[reader]("odd"))
    assert "odd" in line


NEEDED = {
    "model_type",
    "num_hidden_layers",
    "hidden_size",
    "num_attention_heads",
    "intermediate_size",
    "hidden_act",
    "vocab_size",
    "max_position_embeddings",
    "torch_dtype",
}


@pytest.mark.parametrize("family", ["dense", "moe"])
@pytest.mark.parametrize("key", sorted(NEEDED | {"num_local_experts", "num_experts_per_tok"}))
def test_a_missing_field_of_a_config_is_named(refused: Refused, family: str, key: str) -> None:
    config = dense_config() if family == "dense" else moe_config()
    if key not in config:
        pytest.skip("a dense LLM has no such field")
    del config[key]
    Path("config.json").write_text(json.dumps(config))
    line = refused(3, *ask(model="config.json"))
    assert f"config.json: field '{key}' is missing" in line


@pytest.mark.parametrize("value", ["x", -1, 0, 1.5, 1e300, 10**30, float("nan"), [], {}, True])
@pytest.mark.parametrize("key", ["num_hidden_layers", "hidden_size", "num_attention_heads"])
def test_an_impossible_field_of_a_config_is_named(
    refused: Refused, key: str, value: object
) -> None:
    Path("config.json").write_text(json.dumps({**dense_config(), key: value}))
    line = refused(3, *ask(model="config.json"))
    assert f"config.json: {key} must be a whole number from 1 to" in line


STUDY_FAULTS = [
    ("rate = 5", "rate = ", r"not valid TOML: .*\(at line 5, column \d+\)"),
    ("[slo]", "[slo]\n[slo]", r"not valid TOML: .*twice.* \(at line 10, "),
    ("[deployment]", "[deploymint]", r"unknown table \[deploymint\]; did you mean 'deployment'"),
    ("[deployment]", "deployment = 3\n[a]", "deployment must be a table"),
    ("gpu =", "gpo =", r"\[deployment\]: unknown key 'gpo'; did you mean 'gpu'"),
    ("rate =", "rat =", "unknown key 'rat'; did you mean 'rate'|no load given"),
    ("n_requests =", "n_request =", "unknown key 'n_request'; did you mean 'n_requests'"),
    ('name = "roofline"', 'nome = "x"', r"\[posterior\]: unknown key 'nome'; did you mean 'name'"),
    ('name = "roofline"', 'mode = "bliss"', r"\[posterior\]: mode must be vllm or blis"),
    ("rate = 5", "rate = nan", "rate must be a finite number, got nan"),
    ("rate = 5", "rate = inf", "rate must be a finite number, got inf"),
    ("rate = 5", "rate = -5", "rate must be positive and finite"),
    ("rate = 5", "rate = 0", "rate must be positive and finite"),
    ("rate = 5", 'rate = "fast"', "rate must be a finite number, got 'fast'"),
    ("n_requests = 20", "duration = 60", "must be a duration with a unit such as '30s', got 60"),
    ("n_requests = 20", 'duration = "60"', "duration '60' has no unit"),
    ("n_requests = 20", "n_requests = 10e20", "n_requests must be at most 10000000"),
    ("input_tokens = 100", "input_tokens = -100", "length must be a whole number of 1 to"),
    ("input_tokens = 100", "input_tokens = nan", "input_tokens must be a whole number, got nan"),
    ('"300ms"', "300", 'must be a duration in quotes such as "300ms", got 300'),
    ('"300ms"', '"300"', "duration '300' has no unit; write 300ms or 300s"),
    ('"ttft.p99"', '"tfft.p99"', "no metric 'tfft'; did you mean 'ttft'"),
    ('"ttft.p99"', 'risk = 2\n"ttft.p99"', "risk must lie between 0 and 1, got 2"),
    ('"h100-sxm"', '"h100-sxn"', "no accelerator 'h100-sxn'; did you mean 'h100-sxm'"),
    ('"h100-sxm"', '"h100-sxm"\ntensor_parallel = 3', "cannot be split by tensor_parallel 3"),
    ('"h100-sxm"', '"h100-sxm"\ntensor_parallel = 1.5', "tensor_parallel must be a whole number"),
    ('"h100-sxm"', '"h100-sxm"\nmax_num_sequences = 3', "did you mean 'max_num_seqs'"),
    ('"h100-sxm"', '"h100-sxm"\nkv_blocks = 1e300', "kv_blocks must be at most 2147483647"),
    ('"h100-sxm"', '"h100-sxm"\ngpu_memory_utilization = nan', r"must lie in \(0, 1\], got nan"),
    ('"h100-sxm"', '"h100-sxm"\ngpu_memory_utilization = 0.1', "leaves no memory for a KV cache"),
    ('"llama-3.1-8b"', '"\\u0000.json"', "is not JSON"),
]


@pytest.mark.parametrize("command", ["predict", "slo"])
@pytest.mark.parametrize(("old", "new", "message"), STUDY_FAULTS)
def test_a_fault_of_a_study_is_placed(
    refused: Refused, command: str, old: str, new: str, message: str
) -> None:
    assert old in STUDY
    Path("study.toml").write_text(STUDY.replace(old, new, 1))
    assert re.search(message, refused(3, command, "study.toml"))


@pytest.mark.parametrize("command", ["evaluate", "fit"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id: a\nworkload: [\n", r"run\.yaml:3:1: not valid YAML"),
        ("id: a: b\n", r"run\.yaml:1:6: not valid YAML: mapping values are not allowed here"),
        ("id: 1\nid: 2\n", r"run\.yaml:2:1: not valid YAML: key 'id' is given twice"),
        ("id: 1\n---\nid: 2\n", r"run\.yaml:2:1: not valid YAML"),
        ("id: !!python/object:os.system x\n", r"run\.yaml:1:5: not valid YAML"),
        ("id: a\n", "deployment is missing; is this an experiment file"),
    ],
)
def test_a_fault_of_an_experiment_is_placed(
    refused: Refused, command: str, text: str, message: str
) -> None:
    Path("run.yaml").write_text(text)
    extra = ["-o", "new"] if command == "fit" else []
    assert re.search(message, refused(3, command, "run.yaml", *extra))


def changed(path: tuple[str | int, ...], value: object) -> str:
    """The experiment with one value replaced, or without it for None."""
    record = json.loads(json.dumps(EXPERIMENT))
    place = record
    for key in path[:-1]:
        place = place[key]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return yaml.safe_dump(record)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("deployment", "model"), None, "deployment: model is missing"),
        (("deployment", "tensor_parallel"), -1, "tensor_parallel must be a whole number"),
        (("deployment", "engine"), {"max_num_seqs": 10**12}, "max_num_seqs must be at most"),
        (("workload", "kind"), "x", "no workload kind 'x'; known: "),
        (("workload", "stages"), [], "stages must be a list of tables"),
        (("workload", "stages", 0, "rate_rps"), float("nan"), r"stages\[0\]: .*rate_rps"),
        (("workload", "stages", 0, "duration_s"), 1e12, "is more than 10000000 requests"),
        (("workload", "prompt_tokens"), -3, "prompt_tokens"),
        (("observed", 0, "stage"), 7, r"observed\[0\]: no stage 7"),
        (("observed", 0, "latency_ms", "ttft", "mean"), -1, "mean must be positive"),
        (("observed", 0, "latency_ms", "ttft", "mean"), "x", "mean must be a finite number"),
    ],
)
def test_an_impossible_experiment_is_refused_by_its_place(
    refused: Refused, path: tuple[str | int, ...], value: object, message: str
) -> None:
    Path("run.yaml").write_text(changed(path, value))
    assert re.search(rf"run\.yaml.*{message}", refused(3, "evaluate", "run.yaml"))


def test_an_experiment_that_cannot_be_simulated_is_a_record_and_code_one(
    tailcast: Run, tmp_path: Path
) -> None:
    for name, model in (("good", "llama-3.1-8b"), ("bad", "llama-9-8b")):
        text = changed(("deployment", "model"), model)
        (tmp_path / f"{name}.yaml").write_text(text.replace("id: one", f"id: {name}"))
    code, out, err = tailcast("evaluate", tmp_path, "--draws", 2, "--format", "json")
    assert code == 1
    records = json.loads(out)["records"]
    assert [r["experiment"] for r in records if "error" in r] == ["bad"]
    assert "no LLM 'llama-9-8b'" in next(r["error"] for r in records if "error" in r)
    assert {r["experiment"] for r in records if "error" not in r} == {"good"}
    assert "Traceback" not in err


def copied_posterior(folder: Path) -> dict[str, object]:
    """The shipped posterior in a folder that a test may spoil; its card."""
    shutil.copytree(artifact_folder("posteriors", DEFAULT_POSTERIOR), folder)
    card: dict[str, object] = json.loads((folder / "card.json").read_text())
    return card


def cut(path: Path, n_bytes: int) -> None:
    path.write_bytes(path.read_bytes()[:n_bytes])


def emptied(folder: Path) -> None:
    """Remove the files of a folder."""
    for file in folder.iterdir():
        file.unlink()


SPOILT: dict[str, tuple[Callable[[Path], object], str]] = {
    "no draws": (lambda p: (p / "posterior.nc").unlink(), "posterior.nc: no such file"),
    "empty draws": (lambda p: cut(p / "posterior.nc", 0), "posterior.nc: not a readable posterior"),
    "cut draws": (lambda p: cut(p / "posterior.nc", 90_000), "posterior.nc: not a readable"),
    "draws of text": (
        lambda p: (p / "posterior.nc").write_text("hello"),
        "posterior.nc: not a readable posterior",
    ),
    "no card": (lambda p: (p / "card.json").unlink(), "card.json: cannot be read"),
    "cut card": (lambda p: cut(p / "card.json", 100), "card.json: not valid JSON"),
    "binary card": (lambda p: (p / "card.json").write_bytes(b"\xff"), "card.json: not valid JSON"),
    "nested card": (lambda p: (p / "card.json").write_text("[" * 90_000), "not valid JSON"),
    "card of a list": (lambda p: (p / "card.json").write_text("[]"), "a card is a JSON object"),
    "card alone": (lambda p: (p / "card.json").write_text("{}"), "card lacks 'schema'"),
    "nothing": (emptied, "card.json: cannot be read"),
}
USERS: dict[str, list[str]] = {
    "show": ["posterior", "show", "own"],
    "check": ["posterior", "check", "own"],
    "predict": ask(posterior="own"),
    "slo": ["slo", *words(QUESTION, slo="ttft.p99=1s", posterior="own")],
    "evaluate": ["evaluate", "run.yaml", "--posterior", "own"],
}


@pytest.mark.parametrize("spoilt", SPOILT)
@pytest.mark.parametrize("user", USERS)
def test_a_spoilt_posterior_is_refused(refused: Refused, spoilt: str, user: str) -> None:
    copied_posterior(Path("own"))
    Path("run.yaml").write_text(yaml.safe_dump(EXPERIMENT))
    spoil, message = SPOILT[spoilt]
    spoil(Path("own"))
    assert message in refused(3, *USERS[user])


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_sha256": "0" * 64}, "another version of latency model 'physics' .*fit it again"),
        ({"file_sha256": "0" * 64}, "posterior.nc: .*damaged, or of another fit"),
        ({"contraction": 3}, "contraction must be an object, got 3"),
        ({"scope": []}, "scope must be an object"),
    ],
)
def test_a_card_that_does_not_fit_is_refused(
    refused: Refused, user: str, changes: dict[str, object], message: str
) -> None:
    card = copied_posterior(Path("own"))
    Path("run.yaml").write_text(yaml.safe_dump(EXPERIMENT))
    Path("own/card.json").write_text(json.dumps({**card, **changes}))
    assert re.search(message, refused(3, *USERS[user]))


def test_a_latency_model_that_changed_since_the_fit_is_refused(refused: Refused) -> None:
    card = copied_posterior(Path("own"))
    shutil.copytree(artifact_folder("models", "physics"), "model")
    Path("own/card.json").write_text(json.dumps({**card, "latency_model": str(Path("model"))}))
    with open("model/model.toml", "a", encoding="utf-8") as file:
        file.write("# one more line\n")
    assert "fitted with another version of latency model" in refused(3, "posterior", "show", "own")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_the_right_to_read_is_named(refused: Refused) -> None:
    Path("study.toml").write_text(STUDY)
    Path("study.toml").chmod(0)
    assert "study.toml: cannot be read (Permission denied)" in refused(3, "predict", "study.toml")
