"""What an LLM computes, stores and reads."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_configs import dense_config, dense_llm, moe_config, moe_llm
from tailcast.errors import InputError, UsageError
from tailcast.llm import Llm, llm_from_config, llm_from_file, quantised

COUNTS = ("num_hidden_layers", "hidden_size", "num_attention_heads", "intermediate_size")


@st.composite
def llms(draw: st.DrawFn) -> Llm:
    """Small LLMs, dense or with experts."""
    kv_heads, groups = draw(st.integers(1, 8)), draw(st.integers(1, 8))
    changes: dict[str, object] = {
        "num_hidden_layers": draw(st.integers(1, 8)),
        "num_attention_heads": kv_heads * groups,
        "num_key_value_heads": kv_heads,
        "head_dim": draw(st.integers(1, 128)),
        "hidden_size": draw(st.integers(1, 1024)),
        "intermediate_size": draw(st.integers(1, 4096)),
        "vocab_size": draw(st.integers(1, 100_000)),
        "tie_word_embeddings": draw(st.booleans()),
    }
    if draw(st.booleans()):
        experts = draw(st.integers(2, 16))
        changes |= {
            "num_local_experts": experts,
            "num_experts_per_tok": draw(st.integers(1, experts)),
        }
        return moe_llm(**changes)
    return dense_llm(**changes)


@given(llms())
def test_a_token_uses_no_more_than_all_parameters(llm: Llm) -> None:
    assert 0 < llm.active_parameters <= llm.total_parameters
    assert (llm.active_parameters == llm.total_parameters) == (
        llm.experts_per_token == llm.n_experts
    )


@given(llms())
def test_fewer_bits_take_fewer_bytes(llm: Llm) -> None:
    widths = [quantised(llm, form).total_weight_bytes for form in ("int4", "fp8", "bf16")]
    assert 0 < widths[0] < widths[1] < widths[2] == llm.total_weight_bytes


@given(llms())
def test_a_step_reads_everything_but_the_embedding_table_when_all_experts_work(llm: Llm) -> None:
    read = llm.fixed_weight_bytes + llm.n_experts * llm.expert_weight_bytes
    table = 0 if llm.tied_embeddings else 2 * llm.embedding_parameters
    assert read + table == pytest.approx(llm.total_weight_bytes)


@given(llms())
def test_every_active_weight_is_two_flops(llm: Llm) -> None:
    tables = llm.embedding_parameters * (1 if llm.tied_embeddings else 2)
    matrices = llm.active_parameters - llm.norm_parameters - tables
    assert llm.matmul_flops_per_token == pytest.approx(2 * matrices)
    assert llm.lm_head_flops == 2 * llm.hidden * llm.vocab


def test_closed_form_of_llama_31_8b() -> None:
    llm = dense_llm()
    per_layer = 4096 * 4096 * 2 + 2 * 4096 * 1024 + 3 * 4096 * 14336
    assert llm.total_parameters == 32 * (per_layer + 2 * 4096) + 2 * 128256 * 4096 + 4096
    assert llm.matmul_flops_per_token == 2 * 32 * per_layer
    assert llm.attention_flops_per_pair == 32 * 4 * 32 * 128
    assert llm.decode_attention_flops_per_pair == llm.attention_flops_per_pair
    assert llm.kv_bytes_per_token == 32 * 2 * 8 * 128 * 2
    assert llm.fixed_weight_bytes == llm.total_weight_bytes - 2 * 128256 * 4096
    assert not llm.is_moe
    assert not llm.is_mla
    assert llm.expert_weight_bytes == llm.window_kv_bytes_per_token == 0


def test_closed_form_of_mixtral() -> None:
    llm = moe_llm()
    expert = 32 * 3 * 4096 * 14336
    assert llm.expert_weight_bytes == 2 * expert
    assert llm.n_moe_layers == 32
    assert llm.total_parameters - llm.active_parameters == 6 * expert
    attention = 32 * (4096 * 4096 * 2 + 2 * 4096 * 1024)
    assert llm.matmul_flops_per_token == 2 * (attention + 2 * expert + 32 * 4096 * 8)


def test_windowed_layers_are_counted_apart() -> None:
    llm = dense_llm(model_type="mistral", sliding_window=4096)
    assert llm.kv_bytes_per_token == 0
    assert llm.window_kv_bytes_per_token == dense_llm().kv_bytes_per_token
    assert llm.window_attention_flops_per_token == 4096 * dense_llm().attention_flops_per_pair


def test_a_window_that_no_request_outgrows_is_no_window() -> None:
    llm = dense_llm(model_type="mistral", sliding_window=4096)
    short = replace(llm, longest_context=4096)
    assert short.kv_bytes_per_token == dense_llm().kv_bytes_per_token
    assert short.window_attention_flops_per_token == short.window_kv_bytes_per_token == 0


def test_latent_attention_stores_one_latent_a_layer() -> None:
    llm = dense_llm(
        model_type="deepseek_v2",
        kv_lora_rank=512,
        qk_rope_head_dim=64,
        qk_nope_head_dim=128,
        v_head_dim=128,
    )
    assert llm.is_mla
    assert llm.kv_bytes_per_token == 32 * (512 + 64) * 2
    assert llm.attention_flops_per_pair == 32 * 2 * 32 * (192 + 128)
    assert llm.decode_attention_flops_per_pair == 32 * 2 * 32 * (2 * 512 + 64)
    down, up = 4096 * (512 + 64), 512 * 32 * (128 + 128)
    query, output = 4096 * 32 * 192, 32 * 128 * 4096
    assert llm.attention_parameters == 32 * (down + up + query + output)


def test_a_query_of_low_rank_has_fewer_parameters() -> None:
    keys = {"kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128}
    full = dense_llm(model_type="deepseek_v2", v_head_dim=128, **keys)
    low = dense_llm(model_type="deepseek_v2", v_head_dim=128, q_lora_rank=1536, **keys)
    saved = 4096 * 32 * 192 - 1536 * (4096 + 32 * 192)
    assert full.attention_parameters - low.attention_parameters == 32 * saved


def test_quantising_twice_changes_nothing() -> None:
    once = quantised(dense_llm(), "fp8")
    assert quantised(once, "fp8") is once
    assert quantised(once, "bf16") == dense_llm()


def test_quantised_weights_are_computed_in_their_own_format() -> None:
    llm = quantised(dense_llm(), "fp8")
    assert llm.matmul_flops_by_dtype == {"fp8": dense_llm().matmul_flops_per_token}
    assert llm.n_quantised_layers == 32
    weight_only = quantised(dense_llm(), "int4")
    assert set(weight_only.matmul_flops_by_dtype) == {"bf16"}
    assert weight_only.n_quantised_layers == 32


def test_the_router_stays_at_16_bits() -> None:
    flops = quantised(moe_llm(), "fp8").matmul_flops_by_dtype
    assert flops["bf16"] == 2 * 32 * 4096 * 8
    assert quantised(moe_llm(), "fp8").quantised_experts
    assert not moe_llm().quantised_experts


def test_bytes_split_into_quantised_and_plain() -> None:
    llm = quantised(dense_llm(), "fp8")
    matrices = llm.attention_parameters + llm.dense_ffn_parameters
    assert llm.quantised_fixed_weight_bytes == matrices
    assert dense_llm().quantised_fixed_weight_bytes == 0


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(UsageError, match="'fp6' must be one of"):
        quantised(dense_llm(), "fp6")


@pytest.mark.parametrize(
    "key",
    [*COUNTS, "vocab_size", "model_type", "torch_dtype", "hidden_act", "max_position_embeddings"],
)
def test_a_missing_field_is_named_with_its_file(key: str) -> None:
    with pytest.raises(InputError, match=rf"a\.json: field '{key}' is missing"):
        llm_from_config(dense_config(**{key: None}), "a.json")


@pytest.mark.parametrize("key", [*COUNTS, "vocab_size", "num_key_value_heads"])
@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), -1, 0, 1.5, 1e300, 10**30, "32", True, [4]]
)
def test_an_impossible_field_is_named_with_its_file(key: str, value: object) -> None:
    with pytest.raises(InputError, match=rf"a\.json: {key} must be a whole number"):
        llm_from_config(dense_config(**{key: value}), "a.json")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
KEYS = (
    *dense_config(),
    "attn_config",
    "decoder_sparse_step",
    "first_k_dense_replace",
    "head_dim",
    "interleave_moe_layer_step",
    "kv_lora_rank",
    "layer_types",
    "mlp_only_layers",
    "moe_layers",
    "n_routed_experts",
    "no_rope_layers",
    "quantization_config",
    "sliding_window",
    "text_config",
    "vision_config",
)


@given(st.dictionaries(st.sampled_from(KEYS), JSON, min_size=1, max_size=3), st.booleans())
def test_damaged_configurations_are_refused_in_one_line_or_counted(
    damage: dict[str, object], moe: bool
) -> None:
    config = (moe_config() if moe else dense_config()) | damage
    try:
        llm = llm_from_config(config, "a.json")
    except InputError as error:
        assert str(error).startswith("a.json: ")  # noqa: PT017
        assert len(str(error)) < 300  # noqa: PT017
        assert len(str(error).splitlines()) == 1  # noqa: PT017
    else:
        assert 0 < llm.active_parameters <= llm.total_parameters
        assert llm.total_weight_bytes > 0


def test_the_language_part_of_a_multimodal_configuration_is_used() -> None:
    text = dense_config(torch_dtype=None)
    outer: dict[str, object] = {
        "model_type": "any_vision",
        "torch_dtype": "bfloat16",
        "text_config": text,
        "vision_config": {
            "model_type": "siglip_vision_model",
            "num_hidden_layers": 2,
            "hidden_size": 8,
            "intermediate_size": 16,
        },
    }
    llm = llm_from_config(outer, "a.json")
    assert llm.tower_parameters == 2 * (4 * 8 * 8 + 2 * 8 * 16)
    assert llm.total_parameters == dense_llm().total_parameters
    assert llm.total_weight_bytes == dense_llm().total_weight_bytes + 2 * llm.tower_parameters


def test_a_folder_and_its_file_are_one(tmp_path: Path) -> None:
    folder = tmp_path / "my-llm"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(moe_config()))
    assert llm_from_file(folder) == llm_from_file(folder / "config.json")
    assert llm_from_file(folder).name == "my-llm"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
        (b"[]", "must hold a JSON object"),
        (b"{}", "field 'model_type' is missing"),
        (json.dumps(dense_config(hidden_size=None)).encode(), "field 'hidden_size' is missing"),
        (
            json.dumps(dense_config(hidden_size=float("nan"))).encode(),
            "hidden_size must be a whole number from 1 to 1000000000, got nan",
        ),
    ],
)
def test_a_bad_file_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        llm_from_file(file)
    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.json: cannot be read \(No such file"):
        llm_from_file(tmp_path / "none.json")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_layers": 0}, "n_layers must be at least 1"),
        ({"vocab": -1}, "vocab must not be negative"),
        ({"n_moe_layers": 99}, "more MoE or windowed layers than layers"),
        ({"dense_intermediate": 0}, "dense layers need dense_intermediate"),
        ({"n_moe_layers": 4, "n_experts": 4}, r"experts_per_token must lie in 1\.\.4"),
    ],
)
def test_impossible_llms_cannot_be_made(changes: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        replace(dense_llm(), **changes)  # type: ignore[arg-type]
