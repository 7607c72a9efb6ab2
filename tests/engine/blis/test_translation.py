"""BLIS's coefficients on the corrected engine: same numbers, our bases, seconds."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from deployments import deployment
from tailcast.engine.blis.deployment import blis_latency_model
from tailcast.engine.blis.latency_model import BatchEntry
from tailcast.engine.blis.translation import corrected_latency_model, corrected_law
from tailcast.errors import InputError
from tailcast.latency_model import LatencyModel, load_latency_model

BLIS = load_latency_model("blis-trained-physics")


def with_values(**values: float) -> LatencyModel:
    """BLIS's model with some coefficients changed."""
    return replace(
        BLIS,
        coefficients=tuple(
            replace(c, centre=values.get(c.name, c.centre)) for c in BLIS.coefficients
        ),
    )


def silent(**values: float) -> LatencyModel:
    """Only these coefficients are not zero."""
    return with_values(**(dict.fromkeys(BLIS.names, 0.0) | values))


def test_overheads_become_seconds() -> None:
    law = corrected_law(BLIS, deployment())
    np.testing.assert_allclose(law.ingest, 15563.199579e-6)
    np.testing.assert_allclose(law.finish, 777.3455e-6)
    np.testing.assert_allclose(law.stream, 45.907545e-6)
    assert law.schedule_lag == 1.0  # the engine's own pipeline, which BLIS's clock does not have
    assert corrected_law(BLIS, deployment(version="0.11.0")).schedule_lag == 0.0


@pytest.mark.parametrize("decodes", [1, 32, 128])
def test_a_dense_decode_differs_from_blis_by_the_output_projection(decodes: int) -> None:
    """Weights of lm_head (and norms) are read too; the written KV token is not counted."""
    served = deployment()
    law = corrected_law(BLIS, served)
    ours = law.duration(0, 0, 0, decodes, 800 * decodes)[0]
    entries = [BatchEntry(input_tokens=800, progress=800)] * decodes
    blis = blis_latency_model(served).step_time_us(entries) * 1e-6
    llm = served.llm
    extra = (llm.hidden * llm.vocab + llm.norm_parameters) * 2 / 3.35e12 * 1.36252915
    written = 1.94710771 * decodes * served.kv_bytes_per_token_per_accelerator / 3.35e12
    assert ours == pytest.approx(blis + extra - written, abs=2e-6)


def test_all_reduce_takes_the_time_that_blis_gives_it() -> None:
    """BLIS divides ring bytes by memory bandwidth, our basis by the link's: the same time."""
    served = deployment("llama-3.1-70b", tensor_parallel=4)
    law = corrected_law(silent(tp_allreduce=0.752037), served)
    tokens = 100
    sent = 2 * 80 * tokens * 8192 * 2 * 2 * 3 / 4  # two a layer, ring, 16 bits
    assert law.duration(tokens, 0, 0, 0, 0)[0] == pytest.approx(0.752037 * sent / 3.35e12)
    assert law.duration(0, 0, 0, tokens, 0)[0] == law.duration(tokens, 0, 0, 0, 0)[0]
    assert corrected_law(silent(tp_allreduce=1.0), deployment()).per_decode == 0.0


def test_moe_overhead_keeps_the_layers_it_was_fitted_on() -> None:
    """24 of Scout's 48 layers by BLIS's count, none of Mixtral's: it does not alternate."""
    scout = deployment("llama-4-scout-fp8-dynamic", tensor_parallel=2)
    law = corrected_law(silent(per_moe_layer=481.8613888), scout)
    assert law.per_step[0] == pytest.approx(24 * 481.8613888e-6)
    mixtral = deployment("mixtral-8x7b", tensor_parallel=2)
    assert corrected_law(silent(per_moe_layer=481.8613888), mixtral).per_step == 0.0


def test_quantised_weights_are_read_at_the_same_factor() -> None:
    served = deployment(weights="fp8")
    law = corrected_law(silent(weight_read=1.36252915), served)
    bytes_read = served.served_llm.fixed_weight_bytes
    assert law.per_step[0] == pytest.approx(1.36252915 * bytes_read / 3.35e12, rel=1e-9)


def test_written_prompts_and_dispatched_experts_cost_bandwidth() -> None:
    served = deployment()
    law = corrected_law(silent(prefill_kv_write=2.0), served)
    per_token = 2.0 * served.kv_bytes_per_token_per_accelerator / 3.35e12
    assert law.per_prefill_token[0] == pytest.approx(per_token)
    assert law.per_decode == 0.0
    spread = replace(deployment("mixtral-8x7b", tensor_parallel=2), data_parallel=2)
    law = corrected_law(silent(expert_dispatch=0.5), spread)
    expected = 0.5 * 32 * 3 / 4 * 2 * 4096 * 2 / 3.35e12
    np.testing.assert_allclose([law.per_decode[0], law.per_prefill_token[0]], expected)


def test_attention_is_causal_and_uses_the_true_head() -> None:
    """Nemo's heads are 128 wide, BLIS takes 160; a chunk attends to what came before it."""
    law = corrected_law(silent(prefill_compute=1.0), deployment("mistral-nemo"))
    early, late = 512 * 256.0, 512 * (3584 + 256.0)
    assert law.duration(512, early, 1, 0, 0) < law.duration(512, late, 1, 0, 0)
    flops = 4 * 32 * 128 * 40 * 512  # per key, 40 layers
    step = law.duration(512, late, 1, 0, 0) - law.duration(512, early, 1, 0, 0)
    assert step[0] == pytest.approx(flops * 3584 / 989.4e12, rel=1e-6)


def test_the_larger_of_both_cannot_be_translated(tmp_path: Path) -> None:
    short = replace(
        BLIS, coefficients=tuple(c for c in BLIS.coefficients if c.name != "decode_kv_read")
    )
    with pytest.raises(InputError, match="only mode blis"):
        corrected_latency_model(short, deployment())
    with pytest.raises(InputError, match="not BLIS's"):
        corrected_latency_model(load_latency_model("roofline"), deployment())
