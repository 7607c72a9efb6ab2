"""pytest-benchmark cases; not collected by the tests.

pytest benchmarks/test_benchmarks.py
"""

import pytest
from blis_binary import our_parity_run
from pytest_benchmark.fixture import BenchmarkFixture
from scenarios import STRESSES, chatbot, law, limits, stress

from tailcast.engine.run import simulate


@pytest.mark.parametrize("n", [1_000, 10_000, 100_000])
def test_one_run(benchmark: BenchmarkFixture, n: int) -> None:
    table, room, one = chatbot(n), limits(), law()
    result = benchmark(simulate, table, room, one)
    assert result.counters["completed"][0] == n


@pytest.mark.parametrize("threads", [1, 2])
def test_fifty_draws(benchmark: BenchmarkFixture, threads: int) -> None:
    table, room, spread = chatbot(10_000), limits(), law(50)
    result = benchmark(simulate, table, room, spread, threads=threads)
    assert (result.counters["completed"] == 10_000).all()


@pytest.mark.parametrize("name", STRESSES)
def test_stress(benchmark: BenchmarkFixture, name: str) -> None:
    case, one = stress(name, 2_000), law()
    result = benchmark(simulate, case.requests, case.limits, one)
    assert result.counters["completed"][0] == 2_000


def test_mode_blis(benchmark: BenchmarkFixture) -> None:
    result = benchmark(our_parity_run, 2_000)
    assert result.counters["completed"] == 2_000
