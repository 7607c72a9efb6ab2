"""Windows, sweeps, guesses and the offline point fit."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tailcast.errors import InputError, UsageError
from tailcast.queueing.first_guess import seed_guess, share_guess
from tailcast.queueing.offline_fit import (
    condition_number,
    point_fit,
    predicted_latencies,
    relative_errors,
    trainer_loss,
)
from tailcast.queueing.server import ServerLimits, three_numbers_ms
from tailcast.queueing.sweep import read_sweep
from tailcast.queueing.windows import Window, window_columns

from .servers import LIMITS, LLAMA

OBSERVED = Window(tokens_in=1123, tokens_out=487, rate=1.0, ttft=0.08048, itl=0.015911)
HEADER = (
    "prompt_nominal,output_nominal,strategy,target_rps,n_ok,rps_ok_mean,prompt_tok_mean,"
    "output_tok_mean,ttft_ms_p50,ttft_ms_std,itl_ms_mean,itl_ms_std\n"
)


def swept(points: list[tuple[float, float, float]], limits: ServerLimits) -> list[Window]:
    windows = [Window(rate=r / 60, tokens_in=i, tokens_out=o) for r, i, o in points]
    truth = predicted_latencies(three_numbers_ms(12.0, 0.04, 6e-5), windows, limits)
    return [
        replace(window, ttft=float(ttft), itl=float(itl))
        for window, (ttft, itl) in zip(windows, truth, strict=True)
    ]


def test_the_published_guesses() -> None:
    found = share_guess(OBSERVED)
    assert found is not None
    assert 1e3 * float(found.beta) == pytest.approx(0.057792054200146284, rel=1e-9)
    assert 1e3 * float(found.gamma) == pytest.approx(0.001121659067885774, rel=1e-9)
    seeded = seed_guess(OBSERVED, three_numbers_ms(5.0, 0.05, 5e-5))
    assert 1e3 * float(seeded.alpha) == pytest.approx(15.79, abs=0.1)
    assert 1e3 * float(seeded.beta) == pytest.approx(0.0576, abs=0.001)


def test_a_window_that_gives_no_positive_guess_gives_none_or_the_seed() -> None:
    odd = replace(OBSERVED, ttft=0.001)
    seed = three_numbers_ms(5.0, 0.05, 5e-5)
    assert share_guess(odd) is None
    assert seed_guess(odd, seed) == seed


def test_a_swing_in_shapes_makes_the_design_well_conditioned() -> None:
    limits = ServerLimits(max_batch=128, max_queue=2048)
    numbers = three_numbers_ms(8.0, 0.016, 0.0005)
    points = [(12, 500, 400), (15, 1500, 1000), (18, 2500, 1600)]
    swing = [Window(rate=r / 60, tokens_in=i, tokens_out=o) for r, i, o in points]
    same = [Window(rate=0.25, tokens_in=2000, tokens_out=1000)] * 3
    assert condition_number(numbers, swing, limits) == pytest.approx(9.95024010371422, rel=1e-6)
    assert condition_number(numbers, same, limits) > 1e6
    assert condition_number(numbers, same[:1], limits) == float("inf")


def test_a_calibration_sweep_recovers_its_truth() -> None:
    limits = ServerLimits(max_batch=128, max_queue=0)
    points = [(float(rpm), 512.0, 256.0) for rpm in (30, 60, 90, 120, 150)]
    windows = swept([*points, (60, 1024, 128), (60, 256, 512)], limits)
    fit = point_fit(windows, limits)
    assert fit.loss < 1e-12
    assert 1e3 * float(fit.numbers.alpha) == pytest.approx(12.0, rel=1e-4)
    assert 1e3 * float(fit.numbers.gamma) == pytest.approx(6e-5, rel=1e-3)


def test_a_point_fit_needs_both_latencies() -> None:
    with pytest.raises(UsageError, match="TTFT and ITL"):
        point_fit([Window(rate=1.0, tokens_in=1, tokens_out=1)], LIMITS)
    with pytest.raises(UsageError, match="no window"):
        window_columns([])


def test_the_published_fit_of_the_llama_sweep(shared_data: Path) -> None:
    windows = read_sweep(shared_data / "public" / "inferno-guidellm-llama31-8b")
    assert len(windows) == 112
    fit = point_fit(windows, LIMITS)
    assert 1e3 * float(fit.numbers.alpha) == pytest.approx(6.678, rel=1e-3)
    assert fit.ttft_error == pytest.approx(0.1355, abs=1e-3)
    assert fit.itl_error == pytest.approx(0.0460, abs=1e-3)
    assert trainer_loss(LLAMA, windows, LIMITS) == pytest.approx(0.03082, rel=1e-3)
    ttft, itl = relative_errors(LLAMA, windows, LIMITS)
    assert ttft < 0.14
    assert itl < 0.05


def test_a_sweep_is_read_by_load_and_without_its_saturated_runs(tmp_path: Path) -> None:
    rows = ["64,64,throughput,,9,90,64,64,9000,10,90,9", "64,64,synchronous,,5,0.5,64,64,15,1,6,1"]
    for rate in (9, 1, 5, 3, 7, 11, 13, 15):
        rows.append(f"64,64,constant,{rate},50,{rate},64,64,20,-1,7,1")
    (tmp_path / "sweep.csv").write_text(HEADER + "\n".join(rows))
    windows = read_sweep(tmp_path)
    assert [w.rate for w in windows] == [0.5, 1, 3, 5, 7, 9, 11]
    assert windows[0].ttft == pytest.approx(0.015)
    assert windows[1].ttft_cv == 0.24
    assert {w.label for w in windows} == {"i64-o64"}


def test_a_sweep_that_cannot_be_read_says_what_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no sweep"):
        read_sweep(tmp_path)
    (tmp_path / "sweep.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match="lacks the columns"):
        read_sweep(tmp_path)
    (tmp_path / "sweep.csv").write_text(HEADER + "64,64,constant,1,x,1,64,64,20,1,7,1\n")
    with pytest.raises(InputError, match="n_ok 'x'"):
        read_sweep(tmp_path)
    (tmp_path / "sweep.csv.gz").write_bytes(b"not gzip")
    with pytest.raises(InputError, match="cannot be read"):
        read_sweep(tmp_path)


@pytest.mark.parametrize(
    "spoil", [{"rate": 0.0}, {"ttft": -1.0}, {"itl": 0.0}, {"tokens_out": 0.0}]
)
def test_impossible_windows_are_refused(spoil: dict[str, float]) -> None:
    values = {"tokens_in": 10.0, "tokens_out": 10.0, "rate": 1.0, **spoil}
    with pytest.raises(UsageError):
        Window(**values)  # type: ignore[arg-type]


def test_sampling_error_falls_with_the_root_of_the_requests() -> None:
    window = Window(tokens_in=1, tokens_out=1, rate=1, n_request=400, ttft_cv=0.2, itl_cv=0.04)
    columns = window_columns([window, replace(window, n_request=float("inf"))])
    assert columns.ttft_error == pytest.approx([0.01, 0.0])
    assert np.isnan(columns.ttft).all()
