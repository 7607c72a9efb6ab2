"""An LLM on accelerators behind an engine."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailcast.catalog.accelerators import accelerator
from tailcast.catalog.accelerators import names as accelerator_names
from tailcast.catalog.llms import llm
from tailcast.deployment import Deployment, EngineSettings, engine_defaults
from tailcast.errors import CapacityError, UsageError

H100 = accelerator("h100")
SMALL = EngineSettings(max_num_seqs=128)


def deployment(name: str = "llama-3.1-8b", tp: int = 1, **changes: object) -> Deployment:
    """Deployment on H100s."""
    values: dict[str, object] = {"engine": SMALL, "accelerator": H100} | changes
    return Deployment(llm=llm(name), tensor_parallel=tp, **values)  # type: ignore[arg-type]


@given(st.floats(0.5, 1.0), st.floats(0.5, 1.0))
@settings(max_examples=50)
def test_more_memory_never_means_fewer_blocks(a: float, b: float) -> None:
    low, high = sorted((a, b))
    blocks = [
        deployment(engine=replace(SMALL, gpu_memory_utilization=share)).kv_block_count
        for share in (low, high)
    ]
    assert blocks[0] <= blocks[1]


@pytest.mark.parametrize("name", ["llama-3.1-8b", "mixtral-8x7b", "gpt-oss-120b", "qwen3-30b-a3b"])
def test_more_accelerators_hold_more_blocks(name: str) -> None:
    start = 2 if name == "mixtral-8x7b" else 1
    blocks = [deployment(name, tp).kv_block_count for tp in (1, 2, 4, 8) if tp >= start]
    assert blocks == sorted(set(blocks))


@given(
    name=st.sampled_from(["llama-3.1-8b", "qwen3-14b", "gpt-oss-20b", "deepseek-v2-lite"]),
    tp=st.sampled_from([1, 2, 4]),
    share=st.floats(0.7, 1.0),
    seqs=st.integers(1, 512),
    tokens=st.integers(512, 16384),
)
@settings(max_examples=60)
def test_weights_and_blocks_stay_inside_the_memory_share(
    name: str, tp: int, share: float, seqs: int, tokens: int
) -> None:
    engine = EngineSettings(
        max_num_seqs=seqs, max_num_batched_tokens=tokens, gpu_memory_utilization=share
    )
    placed = deployment(name, tp, engine=engine)
    cache = placed.kv_block_count * engine.block_size * placed.kv_bytes_per_token_per_accelerator
    assert placed.weight_bytes_per_accelerator + cache < share * H100.memory


def test_an_fp8_cache_holds_twice_the_blocks() -> None:
    plain, short = deployment(), deployment(kv_dtype="fp8")
    assert short.kv_block_count == pytest.approx(2 * plain.kv_block_count, abs=1)
    assert short.kv_bytes_per_token_per_accelerator * 2 == plain.kv_bytes_per_token_per_accelerator


def test_larger_blocks_are_fewer() -> None:
    coarse = deployment(engine=replace(SMALL, block_size=32)).kv_block_count
    assert coarse == deployment().kv_block_count // 2


def test_known_blocks_are_taken_as_given() -> None:
    assert deployment(kv_blocks=7463).kv_block_count == 7463
    assert deployment("llama-3.1-70b", kv_blocks=10).kv_block_count == 10


def test_too_few_heads_are_repeated() -> None:
    placed = deployment("qwen3-30b-a3b", 8)
    per_head = placed.llm.kv_bytes_per_token / placed.llm.n_kv_heads
    assert placed.kv_bytes_per_token_per_accelerator == per_head


def test_a_latent_is_not_split() -> None:
    placed = deployment("deepseek-v2-lite", 4)
    assert placed.kv_bytes_per_token_per_accelerator == placed.llm.kv_bytes_per_token


def test_weights_that_do_not_fit_name_what_does() -> None:
    with pytest.raises(CapacityError, match=r"use tensor_parallel 4 or weights int4$"):
        deployment("llama-2-70b", 1, accelerator=accelerator("l40s"))
    with pytest.raises(CapacityError, match="use tensor_parallel 16 or weights fp8"):
        deployment("llama-3.1-405b", 8)


def test_the_named_way_out_works() -> None:
    for name, tp in (("llama-3.1-70b", 1), ("llama-3.1-405b", 8), ("mixtral-8x22b", 2)):
        with pytest.raises(CapacityError) as caught:
            deployment(name, tp)
        text = str(caught.value)
        larger = int(text.split("tensor_parallel ")[1].split(maxsplit=1)[0])
        weights = text.rsplit("weights ", 1)[1]
        assert deployment(name, larger).kv_block_count > 0
        assert deployment(name, tp, weights=weights).kv_block_count > 0
        with pytest.raises(CapacityError):
            deployment(name, larger // 2)


def test_what_fits_nowhere_says_so() -> None:
    engine = replace(SMALL, gpu_memory_utilization=0.001)
    with pytest.raises(CapacityError, match="nothing here makes it fit"):
        deployment(engine=engine)


def test_heads_must_split() -> None:
    with pytest.raises(CapacityError, match=r"tensor_parallel 3; use 1, 2, 4, 8, 16, 32"):
        deployment(tp=3)
    # 28 heads, 4 for keys and values
    assert deployment("qwen2.5-7b", 4).kv_block_count > 0
    with pytest.raises(CapacityError, match=r"tensor_parallel 8; use 1, 2, 4"):
        deployment("qwen2.5-7b", 8)


def test_the_fp8_peak_needs_fp8_weights_activations_and_accelerator() -> None:
    assert deployment().peak_flops == H100.peak_flops("bf16")
    assert deployment(weights="fp8").peak_flops == H100.peak_flops("fp8")
    assert deployment(weights="int4").peak_flops == H100.peak_flops("bf16")
    a100 = accelerator("a100-80gb")
    assert deployment(weights="fp8", accelerator=a100).peak_flops == a100.peak_flops("bf16")
    assert deployment("gpt-oss-20b").peak_flops == H100.peak_flops("bf16")
    assert deployment(weights="fp8").attention_peak_flops == H100.peak_flops("bf16")


def test_each_product_counts_at_its_own_peak() -> None:
    plain = deployment()
    assert plain.matmul_seconds_per_token == pytest.approx(
        plain.llm.matmul_flops_per_token / H100.peak_flops("bf16")
    )
    assert deployment(tp=2).matmul_seconds_per_token == plain.matmul_seconds_per_token / 2
    scout = deployment("llama-4-scout-fp8-dynamic", 2)
    at_16_bits = scout.llm.matmul_flops_per_token / H100.peak_flops("bf16") / 2
    assert at_16_bits / 2 < scout.matmul_seconds_per_token < at_16_bits


def test_a_format_that_the_llm_has_keeps_its_exceptions() -> None:
    scout = deployment("llama-4-scout-fp8-dynamic", 2, weights="fp8")
    assert scout.served_llm.quantisation.attention == 2.0
    assert scout.weight_dtype == "fp8"
    assert deployment(weights="fp16").weight_dtype == "bf16"


def test_windows_that_hide_little_count_as_full_attention() -> None:
    engine = replace(SMALL, max_model_len=4096)
    assert deployment("llama-4-scout", 4, engine=engine).served_llm.n_hiding_layers == 0
    assert deployment("mistral-7b-v0.1").served_llm.n_hiding_layers == 0
    assert deployment("gpt-oss-20b").served_llm.n_hiding_layers == 12
    short = replace(SMALL, max_model_len=128)
    assert deployment("gpt-oss-20b", engine=short).served_llm.n_hiding_layers == 0


def test_short_windows_leave_room_for_more_tokens() -> None:
    placed = deployment("gpt-oss-20b")
    per_token = placed.kv_bytes_per_token_per_accelerator
    both = per_token + placed.window_kv_bytes_per_token_per_accelerator
    memory = placed.kv_block_count * placed.engine.block_size * per_token
    assert memory < H100.memory - placed.weight_bytes_per_accelerator
    assert placed.kv_block_count * placed.engine.block_size * both > 40 * 2**30


def test_a_request_never_outgrows_the_cache() -> None:
    assert deployment(kv_blocks=10).max_model_len == 160
    assert deployment().max_model_len == 131072
    assert deployment(engine=replace(SMALL, max_model_len=4096)).max_model_len == 4096


def test_ranks_share_experts_only() -> None:
    alone = deployment("mixtral-8x7b", 2)
    ranks = deployment("mixtral-8x7b", 2, data_parallel=2)
    experts = alone.llm.n_experts * alone.llm.expert_weight_bytes
    saved = alone.weight_bytes_per_accelerator - ranks.weight_bytes_per_accelerator
    assert saved == pytest.approx(experts / 4)
    assert ranks.n_accelerators == 4
    with pytest.raises(UsageError, match="data_parallel 2 needs a mixture of experts"):
        deployment(data_parallel=2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tensor_parallel": 0}, "tensor_parallel must be a whole number of at least 1"),
        ({"tensor_parallel": True}, "tensor_parallel must be a whole number"),
        ({"data_parallel": 1.5}, "data_parallel must be a whole number"),
        ({"weights": "fp6"}, "weights 'fp6' must be one of bf16, fp16, fp8, int8, int4"),
        ({"kv_dtype": "int1"}, "kv_dtype 'int1' must be one of"),
        ({"kv_blocks": 0}, "kv_blocks must be a whole number of at least 1"),
        ({"engine": replace(SMALL, max_model_len=200_000)}, "exceeds the 131072 positions"),
    ],
)
def test_impossible_deployments_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        replace(deployment(), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"max_num_seqs": 0}, "max_num_seqs must be a whole number of at least 1"),
        ({"max_num_batched_tokens": -5}, "max_num_batched_tokens must be"),
        ({"block_size": 16.0}, "block_size must be"),
        ({"long_prefill_token_threshold": -1}, "long_prefill_token_threshold must be"),
        ({"max_model_len": 1}, "max_model_len must be a whole number of at least 2"),
        ({"gpu_memory_utilization": 0.0}, r"must lie in \(0, 1\]"),
        ({"gpu_memory_utilization": float("nan")}, r"must lie in \(0, 1\]"),
        ({"gpu_memory_utilization": "0.9"}, r"must lie in \(0, 1\]"),
        ({"prefix_caching": 1}, "prefix_caching must be true or false"),
        ({"async_scheduling": "yes"}, "async_scheduling must be true or false"),
        ({"scheduler": "sjf"}, "scheduler 'sjf' must be one of fcfs, priority"),
        ({"version": "latest"}, "version 'latest' does not begin with a number"),
        ({"name": ""}, "the engine needs a name"),
        ({"max_num_seqs": 4096}, "max_num_seqs 4096 exceeds max_num_batched_tokens 2048"),
        (
            {"chunked_prefill": False, "max_model_len": 4096},
            "without chunked prefill max_num_batched_tokens 2048 must reach max_model_len 4096",
        ),
    ],
)
def test_impossible_settings_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        EngineSettings(**changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("version", "asked", "ahead"),
    [
        ("0.13.0", None, False),
        ("0.14.0", None, True),
        ("v0.15.1rc1", None, True),
        ("0.9.2", None, False),
        ("1.0", None, True),
        ("0.15.1", False, False),
        ("0.9.2", True, True),
    ],
)
def test_scheduling_ahead_is_the_rule_since_014(
    version: str, asked: bool | None, ahead: bool
) -> None:
    assert EngineSettings(version=version, async_scheduling=asked).schedules_ahead is ahead
    assert not EngineSettings(name="tgi", version="3.0").schedules_ahead


@pytest.mark.parametrize("name", accelerator_names())
def test_default_limits_follow_memory_and_name(name: str) -> None:
    found = engine_defaults(accelerator(name))
    large = accelerator(name).memory >= 70 * 2**30 and "a100" not in name
    expected = (8192, 1024) if large else (2048, 256)
    assert (found.max_num_batched_tokens, found.max_num_seqs) == expected
