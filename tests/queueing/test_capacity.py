"""Capacity over draws, and replicas for a risk."""

import numpy as np
import pytest

from tailcast.errors import UsageError
from tailcast.queueing.capacity import (
    CapacityDraws,
    Discrepancy,
    capacity_draws,
    replicas_for_risk,
)
from tailcast.queueing.sensitivity import numbers_of_log
from tailcast.queueing.server import RequestShape
from tailcast.queueing.sizing import Targets, largest_rate
from tailcast.streams import stream

from .servers import LIMITS, LOG_LLAMA, replica

SHAPE = RequestShape(tokens_in=512, tokens_out=256)
DRAWS = LOG_LLAMA + 0.1 * stream(3, "capacity").standard_normal((40, 3))


def capacity_of(rates: list[float]) -> CapacityDraws:
    return CapacityDraws(rate=np.array(rates), binding_code=np.ones(len(rates), dtype=np.int64))


@pytest.mark.parametrize(
    ("targets", "binding"),
    [
        (Targets(ttft=0.05), "ttft"),
        (Targets(itl=0.012), "itl"),
        (Targets(ttft=0.06, itl=0.02), "itl"),
        (Targets(tps=10.0), "tps"),
        (Targets(), "stability"),
    ],
)
def test_every_draw_is_sized_as_it_would_be_alone(targets: Targets, binding: str) -> None:
    found = capacity_draws(DRAWS, SHAPE, LIMITS, targets)
    for log_numbers, rate in zip(DRAWS[:5], found.rate[:5], strict=True):
        alone = largest_rate(replica(numbers_of_log(log_numbers)), targets)
        assert rate == pytest.approx(alone.rate, rel=1e-5)
    assert found.binding == binding


def test_an_impossible_target_has_no_capacity_in_the_draws_that_miss_it() -> None:
    found = capacity_draws(DRAWS, SHAPE, LIMITS, Targets(ttft=0.0245))
    alone = [float(replica(numbers_of_log(x)).steady_state(1e-4).ttft) for x in DRAWS]
    assert found.rate.tolist() == pytest.approx(
        [0.0 if t > 0.0245 else r for t, r in zip(alone, found.rate, strict=True)]
    )
    assert 0 < found.p_infeasible < 1


def test_overhead_and_factors_tighten_the_targets() -> None:
    plain = capacity_draws(DRAWS, SHAPE, LIMITS, Targets(ttft=0.05)).rate
    between = Discrepancy(overhead=0.005, ttft_factor=np.full(40, 1.25))
    found = capacity_draws(DRAWS, SHAPE, LIMITS, Targets(ttft=0.05), between).rate
    expected = capacity_draws(DRAWS, SHAPE, LIMITS, Targets(ttft=0.05 / 1.25 - 0.005)).rate
    assert found == pytest.approx(expected, rel=1e-9)
    assert np.all(found < plain)


def test_replicas_are_the_fewest_within_the_risk() -> None:
    capacity = capacity_of([1.0] * 10 + [2.0] * 90)
    for risk, expected in ((0.11, 5), (0.09, 10)):
        found = replicas_for_risk(capacity, 10.0, risk)
        assert found.n_replica == expected
        assert found.p_miss <= risk
        fewer = np.mean(10.0 / (expected - 1) > capacity.rate)
        assert fewer > risk


def test_less_risk_never_takes_fewer_replicas() -> None:
    capacity = capacity_draws(DRAWS, SHAPE, LIMITS, Targets(ttft=0.06))
    counts = [replicas_for_risk(capacity, 200.0, risk).n_replica for risk in (0.5, 0.2, 0.05, 0.01)]
    assert counts == sorted(counts, key=lambda n: n or 0)


def test_a_rate_that_is_a_multiple_of_the_capacity_costs_no_replica_more() -> None:
    assert replicas_for_risk(capacity_of([0.1] * 20), 0.3, 0.05).n_replica == 3
    assert replicas_for_risk(capacity_of([0.1] * 20), 0.301, 0.05).n_replica == 4


def test_no_number_of_replicas_helps_where_a_lone_request_misses() -> None:
    found = replicas_for_risk(capacity_of([0.0] * 10 + [2.0] * 90), 4.0, 0.05)
    assert found.n_replica is None
    assert found.p_infeasible == pytest.approx(0.1)
    assert replicas_for_risk(capacity_of([0.0] * 10 + [2.0] * 90), 4.0, 0.15).n_replica == 2


def test_a_forecast_pairs_with_the_draws() -> None:
    forecast = np.array([2.0] * 50 + [8.0] * 50)
    assert replicas_for_risk(capacity_of([1.0] * 100), forecast, 0.4).n_replica == 8
    assert replicas_for_risk(capacity_of([1.0] * 100), forecast, 0.6).n_replica == 2
    with pytest.raises(UsageError, match="pair"):
        replicas_for_risk(capacity_of([1.0] * 100), forecast[:7], 0.4)


@pytest.mark.parametrize("risk", [0.0, 1.0, -0.1])
def test_a_risk_outside_nought_and_one_is_refused(risk: float) -> None:
    with pytest.raises(UsageError, match="risk"):
        replicas_for_risk(capacity_of([1.0]), 1.0, risk)
