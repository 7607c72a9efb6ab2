"""Settings that vLLM tells in its development mode."""

import pytest

from tailcast.observe.server_info import told_settings


def test_settings_are_found_by_section() -> None:
    info = {
        "vllm_config": {
            "scheduler_config": {"max_num_batched_tokens": 512, "enable_chunked_prefill": True},
            "parallel_config": {"tensor_parallel_size": 2},
            "cache_config": {"num_gpu_blocks": None},
            "model_config": {"dtype": "torch.bfloat16", "quantization": None},
            "device_config": "cpu",
        }
    }
    assert told_settings(info) == {
        "max_num_batched_tokens": 512,
        "chunked_prefill": True,
        "tensor_parallel": 2,
        "dtype": "bf16",
    }


def test_the_dtype_of_quantised_weights_is_not_that_of_the_activations() -> None:
    model = {"dtype": "torch.bfloat16", "quantization": "fp8"}
    assert told_settings({"vllm_config": {"model_config": model}}) == {"quantization": "fp8"}


@pytest.mark.parametrize("info", [None, [], {}, {"vllm_config": "text"}])
def test_another_answer_tells_nothing(info: object) -> None:
    assert told_settings(info) == {}
