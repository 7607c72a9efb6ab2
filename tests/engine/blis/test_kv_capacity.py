"""KV blocks by BLIS's arithmetic against measured vectors, and what it refuses."""

from dataclasses import replace

import pytest

from engine.blis.deployments import llm
from tailcast.engine.blis.accelerators import blis_accelerator
from tailcast.engine.blis.kv_capacity import capped_model_len, kv_bytes_per_token, kv_capacity
from tailcast.engine.blis.latency_model import BlisLatencyModel
from tailcast.engine.blis.model_config import BlisModelConfig
from tailcast.engine.blis.settings import automatic_settings
from tailcast.errors import CapacityError, CatalogError, InputError, UsageError

BLOCKS = {  # tensor parallelism 1, 2, 4, 8; None where the weights do not fit
    ("llama-3.1-8b", "H100"): (26312, 125278, 543011, 2255841),
    ("llama-2-7b", "H100"): (6886, 31935, 136984, 566424),
    ("qwen3-14b", "H100"): (15909, 89941, 413846, 1763547),
    ("llama-3.1-70b", "H100"): (None, 2409, 121801, 711530),
    ("mixtral", "H100"): (None, 48956, 390367, 1950553),
    ("scout-fp8", "H100"): (None, 27345, 249660, 1279198),
    ("deepseek-v2-lite", "H100"): (74312, 227391, 535491, 1151692),
    ("llama-3.1-8b", "L40S"): (11567, 66296, 307082, 1312122),
}
CASES = [
    (name, gpu, tp, expected)
    for (name, gpu), row in BLOCKS.items()
    for tp, expected in zip((1, 2, 4, 8), row, strict=True)
]


@pytest.mark.parametrize(("name", "gpu", "tp", "expected"), CASES)
def test_blocks_equal_blis(name: str, gpu: str, tp: int, expected: int | None) -> None:
    if expected is None:
        with pytest.raises(CapacityError, match=r"minimum GPUs per instance: [23]$"):
            kv_capacity(llm(name), blis_accelerator(gpu), tensor_parallel=tp)
    else:
        capacity = kv_capacity(llm(name), blis_accelerator(gpu), tensor_parallel=tp)
        assert capacity.blocks == expected


@pytest.mark.parametrize(
    ("name", "tp", "expected"),
    [
        ("qwen2.5-7b", 1, 61048),
        ("mistral-nemo", 1, 17512),
        ("mistral-nemo", 2, 93147),
        ("yi-34b", 2, 40001),
    ],
)
def test_blocks_of_training_runs_equal_blis(name: str, tp: int, expected: int) -> None:
    assert kv_capacity(llm(name), blis_accelerator("h100"), tensor_parallel=tp).blocks == expected


def test_fewer_kv_heads_than_gpus_are_still_divided() -> None:
    model = llm("qwen3-30b-a3b")
    assert kv_bytes_per_token(model, 8) == kv_bytes_per_token(model, 4) / 2


def test_data_parallelism_multiplies_expert_models_only() -> None:
    gpu = blis_accelerator("H100")
    once = kv_capacity(llm("mixtral"), gpu, tensor_parallel=2).blocks
    assert kv_capacity(llm("mixtral"), gpu, tensor_parallel=2, data_parallel=3).blocks == 3 * once
    dense = kv_capacity(llm("llama-3.1-8b"), gpu).blocks
    assert kv_capacity(llm("llama-3.1-8b"), gpu, data_parallel=3).blocks == dense


def test_a_reservation_takes_blocks() -> None:
    gpu = blis_accelerator("H100")
    reserved = kv_capacity(llm("llama-3.1-8b"), gpu, reserved_bytes=1 << 30).blocks
    assert 26312 - reserved == pytest.approx((1 << 30) / (16 * 131072), abs=1)


def test_model_length_is_capped_by_the_blocks() -> None:
    assert capped_model_len(131072, 44) == 704
    assert capped_model_len(131072, 26312) == 131072
    assert capped_model_len(0, 44) == 0


def test_settings_left_to_blis_are_computed() -> None:
    model = BlisLatencyModel(
        llm=replace(llm("llama-3.1-8b"), max_model_len=131072), accelerator=blis_accelerator("H100")
    )
    computed = automatic_settings(model)
    assert (computed.kv_blocks, computed.max_model_len) == (26312, 131072)
    tight = automatic_settings(model, kv_blocks=44)
    assert (tight.kv_blocks, tight.max_model_len) == (44, 704)
    assert automatic_settings(model, max_model_len=200).max_model_len == 200


@pytest.mark.parametrize(
    ("changes", "arguments", "error"),
    [
        ({"activation": "relu"}, {}, InputError),
        ({"vocab": 0}, {}, InputError),
        ({"intermediate": 0}, {}, InputError),
        ({"experts_per_token": 2}, {}, InputError),
        ({"n_heads": 30}, {}, CapacityError),
        ({"n_kv_heads": 12}, {"tensor_parallel": 8}, CapacityError),
        ({}, {"gpu_memory_utilization": 1.1}, UsageError),
        ({}, {"block_size": 0}, UsageError),
        ({}, {"gpu_memory_utilization": 0.005}, CapacityError),
    ],
)
def test_impossible_capacities_are_refused(
    changes: dict[str, object], arguments: dict[str, float], error: type[Exception]
) -> None:
    facts = {
        "n_layers": 32,
        "hidden": 4096,
        "n_heads": 32,
        "n_kv_heads": 8,
        "intermediate": 14336,
        "vocab": 128256,
        **changes,
    }
    model = BlisModelConfig(**facts)  # type: ignore[arg-type]
    with pytest.raises(error):
        kv_capacity(model, blis_accelerator("H100"), **arguments)  # type: ignore[arg-type]


def test_an_unknown_accelerator_gets_a_hint() -> None:
    with pytest.raises(CatalogError, match="did you mean 'H100'"):
        blis_accelerator("H10")
