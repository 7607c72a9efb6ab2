"""Risk curves: the crossing is found, shared blocks make them smooth, bounds are kept."""

import numpy as np
import pytest

from risk.cases import deployment, prior_posterior, question, tables, workload
from tailcast.errors import UsageError
from tailcast.risk.blocks import predictive_blocks
from tailcast.risk.curve import (
    Curve,
    curve_points,
    fewest_held,
    largest_held,
    least_target,
    target_curve,
)
from tailcast.risk.fleet import Fleet
from tailcast.risk.trial import Outcomes, run_blocks
from tailcast.risk.vary import (
    mean_rate,
    rate_curve,
    replica_curve,
    stability_factor,
    workload_at,
)

N = 20


def test_a_rate_curve_crosses_the_risk() -> None:
    blocks = predictive_blocks(prior_posterior(), N, 0)
    fleet, asked = Fleet(deployment=deployment()), question("ttft.p99=80ms")
    curve = rate_curve(fleet, blocks, workload(rate=20.0), asked, risk=0.2)
    edge = largest_held(curve, 0.2)
    assert np.all(np.diff(curve.at) > 0)
    assert edge.bounded
    assert edge.low <= edge.value * 1.05
    assert edge.high >= edge.value * 0.95
    at = run_blocks(fleet, blocks, tables(workload(rate=edge.value)), asked, np.arange(N)).missed(
        asked
    )
    assert at.mean() <= 0.2
    beyond = run_blocks(
        fleet, blocks, tables(workload(rate=1.5 * edge.value)), asked, np.arange(N)
    ).missed(asked)
    assert beyond.mean() > 0.2


def test_a_target_that_no_lone_request_holds_has_no_rate() -> None:
    blocks = predictive_blocks(prior_posterior(), N, 0)
    curve = rate_curve(
        Fleet(deployment=deployment()), blocks, workload(), question("ttft.p50=1us"), risk=0.05
    )
    assert largest_held(curve, 0.05).value == 0


def test_replicas_are_added_until_the_risk_is_held() -> None:
    blocks = predictive_blocks(prior_posterior(), N, 0)
    fleet, asked = Fleet(deployment=deployment()), question("ttft.p99=80ms")
    curve = replica_curve(fleet, blocks, tables(workload(rate=40.0)), asked, risk=0.2)
    fewest = fewest_held(curve, 0.2)
    assert fewest > 1
    assert fewest - 1 in curve.at
    assert fewest + 1 in curve.at
    never = replica_curve(fleet, blocks, tables(), question("ttft.p50=1us"), risk=0.2, most=4)
    assert np.isnan(fewest_held(never, 0.2))


def outcomes(values: list[float], load: list[float] | None = None) -> Outcomes:
    """Blocks whose statistic is given."""
    n = len(values)
    column = np.array(values)[:, None]
    return Outcomes(
        load=np.array(load or [0.5] * n),
        failed=np.zeros(n),
        value=np.hstack([column, column]),
        part=np.zeros((n, 2)),
        whole=np.ones((n, 2)),
    )


def test_the_least_target_is_a_quantile_of_the_statistic() -> None:
    found = outcomes([k / 100 for k in range(1, 101)])
    least = least_target(found, 0, 0.05)
    assert least == 0.95
    assert np.mean(found.value[:, 0] > least) <= 0.05
    assert np.mean(found.value[:, 0] > least - 1e-9) > 0.05
    beyond = outcomes([0.1] * 10, load=[2.0] + [0.5] * 9)
    assert least_target(beyond, 0, 0.05) == np.inf
    assert least_target(beyond, 0, 0.1) == 0.1


def test_a_target_curve_falls_from_one_to_the_saturated_share() -> None:
    found = outcomes([0.1, 0.2, 0.3, 0.4], load=[0.5, 0.5, 0.5, 1.5])
    curve = target_curve(found, question("ttft.p99=250ms"), 0)
    assert np.all(np.diff(curve.p_miss) <= 0)
    assert curve.p_miss[0] == 1.0
    assert curve.p_miss[-1] == 0.25
    assert np.all(curve.mcse > 0)
    points = curve_points(curve)
    assert points[-1]["p_saturated"] == 0.25


def test_a_curve_over_targets_needs_a_latency() -> None:
    with pytest.raises(UsageError, match="is for latencies"):
        target_curve(outcomes([0.9]), question("goodput(ttft=1s)=0.9"), 0)
    with pytest.raises(UsageError, match="beyond the stability boundary"):
        target_curve(outcomes([0.9], load=[2.0]), question("ttft.p99=1s"), 0)


def test_the_largest_rate_lies_before_the_first_that_misses() -> None:
    missed = np.array([[0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1]], dtype=bool)
    curve = Curve(
        over="rate", at=np.array([1.0, 2, 3, 4]), missed=missed, saturated=np.zeros_like(missed)
    )
    assert largest_held(curve, 0.1).value == 1.0
    assert largest_held(curve, 0.3).value == 3.0
    assert largest_held(curve, 1.0 - 1e-12).value == 3.0
    free = Curve(
        over="rate", at=np.array([1.0]), missed=missed[:1], saturated=np.zeros_like(missed[:1])
    )
    assert not largest_held(free, 0.1).bounded


def test_stages_are_scaled_alike() -> None:
    stages = [{"rate": 2.0, "duration": "10s"}, {"rate": 4.0, "duration": "30s"}]
    spec = workload(rate=None, n_requests=None, stages=stages)
    assert mean_rate(spec) == pytest.approx(3.5)
    twice = workload_at(spec, 2.0)
    assert [s.rate for s in twice.stages] == [4.0, 8.0]
    assert mean_rate(twice) == pytest.approx(7.0)


def test_a_closed_loop_has_no_rate() -> None:
    spec = workload(rate=None, arrivals=None, concurrency=4)
    assert np.isnan(mean_rate(spec))
    with pytest.raises(UsageError, match="closed loop has no rate"):
        workload_at(spec, 2.0)
    assert stability_factor(outcomes([0.1], load=[0.0]), 0.05) == np.inf
    assert stability_factor(outcomes([0.1] * 4, load=[0.1, 0.2, 0.4, 0.5]), 0.25) == 2.5
