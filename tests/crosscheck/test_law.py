"""Three numbers as a step law and back."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailcast.crosscheck.law import engine_law, engine_limits, mapped_numbers
from tailcast.engine.run import simulate
from tailcast.errors import UsageError
from tailcast.queueing.server import RequestShape, ServerLimits, ThreeNumbers
from tailcast.queueing.work_model import work_model
from tailcast.request import request_table
from tailcast.step_law import StepLaw

COSTS = st.tuples(st.floats(1e-3, 2e-2), st.floats(1e-6, 1e-4), st.floats(1e-8, 1e-6))
SHAPES = st.tuples(st.integers(1, 4096), st.integers(1, 2048))


@given(costs=COSTS, lengths=SHAPES)
def test_there_and_back_is_the_same(
    costs: tuple[float, float, float], lengths: tuple[int, int]
) -> None:
    numbers = ThreeNumbers(alpha=costs[0], beta=costs[1], gamma=costs[2])
    shape = RequestShape(tokens_in=lengths[0], tokens_out=lengths[1])
    mapped = mapped_numbers(engine_law(numbers), shape)
    if mapped.clipped == 0:
        assert np.exp(mapped.log_draws[0]) == pytest.approx(costs, rel=1e-9)
    assert mapped.overhead[0] == 0.0


@settings(max_examples=25)
@given(costs=COSTS, lengths=st.tuples(st.integers(16, 1024), st.integers(2, 200)))
def test_a_lone_request_costs_the_engine_what_it_costs_the_work_model(
    costs: tuple[float, float, float], lengths: tuple[int, int]
) -> None:
    """Prefill is the same; a decode reads half a token less, as the model counts one more."""
    numbers = ThreeNumbers(alpha=costs[0], beta=costs[1], gamma=costs[2])
    tokens_in, tokens_out = lengths
    shape, limits = RequestShape(tokens_in=tokens_in, tokens_out=tokens_out), ServerLimits()
    work = work_model(numbers, shape, limits)
    one = request_table(np.array([0.0]), tokens_in, tokens_out)
    result = simulate(one, engine_limits(limits), engine_law(numbers))
    ttft, tpot = (result.stat[0, -1, result.metrics.index(m), 0] for m in ("ttft", "tpot"))
    alone = np.asarray(1.0)
    assert ttft == pytest.approx(float(work.prefill_time(alone)), rel=1e-9)
    step = numbers.alpha + numbers.beta + numbers.gamma * (tokens_in + tokens_out / 2.0)
    assert tpot == pytest.approx(step, rel=1e-6)


def test_overheads_of_a_law_are_overhead_and_pairs_are_prompt_work() -> None:
    law = StepLaw.single(
        per_step=0.006, per_prefill_token=2e-5, per_prefill_pair=1e-9, per_prefill_request=3e-5,
        per_decode=3e-5, per_context_token=6e-8, ingest=0.004, stream=1e-5,
    )  # fmt: skip
    shape = RequestShape(tokens_in=1000, tokens_out=201)
    mapped = mapped_numbers(law, shape)
    alpha, beta, gamma = np.exp(mapped.log_draws[0])
    assert alpha == pytest.approx(0.006)
    assert 1000 * (beta + gamma) == pytest.approx(0.02 + 1e-9 * 1000**2 / 2 + 3e-5)
    assert beta + gamma * (1000 + 101) == pytest.approx(3e-5 + 6e-8 * 1100)
    assert mapped.overhead[0] == pytest.approx(0.00401)
    assert mapped.clipped == 0


def test_a_cheap_decode_is_charged_too_much_and_told() -> None:
    law = StepLaw.single(per_step=0.006, per_prefill_token=2e-4, per_decode=3e-5)
    mapped = mapped_numbers(law, RequestShape(tokens_in=1000, tokens_out=200))
    alpha, beta, gamma = np.exp(mapped.log_draws[0])
    assert mapped.clipped == 1.0
    assert min(alpha, beta, gamma) > 0
    assert beta + gamma * 1100 > 3e-5
    with pytest.raises(UsageError, match="cost time"):
        mapped_numbers(StepLaw.single(per_step=0.006), RequestShape(tokens_in=9, tokens_out=9))
