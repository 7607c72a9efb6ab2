"""The birth-death chain: published distributions, balance, and no overflow."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailcast.errors import UsageError
from tailcast.queueing.chain import geometric_tail, occupancy_distribution

RATES = st.lists(st.floats(0.05, 50.0), min_size=1, max_size=6)


def naive(rates: list[float], arrival: float, capacity: int) -> np.ndarray:
    weights = [1.0]
    for state in range(1, capacity + 1):
        weights.append(weights[-1] * arrival / rates[min(state, len(rates)) - 1])
    return np.array(weights) / math.fsum(weights)


def test_a_published_chain_has_its_published_distribution() -> None:
    found = occupancy_distribution(2.8, np.log([1.0, 2.0, 3.0]), 5)
    expected = [0.0556157212, 0.1557240195, 0.2180136273, 0.2034793854, 0.1899140931, 0.1772531535]
    assert found.probabilities() == pytest.approx(expected, rel=1e-8)
    throughput = 2.8 * float(found.p_admitted)
    assert throughput == pytest.approx(2.303691170102043, rel=1e-12)
    wait = float(found.in_system - found.in_service) / throughput
    assert wait == pytest.approx(0.2363252536662941, rel=1e-9)


@given(rates=RATES, arrival=st.floats(0.01, 200.0), extra=st.integers(0, 40))
def test_logs_give_what_plain_products_give(rates: list[float], arrival: float, extra: int) -> None:
    capacity = len(rates) + extra
    found = occupancy_distribution(arrival, np.log(rates), capacity)
    expected = naive(rates, arrival, capacity)
    states = np.arange(capacity + 1)
    assert found.probabilities() == pytest.approx(expected, rel=1e-9, abs=1e-300)
    assert float(found.in_system) == pytest.approx(float(expected @ states), rel=1e-9)
    busy = np.minimum(states, len(rates))
    assert float(found.in_service) == pytest.approx(float(expected @ busy), rel=1e-9)
    assert float(found.p_admitted) == pytest.approx(float(expected[:-1].sum()), rel=1e-9)


@given(rates=RATES, arrival=st.floats(0.01, 200.0), extra=st.integers(0, 40))
def test_what_enters_leaves(rates: list[float], arrival: float, extra: int) -> None:
    capacity = len(rates) + extra
    found = occupancy_distribution(arrival, np.log(rates), capacity)
    departures = np.array([rates[min(n, len(rates)) - 1] for n in range(1, capacity + 1)])
    leaving = float(found.probabilities()[1:] @ departures)
    assert arrival * float(found.p_admitted) == pytest.approx(leaving, rel=1e-9)


def test_a_capacity_below_the_service_places_cuts_the_chain() -> None:
    found = occupancy_distribution(1.0, np.log([2.0, 4.0, 6.0]), 2)
    assert found.probabilities() == pytest.approx(naive([2.0, 4.0, 6.0], 1.0, 2), rel=1e-12)


@pytest.mark.parametrize("arrival", [1e-300, 1e-6, 1.0 - 1e-12, 1.0, 1.0 + 1e-12, 1e6, 1e300])
def test_five_thousand_states_stay_finite_at_any_rate(arrival: float) -> None:
    rates = np.log(np.linspace(0.01, 1.0, 256))
    found = occupancy_distribution(arrival, rates, 5000)
    for value in (found.in_service, found.in_system, found.p_admitted, found.log_p_full):
        assert np.isfinite(value)
    assert 0 <= float(found.in_service) <= 256
    assert float(found.in_service) <= float(found.in_system) * (1 + 1e-12)
    assert float(found.in_system) <= 5000
    assert found.probabilities().sum() == pytest.approx(1.0, rel=1e-9)


@given(x=st.floats(-0.2, 0.2), n=st.integers(0, 3000))
@settings(max_examples=300)
def test_the_closed_tail_equals_its_sum(x: float, n: int) -> None:
    steps = np.arange(n + 1, dtype=np.float64)
    logs = x * steps
    weights = np.exp(logs - logs.max())
    log_total, mean = geometric_tail(np.asarray(x), n)
    assert float(log_total) == pytest.approx(np.log(weights.sum()) + logs.max(), rel=1e-9, abs=1e-9)
    assert float(mean) == pytest.approx(float(weights @ steps / weights.sum()), rel=1e-8, abs=1e-10)


def test_impossible_chains_are_refused() -> None:
    with pytest.raises(UsageError, match="capacity"):
        occupancy_distribution(1.0, np.log([1.0]), 0)
    with pytest.raises(UsageError, match="positive"):
        occupancy_distribution(0.0, np.log([1.0]), 2)
