"""Bases are times at the datasheet's peak, so hand arithmetic is the oracle."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments import deployment
from tailcast.basis import BASIS_NAMES, FEATURES, basis_term, expected_active_experts
from tailcast.errors import UsageError

PEAK, BANDWIDTH, LINK = 989.5e12, 3.35e12, 450e9


def feature(name: str, basis: str, **kwargs: object) -> float:
    """Value of one basis per unit of one batch feature."""
    term = basis_term(basis, deployment(**kwargs))  # type: ignore[arg-type]
    return float(term.features[FEATURES.index(name)])


def test_prefill_compute_is_two_flops_a_parameter() -> None:
    layers = 32 * (4096 * 128 * (2 * 32 + 2 * 8) + 3 * 4096 * 14336)
    assert feature("prefill_token", "prefill_compute") == pytest.approx(2 * layers / PEAK, rel=2e-3)
    pairs = 4 * 32 * 32 * 128 / PEAK
    assert feature("prefill_pair", "prefill_compute") == pytest.approx(pairs, rel=2e-3)


def test_kv_read_is_the_cache_over_the_bandwidth() -> None:
    per_token = 2 * 32 * 8 * 128 * 2
    assert feature("context_token", "decode_kv_read") == pytest.approx(per_token / BANDWIDTH)
    split = feature("context_token", "decode_kv_read", tensor_parallel=4)
    assert split == pytest.approx(per_token / BANDWIDTH / 4)


def test_weight_read_holds_the_output_projection_but_not_the_embeddings() -> None:
    layers = 32 * (4096 * 128 * (2 * 32 + 2 * 8) + 3 * 4096 * 14336)
    expected = 2 * (layers + 4096 * 128256) / BANDWIDTH
    assert feature("step", "weight_read") == pytest.approx(expected, rel=2e-3)


def test_quantised_and_plain_weights_are_apart() -> None:
    assert feature("step", "weight_read_quantised") == 0
    plain = feature("step", "weight_read")
    fp8 = feature("step", "weight_read_quantised", weights="fp8")
    rest = feature("step", "weight_read", weights="fp8")
    head = 2 * 4096 * 128256 / BANDWIDTH
    assert rest == pytest.approx(head, rel=1e-3)
    assert fp8 == pytest.approx((plain - head) / 2, rel=1e-2)


def test_ring_allreduce_moves_twice_the_share_of_the_others() -> None:
    assert feature("decode", "tp_allreduce") == 0
    expected = 2 * 32 * 2 * (4 - 1) / 4 * 4096 * 2 / LINK
    assert feature("decode", "tp_allreduce", tensor_parallel=4) == pytest.approx(expected)
    assert feature("step", "allreduce_count", tensor_parallel=4) == 64


def test_experts_are_read_as_the_step_touches_them() -> None:
    term = basis_term("weight_read", deployment("mixtral-8x7b", tensor_parallel=2))
    assert term.table is not None
    one_expert = 32 * 3 * 4096 * 14336 * 2 / (2 * BANDWIDTH)
    assert term.table[0] == 0
    assert term.table[1] == pytest.approx(2 * one_expert)
    assert term.table[-1] == pytest.approx(8 * one_expert)


@given(experts=st.integers(1, 256), share=st.floats(0, 1), tokens=st.integers(0, 10_000))
@settings(max_examples=50, deadline=None)
def test_active_experts_grow_from_k_to_all(experts: int, share: float, tokens: int) -> None:
    per_token = max(1, round(share * experts))
    counts = expected_active_experts(experts, per_token, np.array([0.0, 1.0, tokens, tokens + 1.0]))
    assert counts[0] == 0
    assert counts[1] == pytest.approx(per_token)
    assert counts[2] <= counts[3] + 1e-9 <= experts + 1e-6


def test_windowed_layers_stop_growing_with_the_context() -> None:
    windowed = deployment("gpt-oss-20b", max_model_len=8192)
    term = basis_term("decode_kv_read", windowed)
    full = basis_term("decode_kv_read", deployment("gpt-oss-20b", max_model_len=128))
    context, decode = FEATURES.index("context_token"), FEATURES.index("decode")
    assert term.features[context] < full.features[context]
    assert term.features[decode] > 0


def test_unknown_basis_is_refused_with_the_near_name() -> None:
    with pytest.raises(UsageError, match="did you mean 'weight_read'"):
        basis_term("weight_reed", deployment())


@pytest.mark.parametrize("name", BASIS_NAMES)
@pytest.mark.parametrize("llm", ["llama-3.1-8b", "mixtral-8x7b", "deepseek-v2-lite", "gpt-oss-20b"])
def test_every_basis_is_finite_and_not_negative(name: str, llm: str) -> None:
    term = basis_term(name, deployment(llm, tensor_parallel=2))
    assert np.all(np.isfinite(term.features))
    assert np.all(term.features >= 0)
    if term.table is not None:
        assert np.all(term.table >= 0)
        assert np.all(np.diff(term.table) >= 0)
