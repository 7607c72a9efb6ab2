"""A replica in the long run: published values, limits, monotonicity, Little's law."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailcast.errors import UsageError
from tailcast.queueing.server import ServerLimits, ThreeNumbers, three_numbers_ms
from tailcast.queueing.steady_state import fluid_step_time

from .servers import LLAMA, replica

MS = 1e-3
SOLVED = three_numbers_ms(12, 0.05, 0.0005)
SMALL = ServerLimits(max_batch=48, max_queue=128)

PROMPTS = st.floats(0, 4000)
OUTPUTS = st.floats(1, 2000)
LOADS = st.floats(0.01, 0.98)


@pytest.mark.parametrize(
    ("version", "response", "wait", "in_service", "ttft", "itl", "max_rate", "tolerance"),
    [
        ("V1", 10568.446, 28.27539, 31.620514, 75.31746, 20.534498, 3.8208232, 1e-4),
        (
            "V2",
            10348.36747787,
            21.40538715671,
            30.9808862721,
            67.6147599299,
            20.11888985906,
            3.86092925108,
            1e-9,
        ),
    ],
)
def test_a_published_server_has_its_published_means(
    version: str,
    response: float,
    wait: float,
    in_service: float,
    ttft: float,
    itl: float,
    max_rate: float,
    tolerance: float,
) -> None:
    state = replica(SOLVED, 128, 512, SMALL, version).steady_state(3.0)
    assert state.throughput == pytest.approx(3.0, rel=1e-5)
    assert state.response / MS == pytest.approx(response, rel=tolerance)
    assert state.wait / MS == pytest.approx(wait, rel=tolerance)
    assert state.in_service == pytest.approx(in_service, rel=tolerance)
    assert state.ttft / MS == pytest.approx(ttft, rel=tolerance)
    assert state.itl / MS == pytest.approx(itl, rel=tolerance)
    assert state.max_rate == pytest.approx(max_rate, rel=tolerance)


def test_overload_is_finite_and_saturates_in_v2_and_an_error_in_v1() -> None:
    state = replica(SOLVED, 128, 512, SMALL).steady_state(6.0)
    assert state.throughput == pytest.approx(3.8647940451253113, rel=1e-9)
    assert state.ttft / MS == pytest.approx(32705.766901589253, rel=1e-9)
    assert state.lost == pytest.approx(6.0 - 3.8647940451253113, rel=1e-9)
    assert bool(state.overloaded)
    worst = replica(SOLVED, 128, 512, SMALL).steady_state(6e9)
    assert worst.throughput == pytest.approx(float(state.max_rate) / 0.999, rel=1e-6)
    assert np.isfinite(worst.ttft)
    for version in ("V1",):
        with pytest.raises(UsageError, match="stability boundary"):
            replica(SOLVED, 128, 512, SMALL, version).steady_state(6.0)


@given(prompt=PROMPTS, output=OUTPUTS, load=LOADS)
@settings(max_examples=60)
def test_littles_law(prompt: float, output: float, load: float) -> None:
    server = replica(tokens_in=prompt, tokens_out=output)
    state = server.steady_state(load * float(server.max_rate))
    assert float(state.throughput * state.response) == pytest.approx(
        float(state.in_system), rel=1e-9
    )
    assert float(state.throughput * state.service) == pytest.approx(
        float(state.in_service), rel=1e-9
    )


@given(prompt=PROMPTS, output=OUTPUTS, load=st.floats(0.01, 0.8))
@settings(max_examples=40)
def test_latencies_rise_with_the_rate(prompt: float, output: float, load: float) -> None:
    # chunks are counted at the rounded occupancy, which makes small steps; compare beyond them
    server = replica(
        tokens_in=prompt, tokens_out=output, limits=ServerLimits(max_batched_tokens=10**7)
    )
    rate = load * float(server.max_rate)
    now, later = server.steady_state(rate), server.steady_state(1.2 * rate)
    assert later.ttft >= now.ttft
    assert later.itl >= now.itl * (1 - 1e-9)
    assert later.in_service > now.in_service


@pytest.mark.parametrize("field", ["alpha", "beta", "gamma"])
@given(prompt=PROMPTS, output=OUTPUTS, load=st.floats(0.01, 0.8))
@settings(max_examples=30)
def test_latencies_rise_with_every_cost(
    field: str, prompt: float, output: float, load: float
) -> None:
    limits = ServerLimits(max_batched_tokens=10**7)
    costs = {name: float(getattr(LLAMA, name)) for name in ("alpha", "beta", "gamma")}
    dearer = ThreeNumbers(**{**costs, field: 1.1 * costs[field]})
    server = replica(tokens_in=prompt, tokens_out=output, limits=limits)
    rate = load * float(server.max_rate)
    now = server.steady_state(rate)
    then = replica(dearer, prompt, output, limits).steady_state(rate)
    assert then.ttft >= now.ttft * (1 - 1e-9)
    assert then.itl >= now.itl * (1 - 1e-9)


@pytest.mark.parametrize("load", [0.1, 0.5, 0.8])
def test_without_a_batch_cap_the_step_time_is_alpha_over_one_minus_rho(load: float) -> None:
    limits = ServerLimits(max_batch=20_000, max_queue=0, max_batched_tokens=10**9)
    server = replica(tokens_in=512, tokens_out=256, limits=limits)
    mean_work = float(server.work.mean_work(np.asarray(1.0)))  # type: ignore[attr-defined]
    rate = load / (257 * mean_work)
    step, rho = fluid_step_time(LLAMA.alpha, mean_work, 257, rate)
    assert float(rho) == pytest.approx(load)
    state = server.steady_state(rate)
    # the chain is stochastic: its mean occupancy lies above the fluid one by less than a request
    fluid = rate * 257 * float(step)
    assert float(state.in_service) == pytest.approx(fluid, abs=1.0 / (1.0 - load))
    assert float(state.wait) == 0.0


def test_an_idle_server_takes_the_time_of_a_lone_request() -> None:
    server = replica()
    state = server.steady_state(1e-9)
    alone = float(server.work.service_time(np.asarray(1.0)))
    assert float(state.service) == pytest.approx(alone, rel=1e-6)
    assert float(state.in_service) < 1e-6
    assert float(state.wait) == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("version", ["V1", "V2"])
def test_no_prompt_and_one_token_is_legal(version: str) -> None:
    state = replica(tokens_in=0, tokens_out=1, version=version).steady_state(1.0)
    assert 0 < float(state.ttft) < 0.1


def test_rates_and_shapes_broadcast() -> None:
    rates = np.array([1.0, 5.0, 20.0])
    together = replica().steady_state(rates)
    alone = [float(replica().steady_state(rate).ttft) for rate in rates]
    assert together.ttft == pytest.approx(alone, rel=1e-14)


def test_free_service_takes_no_time() -> None:
    state = replica(ThreeNumbers(alpha=0, beta=0, gamma=0)).steady_state(3.0)
    assert float(state.throughput) == 3.0
    assert float(state.ttft) == 0.0


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan"), None])
def test_impossible_rates_are_refused(rate: float) -> None:
    with pytest.raises(UsageError, match="rate"):
        replica().steady_state(rate)
