"""Rules of model families."""

import pytest

from llm_configs import dense_config, dense_llm, moe_config, moe_llm
from tailcast.errors import InputError
from tailcast.llm import llm_from_config


def llama4(**changes: object) -> dict[str, object]:
    """Llama 4 Scout's language part."""
    return moe_config(
        model_type="llama4_text",
        num_hidden_layers=48,
        head_dim=128,
        intermediate_size=8192,
        intermediate_size_mlp=16384,
        num_local_experts=16,
        num_experts_per_tok=1,
        interleave_moe_layer_step=1,
        attention_chunk_size=8192,
        **changes,
    )


@pytest.mark.parametrize(("step", "n_moe"), [(1, 48), (2, 24), (3, 16), (4, 12), (5, 9), (49, 0)])
def test_a_layer_is_moe_when_its_number_from_one_is_a_multiple_of_the_step(
    step: int, n_moe: int
) -> None:
    config = llama4() | {"interleave_moe_layer_step": step}
    assert n_moe == sum((layer + 1) % step == 0 for layer in range(48))
    assert llm_from_config(config, "a.json").n_moe_layers == n_moe


def test_llama_4_has_an_undeclared_shared_expert() -> None:
    llm = llm_from_config(llama4(), "a.json")
    assert llm.shared_intermediate == llm.moe_intermediate == 8192
    interleaved = llm_from_config(llama4() | {"interleave_moe_layer_step": 2}, "a.json")
    assert interleaved.dense_intermediate == 16384


def test_llama_4_needs_its_step() -> None:
    config = llama4()
    del config["interleave_moe_layer_step"]
    with pytest.raises(InputError, match="'interleave_moe_layer_step' is missing"):
        llm_from_config(config, "a.json")


def test_llama_4_attends_to_chunks_in_three_layers_of_four() -> None:
    assert llm_from_config(llama4(), "a.json").n_window_layers == 36
    listed = llama4(no_rope_layers=[1, 0] * 24)
    assert llm_from_config(listed, "a.json").n_window_layers == 24


def test_first_layers_of_deepseek_are_dense() -> None:
    llm = moe_llm(
        model_type="deepseek_v3",
        num_local_experts=None,
        n_routed_experts=64,
        n_shared_experts=2,
        moe_intermediate_size=1408,
        intermediate_size=10944,
        first_k_dense_replace=3,
        moe_layer_freq=1,
    )
    assert llm.n_moe_layers == 29
    assert llm.dense_intermediate == 10944
    assert llm.shared_intermediate == 2 * 1408


def test_qwen_lists_dense_layers_and_a_step() -> None:
    keys = {"num_local_experts": None, "num_experts": 8, "moe_intermediate_size": 768}
    llm = moe_llm(
        model_type="qwen3_moe", head_dim=128, decoder_sparse_step=2, mlp_only_layers=[1], **keys
    )
    assert llm.n_moe_layers == 15
    with pytest.raises(InputError, match="'moe_intermediate_size' is missing"):
        moe_llm(model_type="qwen2_moe", num_local_experts=None, num_experts=8)


def test_a_shared_expert_may_have_its_own_width() -> None:
    llm = moe_llm(
        model_type="qwen2_moe",
        num_local_experts=None,
        num_experts=60,
        moe_intermediate_size=1408,
        shared_expert_intermediate_size=5632,
    )
    assert llm.shared_intermediate == 5632
    assert llm.moe_intermediate == 1408


def test_experts_need_the_number_that_works_on_a_token() -> None:
    with pytest.raises(InputError, match="'num_experts_per_tok' is missing"):
        moe_llm(num_experts_per_tok=None)
    with pytest.raises(InputError, match="num_experts_per_tok 9 exceeds the 8 experts"):
        moe_llm(num_experts_per_tok=9)


@pytest.mark.parametrize("key", ["num_experts_per_tok", "experts_per_token", "moe_topk"])
def test_an_llm_with_working_experts_needs_their_number(key: str) -> None:
    keys = {"num_local_experts": None, "num_experts_per_tok": None} | {key: 2}
    with pytest.raises(InputError, match="'num_local_experts' is missing"):
        moe_llm(**keys)


def test_missing_key_value_heads_mean_multi_head_attention_only_where_that_is_the_rule() -> None:
    assert dense_llm(num_key_value_heads=None).n_kv_heads == 32
    for family in ("mistral", "qwen2", "gemma2", "something_new"):
        with pytest.raises(InputError, match="'num_key_value_heads' is missing"):
            dense_llm(model_type=family, num_key_value_heads=None, head_dim=128)


def test_an_explicit_head_dim_wins() -> None:
    assert dense_llm(hidden_size=5120, head_dim=128).head_dim == 128
    assert dense_llm(hidden_size=5120).head_dim == 160
    with pytest.raises(InputError, match="'head_dim' is missing"):
        dense_llm(model_type="qwen3")
    with pytest.raises(InputError, match="head_dim is missing and num_attention_heads 24"):
        dense_llm(num_attention_heads=24)


def test_heads_must_group() -> None:
    with pytest.raises(InputError, match="num_key_value_heads 5 does not divide"):
        dense_llm(num_key_value_heads=5)


@pytest.mark.parametrize(
    ("changes", "window", "n_window"),
    [
        ({"model_type": "mistral", "sliding_window": 4096}, 4096, 32),
        ({"model_type": "qwen2", "sliding_window": 4096}, 0, 0),
        ({"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": False}, 0, 0),
        (
            {
                "model_type": "qwen2",
                "sliding_window": 4096,
                "use_sliding_window": True,
                "max_window_layers": 28,
            },
            4096,
            4,
        ),
        ({"model_type": "gemma2", "head_dim": 128, "sliding_window": 4096}, 4096, 16),
        ({"model_type": "gemma3_text", "head_dim": 128, "sliding_window": 1024}, 1024, 27),
        (
            {"model_type": "olmo3", "sliding_window": 64, "layer_types": ["full_attention"] * 32},
            0,
            0,
        ),
        (
            {
                "model_type": "any",
                "sliding_window": 128,
                "layer_types": ["sliding_attention", "full_attention"] * 16,
            },
            128,
            16,
        ),
    ],
)
def test_windowed_layers_follow_the_family(
    changes: dict[str, object], window: int, n_window: int
) -> None:
    llm = dense_llm(**changes)
    assert (llm.sliding_window, llm.n_window_layers) == (window, n_window)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layer_types": ["linear_attention"] * 32}, "'linear_attention' is not supported"),
        ({"layer_types": ["full_attention"]}, "layer_types has 1 entries for 32 layers"),
        ({"mamba_d_state": 128}, "mamba_d_state belongs to an architecture other than"),
        ({"full_attention_interval": 4}, "full_attention_interval belongs to an architecture"),
        ({"is_encoder_decoder": True}, "is_encoder_decoder belongs to an architecture"),
        ({"model_type": "unknown", "hidden_act": "relu"}, "hidden_act 'relu' does not say"),
        ({"tie_word_embeddings": "yes"}, "tie_word_embeddings must be true or false"),
        ({"layer_types": "full_attention"}, "layer_types must be a list"),
        ({"text_config": 3}, "text_config must be an object"),
    ],
)
def test_what_cannot_be_counted_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        dense_llm(**changes)


def test_older_key_names_are_read() -> None:
    llm = llm_from_config(
        {
            "model_type": "gpt_bigcode",
            "n_layer": 40,
            "n_embd": 6144,
            "n_head": 48,
            "multi_query": True,
            "n_inner": None,
            "activation_function": "gelu",
            "vocab_size": 49152,
            "n_positions": 8192,
            "torch_dtype": "float32",
        },
        "a.json",
    )
    assert (llm.n_kv_heads, llm.dense_intermediate, llm.gated_ffn) == (1, 4 * 6144, False)
    assert llm.tied_embeddings
    assert llm.dtype == "bf16"


def test_mpt_counts_its_ffn_in_multiples_of_the_width() -> None:
    llm = llm_from_config(
        {
            "model_type": "mpt",
            "n_layers": 32,
            "d_model": 4096,
            "n_heads": 32,
            "expansion_ratio": 4,
            "vocab_size": 50432,
            "max_seq_len": 2048,
            "attn_config": {"kv_n_heads": 8},
            "torch_dtype": "bfloat16",
        },
        "a.json",
    )
    assert (llm.n_kv_heads, llm.dense_intermediate) == (8, 16384)


def test_falcon_has_one_or_several_key_value_heads() -> None:
    keys = {"model_type": "falcon", "num_key_value_heads": None, "num_kv_heads": 8}
    assert dense_llm(multi_query=True, **keys).n_kv_heads == 1
    assert dense_llm(multi_query=True, new_decoder_architecture=True, **keys).n_kv_heads == 8
    assert not dense_llm(**keys).gated_ffn


def test_a_configuration_of_the_tests_is_complete() -> None:
    assert llm_from_config(dense_config(), "a.json").family == "llama"
