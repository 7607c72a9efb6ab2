"""Rules of each model family: what the same keys of a ``config.json`` mean in which family."""

from dataclasses import dataclass

from tailcast.config_fields import ConfigFields
from tailcast.errors import InputError

# Two weight matrices in the FFN (up, down) instead of three (gate, up, down).
_UNGATED = frozenset(
    {
        "bloom",
        "falcon",
        "gpt2",
        "gpt_bigcode",
        "gpt_neox",
        "gptj",
        "mpt",
        "opt",
        "phi",
        "starcoder2",
    }
)
# Families whose configuration ties the embedding and the output projection when it says nothing
# (defaults of the transformers configuration classes).
_TIED = frozenset(
    {"bloom", "cohere", "cohere2", "falcon", "gemma", "gemma2", "gemma3", "gemma3_text", "gpt2",
     "gpt_bigcode", "mpt", "opt", "starcoder2"}
)  # fmt: skip
# Families that also accept a missing num_key_value_heads: one KV head for each query head.
_MULTI_HEAD = frozenset({"bloom", "gpt2", "gpt_neox", "gptj", "llama", "mpt", "opt", "phi"})
# Families whose head_dim is not hidden_size / num_attention_heads when the key is missing.
_OWN_HEAD_DIM = frozenset(
    {"gemma", "gemma2", "gemma3", "gemma3_text", "gpt_oss", "llama4", "llama4_text", "qwen3",
     "qwen3_moe"}
)  # fmt: skip
# Keys of layers that are no attention or FFN layers; they cannot be counted here.
_FOREIGN_KEYS = (
    "attn_layer_period",
    "block_configs",
    "full_attention_interval",
    "hybrid_override_pattern",
    "is_encoder_decoder",
    "linear_num_value_heads",
    "mamba_d_state",
    "ssm_state_size",
    "state_size",
)
_GATED_ACTIVATIONS = frozenset(
    {"silu", "swiglu", "swish", "geglu", "gelu", "gelu_pytorch_tanh", "gelu_new", "gelu_fast"}
)

_EXPERTS = (
    "num_local_experts",
    "num_experts",
    "n_routed_experts",
    "moe_num_experts",
    "num_routed_experts",
)
_EXPERTS_PER_TOKEN = (
    "num_experts_per_tok",
    "experts_per_token",
    "num_experts_per_token",
    "moe_topk",
    "moe_k",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Shape of the attention layers.

    Parameters
    ----------
    n_heads, n_kv_heads : int
        Query heads and key/value heads.
    head_dim : int
        Size of one key (or query) head, rotary part included.
    v_head_dim : int
        Size of one value head.
    q_lora_rank, kv_lora_rank, qk_rope_head_dim : int
        Dimensions of multi-head latent attention; 0 where there is none.
    sliding_window : int
        Tokens that a windowed layer looks back on; 0 where no layer is windowed.
    n_window_layers : int
        Layers that are windowed.
    """

    n_heads: int
    n_kv_heads: int
    head_dim: int
    v_head_dim: int
    q_lora_rank: int = 0
    kv_lora_rank: int = 0
    qk_rope_head_dim: int = 0
    sliding_window: int = 0
    n_window_layers: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ffn:
    """Shape of the feed-forward layers.

    Parameters
    ----------
    gated : bool
        Three matrices (gate, up, down) instead of two.
    dense_intermediate : int
        Width of the FFN of dense layers; 0 where every layer is a mixture of experts.
    n_experts, experts_per_token, n_moe_layers : int
        Routed experts of a layer, those that work on one token, and layers that have them.
    moe_intermediate, shared_intermediate : int
        Width of one routed expert, and of all shared experts of a layer together.
    """

    gated: bool
    dense_intermediate: int
    n_experts: int = 0
    experts_per_token: int = 0
    n_moe_layers: int = 0
    moe_intermediate: int = 0
    shared_intermediate: int = 0


def refuse_foreign_layers(fields: ConfigFields) -> None:
    """Refuse an architecture whose layers are not attention plus FFN.

    Parameters
    ----------
    fields : ConfigFields
        Configuration.

    Raises
    ------
    InputError
        If it has state-space, linear-attention, encoder or per-layer blocks.
    """
    for key in _FOREIGN_KEYS:
        if fields.values.get(key):
            raise InputError(
                f"{fields.where}: {key} belongs to an architecture other than a decoder of "
                "attention and FFN layers, which alone is supported"
            )


def tied_embeddings(fields: ConfigFields, family: str) -> bool:
    """Whether the embedding table is the output projection too.

    Parameters
    ----------
    fields : ConfigFields
        Configuration.
    family : str
        Its ``model_type``.

    Returns
    -------
    bool
        As declared, else as the family's configuration class has it.
    """
    return fields.flag("tie_word_embeddings", default=family in _TIED)


def attention_shape(fields: ConfigFields, family: str, n_layers: int, hidden: int) -> Attention:
    """Attention of a configuration.

    Parameters
    ----------
    fields : ConfigFields
        Configuration.
    family : str
        Its ``model_type``.
    n_layers : int
        Decoder layers.
    hidden : int
        Width of the residual stream.

    Returns
    -------
    Attention
        Shape of every attention layer.

    Raises
    ------
    InputError
        If a field is missing or heads cannot be grouped.
    """
    n_heads = fields.count("num_attention_heads", "n_head", "n_heads", "num_heads")
    window, n_window = _windows(fields, family, n_layers)
    if fields.has("kv_lora_rank"):
        rope, nope = fields.count("qk_rope_head_dim"), fields.count("qk_nope_head_dim")
        return Attention(
            n_heads=n_heads,
            n_kv_heads=n_heads,
            head_dim=rope + nope,
            v_head_dim=fields.count("v_head_dim"),
            q_lora_rank=fields.count_or(0, "q_lora_rank"),
            kv_lora_rank=fields.count("kv_lora_rank"),
            qk_rope_head_dim=rope,
        )
    n_kv_heads = _kv_heads(fields, family, n_heads)
    head_dim = _head_dim(fields, family, n_heads, hidden)
    if n_heads % n_kv_heads:
        raise InputError(
            f"{fields.where}: num_key_value_heads {n_kv_heads} does not divide "
            f"num_attention_heads {n_heads}"
        )
    return Attention(
        n_heads=n_heads,
        n_kv_heads=n_kv_heads,
        head_dim=head_dim,
        v_head_dim=head_dim,
        sliding_window=window,
        n_window_layers=n_window,
    )


def ffn_shape(fields: ConfigFields, family: str, n_layers: int, hidden: int) -> Ffn:
    """Feed-forward layers of a configuration.

    Parameters
    ----------
    fields : ConfigFields
        Configuration.
    family : str
        Its ``model_type``.
    n_layers : int
        Decoder layers.
    hidden : int
        Width of the residual stream.

    Returns
    -------
    Ffn
        Dense, expert and shared widths.

    Raises
    ------
    InputError
        If a field is missing, or more experts work on a token than there are.
    """
    gated = _gated(fields, family)
    n_experts = _n_experts(fields)
    if n_experts < 2:
        if n_experts == 0 and fields.count_or(0, *_EXPERTS_PER_TOKEN):
            raise fields.missing("num_local_experts")
        return Ffn(gated=gated, dense_intermediate=_dense_width(fields, family, hidden))
    per_token = fields.count(*_EXPERTS_PER_TOKEN)
    if per_token > n_experts:
        raise InputError(
            f"{fields.where}: num_experts_per_tok {per_token} exceeds the {n_experts} experts"
        )
    n_moe = _n_moe_layers(fields, family, n_layers)
    dense = 0
    if n_moe < n_layers:
        dense = fields.count("intermediate_size_mlp", "intermediate_size")
    return Ffn(
        gated=gated,
        dense_intermediate=dense,
        n_experts=n_experts,
        experts_per_token=per_token,
        n_moe_layers=n_moe,
        moe_intermediate=_expert_width(fields, family),
        shared_intermediate=_shared_width(fields, family),
    )


def _kv_heads(fields: ConfigFields, family: str, n_heads: int) -> int:
    if fields.flag("new_decoder_architecture", default=False):  # Falcon 40B and later
        return fields.count("num_kv_heads")
    if fields.flag("multi_query", default=False):
        return 1
    keys = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num")
    attn_config = fields.section("attn_config")
    if attn_config is not None and attn_config.has("kv_n_heads"):
        return attn_config.count("kv_n_heads")
    if family in _MULTI_HEAD and not fields.has(*keys):
        return n_heads
    return fields.count(*keys)


def _head_dim(fields: ConfigFields, family: str, n_heads: int, hidden: int) -> int:
    if fields.has("head_dim"):
        return fields.count("head_dim")
    if family in _OWN_HEAD_DIM:
        raise fields.missing("head_dim")
    if hidden % n_heads:
        raise InputError(
            f"{fields.where}: head_dim is missing and num_attention_heads {n_heads} does not "
            f"divide hidden_size {hidden}"
        )
    return hidden // n_heads


def _windows(fields: ConfigFields, family: str, n_layers: int) -> tuple[int, int]:
    """Window in tokens and number of layers that have it."""
    kinds = [str(kind) for kind in fields.items("layer_types")]
    unknown = set(kinds) - {"full_attention", "sliding_attention", "chunked_attention"}
    if unknown:
        raise InputError(f"{fields.where}: layer_types {sorted(unknown)[0]!r} is not supported")
    if kinds and len(kinds) != n_layers:
        raise InputError(
            f"{fields.where}: layer_types has {len(kinds)} entries for {n_layers} layers"
        )
    key = "attention_chunk_size" if family.startswith("llama4") else "sliding_window"
    if not fields.has(key) or not fields.flag("use_sliding_window", default=True):
        return 0, 0
    window = fields.count(key)
    n_window = len([kind for kind in kinds if kind != "full_attention"])
    if not kinds:
        n_window = _n_window_layers(fields, family, n_layers)
    return (window, n_window) if n_window else (0, 0)


def _n_window_layers(fields: ConfigFields, family: str, n_layers: int) -> int:
    """Windowed layers by the family's rule, where ``layer_types`` does not list them."""
    if family.startswith("llama4"):
        rope = [bool(flag) for flag in fields.items("no_rope_layers")]
        step = fields.count_or(4, "no_rope_layer_interval", least=1)
        return sum(rope) if rope else n_layers - n_layers // step
    if family.startswith("qwen"):
        # Qwen declares a window but uses it only when told to, above max_window_layers.
        if not fields.flag("use_sliding_window", default=False):
            return 0
        return n_layers - min(n_layers, fields.count_or(0, "max_window_layers"))
    if family in {"gemma2", "gpt_oss"}:
        return (n_layers + 1) // 2
    if family in {"gemma3", "gemma3_text"}:
        return n_layers - n_layers // fields.count_or(6, "sliding_window_pattern", least=1)
    if family == "cohere2":
        return n_layers - n_layers // fields.count_or(4, "sliding_window_pattern", least=1)
    return n_layers


def _gated(fields: ConfigFields, family: str) -> bool:
    if family in _UNGATED:
        return False
    activation = fields.text("hidden_act", "hidden_activation", "activation_function")
    if activation.lower() not in _GATED_ACTIVATIONS:
        raise InputError(
            f"{fields.where}: hidden_act {activation!r} does not say whether the FFN of the family "
            f"{family!r} is gated"
        )
    return True


def _dense_width(fields: ConfigFields, family: str, hidden: int) -> int:
    keys = ("intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim")
    # These families define the FFN as four times the width when the key is missing or null.
    if family in {"bloom", "falcon", "gpt2", "gpt_bigcode", "gptj"} and not fields.has(*keys):
        return 4 * hidden
    if family == "mpt" and fields.has("expansion_ratio"):
        return fields.count("expansion_ratio") * hidden
    return fields.count(*keys)


def _n_experts(fields: ConfigFields) -> int:
    return max(fields.count_or(0, key) for key in _EXPERTS)


def _n_moe_layers(fields: ConfigFields, family: str, n_layers: int) -> int:
    if fields.has("moe_layers"):
        return len(fields.items("moe_layers"))
    if family.startswith("llama4"):
        return n_layers // fields.count("interleave_moe_layer_step")
    if fields.has("interleave_moe_layer_step"):
        return n_layers // fields.count("interleave_moe_layer_step")
    dense = fields.items("mlp_only_layers")
    step = fields.count_or(1, "decoder_sparse_step", least=1)
    first = fields.count_or(0, "first_k_dense_replace")
    frequency = fields.count_or(1, "moe_layer_freq", least=1)
    return sum(
        layer not in dense and (layer + 1) % step == 0 and layer >= first and layer % frequency == 0
        for layer in range(n_layers)
    )


def _expert_width(fields: ConfigFields, family: str) -> int:
    if fields.has("moe_intermediate_size"):
        return fields.count("moe_intermediate_size")
    # With this key, intermediate_size is the width of an expert (Mixtral, Llama 4, gpt-oss, ...).
    if fields.has("num_local_experts") or family == "olmoe":
        return fields.count("intermediate_size")
    raise fields.missing("moe_intermediate_size")


def _shared_width(fields: ConfigFields, family: str) -> int:
    if family.startswith("llama4"):
        # Llama 4 has one shared expert as wide as a routed one in each MoE layer, undeclared.
        return fields.count("intermediate_size")
    if fields.has("shared_expert_intermediate_size", "shared_intermediate_size"):
        return fields.count_or(0, "shared_expert_intermediate_size", "shared_intermediate_size")
    n_shared = fields.count_or(0, "n_shared_experts", "moe_num_shared_experts")
    return n_shared * fields.count("moe_intermediate_size") if n_shared else 0
