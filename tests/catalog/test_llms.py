"""LLMs by name and by file."""

import json
from pathlib import Path

import pytest

from llm_configs import dense_config
from tailcast.catalog.llms import llm, names
from tailcast.errors import CatalogError, InputError
from tailcast.llm import llm_from_config

# Billions of parameters as published: safetensors headers or model cards, text part.
TOTAL = {
    "codellama-34b": 33.74,
    "deepseek-v2-lite": 15.71,
    "deepseek-v3": 671.03,
    "gemma-2-27b": 27.23,
    "gemma-2-9b": 9.24,
    "gpt-neox-20b": 20.6,
    "gpt-oss-120b": 116.83,
    "gpt-oss-20b": 20.91,
    "granite-3.3-8b": 8.17,
    "kimi-k2": 1026.5,
    "llama-2-13b": 13.02,
    "llama-2-70b": 68.98,
    "llama-2-7b": 6.74,
    "llama-3.1-405b": 405.85,
    "llama-3.1-70b": 70.55,
    "llama-3.1-8b": 8.03,
    "llama-3.2-1b": 1.236,
    "llama-3.2-3b": 3.213,
    "llama-4-maverick": 400.7,
    "llama-4-scout": 107.8,
    "mistral-7b-v0.1": 7.24,
    "mistral-large-2407": 122.61,
    "mistral-nemo": 12.25,
    "mistral-small-24b": 23.57,
    "mixtral-8x22b": 140.6,
    "mixtral-8x7b": 46.70,
    "mpt-7b": 6.65,
    "opt-6.7b": 6.66,
    "phi-4": 14.66,
    "qwen2-72b": 72.71,
    "qwen2-7b": 7.616,
    "qwen2.5-14b": 14.77,
    "qwen2.5-32b": 32.76,
    "qwen2.5-72b": 72.71,
    "qwen2.5-7b": 7.616,
    "qwen3-14b": 14.77,
    "qwen3-235b-a22b": 235.09,
    "qwen3-30b-a3b": 30.53,
    "qwen3-32b": 32.76,
    "qwen3-4b": 4.02,
    "qwen3-8b": 8.19,
    "starcoder": 15.5,
    "starcoder2-15b": 15.96,
    "yi-34b": 34.39,
}
ACTIVE = {
    "deepseek-v3": 37.6,
    "kimi-k2": 32.9,
    "llama-4-scout": 17.17,
    "mixtral-8x7b": 12.88,
    "mixtral-8x22b": 39.15,
    "qwen3-235b-a22b": 22.19,
    "qwen3-30b-a3b": 3.35,
}


@pytest.mark.parametrize("name", sorted(TOTAL))
def test_parameters_are_as_published(name: str) -> None:
    assert llm(name).total_parameters / 1e9 == pytest.approx(TOTAL[name], rel=4e-3)


@pytest.mark.parametrize("name", sorted(ACTIVE))
def test_active_parameters_are_as_published(name: str) -> None:
    assert llm(name).active_parameters / 1e9 == pytest.approx(ACTIVE[name], rel=4e-3)


@pytest.mark.parametrize("name", names())
def test_every_entry_is_complete(name: str) -> None:
    found = llm(name)
    assert found.name == name
    assert 0 < found.active_parameters <= found.total_parameters
    assert found.kv_bytes_per_token + found.window_kv_bytes_per_token > 0
    assert found.total_weight_bytes > found.fixed_weight_bytes * 0.5


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("LLAMA-3.1-8B", "llama-3.1-8b"),
        ("llama-2-7b-hf", "llama-2-7b"),
        ("meta-llama/Llama-2-70b-chat-hf", "llama-2-70b"),
        ("codellama/CodeLlama-34b-Instruct-hf", "codellama-34b"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"),
        ("mistralai/Mixtral-8x22B-Instruct-v0.1", "mixtral-8x22b"),
        ("mistralai/Mistral-Nemo-Instruct-2407", "mistral-nemo"),
        ("Qwen/Qwen2.5-7B", "qwen2.5-7b"),
        ("qwen2.5_7b_instruct", "qwen2.5-7b"),
        ("01-ai/Yi-34B", "yi-34b"),
        ("google/gemma-2-9b-it", "gemma-2-9b"),
        (
            "RedHatAI/Llama-4-Scout-17B-16E-Instruct-FP8-dynamic",
            "llama-4-scout-fp8-dynamic",
        ),
        ("bigcode/starcoder", "starcoder"),
        ("openai/gpt-oss-120b", "gpt-oss-120b"),
        ("deepseek-ai/DeepSeek-V3-0324", "deepseek-v3"),
    ],
)
def test_spellings_of_one_llm(spelling: str, name: str) -> None:
    assert llm(spelling).name == name


@pytest.mark.parametrize(
    ("spelling", "scheme"),
    [
        ("RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8", "fp8"),
        ("neuralmagic/Meta-Llama-3.1-8B-Instruct-FP8-dynamic", "fp8"),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "int4"),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "int4"),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w8a8", "int8"),
        ("RedHatAI/Meta-Llama-3.1-8B-Instruct-quantized.w4a16", "int4"),
        ("Qwen/Qwen3-32B-FP8", "fp8"),
    ],
)
def test_a_quantised_copy_is_known_by_its_suffix(spelling: str, scheme: str) -> None:
    assert llm(spelling).quantisation.scheme == scheme


def test_an_ambiguous_name_lists_the_choices() -> None:
    with pytest.raises(
        CatalogError, match=r"'llama-3\.1' is ambiguous: llama-3\.1-405b, llama-3\.1-70b"
    ):
        llm("llama-3.1")


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(CatalogError, match=r"'lama-3\.1-8b'; did you mean 'llama-3\.1-8b'\?"):
        llm("lama-3.1-8b")


def test_scout_keeps_attention_at_16_bits() -> None:
    scout = llm("llama-4-scout-fp8-dynamic")
    assert scout.n_moe_layers == scout.n_layers == 48
    assert scout.quantisation.attention == 2.0
    assert scout.quantisation.experts == scout.quantisation.ffn == 1.0
    assert scout.shared_intermediate == 8192
    assert scout.tower_parameters > 0
    assert set(scout.matmul_flops_by_dtype) == {"bf16", "fp8"}


def test_gpt_oss_alternates_windows() -> None:
    oss = llm("gpt-oss-120b")
    assert (oss.sliding_window, oss.n_window_layers, oss.n_full_layers) == (128, 18, 18)
    assert oss.quantisation.scheme == "mxfp4"
    # 60.8 GiB on disk.
    assert oss.total_weight_bytes / 2**30 == pytest.approx(60.8, rel=0.02)


@pytest.mark.parametrize("as_text", [True, False])
def test_any_file_or_folder_can_be_given(tmp_path: Path, *, as_text: bool) -> None:
    (tmp_path / "config.json").write_text(json.dumps(dense_config()))
    for path in (tmp_path, tmp_path / "config.json"):
        assert llm(str(path) if as_text else path).total_parameters == 8030261248


@pytest.mark.parametrize("start", ["", "\ufeff"])
def test_a_byte_order_mark_is_no_fault(tmp_path: Path, start: str) -> None:
    (tmp_path / "config.json").write_text(start + json.dumps(dense_config()), encoding="utf-8")
    assert llm(tmp_path).n_layers == 32


@pytest.mark.parametrize(
    "content", [b"", b"{", b"\xff\xfe{}", b"[" * 100_000, b"{'a': 1}", b'{"a": 1,}']
)
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(InputError, match=r"config\.json: is not JSON \("):
        llm(tmp_path)


@pytest.mark.parametrize("path", ["\0.json", "/nowhere/config.json", "./nowhere"])
def test_an_impossible_path_is_bad_input(path: str) -> None:
    with pytest.raises(InputError, match=r": (cannot be read|is not JSON)"):
        llm(path)


def test_a_file_that_is_not_there_is_not_a_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        llm(str(tmp_path / "config.json"))


def test_the_catalogue_agrees_with_the_configurations_beside_the_project(
    shared_data: Path,
) -> None:
    files = sorted((shared_data / "model_configs").glob("*.json"))
    assert len(files) >= 14
    for file in files:
        record = json.loads(file.read_text())
        read, ours = llm_from_config(record["config"], record["hf_id"]), llm(record["hf_id"])
        skipped = {"name", "quantisation", "tower_parameters", "longest_context", "config"}
        if "Mixtral-8x22B" in record["hf_id"]:
            skipped |= {"vocab"}  # theirs is the base variant's
        for field in set(read.__dataclass_fields__) - skipped:
            assert getattr(ours, field) == getattr(read, field), (file.name, field)
        derived = record["derived"]
        if "params_total_b" in derived:
            assert read.total_parameters / 1e9 == pytest.approx(derived["params_total_b"], abs=6e-3)
            assert read.active_parameters / 1e9 == pytest.approx(
                derived["params_active_b"], abs=6e-3
            )
            stored = read.kv_bytes_per_token + read.window_kv_bytes_per_token
            assert stored == derived["kv_bytes_per_token_fp16"]
