"""LLM facts as BLIS reads them from a Hugging Face ``config.json``.

This reading is deliberately not `tailcast.llm`'s: BLIS follows one level of ``text_config`` only,
takes ``interleave_moe_layer_step = s`` as "one layer in s + 1 is MoE", and ignores an explicit
``head_dim`` in step time. See `BlisModelConfig`.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

from tailcast.errors import InputError

_BYTES_BY_DTYPE = {
    "float32": 4.0,
    "float16": 2.0,
    "bfloat16": 2.0,
    "int8": 1.0,
    "uint8": 1.0,
    "fp8": 1.0,
    "int4": 1.0,
    "nf4": 1.0,
}
_EXPERT_KEYS = (
    "num_experts",
    "moe_num_experts",
    "n_routed_experts",
    "num_local_experts",
    "num_routed_experts",
)
_UNSCALED_ROPE = frozenset({"su", "longrope", "llama3"})
_WEIGHT_BITS_IN_NAME = re.compile(r"(?:^|[.\-_/])w(\d+)a\d+(?:$|[.\-_])", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlisModelConfig:
    """What BLIS takes from a model configuration; 0 stands for "not said", as in BLIS.

    Parameters
    ----------
    n_layers, hidden, n_heads, n_kv_heads : int
        Transformer shape; `n_kv_heads` is `n_heads` where the file says nothing.
    intermediate : int
        FFN width; 0 if absent (an error under trained physics, ``4 * hidden`` under roofline).
    vocab : int
        Vocabulary; used for resident weights only.
    n_experts, experts_per_token : int
        Routed experts (0 for a dense model) and how many a token uses.
    moe_intermediate, dense_intermediate, shared_intermediate : int
        FFN width of one expert, of dense layers between MoE layers, of all shared experts; 0 for
        "as `intermediate`" (the first two) or "none" (the last).
    interleave_step : int
        ``interleave_moe_layer_step``; 0 when every layer of a MoE model is MoE.
    first_dense : int
        ``first_k_dense_replace``; resident weights only.
    head_dim : int
        Explicit head size, 0 if absent; KV capacity only.
    kv_lora_rank, qk_rope_head_dim : int
        Compressed KV of multi-head latent attention; KV capacity only.
    activation : str
        ``hidden_act``; KV capacity accepts the gated family only.
    tied_embeddings : bool
        Whether input and output embeddings are one matrix.
    bytes_per_element : float
        Bytes of the compute dtype.
    bytes_per_weight : float
        Bytes of one weight; equals `bytes_per_element` without quantisation.
    max_model_len : int
        Automatic sequence limit before the KV cap; 0 if the file has no position limit.
    """

    n_layers: int
    hidden: int
    n_heads: int
    n_kv_heads: int
    intermediate: int
    vocab: int = 0
    n_experts: int = 0
    experts_per_token: int = 0
    moe_intermediate: int = 0
    dense_intermediate: int = 0
    shared_intermediate: int = 0
    interleave_step: int = 0
    first_dense: int = 0
    head_dim: int = 0
    kv_lora_rank: int = 0
    qk_rope_head_dim: int = 0
    activation: str = ""
    tied_embeddings: bool = False
    bytes_per_element: float = 2.0
    bytes_per_weight: float = 2.0
    max_model_len: int = 0

    def __post_init__(self) -> None:
        for field in ("n_layers", "hidden", "n_heads", "n_kv_heads"):
            value = getattr(self, field)
            if not value > 0:
                raise InputError(f"BLIS model config: {field} must be positive, got {value!r}")
        if not self.bytes_per_element > 0:
            raise InputError("BLIS model config: unknown compute dtype (torch_dtype or dtype)")
        if self.is_moe and self.experts_per_token <= 0:
            raise InputError(
                f"BLIS model config: {self.n_experts} experts but num_experts_per_tok is "
                f"{self.experts_per_token}"
            )

    @property
    def is_moe(self) -> bool:
        """Whether there are at least two routed experts."""
        return self.n_experts >= 2

    @property
    def is_interleaved(self) -> bool:
        """Whether BLIS takes MoE and dense layers to alternate."""
        return self.is_moe and self.interleave_step > 0

    @property
    def n_moe_layers(self) -> int:
        """MoE layers by BLIS's rule ``floor(L / (s + 1))``."""
        if not self.is_moe:
            return 0
        return self.n_layers // (self.interleave_step + 1)

    @property
    def n_dense_layers(self) -> int:
        """Layers that are not MoE layers."""
        return self.n_layers - self.n_moe_layers

    @property
    def expert_width(self) -> int:
        """FFN width of one routed expert."""
        return self.moe_intermediate or self.intermediate

    @property
    def dense_width(self) -> int:
        """FFN width of a dense layer."""
        return self.dense_intermediate or self.intermediate


def blis_model_config(config: Mapping[str, object], *, name: str = "") -> BlisModelConfig:
    """Read a configuration the way BLIS does.

    Parameters
    ----------
    config : mapping of str to object
        Parsed ``config.json``; keys of a ``text_config`` object replace those of the top level.
    name : str
        Model name; its ``w4a16`` or ``fp8`` gives the weight width if the file says nothing.

    Returns
    -------
    BlisModelConfig
        Facts for step time and KV capacity.

    Raises
    ------
    InputError
        If layers, width or heads are missing, the dtype is unknown, or experts are inconsistent.

    Examples
    --------
    >>> config = {"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4,
    ...           "intermediate_size": 128, "torch_dtype": "bfloat16"}
    >>> blis_model_config(config).n_kv_heads
    4
    """
    fields = dict(config)
    text = fields.get("text_config")
    if isinstance(text, Mapping):
        fields.update(text)
    n_heads = _whole(fields, "num_attention_heads")
    element = _bytes_per_element(fields)
    return BlisModelConfig(
        n_layers=_whole(fields, "num_hidden_layers"),
        hidden=_whole(fields, "hidden_size"),
        n_heads=n_heads,
        n_kv_heads=_first(fields, "num_key_value_heads", "num_kv_heads", "multi_query_group_num")
        or n_heads,
        intermediate=_first(fields, "intermediate_size", "ffn_hidden_size"),
        vocab=_whole(fields, "vocab_size"),
        n_experts=next((n for k in _EXPERT_KEYS if (n := _whole(fields, k)) >= 2), 0),
        experts_per_token=_whole(fields, "num_experts_per_tok"),
        moe_intermediate=_whole(fields, "moe_intermediate_size"),
        dense_intermediate=_whole(fields, "intermediate_size_mlp"),
        shared_intermediate=_shared_intermediate(fields),
        interleave_step=_whole(fields, "interleave_moe_layer_step"),
        first_dense=_whole(fields, "first_k_dense_replace"),
        head_dim=_whole(fields, "head_dim"),
        kv_lora_rank=_whole(fields, "kv_lora_rank"),
        qk_rope_head_dim=_whole(fields, "qk_rope_head_dim"),
        activation=_text(fields, "hidden_act"),
        tied_embeddings=fields.get("tie_word_embeddings") is True,
        bytes_per_element=element,
        bytes_per_weight=_quantised_bytes(fields) or weight_bytes_in_name(name) or element,
        max_model_len=_max_model_len(fields),
    )


def weight_bytes_in_name(name: str) -> float:
    """Bytes of one weight as a model's name spells it.

    Parameters
    ----------
    name : str
        Hugging Face identifier.

    Returns
    -------
    float
        X/8 for ``w<X>a<Y>``, 1 where the name contains ``fp8``, otherwise 0.

    Examples
    --------
    >>> weight_bytes_in_name("org/llama-w4a16"), weight_bytes_in_name("org/scout-FP8-dynamic")
    (0.5, 1.0)
    """
    match = _WEIGHT_BITS_IN_NAME.search(name)
    if match and int(match[1]) > 0:
        return int(match[1]) / 8
    return 1.0 if "fp8" in name.lower() else 0.0


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def _whole(fields: Mapping[str, object], key: str) -> int:
    value = _number(fields.get(key))
    return 0 if value is None else int(value)


def _first(fields: Mapping[str, object], *keys: str) -> int:
    return next((n for key in keys if (n := _whole(fields, key)) != 0), 0)


def _text(fields: Mapping[str, object], key: str) -> str:
    value = fields.get(key)
    return value if isinstance(value, str) else ""


def _bytes_per_element(fields: Mapping[str, object]) -> float:
    dtype = fields.get("torch_dtype")
    if not isinstance(dtype, str):
        dtype = fields.get("dtype")
    return _BYTES_BY_DTYPE.get(dtype, 0.0) if isinstance(dtype, str) else 0.0


def _shared_intermediate(fields: Mapping[str, object]) -> int:
    explicit = _whole(fields, "shared_expert_intermediate_size")
    if explicit > 0:
        return explicit
    width = _whole(fields, "moe_intermediate_size") or _first(
        fields, "intermediate_size", "ffn_hidden_size"
    )
    return max(0, _whole(fields, "n_shared_experts")) * width


def _quantised_bytes(fields: Mapping[str, object]) -> float:
    section = fields.get("quantization_config")
    if not isinstance(section, Mapping):
        return 0.0
    bits = section.get("bits")
    number = int(bits) if isinstance(bits, str) and bits.strip().isdigit() else _number(bits)
    if number and number > 0:
        return int(number) / 8
    method = _text(section, "quant_method").lower()
    if method == "fp8":
        return 1.0
    groups = section.get("config_groups") if method == "compressed-tensors" else None
    if isinstance(groups, Mapping):
        for key in sorted(groups):
            weights = groups[key].get("weights") if isinstance(groups[key], Mapping) else None
            width = _number(weights.get("num_bits")) if isinstance(weights, Mapping) else None
            if width and width > 0:
                return width / 8
    return 0.0


def _max_model_len(fields: Mapping[str, object]) -> int:
    limit = _whole(fields, "max_position_embeddings")
    rope = fields.get("rope_scaling")
    if not isinstance(rope, Mapping) or "gemma3" in _text(fields, "model_type"):
        return limit
    kind = _text(rope, "type") or _text(rope, "rope_type")
    factor = _number(rope.get("factor"))
    if kind in _UNSCALED_ROPE or factor is None or factor <= 1:
        return limit
    original = _whole(rope, "original_max_position_embeddings") if kind == "yarn" else 0
    return int((original if original > 0 else limit) * factor)
