"""One run of a fixed latency model in either mode, under the same names."""

import math

import numpy as np
import pytest

from deployments import deployment
from tailcast.engine.blis.result import BlisResult
from tailcast.engine.point_model import point_model
from tailcast.engine.point_run import horizon_us, point_run
from tailcast.engine.run import simulate
from tailcast.errors import UsageError
from tailcast.request import RequestTable, request_table
from tailcast.streams import stream


def busy(n: int = 80) -> RequestTable:
    """Requests at 20 a second; the second half has clients that leave."""
    rng = stream(3, "point run")
    timeout = np.where(np.arange(n) < n // 2, np.inf, 1.0)
    return request_table(
        np.cumsum(rng.exponential(0.05, n)),
        rng.integers(50, 900, n),
        rng.integers(1, 120, n),
        timeout=timeout,
    )


def test_mode_blis_states_what_blis_reports() -> None:
    run = point_run(point_model(None, "blis"), deployment("qwen3-14b"), busy())
    blis = run.blis
    assert isinstance(blis, BlisResult)
    report = blis.metrics()
    for metric in ("ttft", "e2e", "itl"):
        row = run.stat[run.metrics.index(metric)] * 1e3
        expected = [report[f"{metric}_{name}_ms"] for name in ("mean", "p90", "p95", "p99")]
        np.testing.assert_allclose(row[[0, 2, 3, 4]], expected, rtol=1e-12)
    delay = run.stat[run.metrics.index("queue_delay"), 4] * 1e3
    assert delay == pytest.approx(report["scheduling_delay_p99_ms"], rel=1e-12)
    assert run.outcome["timed_out"] == report["timed_out_requests"] > 0
    assert sum(run.outcome[k] for k in ("completed", "timed_out", "unfinished")) == 80
    assert run.kv_blocks == 15909


def test_mode_vllm_states_what_the_engine_reports() -> None:
    served = deployment("qwen3-14b")
    run = point_run(point_model("roofline"), served, busy(), warmup=10, quantiles=(0.5,))
    assert run.law is not None
    from tailcast.engine.deployment_limits import deployment_limits

    again = simulate(busy(), deployment_limits(served), run.law, warmup=10, quantiles=(0.5,))
    np.testing.assert_array_equal(run.stat, again.stat[0, -1])
    assert run.records is None
    assert run.kv_blocks == served.kv_block_count


def test_the_same_coefficients_differ_by_mode() -> None:
    """The corrected engine waits for a lagged step and reads the output projection."""
    served, table = deployment("qwen3-14b"), busy()
    parity = point_run(point_model(None, "blis"), served, table)
    corrected = point_run(point_model(None, "vllm"), served, table)
    tpot = parity.metrics.index("tpot")
    assert 1.0 < corrected.stat[tpot, 0] / parity.stat[tpot, 0] < 1.15
    assert corrected.stat[0, 0] > parity.stat[0, 0] + 0.5 * parity.stat[tpot, 0]
    assert "beats the datasheet" in corrected.notes[0]


def test_a_horizon_leaves_requests_unfinished_in_both_modes() -> None:
    for mode in ("blis", "vllm"):
        run = point_run(point_model(None, mode), deployment("qwen3-14b"), busy(), horizon=1.0)
        assert run.outcome["unfinished"] > 0
    assert horizon_us(math.inf) == 2**63 - 1
    assert horizon_us(0.25) == 250_000


def test_nothing_finished_is_not_a_number() -> None:
    late = request_table(np.array([5.0]), 10, 3)
    for mode in ("blis", "vllm"):
        run = point_run(point_model(None, mode), deployment(), late, horizon=1.0)
        assert np.isnan(run.stat).all()


def test_blis_knows_no_closed_loop() -> None:
    loop = request_table(np.array([0.0, 0.0]), 10, 3, parent=np.array([-1, 0]))
    with pytest.raises(UsageError, match="has a parent"):
        point_run(point_model(None, "blis"), deployment(), loop)
