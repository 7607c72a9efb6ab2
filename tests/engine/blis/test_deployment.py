"""Deployments of the catalogue as BLIS reads them."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from deployments import deployment
from engine.blis.deployments import llm as written_out
from llm_configs import dense_llm
from tailcast.catalog.accelerators import accelerator
from tailcast.catalog.llms import llm
from tailcast.deployment import Deployment
from tailcast.engine.blis.deployment import (
    BLIS_NAMES,
    blis_latency_model,
    blis_llm,
    blis_settings,
)
from tailcast.errors import CatalogError, InputError
from tailcast.llm import llm_from_file


@pytest.mark.parametrize(
    ("ours", "blis"),
    [
        ("llama-3.1-8b", "llama-3.1-8b"),
        ("llama-3.1-70b", "llama-3.1-70b"),
        ("llama-2-7b", "llama-2-7b"),
        ("qwen3-14b", "qwen3-14b"),
        ("qwen2.5-7b", "qwen2.5-7b"),
        ("yi-34b", "yi-34b"),
        ("mistral-nemo", "mistral-nemo"),
        ("mixtral-8x7b", "mixtral"),
        ("qwen3-30b-a3b", "qwen3-30b-a3b"),
        ("deepseek-v2-lite", "deepseek-v2-lite"),
        ("llama-4-scout-fp8-dynamic", "scout-fp8"),
    ],
)
def test_the_catalogue_says_to_blis_what_the_vectors_were_made_with(ours: str, blis: str) -> None:
    read = blis_llm(Deployment(llm=llm(ours), accelerator=accelerator("h100"), tensor_parallel=4))
    expected = written_out(blis)
    for name in expected.__dataclass_fields__:
        if name != "max_model_len":
            assert getattr(read, name) == getattr(expected, name), name


def test_a_configuration_on_disk_is_read_too(tmp_path: Path) -> None:
    config = dict(llm("qwen3-14b").config)
    (tmp_path / "config.json").write_text(json.dumps(config))
    served = Deployment(
        llm=llm_from_file(tmp_path), accelerator=accelerator("h100"), tensor_parallel=1
    )
    assert blis_llm(served) == blis_llm(deployment("qwen3-14b"))


@pytest.mark.parametrize(
    ("name", "weights", "width"),
    [
        ("llama-3.1-8b", None, 2.0),
        ("llama-3.1-8b", "fp8", 1.0),
        ("llama-3.1-8b", "int4", 0.5),
        ("llama-3.1-8b-fp8", None, 1.0),
        ("llama-4-scout-fp8-dynamic", None, 1.0),
        ("llama-4-scout-fp8-dynamic", "bf16", 2.0),
    ],
)
def test_weights_are_as_wide_as_the_deployment_says(
    name: str, weights: str | None, width: float
) -> None:
    served = deployment(name, tensor_parallel=4, weights=weights)
    assert blis_llm(served).bytes_per_weight == width


def test_stated_limits_are_kept_and_the_others_are_blis_own() -> None:
    served = deployment("llama-3.1-8b", tensor_parallel=2, max_model_len=None)
    settings = blis_settings(served, blis_latency_model(served))
    assert settings.kv_blocks == 125278
    assert settings.kv_blocks > 1.9 * served.kv_block_count  # about the parallel degree too many
    assert settings.max_model_len == 131072
    assert (settings.max_num_seqs, settings.max_num_batched_tokens) == (128, 2048)
    told = deployment("llama-3.1-8b", kv_blocks=44, max_model_len=704)
    settings = blis_settings(told, blis_latency_model(told), horizon_us=5)
    assert (settings.kv_blocks, settings.max_model_len, settings.horizon_us) == (44, 704, 5)


def test_every_blis_accelerator_is_in_the_catalogue_under_its_name() -> None:
    for ours in BLIS_NAMES:
        assert accelerator(ours).name == ours
    assert blis_latency_model(deployment(gpu="a100-80gb")).accelerator.name == "A100-SXM"
    with pytest.raises(CatalogError, match="BLIS knows no accelerator 'h200-sxm-141gb'"):
        blis_latency_model(deployment(gpu="h200"))


def test_an_llm_without_configuration_is_refused() -> None:
    bare = replace(dense_llm(), config={})
    with pytest.raises(InputError, match="no configuration is known"):
        blis_llm(Deployment(llm=bare, accelerator=accelerator("h100"), kv_blocks=100))
