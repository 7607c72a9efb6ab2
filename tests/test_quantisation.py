"""Storage and compute formats that a configuration declares."""

import pytest

from llm_configs import dense_llm, moe_llm
from tailcast.errors import InputError
from tailcast.quantisation import Quantisation

FP8_WEIGHTS = {"num_bits": 8, "type": "float", "strategy": "channel"}


def compressed(weights: object, inputs: object = None, **keys: object) -> dict[str, object]:
    """Configuration section that llm-compressor writes."""
    group = {"weights": weights, "input_activations": inputs}
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, **keys}


def formats(section: object, **changes: object) -> Quantisation:
    """Formats of Llama 3.1 8B with that section."""
    return dense_llm(quantization_config=section, **changes).quantisation


def test_nothing_declared_is_16_bits() -> None:
    plain = dense_llm().quantisation
    assert (plain.scheme, plain.attention, plain.compute) == ("bf16", 2.0, "bf16")
    assert dense_llm(torch_dtype="float16").quantisation.compute == "fp16"


def test_block_fp8_covers_every_linear_layer() -> None:
    found = formats({"quant_method": "fp8", "weight_block_size": [128, 128]})
    assert (found.attention, found.ffn, found.experts, found.lm_head) == (1, 1, 1, 2)
    assert (found.scheme, found.compute) == ("fp8", "fp8")


def test_awq_and_gptq_store_scales_and_zero_points() -> None:
    for method, key in (("awq", "group_size"), ("gptq", "group_size")):
        found = formats({"quant_method": method, "bits": 4, key: 128})
        assert found.scheme == "int4"
        assert found.ffn == (4 + 20 / 128) / 8
        assert found.compute == "bf16"
    assert formats({"quant_method": "gptq", "bits": 8, "group_size": -1}).ffn == 1.0


def test_mxfp4_experts_keep_their_attention_at_16_bits() -> None:
    section = {
        "quant_method": "mxfp4",
        "modules_to_not_convert": [
            "model.layers.*.self_attn",
            "model.layers.*.mlp.router",
            "model.embed_tokens",
            "lm_head",
        ],
    }
    llm = moe_llm(quantization_config=section)
    assert llm.quantisation.experts == 4.25 / 8
    assert llm.quantisation.attention == 2.0
    assert set(llm.matmul_flops_by_dtype) == {"bf16"}


def test_activations_decide_what_products_are_computed_in() -> None:
    eight = {"num_bits": 8, "type": "float"}
    assert formats(compressed(FP8_WEIGHTS, eight)).compute == "fp8"
    assert formats(compressed(FP8_WEIGHTS)).compute == "bf16"
    integers = {"num_bits": 8, "type": "int"}
    assert formats(compressed(integers, integers)).compute == "int8"
    four = {"num_bits": 4, "type": "int", "group_size": 128}
    assert formats(compressed(four)).scheme == "int4"
    assert formats(compressed(four)).ffn == (4 + 16 / 128) / 8


def test_nvfp4_stores_an_8_bit_scale_for_16_weights() -> None:
    found = formats(compressed({"num_bits": 4, "type": "float", "group_size": 16}))
    assert (found.scheme, found.ffn) == ("nvfp4", (4 + 8 / 16) / 8)


def test_ignored_attention_stays_at_16_bits() -> None:
    for ignore in (
        ["re:.*lm_head", "re:.*self_attn", "re:.*router", "re:.*vision_model"],
        [f"language_model.model.layers.{i}.self_attn.q_proj" for i in range(32)],
    ):
        found = formats(compressed(FP8_WEIGHTS, FP8_WEIGHTS, ignore=ignore))
        assert (found.attention, found.ffn, found.experts) == (2.0, 1.0, 1.0)


def test_partly_ignored_layers_count_by_their_share() -> None:
    ignore = [f"model.layers.{i}.mlp.down_proj" for i in range(8)]
    llm = dense_llm(quantization_config=compressed(FP8_WEIGHTS, FP8_WEIGHTS, ignore=ignore))
    assert llm.quantisation.ffn == 0.25 * 2 + 0.75
    flops = llm.matmul_flops_by_dtype
    assert flops["bf16"] == pytest.approx(0.25 * 2 * llm.dense_ffn_parameters)
    assert sum(flops.values()) == dense_llm().matmul_flops_per_token


def test_shared_and_routed_experts_are_told_apart() -> None:
    routed = moe_llm(quantization_config=compressed(FP8_WEIGHTS, ignore=["re:.*mlp.experts"]))
    assert (routed.quantisation.experts, routed.quantisation.ffn) == (2.0, 1.0)
    shared = moe_llm(quantization_config=compressed(FP8_WEIGHTS, ignore=["re:.*shared_expert"]))
    assert (shared.quantisation.experts, shared.quantisation.ffn) == (1.0, 2.0)
    router = moe_llm(quantization_config=compressed(FP8_WEIGHTS, ignore=["re:.*mlp.gate$"]))
    assert (router.quantisation.experts, router.quantisation.ffn) == (1.0, 1.0)


def test_a_quantised_kv_cache_is_read() -> None:
    section = compressed(FP8_WEIGHTS, kv_cache_scheme={"num_bits": 8, "type": "float"})
    assert formats(section).kv_cache == "fp8"
    assert dense_llm().quantisation.kv_cache == "auto"


def test_an_older_section_name_is_read() -> None:
    llm = dense_llm(compression_config=compressed(FP8_WEIGHTS, FP8_WEIGHTS))
    assert llm.quantisation.scheme == "fp8"


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({}, "quantization_config: field 'quant_method' is missing"),
        ({"quant_method": "magic"}, "quant_method 'magic' is not one of"),
        ({"quant_method": "awq", "bits": 3, "group_size": 128}, "bits must be 4 or 8, got 3"),
        ({"quant_method": "awq", "bits": 4}, "field 'group_size' is missing"),
        ({"quant_method": "gptq", "group_size": 128}, "field 'bits' is missing"),
        ({"quant_method": "compressed-tensors"}, "field 'config_groups' is missing"),
        (compressed(None), "field 'weights' is missing"),
        (compressed({"num_bits": 5, "type": "int"}), "5-bit int weights are not supported"),
        ("fp8", "quantization_config must be an object"),
    ],
)
def test_a_section_that_says_too_little_is_refused(section: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        formats(section)


def test_an_unknown_dtype_is_refused() -> None:
    with pytest.raises(InputError, match="torch_dtype 'int32' is not one of"):
        dense_llm(torch_dtype="int32")
    assert dense_llm(torch_dtype=None, dtype="bfloat16").dtype == "bf16"


def test_impossible_widths_cannot_be_made() -> None:
    with pytest.raises(InputError, match="bytes per weight of ffn"):
        Quantisation(scheme="fp8", attention=1.0, ffn=0.0, experts=1.0, lm_head=2.0, compute="fp8")
