"""Configurations are read the way BLIS reads them, quirks included."""

import json
from pathlib import Path

import pytest

from tailcast.engine.blis.model_config import BlisModelConfig, blis_model_config
from tailcast.errors import InputError

BASE: dict[str, object] = {
    "num_hidden_layers": 48,
    "hidden_size": 5120,
    "num_attention_heads": 40,
    "intermediate_size": 8192,
    "vocab_size": 1000,
    "torch_dtype": "bfloat16",
}


def _read(**changes: object) -> BlisModelConfig:
    return blis_model_config({**BASE, **changes})


def test_text_config_wins_one_level_deep() -> None:
    assert _read(text_config={"num_hidden_layers": 7}).n_layers == 7
    assert _read(llm_config={"num_hidden_layers": 7}).n_layers == 48


def test_kv_heads_have_three_names_and_default_to_all_heads() -> None:
    assert _read().n_kv_heads == 40
    assert _read(num_kv_heads=4, multi_query_group_num=2).n_kv_heads == 4
    assert _read(num_key_value_heads=8, num_kv_heads=4).n_kv_heads == 8


def test_numbers_are_truncated_and_texts_are_not_numbers() -> None:
    assert _read(num_key_value_heads=8.9).n_kv_heads == 8
    assert _read(num_key_value_heads="8").n_kv_heads == 40


def test_ffn_width_falls_back() -> None:
    assert blis_model_config({**BASE, "intermediate_size": 0, "ffn_hidden_size": 77}).intermediate


@pytest.mark.parametrize(
    "key",
    [
        "num_experts",
        "moe_num_experts",
        "n_routed_experts",
        "num_local_experts",
        "num_routed_experts",
    ],
)
def test_experts_have_five_names(key: str) -> None:
    assert _read(**{key: 8, "num_experts_per_tok": 2}).n_experts == 8


def test_one_expert_is_dense() -> None:
    assert _read(num_experts=1, num_local_experts=16, num_experts_per_tok=1).n_experts == 16
    assert not _read(num_experts=1).is_moe


def test_experts_without_a_choice_are_refused() -> None:
    with pytest.raises(InputError, match="num_experts_per_tok"):
        _read(num_experts=8)


@pytest.mark.parametrize(("step", "moe"), [(0, 48), (1, 24), (2, 16), (4, 9)])
def test_interleaving_divides_by_one_more_than_the_step(step: int, moe: int) -> None:
    model = _read(num_experts=16, num_experts_per_tok=1, interleave_moe_layer_step=step)
    assert (model.n_moe_layers, model.n_dense_layers) == (moe, 48 - moe)
    assert model.is_interleaved == (step > 0)


def test_interleaving_means_nothing_to_a_dense_model() -> None:
    model = _read(interleave_moe_layer_step=1)
    assert (model.n_moe_layers, model.n_dense_layers, model.is_interleaved) == (0, 48, False)


def test_shared_experts_are_one_width() -> None:
    assert _read().shared_intermediate == 0
    assert _read(n_shared_experts=2).shared_intermediate == 2 * 8192
    assert _read(n_shared_experts=2, moe_intermediate_size=100).shared_intermediate == 200
    assert _read(n_shared_experts=2, shared_expert_intermediate_size=9).shared_intermediate == 9


def test_layer_widths_fall_back_to_the_common_one() -> None:
    assert (_read().expert_width, _read().dense_width) == (8192, 8192)
    split = _read(moe_intermediate_size=3, intermediate_size_mlp=5)
    assert (split.expert_width, split.dense_width) == (3, 5)


@pytest.mark.parametrize(
    ("dtype", "width"), [("float32", 4.0), ("float16", 2.0), ("int8", 1.0), ("int4", 1.0)]
)
def test_dtype_gives_the_element_width(dtype: str, width: float) -> None:
    assert _read(torch_dtype=dtype).bytes_per_element == width
    assert _read(torch_dtype=None, dtype=dtype).bytes_per_weight == width


@pytest.mark.parametrize("dtype", ["float8_e4m3", None])
def test_an_unknown_dtype_is_refused(dtype: str | None) -> None:
    with pytest.raises(InputError, match="dtype"):
        _read(torch_dtype=dtype)


@pytest.mark.parametrize("key", ["num_hidden_layers", "hidden_size", "num_attention_heads"])
def test_a_missing_shape_is_refused(key: str) -> None:
    with pytest.raises(InputError):
        _read(**{key: None})


@pytest.mark.parametrize(
    ("section", "width"),
    [
        ({"bits": 4}, 0.5),
        ({"bits": "8"}, 1.0),
        ({"bits": "many"}, 2.0),
        ({"quant_method": "FP8"}, 1.0),
        ({"quant_method": "awq"}, 2.0),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {
                    "group_1": {"weights": {"num_bits": 4}},
                    "group_0": {"weights": {"num_bits": 8}},
                },
            },
            1.0,
        ),
        ({"quant_method": "compressed-tensors", "config_groups": {"g": {"weights": None}}}, 2.0),
    ],
)
def test_quantisation_gives_the_weight_width_alone(
    section: dict[str, object], width: float
) -> None:
    model = _read(quantization_config=section)
    assert (model.bytes_per_weight, model.bytes_per_element) == (width, 2.0)


@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("org/model-w4a16", 0.5),
        ("org/model.W8A8-x", 1.0),
        ("org/scout-FP8-dynamic", 1.0),
        ("x", 2.0),
    ],
)
def test_the_name_is_asked_last(name: str, width: float) -> None:
    assert blis_model_config(BASE, name=name).bytes_per_weight == width
    stated = {**BASE, "quantization_config": {"bits": 2}}
    assert blis_model_config(stated, name=name).bytes_per_weight == 0.25


@pytest.mark.parametrize(
    ("rope", "limit"),
    [
        (None, 4096),
        ({"type": "linear", "factor": 2.0}, 8192),
        ({"rope_type": "dynamic", "factor": 1.5}, 6144),
        ({"type": "llama3", "factor": 8.0}, 4096),
        ({"type": "longrope", "factor": 8.0}, 4096),
        ({"type": "su", "factor": 8.0}, 4096),
        ({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 2048}, 8192),
        ({"type": "yarn", "factor": 4.0}, 16384),
        ({"type": "linear", "factor": 0.5}, 4096),
    ],
)
def test_rope_scaling_lengthens_the_limit(rope: dict[str, object] | None, limit: int) -> None:
    scaled = {"max_position_embeddings": 4096, "rope_scaling": rope}
    assert _read(**scaled).max_model_len == limit
    assert _read(**scaled, model_type="gemma3_text").max_model_len == 4096


def test_published_configurations_are_read(shared_data: Path) -> None:
    files = sorted((shared_data / "model_configs").glob("*.json"))
    assert len(files) == 14
    for file in files:
        entry = json.loads(file.read_text())
        model = blis_model_config(entry["config"], name=entry["hf_id"])
        assert model.bytes_per_element == 2.0
        assert model.bytes_per_weight == (1.0 if "FP8" in entry["hf_id"] else 2.0)
        assert model.max_model_len >= 4096
