"""What vLLM tells of its own configuration, where it runs with ``VLLM_SERVER_DEV_MODE=1``."""

from collections.abc import Mapping
from typing import Any

_DTYPES = {"torch.bfloat16": "bf16", "torch.float16": "fp16", "torch.float32": "fp32"}
# Section and key of vLLM's configuration, and the name that a trace's server block has for it.
_KEYS = (
    ("scheduler_config", "max_num_seqs", "max_num_seqs"),
    ("scheduler_config", "max_num_batched_tokens", "max_num_batched_tokens"),
    ("scheduler_config", "enable_chunked_prefill", "chunked_prefill"),
    ("scheduler_config", "long_prefill_token_threshold", "long_prefill_token_threshold"),
    ("scheduler_config", "policy", "scheduler"),
    ("scheduler_config", "async_scheduling", "async_scheduling"),
    ("scheduler_config", "stream_interval", "stream_interval"),
    ("parallel_config", "tensor_parallel_size", "tensor_parallel"),
    ("parallel_config", "data_parallel_size", "data_parallel"),
    ("parallel_config", "pipeline_parallel_size", "pipeline_parallel"),
    ("parallel_config", "enable_expert_parallel", "expert_parallel"),
    ("cache_config", "block_size", "block_size"),
    ("cache_config", "enable_prefix_caching", "prefix_caching"),
    ("cache_config", "gpu_memory_utilization", "gpu_memory_utilization"),
    ("cache_config", "num_gpu_blocks", "kv_blocks"),
    ("model_config", "max_model_len", "max_model_len"),
    ("model_config", "enforce_eager", "enforce_eager"),
    ("model_config", "quantization", "quantization"),
    ("device_config", "device", "device"),
)


def told_settings(info: object) -> dict[str, Any]:
    """Settings from the answer of ``/server_info?config_format=json``.

    Parameters
    ----------
    info : object
        Parsed JSON; anything else than the expected mapping gives nothing.

    Returns
    -------
    dict
        By the names of a trace's server block; only what the answer has. ``dtype`` is left out
        where the weights are quantised, since it names the weights.

    Examples
    --------
    >>> told_settings({"vllm_config": {"scheduler_config": {"max_num_seqs": 64}}})
    {'max_num_seqs': 64}
    """
    config = info.get("vllm_config") if isinstance(info, Mapping) else None
    if not isinstance(config, Mapping):
        return {}
    found: dict[str, Any] = {}
    for section, key, name in _KEYS:
        table = config.get(section)
        value = table.get(key) if isinstance(table, Mapping) else None
        if isinstance(value, int | float | str | bool):
            found[name] = value
    model = config.get("model_config")
    dtype = _DTYPES.get(str(model.get("dtype"))) if isinstance(model, Mapping) else None
    if dtype is not None and "quantization" not in found:
        found["dtype"] = dtype
    return found
