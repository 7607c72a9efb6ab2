"""Configurations that several test modules start from."""

from tailcast.llm import Llm, llm_from_config


def dense_config(**changes: object) -> dict[str, object]:
    """Llama 3.1 8B; a change to None removes the key."""
    config: dict[str, object] = {
        "model_type": "llama",
        "num_hidden_layers": 32,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "hidden_act": "silu",
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
    config.update(changes)
    return {key: value for key, value in config.items() if value is not None}


def moe_config(**changes: object) -> dict[str, object]:
    """Mixtral 8x7B; a change to None removes the key."""
    config = dense_config(
        model_type="mixtral", vocab_size=32000, num_local_experts=8, num_experts_per_tok=2
    )
    config.update(changes)
    return {key: value for key, value in config.items() if value is not None}


def dense_llm(**changes: object) -> Llm:
    """Llama 3.1 8B with changed keys."""
    return llm_from_config(dense_config(**changes), "a.json")


def moe_llm(**changes: object) -> Llm:
    """Mixtral 8x7B with changed keys."""
    return llm_from_config(moe_config(**changes), "a.json")
