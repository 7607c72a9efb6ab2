"""One LLM's architecture: what it computes, stores and reads, from its ``config.json``."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from tailcast.architecture import (
    attention_shape,
    ffn_shape,
    refuse_foreign_layers,
    tied_embeddings,
)
from tailcast.config_fields import ConfigFields
from tailcast.errors import InputError
from tailcast.quantisation import (
    Quantisation,
    compute_dtype,
    quantisation_from_config,
    uniform,
)

_MOST_LAYERS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Llm:
    """A decoder-only LLM. All derived quantities are of the whole LLM, before any sharding.

    Biases and the few numbers beside weight matrices and norms are not counted (below 0.1 %).

    Parameters
    ----------
    name : str
        Catalogue name or the file it was read from.
    family : str
        ``model_type`` of its configuration.
    n_layers, hidden, vocab : int
        Decoder layers, width of the residual stream, vocabulary.
    n_heads, n_kv_heads, head_dim, v_head_dim : int
        Query heads, key/value heads, size of a key head (rotary part included) and of a value head.
    q_lora_rank, kv_lora_rank, qk_rope_head_dim : int
        Dimensions of multi-head latent attention (MLA); 0 where there is none.
    sliding_window, n_window_layers : int
        Tokens a windowed layer looks back on, and how many layers are windowed; 0 for none.
    gated_ffn : bool
        Three matrices in an FFN instead of two.
    dense_intermediate : int
        Width of the FFN of dense layers; 0 where there are none.
    n_experts, experts_per_token, n_moe_layers : int
        Routed experts of a mixture-of-experts layer, those working on one token, number of such
        layers; 0 for a dense LLM.
    moe_intermediate, shared_intermediate : int
        Width of one routed expert, and of all shared experts of one layer together.
    tied_embeddings : bool
        The embedding table is the output projection too.
    dtype : str
        16-bit dtype of activations and of whatever is not quantised: ``"bf16"`` or ``"fp16"``.
    max_position : int
        Longest context in tokens that the LLM was made for.
    quantisation : Quantisation
        Storage and compute formats of the weights.
    tower_parameters : int
        Parameters of a vision tower: resident, never read for text.
    longest_context : int
        Tokens of the longest request that is served; a window at least as long hides nothing, so
        its layers count as full attention. 0 stands for `max_position`.
    config : mapping of str to object
        The configuration itself, for readers with rules of their own (BLIS); not compared.
    """

    name: str
    family: str
    n_layers: int
    hidden: int
    vocab: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    v_head_dim: int
    q_lora_rank: int = 0
    kv_lora_rank: int = 0
    qk_rope_head_dim: int = 0
    sliding_window: int = 0
    n_window_layers: int = 0
    gated_ffn: bool = True
    dense_intermediate: int
    n_experts: int = 0
    experts_per_token: int = 0
    n_moe_layers: int = 0
    moe_intermediate: int = 0
    shared_intermediate: int = 0
    tied_embeddings: bool
    dtype: str
    max_position: int
    quantisation: Quantisation
    tower_parameters: int = 0
    longest_context: int = 0
    config: Mapping[str, object] = field(default_factory=dict, compare=False, repr=False)

    def __post_init__(self) -> None:
        for column in fields(self):
            value = getattr(self, column.name)
            if isinstance(value, int) and value < 0:
                raise InputError(f"{self.name}: {column.name} must not be negative, got {value}")
        for name in ("n_layers", "hidden", "vocab", "n_heads", "n_kv_heads", "head_dim"):
            if getattr(self, name) < 1:
                raise InputError(f"{self.name}: {name} must be at least 1")
        if self.n_moe_layers > self.n_layers or self.n_window_layers > self.n_layers:
            raise InputError(f"{self.name}: more MoE or windowed layers than layers")
        if self.n_moe_layers < self.n_layers and not self.dense_intermediate:
            raise InputError(f"{self.name}: dense layers need dense_intermediate")
        if self.n_moe_layers and not 1 <= self.experts_per_token <= self.n_experts:
            raise InputError(f"{self.name}: experts_per_token must lie in 1..{self.n_experts}")

    @property
    def is_moe(self) -> bool:
        """Whether any layer is a mixture of experts."""
        return self.n_moe_layers > 0

    @property
    def is_mla(self) -> bool:
        """Whether the KV cache holds one compressed latent instead of heads."""
        return self.kv_lora_rank > 0

    @property
    def n_dense_layers(self) -> int:
        """Layers with an ordinary FFN."""
        return self.n_layers - self.n_moe_layers

    @property
    def n_hiding_layers(self) -> int:
        """Windowed layers whose window is shorter than the longest request."""
        longest = self.longest_context or self.max_position
        return self.n_window_layers if self.sliding_window < longest else 0

    @property
    def n_full_layers(self) -> int:
        """Layers that attend to the whole context of every request."""
        return self.n_layers - self.n_hiding_layers

    @property
    def n_quantised_layers(self) -> int:
        """Layers with products of quantised weights."""
        formats = self.quantisation
        if formats.attention < 2.0 or formats.ffn < 2.0:
            return self.n_layers
        return self.n_moe_layers if formats.experts < 2.0 else 0

    @property
    def kv_projection_parameters(self) -> int:
        """Parameters of all layers that make keys and values; for MLA the down-projection."""
        if self.is_mla:
            return self.n_layers * self.hidden * (self.kv_lora_rank + self.qk_rope_head_dim)
        return self.n_layers * self.hidden * self.n_kv_heads * (self.head_dim + self.v_head_dim)

    @property
    def attention_parameters(self) -> int:
        """Parameters of the attention projections of all layers."""
        d, heads = self.hidden, self.n_heads
        if self.q_lora_rank:
            query = self.q_lora_rank * (d + heads * self.head_dim)
        else:
            query = d * heads * self.head_dim
        expand = 0
        if self.is_mla:
            nope = self.head_dim - self.qk_rope_head_dim
            expand = self.kv_lora_rank * heads * (nope + self.v_head_dim)
        output = heads * self.v_head_dim * d
        return self.n_layers * (query + expand + output) + self.kv_projection_parameters

    @property
    def dense_ffn_parameters(self) -> int:
        """Parameters of the FFNs of all dense layers."""
        return self.n_dense_layers * self._ffn(self.dense_intermediate)

    @property
    def shared_expert_parameters(self) -> int:
        """Parameters of the shared experts of all layers."""
        return self.n_moe_layers * self._ffn(self.shared_intermediate)

    @property
    def expert_parameters(self) -> int:
        """Parameters of one routed expert, summed over all mixture-of-experts layers."""
        return self.n_moe_layers * self._ffn(self.moe_intermediate)

    @property
    def router_parameters(self) -> int:
        """Parameters of the routers of all layers."""
        return self.n_moe_layers * self.hidden * self.n_experts

    @property
    def norm_parameters(self) -> int:
        """Parameters of two norms a layer and the last one."""
        return (2 * self.n_layers + 1) * self.hidden

    @property
    def embedding_parameters(self) -> int:
        """Parameters of one table of vocabulary by width."""
        return self.vocab * self.hidden

    @property
    def total_parameters(self) -> int:
        """Parameters of the language part, routed experts all counted."""
        tables = self.embedding_parameters * (1 if self.tied_embeddings else 2)
        every = self._every_token_parameters + self.norm_parameters + tables
        return every + self.n_experts * self.expert_parameters

    @property
    def active_parameters(self) -> int:
        """Parameters that take part in computing one token, as model cards count them."""
        idle = (self.n_experts - self.experts_per_token) * self.expert_parameters
        return self.total_parameters - idle

    @property
    def matmul_flops_per_token(self) -> float:
        """FLOPs of all matrix products in the layers for one token; neither pairs nor lm_head."""
        return sum(self.matmul_flops_by_dtype.values())

    @property
    def matmul_flops_by_dtype(self) -> dict[str, float]:
        """The same, split by the format that each product is computed in."""
        quantised = self.quantisation
        parts = (
            (self.attention_parameters, quantised.attention),
            (self.dense_ffn_parameters + self.shared_expert_parameters, quantised.ffn),
            (self.experts_per_token * self.expert_parameters, quantised.experts),
            (self.router_parameters, 2.0),
        )
        flops: dict[str, float] = {}
        for parameters, width in parts:
            # Modules left at 16 bits are computed in 16 bits. A partly ignored kind is split.
            plain = _share_at_16_bits(width, quantised)
            for dtype, share in ((self.dtype, plain), (quantised.compute, 1.0 - plain)):
                if parameters and share:
                    flops[dtype] = flops.get(dtype, 0.0) + 2.0 * parameters * share
        return flops

    @property
    def attention_flops_per_pair(self) -> float:
        """FLOPs of one (query, key) pair in all full-attention layers, heads expanded."""
        return 2.0 * self.n_full_layers * self.n_heads * (self.head_dim + self.v_head_dim)

    @property
    def decode_attention_flops_per_pair(self) -> float:
        """FLOPs for one pair in a decode step; MLA works on the latent, others as in prefill."""
        if not self.is_mla:
            return self.attention_flops_per_pair
        latent = 2 * self.kv_lora_rank + self.qk_rope_head_dim
        return 2.0 * self.n_full_layers * self.n_heads * latent

    @property
    def window_attention_flops_per_token(self) -> float:
        """FLOPs of the windowed layers for one token, charged the whole window."""
        pair = 2.0 * self.n_hiding_layers * self.n_heads * (self.head_dim + self.v_head_dim)
        return pair * self.sliding_window

    @property
    def lm_head_flops(self) -> float:
        """FLOPs of the output projection for one sampled token."""
        return 2.0 * self.embedding_parameters

    @property
    def attention_weight_bytes(self) -> float:
        """Bytes of the attention projections."""
        return self.attention_parameters * self.quantisation.attention

    @property
    def fixed_weight_bytes(self) -> float:
        """Bytes read in every step whatever the batch: all but routed experts and embeddings."""
        ffn = self.dense_ffn_parameters + self.shared_expert_parameters
        return (
            self.attention_weight_bytes
            + ffn * self.quantisation.ffn
            + 2.0 * (self.router_parameters + self.norm_parameters)
            + self.embedding_parameters * self.quantisation.lm_head
        )

    @property
    def quantised_fixed_weight_bytes(self) -> float:
        """The part of `fixed_weight_bytes` that is stored in fewer than 16 bits."""
        formats, total = self.quantisation, 0.0
        ffn = self.dense_ffn_parameters + self.shared_expert_parameters
        for parameters, width in (
            (self.attention_parameters, formats.attention),
            (ffn, formats.ffn),
        ):
            plain = _share_at_16_bits(width, formats)
            total += parameters * (width - 2.0 * plain)
        return total

    @property
    def quantised_experts(self) -> bool:
        """Whether routed experts are stored in fewer than 16 bits."""
        return self.is_moe and self.quantisation.experts < 2.0

    @property
    def expert_weight_bytes(self) -> float:
        """Bytes of one routed expert summed over all mixture-of-experts layers."""
        return self.expert_parameters * self.quantisation.experts

    @property
    def total_weight_bytes(self) -> float:
        """Bytes of everything resident: embeddings and a vision tower too."""
        table = 0.0 if self.tied_embeddings else 2.0 * self.embedding_parameters
        experts = self.n_experts * self.expert_weight_bytes
        return self.fixed_weight_bytes + experts + table + 2.0 * self.tower_parameters

    @property
    def kv_bytes_per_token(self) -> float:
        """KV cache bytes of one token in all full-attention layers, at the 16-bit dtype."""
        return self.n_full_layers * self._kv_bytes_per_layer

    @property
    def window_kv_bytes_per_token(self) -> float:
        """KV cache bytes of one token in all windowed layers, at the 16-bit dtype."""
        return self.n_hiding_layers * self._kv_bytes_per_layer

    @property
    def _kv_bytes_per_layer(self) -> float:
        if self.is_mla:
            return 2.0 * (self.kv_lora_rank + self.qk_rope_head_dim)
        return 2.0 * self.n_kv_heads * (self.head_dim + self.v_head_dim)

    @property
    def _every_token_parameters(self) -> int:
        return (
            self.attention_parameters
            + self.dense_ffn_parameters
            + self.shared_expert_parameters
            + self.router_parameters
        )

    def _ffn(self, width: int) -> int:
        return (3 if self.gated_ffn else 2) * self.hidden * width


def quantised(llm: Llm, weights: str) -> Llm:
    """The same LLM with every linear layer but the output projection stored otherwise.

    Parameters
    ----------
    llm : Llm
        Any LLM.
    weights : str
        ``"bf16"`` (16 bits), ``"fp8"``, ``"int8"`` (weights and activations) or ``"int4"``
        (weights only).

    Returns
    -------
    Llm
        The LLM itself where it already has this format.

    Raises
    ------
    UsageError
        If the format is none of these.
    """
    formats = uniform(weights, llm.dtype)
    return llm if formats.scheme == llm.quantisation.scheme else replace(llm, quantisation=formats)


def llm_from_config(config: Mapping[str, object], name: str, *, where: str | None = None) -> Llm:
    """Architecture that a Hugging Face configuration describes.

    Parameters
    ----------
    config : mapping of str to object
        Parsed ``config.json``; the language part of a multimodal one (``text_config``) is used.
    name : str
        Name of the LLM.
    where : str, optional
        File that error messages name; `name` by default.

    Returns
    -------
    Llm
        With formats as the configuration declares them.

    Raises
    ------
    InputError
        If a field is missing, has an impossible value, or the architecture is not supported.
    """
    outer = ConfigFields(config, where or name)
    text = outer.section("text_config")
    # A multimodal configuration keeps some keys (dtype, quantisation) at the top.
    fields_ = outer if text is None else ConfigFields({**config, **text.values}, outer.where)
    refuse_foreign_layers(fields_)
    family = fields_.text("model_type")
    n_layers = fields_.count(
        "num_hidden_layers", "n_layer", "n_layers", "num_layers", most=_MOST_LAYERS
    )
    hidden = fields_.count("hidden_size", "n_embd", "d_model")
    attention = attention_shape(fields_, family, n_layers, hidden)
    ffn = ffn_shape(fields_, family, n_layers, hidden)
    dtype = compute_dtype(fields_)
    return Llm(
        name=name,
        family=family,
        n_layers=n_layers,
        hidden=hidden,
        vocab=fields_.count("vocab_size"),
        n_heads=attention.n_heads,
        n_kv_heads=attention.n_kv_heads,
        head_dim=attention.head_dim,
        v_head_dim=attention.v_head_dim,
        q_lora_rank=attention.q_lora_rank,
        kv_lora_rank=attention.kv_lora_rank,
        qk_rope_head_dim=attention.qk_rope_head_dim,
        sliding_window=attention.sliding_window,
        n_window_layers=attention.n_window_layers,
        gated_ffn=ffn.gated,
        dense_intermediate=ffn.dense_intermediate,
        n_experts=ffn.n_experts,
        experts_per_token=ffn.experts_per_token,
        n_moe_layers=ffn.n_moe_layers,
        moe_intermediate=ffn.moe_intermediate,
        shared_intermediate=ffn.shared_intermediate,
        tied_embeddings=tied_embeddings(fields_, family),
        dtype=dtype,
        max_position=fields_.count("max_position_embeddings", "n_positions", "max_seq_len"),
        quantisation=quantisation_from_config(fields_, dtype, n_layers),
        tower_parameters=_tower_parameters(outer),
        config=config,
    )


def llm_from_file(path: Path) -> Llm:
    """Read a ``config.json``.

    Parameters
    ----------
    path : Path
        The file, or the folder that holds it.

    Returns
    -------
    Llm
        Named by ``_name_or_path`` where the file says it, else by its folder or file name.

    Raises
    ------
    InputError
        If there is no such file or it does not hold a usable configuration.
    """
    file = path / "config.json" if path.is_dir() else path
    try:
        config = json.loads(file.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: is not JSON ({error})") from error
    if not isinstance(config, dict):
        raise InputError(f"{file}: must hold a JSON object")
    stem = file.resolve().parent.name if file.stem == "config" else file.stem
    return llm_from_config(config, stem, where=str(file))


def _tower_parameters(outer: ConfigFields) -> int:
    """Parameters of a vision transformer: its layers alone, which are nearly all of it."""
    vision = outer.section("vision_config")
    if vision is None:
        return 0
    n_layers, width = vision.count("num_hidden_layers", "depth"), vision.count("hidden_size")
    # Pixtral's tower is a gated one; the others have two matrices in the FFN.
    gated = re.fullmatch(r"pixtral.*", vision.text("model_type")) is not None
    ffn = (3 if gated else 2) * width * vision.count("intermediate_size")
    return n_layers * (4 * width * width + ffn)


def _share_at_16_bits(width: float, formats: Quantisation) -> float:
    if formats.scheme == "bf16":
        return 1.0
    quantised_width = min(formats.attention, formats.ffn, formats.experts)
    if quantised_width >= 2.0:
        return 1.0
    return (width - quantised_width) / (2.0 - quantised_width)
