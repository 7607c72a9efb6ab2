"""Sizing: published throughputs, bisection, targets, batch caps."""

import math

import pytest

from tailcast.errors import UsageError
from tailcast.queueing.bisection import bisect
from tailcast.queueing.concurrency import ConcurrencySearch, optimal_concurrency
from tailcast.queueing.server import RequestShape, ServerLimits, ThreeNumbers, three_numbers_ms
from tailcast.queueing.sizing import (
    InfeasibleTargetError,
    Targets,
    largest_rate,
    replicas_for_rate,
)

from .servers import LLAMA, replica

BASE = three_numbers_ms(8.0, 0.033, 0.000333)


@pytest.mark.parametrize(
    ("numbers", "tokens", "max_queue", "targets_ms", "max_batch", "expected"),
    [
        ((8.0, 0.033, 0.000333), (256, 1024), 128, (60, 20), 2, 0.014588269),
        ((8.0, 0.033, 0.000333), (256, 1024), 128, (60, 20), 64, 1.8680125),
        ((8.0, 0.033, 0.000333), (1024, 256), 128, (80, 60), 256, 4.522976),
        ((4.0, 0.017, 0.000167), (64, 128), 4, (2000, 200), 256, 121.4636),
        ((4.0, 0.017, 0.000167), (256, 1024), 128, (60, 20), 256, 5.1726604),
    ],
)
def test_published_servers_have_their_published_throughput(
    numbers: tuple[float, float, float],
    tokens: tuple[float, float],
    max_queue: int,
    targets_ms: tuple[float, float],
    max_batch: int,
    expected: float,
) -> None:
    limits = ServerLimits(max_batch=max_batch, max_queue=max_queue)
    server = replica(three_numbers_ms(*numbers), *tokens, limits)
    targets = Targets(ttft=targets_ms[0] / 1e3, itl=targets_ms[1] / 1e3)
    assert largest_rate(server, targets).capacity == pytest.approx(expected, rel=5e-4)


def test_the_rate_found_meets_the_target_and_more_does_not() -> None:
    server = replica()
    sizing = largest_rate(server, Targets(ttft=0.05))
    assert sizing.binding == "ttft"
    assert float(server.steady_state(sizing.rate).ttft) == pytest.approx(0.05, rel=1e-6)
    assert float(server.steady_state(1.01 * sizing.rate).ttft) > 0.05


def test_a_target_beyond_the_boundary_does_not_bind() -> None:
    sizing = largest_rate(replica(), Targets(itl=100.0))
    assert sizing.binding == "stability"
    assert sizing.rate == pytest.approx(float(replica().max_rate))


def test_a_tps_target_keeps_a_tenth_from_the_boundary_whatever_its_value() -> None:
    for tps in (1.0, 1e6):
        sizing = largest_rate(replica(), Targets(tps=tps))
        assert sizing.rate == pytest.approx(0.9 * float(replica().max_rate))
        assert sizing.binding == "tps"


def test_a_target_that_a_lone_request_misses_is_an_error_that_says_so() -> None:
    with pytest.raises(InfeasibleTargetError, match="no number of replicas can help"):
        largest_rate(replica(), Targets(ttft=0.005))


@pytest.mark.parametrize("field", ["ttft", "itl", "tps"])
def test_negative_targets_are_refused(field: str) -> None:
    with pytest.raises(UsageError, match=field):
        Targets(**{field: -1.0})


def test_free_service_cannot_be_sized() -> None:
    with pytest.raises(UsageError, match="no time"):
        largest_rate(replica(ThreeNumbers(alpha=0, beta=0, gamma=0)), Targets(ttft=1.0))


@pytest.mark.parametrize(
    ("low", "high", "target", "side"),
    [(0.0, 10.0, 4.0, 0), (3.0, 10.0, 4.0, -1), (0.0, 1.5, 4.0, 1), (2.0, 5.0, 4.0, 0)],
)
def test_bisection_tells_on_which_side_a_target_lies(
    low: float, high: float, target: float, side: int
) -> None:
    argument, found = bisect(lambda x: x * x, low, high, target)
    assert found == side
    if side == 0:
        assert argument == pytest.approx(2.0, rel=1e-6)


def test_bisection_falls_as_well_as_it_rises_and_refuses_reversed_ranges() -> None:
    argument, side = bisect(lambda x: -x, 1.0, 5.0, -3.0)
    assert argument == pytest.approx(3.0, rel=1e-6)
    assert side == 0
    with pytest.raises(UsageError, match="reversed"):
        bisect(lambda x: x, 5.0, 1.0, 3.0)
    with pytest.raises(UsageError, match="finite"):
        bisect(lambda x: math.inf, 0.0, 1.0, 3.0)


@pytest.mark.parametrize(
    ("numbers", "tokens", "max_queue", "targets_ms", "expected"),
    [
        ((8.0, 0.033, 0.000333), (256, 1024), 128, (60, 20), (67, 8, 40, 147)),
        ((16.0, 0.067, 0.000667), (256, 1024), 128, (60, 20), (16, 8, 6, 45)),
        ((4.0, 0.017, 0.000167), (64, 128), 4, (2000, 200), (256, 2, 256, 256)),
    ],
)
def test_published_batch_caps_are_found_in_as_many_steps(
    numbers: tuple[float, float, float],
    tokens: tuple[float, float],
    max_queue: int,
    targets_ms: tuple[float, float],
    expected: tuple[int, int, int, int],
) -> None:
    found = optimal_concurrency(
        three_numbers_ms(*numbers),
        RequestShape(tokens_in=tokens[0], tokens_out=tokens[1]),
        ServerLimits(max_queue=max_queue),
        Targets(ttft=targets_ms[0] / 1e3, itl=targets_ms[1] / 1e3),
    )
    assert (
        found.max_batch,
        found.n_evaluation,
        found.largest_by_itl,
        found.largest_by_prefill,
    ) == expected


def test_no_batch_cap_makes_an_impossible_target_possible() -> None:
    found = optimal_concurrency(
        three_numbers_ms(16.0, 0.04, 0.0013),
        RequestShape(tokens_in=1024, tokens_out=1024),
        ServerLimits(max_queue=4),
        Targets(ttft=0.03, itl=0.04),
    )
    assert not found.feasible
    assert (found.max_batch, found.n_evaluation) == (1, 0)


def test_an_empty_range_of_batch_caps_is_refused() -> None:
    with pytest.raises(UsageError, match="range"):
        ConcurrencySearch(least=9, most=4)
    with pytest.raises(UsageError, match="epsilon"):
        ConcurrencySearch(epsilon=0.0)


@pytest.mark.parametrize(
    ("rate", "capacity", "expected"), [(8.0, 2.9, 3), (8.0, 4.0, 2), (0.0, 4.0, 1), (0.3, 0.1, 3)]
)
def test_replicas_round_up_but_not_for_rounding_errors(
    rate: float, capacity: float, expected: int
) -> None:
    assert replicas_for_rate(rate, capacity) == expected


def test_a_blog_experiment_needs_as_many_replicas_as_the_spec_says() -> None:
    """TTFT 50 ms at 1024/1024 takes 4.23 requests/s a replica, so 8 requests/s take two."""
    sizing = largest_rate(replica(LLAMA, 1024, 1024), Targets(ttft=0.05))
    assert sizing.capacity == pytest.approx(4.23, rel=0.01)
    assert replicas_for_rate(8.0, sizing.capacity) == 2
