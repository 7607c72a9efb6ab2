"""What the tuner's controller makes of its belief: a capacity, and its first order."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tailcast.autoscale.controller import ControllerSettings, Reading, TunerController
from tailcast.queueing.capacity import capacity_draws
from tailcast.queueing.parameter_prior import NumbersPrior
from tailcast.queueing.sensitivity import log_latencies, log_of_numbers
from tailcast.queueing.server import RequestShape, ServerLimits, three_numbers_ms
from tailcast.queueing.sizing import Targets
from tailcast.queueing.windows import Window, window_columns
from tailcast.streams import stream

TRUTH = log_of_numbers(three_numbers_ms(6.678, 2.008e-2, 5.516e-5))
SHAPE = RequestShape(tokens_in=1024.0, tokens_out=1300.0)
TARGETS = Targets(ttft=0.05)
LIMITS = ServerLimits()


def controller(shift: float = 0.0) -> TunerController:
    prior = NumbersPrior(log_mean=TRUTH + shift, log_cov=np.diag([0.01, 0.0225, 0.0625]))
    settings = ControllerSettings(targets=TARGETS, shape=SHAPE, n_draw=400)
    return TunerController(prior, LIMITS, settings)


def later_by_a_step(rate: float) -> Window:
    """A server that waits a step more than the chain says, as engines that plan ahead do."""
    plain = Window(tokens_in=1024.0, tokens_out=1300.0, rate=rate)
    found = log_latencies(TRUTH, window_columns([plain]), LIMITS)
    ttft, itl = np.exp(found.ttft[0, 0]), np.exp(found.itl[0, 0])
    return replace(plain, ttft=float(ttft + itl), itl=float(itl), n_request=60.0 * rate)


def reading(time: float, rate: float, windows: Sequence[Window] = (), n: int = 1) -> Reading:
    return Reading(time=time, arrivals=15.0 * rate, duration=15.0, windows=windows, n_replica=n)


def test_measured_latency_narrows_the_capacity_even_where_the_numbers_stay_vague() -> None:
    """One shape tells the sum of a prompt's cost and of what the chain misses, not either. Control:
    drawn each for itself they leave the capacity vaguer."""
    made = controller()
    windows = [later_by_a_step(rate) for rate in (1.0, 1.5, 2.0, 2.5) * 5]
    decision = made.decide(reading(15.0, 2.0, windows))
    width = np.log(decision.capacity_high / decision.capacity_low)
    drawn, between = made.tuner.draws_as_measured(400, stream(3, "joint"), noise=True)
    found = capacity_draws(drawn, SHAPE, LIMITS, TARGETS, between).rate
    low, high = np.quantile(found, [0.055, 0.945])
    assert width == pytest.approx(np.log(high / low), rel=0.2)
    apart = capacity_draws(drawn, SHAPE, LIMITS, TARGETS, replace(
        between, ttft_factor=stream(4, "apart").permutation(np.asarray(between.ttft_factor))
    )).rate  # fmt: skip
    low, high = np.quantile(apart, [0.055, 0.945])
    assert np.log(max(high, 1e-9) / max(low, 1e-9)) > 1.4 * width


def test_a_calm_belief_gives_the_same_capacity_at_every_decision() -> None:
    made = controller()
    first = made.decide(reading(15.0, 2.0))
    second = made.decide(reading(30.0, 2.0))
    assert first.capacity == second.capacity
    assert first.capacity_low == second.capacity_low


def test_nothing_is_ordered_on_the_datasheet_alone_unless_it_is_needed_more_likely_than_not() -> (
    None
):
    """The vague first belief does not order for its risk, an overload does; without windows the
    risk holds after a pod's start."""
    calm = controller()
    assert calm.decide(reading(15.0, 2.0)).n_replica == 1
    assert controller().decide(reading(15.0, 9.0)).n_replica >= 3
    wanted = [calm.decide(reading(15.0 * k, 2.0)).n_replica for k in range(2, 12)]
    assert wanted[0] == 1
    assert wanted[-1] > 1
