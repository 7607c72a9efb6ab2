"""The control loop: no look ahead, its bounds, and the trapezoid it must hold."""

from dataclasses import replace

import numpy as np
import pytest

from tailcast.autoscale.controller import Decision, Reading
from tailcast.autoscale.experiment import (
    AutoscaleQuestion,
    Plant,
    first_belief,
    load_requests,
    make_controller,
    make_plant,
    run_draw,
    run_draws,
)
from tailcast.autoscale.load import LoadProfile, parse_load
from tailcast.autoscale.loop import LoopSettings, run_loop
from tailcast.autoscale.outcome import outcome
from tailcast.autoscale.plant import Cluster
from tailcast.autoscale.replica import Source
from tailcast.errors import UsageError
from tailcast.queueing.server import RequestShape, ServerLimits
from tailcast.queueing.sizing import Targets
from tailcast.request import request_table

NUMBERS = "6.678ms,20.08us,55.16ns"
SOURCE = Source(numbers=NUMBERS, llm_name="llama-3.1-8b", gpu="h100")


def question(load: str = "trapezoid:120rpm,480rpm/38min", **fields: object) -> AutoscaleQuestion:
    given: dict[str, object] = {
        "load": parse_load(load),
        "shape": RequestShape(tokens_in=1024, tokens_out=1300),
        "targets": Targets(ttft=0.05),
        "loop": LoopSettings(),
        "limits": ServerLimits(),
        **fields,
    }
    return AutoscaleQuestion(**given)  # type: ignore[arg-type]


def plant(lag: float = 0.0, n_draw: int = 1) -> Plant:
    return make_plant(SOURCE, ServerLimits(), n_draw, schedule_lag=lag, seed=0)


class Script:
    """A controller that follows a script and keeps what it was shown."""

    def __init__(self, wanted: list[int]) -> None:
        self.wanted, self.seen = list(wanted), list[Reading]()

    def decide(self, reading: Reading) -> Decision:
        self.seen.append(reading)
        n = self.wanted[min(len(self.seen), len(self.wanted)) - 1]
        return Decision(n_replica=n, rate=1.0, capacity=1.0, capacity_low=1.0, capacity_high=1.0)


def scripted(wanted: list[int], settings: LoopSettings, seconds: float = 600.0) -> Cluster:
    arrival = np.arange(0.5, seconds, 0.5)
    truth = plant()
    made = Cluster(request_table(arrival, 512, 100), truth.limits, truth.law)
    run_loop(made, Script(wanted), settings, seconds)
    return made


def test_pods_start_late_and_the_youngest_leave_first() -> None:
    made = scripted([3] * 20 + [1], LoopSettings(pod_start=90.0))
    assert [(pod.ordered, pod.ready) for pod in made.pods] == [
        (0.0, 0.0),
        (30.0, 120.0),
        (30.0, 120.0),
    ]
    assert [pod.leaves for pod in made.pods] == [np.inf, 330.0, 330.0]


def test_a_pod_that_is_still_starting_is_cancelled_first() -> None:
    made = scripted([2] * 10 + [3] * 2 + [2], LoopSettings(pod_start=90.0))
    third = made.pods[2]
    assert third.leaves < third.ready
    assert made.pods[1].leaves == np.inf


def test_bounds_hold_whatever_is_wanted() -> None:
    made = scripted([50, 0], LoopSettings(least=2, first=2, most=4))
    wanted = [pod for pod in made.pods if np.isinf(pod.leaves)]
    assert len(made.pods) == 4
    assert len(wanted) == 2


def test_a_reading_is_delayed_and_counts_each_arrival_once() -> None:
    truth, script = plant(), Script([1])
    arrival = np.arange(0.5, 600.0, 0.5)
    made = Cluster(request_table(arrival, 512, 100), truth.limits, truth.law)
    run_loop(made, script, LoopSettings(scrape_delay=5.0), 600.0)
    times = np.array([reading.time for reading in script.seen])
    decided = 15.0 * np.arange(2, 2 + len(times))
    assert np.all(times <= decided - 5.0)
    assert sum(r.arrivals for r in script.seen) == np.sum(arrival <= times[-1])


def test_windows_near_a_change_of_the_pods_are_left_out() -> None:
    truth, script = plant(), Script([1] * 10 + [2])
    arrival = np.arange(0.5, 900.0, 0.5)
    made = Cluster(request_table(arrival, 512, 100), truth.limits, truth.law)
    run_loop(made, script, LoopSettings(settle=30.0, pod_start=90.0), 900.0)
    (ready,) = (pod.ready for pod in made.pods if pod.number == 1)
    quiet = [r for r in script.seen if ready <= r.time < ready + 30.0 + 60.0]
    assert quiet
    assert not any(r.windows for r in quiet)
    later = [r for r in script.seen if r.time > ready + 120.0 and r.windows]
    assert {len(r.windows) for r in later} == {2}


def test_decisions_do_not_look_ahead() -> None:
    """The same arrivals up to five minutes, others after: the same decisions up to then."""
    asked = question("2rps/7min", targets=Targets(ttft=0.06))
    longer = replace(asked, load=LoadProfile(
        times=np.array([0.0, 300.0, 301.0, 420.0]), rates=np.array([2.0, 2.0, 9.0, 9.0])
    ))  # fmt: skip
    truth, belief = plant(), first_belief(SOURCE, asked.limits, seed=0)
    logs = []
    for each in (asked, longer):
        found, _ = run_draw(each, truth, belief, 0)
        logs.append([e for e in found.decisions if e.time <= 300.0])
    assert logs[0] == logs[1]
    assert len(logs[0]) > 15


@pytest.mark.slow
def test_the_trapezoid_is_held_by_the_tuner_and_not_by_the_shipped_filter() -> None:
    """The bar: at most 5 % of the time above target outside pod starts. WVA's filter is the
    control that must fail: it never opens its gate and keeps one replica."""
    truth, asked = plant(lag=0.0, n_draw=2), question()
    belief = first_belief(SOURCE, asked.limits, seed=0)
    for found in run_draws(asked, truth, belief):
        assert found.above_settled <= 0.05
        assert found.above <= 0.05
        assert found.n_answered == found.n_request
        assert found.path[0] == 1
        assert max(found.path) == 4
        assert found.path[-1] == 1
    wva, _ = run_draw(replace(asked, controller="wva"), truth, belief, 0)
    assert wva.above_settled > 0.5
    assert wva.n_answered == wva.n_request


def test_an_outcome_adds_up() -> None:
    made = scripted([2], LoopSettings(pod_start=60.0))
    found = outcome(made, [], Targets(ttft=1e-3), 600.0)
    assert found.path == (1, 2)
    assert found.path_times == (0.0, 90.0)
    assert found.n_answered == found.n_request == len(made.requests)
    assert found.above == found.above_settled == 1.0
    assert found.timeline.n_request.sum() == found.n_request
    assert found.timeline.missed == pytest.approx(1.0)
    assert found.timeline.ready @ np.full(10, 60.0) == pytest.approx(600.0 + 510.0)
    assert 600.0 + 570.0 <= found.replica_seconds < 600.0 + 570.0 + 20.0
    assert list(np.flatnonzero(found.timeline.starting)) == [0, 1]
    kind = outcome(made, [], Targets(ttft=10.0), 600.0)
    assert kind.above == 0.0


def test_a_controller_is_found_by_name() -> None:
    asked = question()
    belief = first_belief(SOURCE, asked.limits, seed=0)
    for name in ("tuner", "wva", "fixed:3"):
        assert make_controller(replace(asked, controller=name), belief) is not None
    for name in ("fixed", "fixed:0", "tunr"):
        with pytest.raises(UsageError, match="controller"):
            make_controller(replace(asked, controller=name), belief)


@pytest.mark.parametrize(
    "fields",
    [
        {"length_spread": 7.0},
        {"length_spread": float("nan")},
        {"stabilisation": -1.0},
        {"risk": float("nan")},
        {"risk": 0.0},
    ],
)
def test_a_question_outside_its_bounds_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="autoscale: "):
        question(**fields)  # type: ignore[arg-type]


def test_a_load_that_cannot_be_held_is_refused_before_it_is_made() -> None:
    with pytest.raises(UsageError, match=r"1\.8e\+09 requests"):
        load_requests(question("1000000rps/30min"), 0)


def test_where_no_number_helps_the_tuner_keeps_what_there_is() -> None:
    asked = question("2rps/8min", targets=Targets(ttft=0.005))
    found, _ = run_draw(asked, plant(), first_belief(SOURCE, asked.limits, seed=0), 0)
    assert found.path == (1,)
