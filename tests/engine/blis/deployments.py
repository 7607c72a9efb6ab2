"""Model configurations as their publishers state them, and deployments made of them."""

from collections.abc import Mapping

from tailcast.engine.blis.accelerators import blis_accelerator
from tailcast.engine.blis.latency_model import BlisLatencyModel
from tailcast.engine.blis.model_config import BlisModelConfig, blis_model_config

_COMMON: Mapping[str, object] = {"torch_dtype": "bfloat16", "hidden_act": "silu"}


def _shape(
    layers: int, hidden: int, heads: int, kv_heads: int, width: int, vocab: int
) -> dict[str, object]:
    return {
        **_COMMON,
        "num_hidden_layers": layers,
        "hidden_size": hidden,
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "intermediate_size": width,
        "vocab_size": vocab,
    }


CONFIGS: Mapping[str, Mapping[str, object]] = {
    "llama-3.1-8b": _shape(32, 4096, 32, 8, 14336, 128256),
    "llama-3.1-70b": _shape(80, 8192, 64, 8, 28672, 128256),
    "llama-2-7b": {**_shape(32, 4096, 32, 32, 11008, 32000), "torch_dtype": "float16"},
    "qwen3-14b": {**_shape(40, 5120, 40, 8, 17408, 151936), "head_dim": 128},
    "qwen2.5-7b": _shape(28, 3584, 28, 4, 18944, 152064),
    "yi-34b": _shape(60, 7168, 56, 8, 20480, 64000),
    "mistral-nemo": {**_shape(40, 5120, 32, 8, 14336, 131072), "head_dim": 128},
    "mixtral": {
        **_shape(32, 4096, 32, 8, 14336, 32000),
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
    },
    "qwen3-30b-a3b": {
        **_shape(48, 2048, 32, 4, 6144, 151936),
        "head_dim": 128,
        "num_experts": 128,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 768,
    },
    "scout-fp8": {
        **_shape(48, 5120, 40, 8, 8192, 202048),
        "head_dim": 128,
        "intermediate_size_mlp": 16384,
        "num_local_experts": 16,
        "num_experts_per_tok": 1,
        "interleave_moe_layer_step": 1,
    },
    "deepseek-v2-lite": {
        **_shape(27, 2048, 16, 16, 10944, 102400),
        "first_k_dense_replace": 1,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
        "moe_intermediate_size": 1408,
        "n_routed_experts": 64,
        "n_shared_experts": 2,
        "num_experts_per_tok": 6,
    },
}


def llm(name: str) -> BlisModelConfig:
    """Model as BLIS reads it; names ending in fp8 have 8-bit weights."""
    return blis_model_config(CONFIGS[name], name=name)


def deployment(
    name: str = "llama-3.1-8b", *, tp: int = 1, gpu: str = "H100", backend: str = "trained-physics"
) -> BlisLatencyModel:
    """Model on GPUs with BLIS's default coefficients."""
    return BlisLatencyModel(
        llm=llm(name), accelerator=blis_accelerator(gpu), tensor_parallel=tp, backend=backend
    )
