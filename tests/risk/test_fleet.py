"""Requests are dealt in turn, none lost, sessions kept together."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from risk.cases import deployment, workload
from tailcast.errors import UsageError
from tailcast.request import request_table
from tailcast.risk.fleet import Fleet, deal_requests, first_requests
from tailcast.workload.materialise import materialise


@settings(deadline=None)
@given(n=st.integers(1, 40), n_rank=st.integers(1, 9))
def test_every_request_goes_to_exactly_one_scheduler(n: int, n_rank: int) -> None:
    requests = request_table(np.arange(n, dtype=float), np.arange(1, n + 1), 5)
    dealt = deal_requests(requests, n_rank)
    rows = np.concatenate([own for _, own in dealt])
    assert sorted(rows) == list(range(n))
    assert len(dealt) == min(n, n_rank)
    for table, own in dealt:
        np.testing.assert_array_equal(table.input_tokens, requests.input_tokens[own])
        np.testing.assert_array_equal(own % n_rank, own[0] % n_rank)


def test_a_session_stays_with_its_scheduler() -> None:
    spec = workload(session={"turns": 3, "think_time": "1s"})
    requests = materialise(spec, 1)
    dealt = deal_requests(requests, 3)
    rank = np.empty(len(requests), dtype=int)
    for k, (_, rows) in enumerate(dealt):
        rank[rows] = k
    child = requests.parent >= 0
    assert child.any()
    np.testing.assert_array_equal(rank[child], rank[requests.parent[child]])
    for table, rows in dealt:
        own = table.parent >= 0
        np.testing.assert_array_equal(rows[table.parent[own]], requests.parent[rows[own]])


def test_one_scheduler_gets_what_arrives() -> None:
    requests = materialise(workload(), 3)
    ((table, rows),) = deal_requests(requests, 1)
    np.testing.assert_array_equal(rows, np.arange(len(requests)))
    np.testing.assert_array_equal(table.arrival, requests.arrival)


def test_a_fleet_counts_its_accelerators_and_schedulers() -> None:
    fleet = Fleet(deployment=deployment(tensor_parallel=2), replicas=3)
    assert (fleet.n_accelerators, fleet.n_rank) == (6, 3)
    moe = Fleet(
        deployment=deployment(model="mixtral-8x7b", tensor_parallel=2, data_parallel=2), replicas=2
    )
    assert (moe.n_accelerators, moe.n_rank) == (8, 4)
    assert "TP 2, DP 2, 2 replicas" in moe.title


def test_no_replica_is_no_fleet() -> None:
    with pytest.raises(UsageError, match="replicas must be at least 1"):
        Fleet(deployment=deployment(), replicas=0)


def test_a_short_run_is_the_beginning_of_a_long_one() -> None:
    requests = materialise(workload(), 3)
    short = first_requests(requests, 10)
    assert len(short) == 10
    np.testing.assert_array_equal(short.arrival, requests.arrival[:10])
    assert first_requests(requests, 1000) is requests
