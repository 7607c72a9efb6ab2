"""The compiled chain equals the reference, and its slopes equal differences."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tailcast.queueing.sensitivity import (
    LogLatencies,
    chunk_table,
    log_latencies,
    log_of_numbers,
    numbers_of_log,
)
from tailcast.queueing.server import Floats, ServerLimits
from tailcast.queueing.steady_state import Replica
from tailcast.queueing.windows import Window, window_columns
from tailcast.queueing.work_model import work_model

from .servers import LIMITS, LLAMA, LOG_LLAMA

SHAPES = st.tuples(st.floats(0, 6000), st.floats(1, 3000))
RATES = st.floats(1e-3, 1e4)
SERVERS = st.sampled_from(
    [(256, 256, 8192), (1, 0, 8192), (1, 1, 100), (4, 1000, 64), (64, 0, 512)]
)

# of a service time: logs of a thousand states that add up to about 1e4
_ROUNDING = 2e-12


def stacked(found: LogLatencies) -> Floats:
    table = np.stack([found.ttft, found.itl, found.throughput, found.in_service], axis=-1)
    return np.asarray(table[0, 0])


@given(tokens=SHAPES, rate=RATES, limits=SERVERS)
@settings(max_examples=150, deadline=None)
def test_the_kernel_equals_the_reference_where_chunks_do_not_vary(
    tokens: tuple[float, float], rate: float, limits: tuple[int, int, int]
) -> None:
    server = ServerLimits(max_batch=limits[0], max_queue=limits[1], max_batched_tokens=10**8)
    columns = window_columns([Window(tokens_in=tokens[0], tokens_out=tokens[1], rate=rate)])
    assert chunk_table(columns.shape, server).max() == 1
    found = log_latencies(LOG_LLAMA, columns, server)
    state = Replica(work=work_model(LLAMA, columns.shape, server), limits=server).steady_state(rate)
    expected = np.log([state.ttft, state.itl, state.throughput, state.in_service])[:, 0]
    assert stacked(found) == pytest.approx(expected, rel=1e-9, abs=1e-9)
    share = float(state.wait[0] / state.ttft[0])
    assert found.wait_share[0, 0] == pytest.approx(share, rel=1e-9, abs=1e-12)


@given(tokens=SHAPES, rate=RATES, limits=SERVERS)
@example(tokens=(5913.0, 1.0), rate=5917.0, limits=(4, 1000, 64))
@settings(max_examples=150, deadline=None)
def test_slopes_equal_central_differences(
    tokens: tuple[float, float], rate: float, limits: tuple[int, int, int]
) -> None:
    server = ServerLimits(max_batch=limits[0], max_queue=limits[1], max_batched_tokens=limits[2])
    columns = window_columns([Window(tokens_in=tokens[0], tokens_out=tokens[1], rate=rate)])
    found = log_latencies(LOG_LLAMA, columns, server)
    assert np.all(np.isfinite(stacked(found)))
    for axis in range(4):

        def at(step: float, axis: int = axis) -> Floats:
            numbers, load = LOG_LLAMA.copy(), np.array([[rate]])
            if axis < 3:
                numbers[axis] += step
            else:
                load = load * np.exp(step)
            return stacked(log_latencies(numbers, columns, server, rate=load))

        fine, coarse = ((at(h) - at(-h)) / (2 * h) for h in (1e-5, 2e-5))
        slope = found.slopes[0, 0, :, axis]
        # differences of two steps agree to their own error, which is large next to a kink; ITL is
        # service less prefill over the output, which loses digits where prefill is nearly all
        allowed = 1e-5 + 1e-5 * np.abs(slope) + 2 * np.abs(fine - coarse)
        service = np.exp(found.in_service - found.throughput - found.itl)[0, 0]
        allowed[1] += _ROUNDING / 1e-5 * service / tokens[1]
        assert np.all(np.abs(fine - slope) <= allowed)


def test_slopes_in_the_costs_add_up_to_one_and_the_slope_in_the_rate() -> None:
    """All times in another unit: latencies scale, and so does the rate."""
    windows = [Window(tokens_in=512, tokens_out=256, rate=rate) for rate in (0.1, 10.0, 25.0, 50.0)]
    slopes = log_latencies(LOG_LLAMA, window_columns(windows), LIMITS).slopes[0]
    costs, rate = slopes[:, :2, :3].sum(axis=-1), slopes[:, :2, 3]
    assert costs == pytest.approx(1.0 + rate, rel=1e-9)


def test_draws_and_windows_make_a_table() -> None:
    windows = [Window(tokens_in=64, tokens_out=64, rate=rate) for rate in (1.0, 20.0)]
    draws = LOG_LLAMA + 0.1 * np.arange(3)[:, None]
    found = log_latencies(draws, window_columns(windows), LIMITS)
    assert found.ttft.shape == (3, 2)
    assert np.all(np.diff(found.ttft, axis=0) > 0)
    assert np.all(np.diff(found.itl, axis=1) > 0)


def test_logs_and_numbers_are_inverse() -> None:
    assert numbers_of_log(log_of_numbers(LLAMA)).beta == pytest.approx(LLAMA.beta, rel=1e-14)
    many = numbers_of_log(np.stack([LOG_LLAMA, LOG_LLAMA]))
    assert np.shape(many.alpha) == (2,)
