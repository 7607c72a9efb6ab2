"""Whole runs against what BLIS printed for the same traces, to the microsecond."""

from dataclasses import dataclass, replace

import pytest

from engine.blis.deployments import deployment
from engine.blis.reference import PlainBlis
from tailcast.engine.blis.requests import BlisRequests, blis_requests
from tailcast.engine.blis.run import simulate_blis
from tailcast.engine.blis.settings import BlisSettings

Row = tuple[int, int, float]  # TTFT, E2E, mean gap; microseconds

LIMITS = BlisSettings(kv_blocks=26312, max_model_len=131072)

TRACE_A = blis_requests(
    [0, 5000, 12000, 12000, 60000, 200000],
    [1000, 300, 2500, 64, 800, 16],
    [20, 40, 10, 1, 30, 5],
)
TRACE_B = blis_requests([0, 0, 1000, 2000], 160, 60)
TRACE_C = blis_requests(
    [0, 100000, 100000, 101000],
    [140, 140, 170, 97],
    [8, 8, 8, 4],
    prefix_group=[0, 0, 0, 1],
    prefix_length=[100, 100, 100, 64],
)
TRACE_D = blis_requests([0, 0, 0, 0], [100, 190, 300, 150], [200, 50, 5, 40])
TRACE_E = blis_requests([0, 10_000_000, 20_000_000], 2000, 5)


@dataclass(frozen=True)
class Vector:
    """One run: what goes in, what BLIS gave; None for a request it dropped."""

    requests: BlisRequests
    rows: tuple[Row | None, ...]
    settings: BlisSettings = LIMITS
    backend: str = "trained-physics"
    steps: int | None = None
    duration: float | None = None


VECTORS = {
    "A": Vector(
        TRACE_A,
        (
            (24709, 169295, 7568.895),
            (27279, 310509, 7242.385),
            (40352, 107802, 7408.111),
            (40352, 41129, 0),
            (29819, 234479, 7030.448),
            (23106, 51792, 6977.250),
        ),
        steps=41,
        duration=0.312932,
    ),
    "A roofline": Vector(
        TRACE_A,
        (
            (23502, 165754, 7486.947),
            (67299, 225351, 4052.615),
            (99696, 128726, 3225.556),
            (99696, 99696, 0),
            (51696, 142828, 3142.483),
            (5887, 18119, 3058),
        ),
        backend="roofline",
        duration=0.230351,
    ),
    "A budget 256": Vector(
        TRACE_A,
        (
            (45239, 188974, 7524.105),
            (55227, 337501, 7217.872),
            (116105, 183644, 7418),
            (123807, 124584, 0),
            (98537, 302742, 7014.759),
            (29125, 57807, 6976.25),
        ),
        settings=replace(LIMITS, max_num_batched_tokens=256),
        steps=48,
    ),
    "A threshold 128, 2 sequences": Vector(
        TRACE_A,
        (
            (73289, 206774, 6984.632),
            (39754, 317317, 7097.077),
            (337191, 402867, 7211),
            (315063, 315840, 0),
            (318230, 521347, 6977.241),
            (220620, 249185, 6947),
        ),
        settings=replace(LIMITS, long_prefill_token_threshold=128, max_num_seqs=2),
        steps=80,
    ),
    "B preemption": Vector(
        TRACE_B,
        (
            (23140, 433820, 6947.508),
            (23140, 433820, 6947.508),
            (29705, 439952, 6940.169),
            (435520, 843032, 6893.814),
        ),
        settings=replace(LIMITS, kv_blocks=44, max_model_len=704),
        steps=120,
    ),
    "C shared prefix": Vector(
        TRACE_C,
        (
            (22745, 71753, 6890.143),
            (22702, 72084, 6943.571),
            (22702, 72084, 6943.571),
            (28778, 50315, 6920),
        ),
    ),
    "D sequence limit": Vector(
        TRACE_D,
        (None, None, None, (22767, 292343, 6892.282)),
        settings=replace(LIMITS, max_model_len=200),
    ),
    "E idle between": Vector(TRACE_E, ((27218, 56123, 7032),) * 3),
}


@pytest.mark.parametrize("name", VECTORS)
def test_run_equals_blis_to_the_microsecond(name: str) -> None:
    vector = VECTORS[name]
    result = simulate_blis(vector.requests, vector.settings, deployment(backend=vector.backend))
    for row, expected in enumerate(vector.rows):
        if expected is None:
            assert result.e2e_us[row] == -1
        else:
            assert (result.ttft_us[row], result.e2e_us[row]) == expected[:2]
            assert result.itl_mean_us[row] == pytest.approx(expected[2], abs=5e-4)
            assert result.itl_us(row).sum() == result.itl_sum_us[row]
    if vector.steps is not None:
        assert result.counters["steps"] == vector.steps
    if vector.duration is not None:
        assert result.metrics()["vllm_estimated_duration_s"] == vector.duration


@pytest.mark.parametrize("name", VECTORS)
def test_plain_engine_equals_blis_too(name: str) -> None:
    vector = VECTORS[name]
    model = deployment(backend=vector.backend)
    plain = PlainBlis(vector.requests, vector.settings, model).run()
    for request, expected in zip(plain.requests, vector.rows, strict=True):
        assert expected is None or (request.ttft, request.e2e) == expected[:2]


def test_percentiles_of_trace_a() -> None:
    vector = VECTORS["A"]
    metrics = simulate_blis(vector.requests, vector.settings, deployment()).metrics()
    assert metrics["ttft_p99_ms"] == 40.352
    assert metrics["e2e_p99_ms"] == pytest.approx(306.7075, abs=1e-9)
    assert metrics["itl_p99_ms"] == 11.959


def test_counters_of_the_small_traces() -> None:
    pressure = simulate_blis(TRACE_B, VECTORS["B preemption"].settings, deployment())
    assert pressure.counters["preemptions"] == 1
    assert pressure.preemptions.tolist() == [0, 0, 0, 1]
    limited = simulate_blis(TRACE_D, VECTORS["D sequence limit"].settings, deployment())
    assert limited.counters["dropped_unservable"] == 3
    assert limited.metrics()["injected_requests"] == 4
    shared = simulate_blis(TRACE_C, VECTORS["C shared prefix"].settings, deployment())
    assert shared.cached_tokens.tolist() == [0, 96, 96, 0]
