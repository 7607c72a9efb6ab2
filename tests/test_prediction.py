"""Predictions: repeatable, paired, wider where less is known, honest about what they lean on."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from deployments import deployment
from small_problem import poisson_requests
from tailcast.errors import CapacityError, UsageError
from tailcast.latency_model import LatencyModel, load_latency_model
from tailcast.prediction import METRICS, QUANTILES, Prediction, predictive, predictive_law
from tailcast.request import RequestTable, request_table


@pytest.fixture(scope="module")
def model() -> LatencyModel:
    """The shipped latency model; its prior stands in for a posterior."""
    return load_latency_model("physics")


def sent(rate: float = 5.0, n: int = 40) -> Callable[[int], RequestTable]:
    return lambda seed: poisson_requests(seed, rate=rate, prompt=128, output=24, n=n)


def predicted(model: LatencyModel, **changes: Any) -> Prediction:
    own: dict[str, Any] = {
        "deployment": deployment(),
        "requests": sent(),
        "n_draw": 24,
        "seed": 3,
    } | changes
    return predictive(model, own.pop("deployment"), own.pop("requests"), **own)


def test_same_seed_gives_the_same_draws_and_another_does_not(model: LatencyModel) -> None:
    one, again, other = (predicted(model, seed=seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(one.stat, again.stat)
    assert not np.array_equal(one.stat, other.stat)


def test_threads_change_nothing(model: LatencyModel) -> None:
    np.testing.assert_array_equal(
        predicted(model, threads=1).stat, predicted(model, threads=2).stat
    )


def test_statistics_are_ordered_positive_and_of_the_asked_shape(model: LatencyModel) -> None:
    found = predicted(model)
    assert found.stat.shape == (24, 2, len(METRICS), 1 + len(QUANTILES))
    for metric in ("ttft", "tpot", "e2e"):
        tails = np.array([found.draws(metric, stat) for stat in QUANTILES])
        assert np.all(np.diff(tails, axis=0) >= 0)
        assert np.all(tails > 0)
    assert np.all(found.draws("e2e", "mean") > found.draws("ttft", "mean"))
    np.testing.assert_array_equal(found.draws("e2e", "mean", 0), found.draws("e2e", "mean"))


def test_an_unknown_statistic_is_refused_with_the_known_ones(model: LatencyModel) -> None:
    with pytest.raises(UsageError, match="p99"):
        predicted(model).draws("ttft", "p42")
    with pytest.raises(UsageError, match="at least 1"):
        predicted(model, n_draw=0)


def test_candidates_face_the_same_requests_and_coefficients(model: LatencyModel) -> None:
    """Common random numbers: a faster accelerator is faster in every draw, not on average."""
    slow, fast = (
        predicted(model, deployment=deployment(gpu=gpu), with_discrepancy=False)
        for gpu in ("a100-sxm-80gb", "h100-sxm")
    )
    ratio = np.log(slow.draws("e2e", "mean") / fast.draws("e2e", "mean"))
    spread = np.log(fast.draws("e2e", "mean"))
    assert ratio.std() < 1.5 * spread.std()
    first = [predictive_law(model, deployment(gpu=g), n_draw=5)[0] for g in ("a10", "l4")]
    np.testing.assert_array_equal(
        first[0].coefficients.values["finish"], first[1].coefficients.values["finish"]
    )


def test_discrepancy_only_widens(model: LatencyModel) -> None:
    """Median within 4 standard errors of 200 draws; the interval is wider."""
    bare, full = (
        np.log(predicted(model, n_draw=200, with_discrepancy=d).draws("ttft", "mean"))
        for d in (False, True)
    )
    assert abs(np.median(bare) - np.median(full)) < 4 * 1.25 * full.std() / np.sqrt(200)
    assert np.ptp(np.quantile(full, [0.05, 0.95])) > np.ptp(np.quantile(bare, [0.05, 0.95]))


def test_load_is_proportional_to_the_rate_and_saturates(model: LatencyModel) -> None:
    slow, fast = (
        predicted(model, requests=sent(rate), with_discrepancy=False) for rate in (2.0, 4.0)
    )
    np.testing.assert_allclose(fast.load / slow.load, 2.0, rtol=0.02)
    assert slow.p_saturated == 0.0
    flooded = predicted(
        model, deployment=deployment(max_num_seqs=1), requests=sent(50.0), with_discrepancy=False
    )
    assert flooded.p_saturated == 1.0
    assert not flooded.stable.any()


def test_a_closed_loop_cannot_saturate(model: LatencyModel) -> None:
    n = 20
    chain = request_table(
        arrival=np.zeros(n),
        input_tokens=np.full(n, 64),
        output_tokens=np.full(n, 8),
        parent=np.arange(n) - 1,
    )
    assert np.all(predicted(model, requests=lambda _: chain).load == 0.0)


def test_a_prior_says_that_it_is_one(model: LatencyModel) -> None:
    found = predicted(model)
    assert found.mode == "cold"
    assert found.extrapolates
    assert any("this is the prior" in warning for warning in found.warnings)


def test_weights_that_do_not_fit_are_refused() -> None:
    with pytest.raises(CapacityError, match="leaves no memory"):
        deployment("llama-3.1-70b", "a10")


def test_as_tree_holds_the_same_numbers(model: LatencyModel) -> None:
    found = predicted(model)
    group = found.to_tree()["predictions"].to_dataset()
    own = group["ttft"].sel(stat="p99", group="all").values[0]
    np.testing.assert_array_equal(own, found.draws("ttft", "p99"))
    assert group["ttft"].attrs["units"] == "s"
    assert group.attrs["n_request"] == 40
