"""How wide each part of an LLM's weights is stored, and what its products are computed in."""

import re
from dataclasses import dataclass, replace

from tailcast.config_fields import ConfigFields
from tailcast.errors import InputError, UsageError

_DTYPE_BY_NAME = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    # vLLM's dtype "auto" computes a float32 checkpoint in 16 bits.
    "float32": "bf16",
}
_SCHEME_BITS = {"bf16": 16.0, "fp8": 8.0, "int8": 8.0, "int4": 4.0}
_SCALE_BITS = 16.0
# Group of weights that share one scale, when the checkpoint does not say; the value GPTQ, AWQ and
# llm-compressor use for int4.
_INT4_GROUP = 128
# MXFP4: one 8-bit exponent for 32 values (OCP Microscaling Formats specification 1.0, table 1).
_MXFP4_BITS = 4.0 + 8.0 / 32.0

# What an ignore list may name, in the module names of transformers.
_ELSEWHERE = re.compile(r"vision|multi_modal|visual|lm_head|router|embed|mlp.{1,2}gate\$?$|^gate$")
_ATTENTION = re.compile(r"attn|attention")
_SHARED = re.compile(r"shared_?expert")
_EXPERTS = re.compile(r"experts")
_FFN = re.compile(r"mlp|feed_forward|ffn|shared_?expert")


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantisation:
    """Storage and compute formats of one checkpoint.

    Parameters
    ----------
    scheme : str
        ``"bf16"`` (16 bits of either kind, nothing quantised), ``"fp8"``, ``"int8"``, ``"int4"``,
        ``"mxfp4"`` or ``"nvfp4"``.
    attention, ffn, experts, lm_head : float
        Bytes per weight, group scales included, of the attention projections, of the dense and
        shared FFNs, of the routed experts, and of the output projection.
    compute : str
        Format the products of quantised weights are computed in: the 16-bit dtype for weight-only
        schemes, ``"fp8"`` or ``"int8"`` where the activations are quantised too.
    kv_cache : str
        ``"auto"`` (the compute dtype) or ``"fp8"``, where the checkpoint asks for it.
    """

    scheme: str
    attention: float
    ffn: float
    experts: float
    lm_head: float
    compute: str
    kv_cache: str = "auto"

    def __post_init__(self) -> None:
        for name in ("attention", "ffn", "experts", "lm_head"):
            value = getattr(self, name)
            if not 0 < value <= 4:
                raise InputError(f"bytes per weight of {name} must lie in 0..4, got {value!r}")


def compute_dtype(fields: ConfigFields) -> str:
    """16-bit dtype an LLM is served in by default.

    Parameters
    ----------
    fields : ConfigFields
        Configuration with ``torch_dtype`` (or ``dtype``, its later spelling).

    Returns
    -------
    str
        ``"bf16"`` or ``"fp16"``.

    Raises
    ------
    InputError
        If the field is missing or names a format that cannot be served.
    """
    name = fields.text("torch_dtype", "dtype").removeprefix("torch.")
    if name not in _DTYPE_BY_NAME:
        known = ", ".join(sorted(_DTYPE_BY_NAME))
        raise InputError(f"{fields.where}: torch_dtype {name!r} is not one of {known}")
    return _DTYPE_BY_NAME[name]


def unquantised(dtype: str) -> Quantisation:
    """Weights stored as they are computed.

    Parameters
    ----------
    dtype : str
        ``"bf16"`` or ``"fp16"``.

    Returns
    -------
    Quantisation
        All widths 2 bytes.
    """
    return Quantisation(
        scheme="bf16", attention=2.0, ffn=2.0, experts=2.0, lm_head=2.0, compute=dtype
    )


def uniform(weights: str, dtype: str) -> Quantisation:
    """Every linear layer but the output projection in one format, as llm-compressor does it.

    Parameters
    ----------
    weights : str
        ``"bf16"``, ``"fp8"`` (weights and activations), ``"int8"`` (weights and activations) or
        ``"int4"`` (weights only, groups of 128).
    dtype : str
        16-bit dtype of everything else.

    Returns
    -------
    Quantisation
        Widths and compute format.

    Raises
    ------
    UsageError
        If the format is none of the four.
    """
    if weights not in _SCHEME_BITS:
        raise UsageError(f"weights {weights!r} must be one of {', '.join(_SCHEME_BITS)}")
    if weights == "bf16":
        return unquantised(dtype)
    bits = _SCHEME_BITS[weights] + (_SCALE_BITS / _INT4_GROUP if weights == "int4" else 0.0)
    return Quantisation(
        scheme=weights,
        attention=bits / 8,
        ffn=bits / 8,
        experts=bits / 8,
        lm_head=2.0,
        compute=dtype if weights == "int4" else weights,
    )


def quantisation_from_config(fields: ConfigFields, dtype: str, n_layers: int) -> Quantisation:
    """Formats that a configuration declares.

    Parameters
    ----------
    fields : ConfigFields
        Configuration; ``quantization_config`` (or ``compression_config``) is looked at.
    dtype : str
        16-bit dtype of whatever is not quantised.
    n_layers : int
        Layers that an ignore list may name one by one.

    Returns
    -------
    Quantisation
        Modules on the ignore list keep the 16-bit dtype.

    Raises
    ------
    InputError
        If the method is unknown or does not say how many bits it uses.
    """
    section = fields.section("quantization_config") or fields.section("compression_config")
    if section is None:
        return unquantised(dtype)
    method = section.text("quant_method").lower()
    if method in {"fp8", "fbgemm_fp8"}:
        scheme, bits, activations = "fp8", 8.0, "fp8"
        skipped = section.items("modules_to_not_convert") + section.items("ignored_layers")
    elif method in {"awq", "gptq", "awq_marlin", "gptq_marlin"}:
        scheme, bits = _integer_bits(section)
        activations, skipped = dtype, section.items("modules_to_not_convert")
    elif method == "mxfp4":
        scheme, bits, activations = "mxfp4", _MXFP4_BITS, dtype
        skipped = section.items("modules_to_not_convert")
    elif method == "compressed-tensors":
        scheme, bits, activations = _compressed_tensors(section, dtype)
        skipped = section.items("ignore")
    else:
        raise InputError(
            f"{section.where}: quant_method {method!r} is not one of awq, gptq, fp8, fbgemm_fp8, "
            "mxfp4, compressed-tensors"
        )
    plain = Quantisation(
        scheme=scheme,
        attention=bits / 8,
        ffn=bits / 8,
        experts=bits / 8,
        lm_head=2.0,  # no scheme supported here quantises the output projection
        compute=activations,
        kv_cache=_kv_cache(section),
    )
    return _with_ignored(plain, skipped, n_layers)


def _integer_bits(section: ConfigFields) -> tuple[str, float]:
    bits = section.count("bits", "w_bit")
    if bits not in {4, 8}:
        raise InputError(f"{section.where}: bits must be 4 or 8, got {bits}")
    group = section.values.get("group_size", section.values.get("q_group_size"))
    if not isinstance(group, int) or isinstance(group, bool):
        raise section.missing("group_size")
    # One 16-bit scale and one zero point of `bits` bits a group; -1 means one group a column.
    per_weight = 0.0 if group <= 0 else (_SCALE_BITS + bits) / group
    return f"int{bits}", bits + per_weight


def _compressed_tensors(section: ConfigFields, dtype: str) -> tuple[str, float, str]:
    groups = section.section("config_groups")
    if groups is None or not groups.values:
        raise section.missing("config_groups")
    group = groups.section(sorted(groups.values)[0])
    weights = group.section("weights") if group is not None else None
    if group is None or weights is None:
        raise groups.missing("weights")
    bits = weights.count("num_bits")
    kind = weights.text("type")
    inputs = group.section("input_activations")
    size = weights.count_or(0, "group_size", least=-1)
    scale = 8.0 if kind == "float" and bits == 4 else _SCALE_BITS
    width = bits + (scale / size if size > 0 else 0.0)
    scheme = {("float", 8): "fp8", ("int", 8): "int8", ("int", 4): "int4", ("float", 4): "nvfp4"}
    if (kind, bits) not in scheme:
        raise InputError(f"{weights.where}: {bits}-bit {kind} weights are not supported")
    name = scheme[kind, bits]
    quantised_inputs = inputs is not None and inputs.count("num_bits") == 8 and bits == 8
    return name, width, name if quantised_inputs else dtype


def _kv_cache(section: ConfigFields) -> str:
    scheme = section.section("kv_cache_scheme")
    return "fp8" if scheme is not None and scheme.count("num_bits") == 8 else "auto"


def _with_ignored(plain: Quantisation, skipped: list[object], n_layers: int) -> Quantisation:
    """Give the modules on an ignore list 16 bits again, by the share of layers that it names."""
    names = [str(item) for item in skipped if not _ELSEWHERE.search(str(item))]
    attention = [name for name in names if _ATTENTION.search(name)]
    shared = [name for name in names if _SHARED.search(name)]
    experts = [name for name in names if _EXPERTS.search(name) and name not in shared]
    rest = set(attention) | set(experts)
    ffn = shared + [name for name in names if _FFN.search(name) and name not in rest]

    def width(quantised: float, ignored: list[str]) -> float:
        share = _share_of_layers(ignored, n_layers)
        return share * 2.0 + (1.0 - share) * quantised

    return replace(
        plain,
        attention=width(plain.attention, attention),
        ffn=width(plain.ffn, ffn),
        experts=width(plain.experts, experts),
    )


def _share_of_layers(names: list[str], n_layers: int) -> float:
    numbers = [re.search(r"layers\.(\d+)\.", name) for name in names]
    if any(number is None for number in numbers):
        return 1.0
    return min(1.0, len({number[1] for number in numbers if number is not None}) / n_layers)
