"""Whatever is wrong with the words of a command ends in one line that says so, and in code 2.

Files that are wrong are in `test_bad_files`.
"""

import re
from pathlib import Path

import pytest

from cli.conftest import Refused

QUESTION = {
    "--model": "llama-3.1-8b",
    "--gpu": "h100-sxm",
    "--rate": "12",
    "--input-tokens": "64",
    "--output-tokens": "8",
}
LOAD = {"--rate": "5", "--num-requests": "2", "--input-tokens": "4", "--output-tokens": "3"}
CHAIN = {"--rate": "1rps", "--input-tokens": "128", "--output-tokens": "512"}
NUMBERS = ("--numbers", "12ms,50us,500ns")


def words(flags: dict[str, str], **changes: str | None) -> list[str]:
    """Flags as words; a change to None leaves one out."""
    new = {f"--{name.replace('_', '-')}": value for name, value in changes.items()}
    merged = {**flags, **new}
    return [word for name, value in merged.items() if value is not None for word in (name, value)]


def ask(**changes: str | None) -> list[str]:
    """A question to `tailcast predict`, changed."""
    return ["predict", *words(QUESTION, **changes)]


NAMES = [
    (ask(model="lama-3.1-8b"), "no LLM 'lama-3.1-8b'; did you mean 'llama-3.1-8b'?"),
    (ask(model="llama-3.1"), "'llama-3.1' is ambiguous: llama-3.1-405b, .*, llama-3.1-8b"),
    (ask(model="zzzz"), "no LLM 'zzzz'; known: codellama-13b, .* path of its config.json"),
    (ask(model=" "), "no LLM ' '"),
    (ask(model=""), "model must be text, got ''"),
    (ask(model="x" * 9000), "no LLM 'xxx"),
    (ask(gpu="h10"), "no accelerator 'h10'; did you mean 'h100'?"),
    (ask(gpu="A100"), "'A100' is ambiguous: a100-pcie-40gb, .*a100-sxm-80gb"),
    (ask(gpu="\u00fc"), "no accelerator '\u00fc'; known: a10-24gb"),
    (ask(posterior="physics-h100"), "no posterior 'physics-h100', .*did you mean 'physics-h100-"),
    (ask(posterior=""), "--posterior is empty; give a name or a folder"),
    (ask(posterior="physics"), "latency model 'physics' has priors"),
    (ask(posterior="/nowhere"), "no posterior '/nowhere', neither shipped nor a folder"),
    (["catalog", "show", "h10"], "no accelerator or LLM 'h10'; did you mean 'h100'?"),
    (["catalog", "show", "A100"], "accelerator 'A100' is ambiguous"),
    (["catalog", "show", "llama-3.1"], "LLM 'llama-3.1' is ambiguous"),
    (["catalog", "show", ""], "no accelerator or LLM ''"),
    (["posterior", "show", "phisics-h100-vllm015"], "did you mean 'physics-h100-vllm015'"),
    (["posterior", "check", "nowhere"], "no posterior 'nowhere'"),
    (["posterior", "compare", "nowhere", "nowhere"], "no posterior 'nowhere'"),
    (["fit", ".", "-o", "new", "--latency-model", "phisics"], "did you mean 'physics'"),
    (["evaluate", "x.yaml", "--posterior", "nowhere"], "no posterior 'nowhere'"),
    (["compare", "phisics", "."], "'phisics' is neither a latency model .* nor a data path"),
    (["queue", "solve", *words(CHAIN), "--model", "lama-2-7b", "--gpu", "h100"], "'llama-2-7b'"),
    (["queue", "size", *words(CHAIN), *NUMBERS, "--slo", "tfft=9ms"], "tfft"),
]

NUMBERS_OF_FLAGS = [
    (ask(rate="0"), "rate must be positive and finite .*got 0"),
    (ask(rate="-1"), "rate must be positive and finite .*got -1"),
    (ask(rate="nan"), "rate must be a finite number, got nan"),
    (ask(rate="inf"), "rate must be a finite number, got inf"),
    (ask(rate="1e400"), "rate must be a finite number, got inf"),
    (ask(rate="12rps"), "'--rate'"),
    (ask(input_tokens="0"), "input_tokens: length must be a whole number of 1 to .*, got 0"),
    (ask(input_tokens="-5"), "input_tokens: length must be a whole number of 1 to .*, got -5"),
    (ask(input_tokens="nan"), "'--input-tokens'"),
    (ask(input_tokens="1.5"), "'--input-tokens'"),
    (ask(input_tokens="9" * 30), "input_tokens: length must be a whole number of 1 to 100000000"),
    (ask(output_tokens="0"), "output_tokens: length must be a whole number of 1 to .*, got 0"),
    (ask(output_tokens="-1"), "output_tokens: length must be a whole number of 1 to .*, got -1"),
    (ask(draws="0"), "'--draws'.*greater than or equal to 1"),
    (ask(draws="-3"), "'--draws'"),
    (ask(draws="many"), "'--draws'.*integer"),
    (ask(seed="-1"), "'--seed'.*greater than or equal to 0"),
    (ask(ci_prob="1.5"), "'--ci-prob'.*less than or equal to 0.999"),
    (ask(ci_prob="0"), "'--ci-prob'.*greater than or equal to 0.01"),
    (ask(ci_prob="nan"), "'--ci-prob'"),
    (["evaluate", "x.yaml", "--draws", "0"], "'--draws'"),
    (["evaluate", "x.yaml", "--seed", "-1"], "'--seed'"),
    (["fit", "x.yaml", "-o", "new", "--draws", "1"], "'--draws'"),
    (["fit", "x.yaml", "-o", "new", "--chains", "0"], "'--chains'"),
    (["fit", "x.yaml", "-o", "new", "--seed", "-1"], "'--seed'"),
    (["replay", "x", "--draws", "0"], "'--draws'"),
    (["replay", "x", "--ci-prob", "2"], "'--ci-prob'"),
    (["slo", *words(QUESTION, slo="ttft.p99=1s", risk="0")], "between 0 and 1, got 0"),
    (["slo", *words(QUESTION, slo="ttft.p99=1s", risk="nan")], "risk must"),
    (["slo", *words(QUESTION, slo="ttft.p99=1s", risk="1.5")], "risk must lie between 0 and 1"),
    (["observe", "localhost", "new", *words(LOAD, rate="nan")], "rate must be a finite number"),
    (["observe", "localhost", "new", *words(LOAD, rate="0")], "rate must be positive"),
    (["observe", "localhost", "new", *words(LOAD, input_tokens="0")], "length must be a whole"),
    (["observe", "localhost", "new", *words(LOAD, num_requests="0")], "'--num-requests'"),
    (["observe", "localhost", "new", *words(LOAD, warmup="-1")], "'--warmup'"),
    (["queue", "solve", *words(CHAIN, input_tokens="nan"), *NUMBERS], "nan"),
    (["queue", "solve", *words(CHAIN, input_tokens="-1"), *NUMBERS], "-1"),
    (["queue", "solve", *words(CHAIN, output_tokens="0"), *NUMBERS], "0"),
    (["queue", "solve", *words(CHAIN, max_num_seqs="0"), *NUMBERS], "at least 1, got 0"),
    (["queue", "solve", *words(CHAIN, ci_prob="1.5"), *NUMBERS], "'--ci-prob'"),
    (["queue", "size", *words(CHAIN, slo="ttft=1s", risk="2"), *NUMBERS], "'--risk'"),
]

DURATIONS = [
    (ask(slo="ttft.p99=300"), "duration '300' has no unit; write 300ms or 300s"),
    (ask(slo="ttft.p99=-3ms"), "'-3ms' is not a number with a unit; write for example 300ms"),
    (ask(slo="ttft.p99=nanms"), "'nanms' is not a number with a unit"),
    (ask(slo="ttft.p99=3lightyears"), "unknown unit 'lightyears'; use ns, us, ms, s, min or h"),
    (ask(slo="ttft.p99=1e999s"), "must be positive and finite"),
    (ask(slo="ttft.p99=0s"), "must be positive and finite"),
    (ask(slo="ttft.p99"), "objective 'ttft.p99' .*ttft.p99=300ms"),
    (ask(slo=""), "objective ''"),
    (ask(slo="tfft.p99=3ms"), "no metric 'tfft'; did you mean 'ttft'?"),
    (ask(slo="ttft.p101=3ms"), "no statistic 'p101'; use mean or a percentile"),
    (ask(slo="ttft.p100=3ms"), "no statistic 'p100'"),
    (ask(slo="ttft.max=3ms"), "no statistic 'max'"),
    (["slo", *words(QUESTION)], "no objective given; add for example --slo ttft.p99=300ms"),
    (["replay", "x", "--horizon", "5", "--latency-model", "roofline"], "duration '5' has no unit"),
    (["observe", "localhost", "new", *words(LOAD, timeout="5")], "duration '5' has no unit"),
    (["queue", "solve", *words(CHAIN), "--numbers", "1,2,3"], "duration '1' has no unit"),
    (["queue", "size", *words(CHAIN, slo="ttft=60"), *NUMBERS], "has no unit"),
]

DEPLOYMENTS = [
    (ask(tensor_parallel_size="3"), "32 heads .* split by tensor_parallel 3; use 1, 2, 4"),
    (ask(tensor_parallel_size="0"), "must be a whole number of at least 1, got 0"),
    (ask(tensor_parallel_size="-2"), "tensor_parallel must be a whole number"),
    (ask(tensor_parallel_size="9" * 30), "tensor_parallel must be at most"),
    (ask(model="qwen2.5-7b", tensor_parallel_size="8"), "28 heads .* use 1, 2, 4, 28"),
    (ask(model="llama-3.1-70b"), "KV cache .*; use tensor_parallel 2 or weights fp8"),
    (ask(model="llama-3.1-70b", gpu="a10"), "KV cache on a10-24gb .*tensor_parallel 8"),
    (ask(model="deepseek-v3"), "fp8 weights, .* KV cache .*; use tensor_parallel 16"),
    (ask(model="llama-3.1-405b", gpu="t4"), "use tensor_parallel 128"),
    (ask(input_tokens="1000000"), "none of the 1000 requests is served .*at most 131072 tokens"),
    (ask(input_tokens="1000000", mode="blis"), "0 of 1000 requests completed .*at most 131072"),
    (ask(input_tokens="1000000", posterior="roofline"), "0 of 1000 requests .*at most 131072"),
]

USAGE = [
    (["predict"], "give --model, --gpu, --rate, --input-tokens, --output-tokens, or a study file"),
    (ask(gpu=None), "give --gpu, or a study file"),
    ([*ask(), "--foo"], "No such option: --foo.*see tailcast predict --help"),
    (["predict", "--model"], "'--model' requires an argument; see tailcast --help"),
    (["predict", "a.toml", "b.toml"], "unexpected extra argument"),
    (ask(mode="bliss"), "'--mode': 'bliss' is not one of 'vllm', 'blis'"),
    (ask(format="xml"), "'--format': 'xml' is not one of 'table', 'json', 'csv', 'markdown'"),
    ([*ask(mode="blis"), "--compare"], "--compare runs both modes"),
    ([*ask(posterior="roofline"), "--compare"], "--compare runs both modes"),
    (ask(mode="blis", posterior="physics-h100-vllm015"), "mode blis runs BLIS's own"),
    (["slo", *words(QUESTION, slo="ttft.p99=1s", posterior="roofline")], "roofline"),
    (["predit"], "No such command 'predit'. Did you mean 'predict'.*See tailcast --help"),
    (["--nope"], "No such option: --nope"),
    (["-q"], "Missing command; see tailcast --help"),
    (["catalog", "gpu"], "Did you mean 'gpus'"),
    (["evaluate"], "Missing argument 'paths'"),
    (["fit", "."], "Missing option '-o'"),
    (["replay", "x", "--posterior", "a", "--latency-model", "b"], "either --posterior or"),
    (["observe", "ftp://x", "new", *words(LOAD)], "is no http address of a server"),
    (["observe", "http://", "new", *words(LOAD)], "is no http address of a server"),
    (["observe", "", "new", *words(LOAD)], "is no http address of a server"),
    (["observe", "http://127.0.0.1:99999", "new", *words(LOAD)], "Port out of range"),
    (["observe", "http://[::1", "new", *words(LOAD)], "is no http address of a server"),
    (["observe", "http://me:secret@x", "new", *words(LOAD)], "user name or password"),
    (["observe", "localhost", "new"], "give --rate or --concurrency, --input-tokens"),
    (["observe", "localhost", "new", *words(LOAD, concurrency="3")], "not both"),
    (["observe", "localhost", "new", *words(LOAD, endpoint="chats")], "did you mean 'chat'"),
    (["observe", "localhost", "new", *words(LOAD, dialect="x")], "no dialect 'x'; known: auto"),
    (["observe", "localhost", "new", "--replay", "x", *words(LOAD)], "does not go with --replay"),
    (["observe", "localhost", "new", "--replay", "x", "--study", "y"], "not both"),
    (["queue", "solve", *words(CHAIN)], "name the three numbers"),
    (["queue", "solve", *words(CHAIN), "--model", "llama-2-7b"], "--model and --gpu"),
    (["compare", "physics"], "no data given"),
]


def check(refused: Refused, given: list[str], message: str) -> None:
    """The refusal of these words matches the message."""
    line = refused(2, *given)
    assert re.search(message.replace("?", r"\?"), line), line


@pytest.mark.parametrize(("given", "message"), NAMES)
def test_an_unknown_name_gets_the_near_one_or_the_choices(
    refused: Refused, given: list[str], message: str
) -> None:
    Path("x.yaml").touch()
    check(refused, given, message)


@pytest.mark.parametrize(("given", "message"), NUMBERS_OF_FLAGS)
def test_an_impossible_number_is_refused(refused: Refused, given: list[str], message: str) -> None:
    check(refused, given, message)


@pytest.mark.parametrize(("given", "message"), DURATIONS)
def test_a_target_needs_a_metric_a_statistic_and_a_duration_with_its_unit(
    refused: Refused, given: list[str], message: str
) -> None:
    check(refused, given, message)


@pytest.mark.parametrize(("given", "message"), DEPLOYMENTS)
def test_a_deployment_that_cannot_be_is_refused_with_what_can(
    refused: Refused, given: list[str], message: str
) -> None:
    check(refused, given, message)


@pytest.mark.parametrize(("given", "message"), USAGE)
def test_words_that_do_not_go_together_are_refused(
    refused: Refused, given: list[str], message: str
) -> None:
    check(refused, given, message)
