"""Batch composition to basis values: the linear map from coefficients to a deployment's step law.

Every roofline basis is a time at the datasheet's peak, so its coefficient is dimensionless and at
least 1 where it can bind; every overhead basis is a count, so its coefficient is in seconds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.deployment import Deployment
from tailcast.errors import UsageError, near_name

FEATURES = (
    "step",
    "prefill_token",
    "prefill_pair",
    "prefill_request",
    "decode",
    "context_token",
)
"""What a batch is reduced to, in the order of `Term.features`."""

ACTIVATION_BYTES = 2.0
"""Bytes per element of activations that cross the interconnect (bf16)."""

_PLAIN_BYTES = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """One basis of a deployment.

    Parameters
    ----------
    features : ndarray of float64, shape (n_feature,)
        Basis value per unit of each of `FEATURES`.
    table : ndarray of float64, shape (n_table,), or None
        Basis value by the number of new tokens in the step, for what is not linear in it.
    """

    features: NDArray[np.float64]
    table: NDArray[np.float64] | None = None


def _linear(**values: float) -> Term:
    return Term(features=np.array([values.get(name, 0.0) for name in FEATURES]))


def _table_size(deployment: Deployment) -> int:
    return deployment.engine.max_num_batched_tokens + 1


def _prefill_compute(deployment: Deployment) -> Term:
    llm = deployment.served_llm
    attention = deployment.attention_peak_flops * deployment.tensor_parallel
    return _linear(
        prefill_token=deployment.matmul_seconds_per_token
        + llm.window_attention_flops_per_token / attention,
        prefill_pair=llm.attention_flops_per_pair / attention,
        prefill_request=llm.lm_head_flops / attention,
    )


def _decode_compute(deployment: Deployment) -> Term:
    llm = deployment.served_llm
    attention = deployment.attention_peak_flops * deployment.tensor_parallel
    extra = llm.window_attention_flops_per_token + llm.lm_head_flops
    return _linear(
        decode=deployment.matmul_seconds_per_token + extra / attention,
        context_token=llm.decode_attention_flops_per_pair / attention,
    )


def _decode_kv_read(deployment: Deployment) -> Term:
    """A windowed layer is charged its whole window: contexts are mostly longer than it."""
    bandwidth = deployment.accelerator.memory_bandwidth
    windowed = deployment.window_kv_bytes_per_token_per_accelerator
    return _linear(
        context_token=deployment.kv_bytes_per_token_per_accelerator / bandwidth,
        decode=windowed * deployment.served_llm.sliding_window / bandwidth,
    )


def expected_active_experts(
    n_experts: int, per_token: int, tokens: NDArray[np.float64]
) -> NDArray[np.float64]:
    r"""Experts that a step touches when tokens choose uniformly and independently.

    .. math:: E (1 - (1 - k / E)^T)

    Parameters
    ----------
    n_experts, per_token : int
        Experts of a layer and how many each token uses.
    tokens : ndarray
        New tokens in the step.

    Returns
    -------
    ndarray
        Expected number of distinct experts, the shape of `tokens`.

    Examples
    --------
    >>> expected_active_experts(8, 2, np.array([0.0, 1.0, 1e6]))
    array([0., 2., 8.])
    """
    if per_token >= n_experts:
        return n_experts * (tokens > 0).astype(np.float64)
    active: NDArray[np.float64] = n_experts * -np.expm1(tokens * np.log1p(-per_token / n_experts))
    return active


def _weights(deployment: Deployment, *, quantised_part: bool) -> Term:
    """Bytes read by a step on one accelerator; routed experts are spread over all ranks."""
    llm = deployment.served_llm
    formats = llm.quantisation
    ffn = llm.dense_ffn_parameters + llm.shared_expert_parameters
    fixed = sum(
        count * width
        for count, width in (
            (llm.attention_parameters, formats.attention),
            (ffn, formats.ffn),
            (llm.router_parameters + llm.norm_parameters, _PLAIN_BYTES),
            (llm.embedding_parameters, formats.lm_head),
        )
        if (width < _PLAIN_BYTES) == quantised_part
    )
    bandwidth = deployment.accelerator.memory_bandwidth
    term = _linear(step=fixed / (bandwidth * deployment.tensor_parallel))
    if not llm.is_moe or (formats.experts < _PLAIN_BYTES) != quantised_part:
        return term
    tokens = deployment.data_parallel * np.arange(_table_size(deployment), dtype=np.float64)
    active = expected_active_experts(llm.n_experts, llm.experts_per_token, tokens)
    seconds = llm.expert_weight_bytes / (bandwidth * deployment.n_accelerators)
    return Term(features=term.features, table=active * seconds)


def _weight_read(deployment: Deployment) -> Term:
    return _weights(deployment, quantised_part=False)


def _weight_read_quantised(deployment: Deployment) -> Term:
    return _weights(deployment, quantised_part=True)


def _quantised_layers(deployment: Deployment) -> float:
    """Layers with any quantised product."""
    llm = deployment.served_llm
    formats = llm.quantisation
    if min(formats.attention, formats.ffn) < _PLAIN_BYTES:
        return float(llm.n_layers)
    return float(llm.n_moe_layers) if llm.is_moe and formats.experts < _PLAIN_BYTES else 0.0


def _all_reduces(deployment: Deployment) -> float:
    """All-reduces of a step: one after attention and one after the FFN of each layer."""
    return 2.0 * deployment.llm.n_layers if deployment.tensor_parallel > 1 else 0.0


def _ring_time_per_token(deployment: Deployment) -> float:
    tp = deployment.tensor_parallel
    if tp == 1:
        return 0.0
    sent = 2.0 * (tp - 1) / tp * deployment.llm.hidden * ACTIVATION_BYTES
    return _all_reduces(deployment) * sent / deployment.accelerator.interconnect_bandwidth


def _tp_allreduce(deployment: Deployment) -> Term:
    per_token = _ring_time_per_token(deployment)
    return _linear(prefill_token=per_token, decode=per_token)


CONTENTION_TOKENS = 32.0
"""New tokens at which all-reduce contention adds a whole ring time for a coefficient of 1."""

CONTENTION_LIMIT = 64.0
"""New tokens from which it grows no more: the links are busy all the time."""


def _tp_contention(deployment: Deployment) -> Term:
    tokens = np.arange(_table_size(deployment), dtype=np.float64)
    ring = _ring_time_per_token(deployment)
    busy = np.minimum(tokens, CONTENTION_LIMIT) / CONTENTION_TOKENS
    return Term(features=np.zeros(len(FEATURES)), table=ring * tokens * busy)


_BASES: Mapping[str, Callable[[Deployment], Term]] = {
    "prefill_compute": _prefill_compute,
    "decode_compute": _decode_compute,
    "decode_kv_read": _decode_kv_read,
    "weight_read": _weight_read,
    "weight_read_quantised": _weight_read_quantised,
    "tp_allreduce": _tp_allreduce,
    "tp_contention": _tp_contention,
    "allreduce_count": lambda d: _linear(step=_all_reduces(d)),
    "layer_count": lambda d: _linear(step=float(d.llm.n_layers)),
    "quantised_layer_count": lambda d: _linear(step=_quantised_layers(d)),
    "moe_layer_count": lambda d: _linear(step=float(d.llm.n_moe_layers)),
    "request_count": lambda _: _linear(prefill_request=1.0, decode=1.0),
    "prefill_request_count": lambda _: _linear(prefill_request=1.0),
    "step_count": lambda _: _linear(step=1.0),
    "gap_count": lambda _: _linear(step=1.0),
}

BASIS_NAMES = tuple(_BASES)
"""Names that a latency model may use for a step coefficient."""


def basis_term(name: str, deployment: Deployment) -> Term:
    """Value of one basis per unit of each batch feature.

    Parameters
    ----------
    name : str
        One of `BASIS_NAMES`.
    deployment : Deployment
        LLM, accelerator, parallelism and engine limits.

    Returns
    -------
    Term
        Seconds at datasheet peak, or counts.

    Raises
    ------
    UsageError
        If there is no such basis.
    """
    if name not in _BASES:
        raise UsageError(f"no basis {name!r}; {near_name(name, BASIS_NAMES)}")
    return _BASES[name](deployment)
