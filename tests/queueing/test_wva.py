"""The filter that llm-d ships, with the faults it is kept for."""

import math
from pathlib import Path

import numpy as np
import pytest

from tailcast.queueing.server import RequestShape
from tailcast.queueing.sizing import Targets
from tailcast.queueing.sweep import read_sweep
from tailcast.queueing.windows import Window
from tailcast.queueing.wva import GATE, WvaTuner
from tailcast.streams import stream

from .servers import LLAMA, LOG_LLAMA, measured

SHAPE = RequestShape(tokens_in=512, tokens_out=256)


def test_its_own_first_point_locks_it_out_of_real_servers(shared_data: Path) -> None:
    windows = read_sweep(shared_data / "public" / "inferno-guidellm-llama31-8b")
    accepted = [WvaTuner(256).update(window).status == "accepted" for window in windows]
    assert (len(windows), sum(accepted)) == (112, 2)


def test_a_rejected_window_restores_state_and_covariance() -> None:
    tuner, generator = WvaTuner(256), stream(1, "wva")
    tuner.seed(LLAMA)
    far = measured(LOG_LLAMA + 0.5, generator, rate=8.0, noise=(0.0, 0.0))
    cycles = [tuner.update(far) for _ in range(20)]
    assert {cycle.status for cycle in cycles} == {"rejected"}
    assert {round(cycle.nis, 6) for cycle in cycles} == {round(cycles[0].nis, 6)}
    assert cycles[0].nis > GATE
    assert tuner.numbers == LLAMA


def test_it_accepts_what_its_own_model_makes() -> None:
    tuner = WvaTuner(256)
    tuner.seed(LLAMA)
    windows = []
    for rate in (4.0, 8.0, 12.0):
        expected = tuner._observation(np.array([6.678, 2.008e-2, 5.516e-5]), _plain(rate))
        assert expected is not None
        windows.append(_plain(rate, ttft=float(expected[0]) / 1e3, itl=float(expected[1]) / 1e3))
    assert [tuner.update(window).status for window in windows] == ["accepted"] * 3
    assert tuner.numbers is not None
    assert float(tuner.numbers.alpha) == pytest.approx(float(LLAMA.alpha), rel=1e-6)


def test_a_second_replica_above_the_boundary_kills_the_controller() -> None:
    tuner, generator = WvaTuner(256), stream(2, "wva")
    tuner.seed(LLAMA)
    calm = measured(LOG_LLAMA, generator, rate=4.0)
    busy = measured(LOG_LLAMA, generator, rate=80.0)
    assert tuner.update([calm, busy]).status == "crashed"
    assert tuner.numbers is None
    tuner.seed(LLAMA)
    assert tuner.update([busy, calm]).status == "skipped"
    assert tuner.numbers == LLAMA


def test_its_sizing_knows_no_capacity_without_an_estimate_or_a_feasible_target() -> None:
    tuner = WvaTuner(256)
    assert tuner.capacity(SHAPE, Targets(ttft=0.1)) == 0.0
    tuner.seed(LLAMA)
    assert tuner.capacity(SHAPE, Targets(ttft=0.001)) == 0.0
    assert tuner.capacity(SHAPE, Targets(ttft=0.12, itl=0.025)) == pytest.approx(29.3, rel=0.05)


def _plain(rate: float, ttft: float = math.nan, itl: float = math.nan) -> Window:
    return Window(tokens_in=512, tokens_out=256, rate=rate, ttft=ttft, itl=itl)
