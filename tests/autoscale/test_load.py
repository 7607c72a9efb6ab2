"""Loads: their texts and files, and the arrivals they make."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailcast.autoscale.load import LoadProfile, parse_load
from tailcast.errors import InputError, UsageError
from tailcast.streams import stream


def test_texts_of_the_same_load_agree() -> None:
    trapezoid = parse_load("trapezoid:120rpm,480rpm/38min")
    points = parse_load("0s=2rps,228s=2rps,798s=8rps,1482s=8rps,2052s=2rps,38min=2rps")
    assert trapezoid.times == pytest.approx(points.times)
    assert trapezoid.rates == pytest.approx(points.rates)
    assert parse_load("480rpm/20min").rates == pytest.approx([8.0, 8.0])
    assert parse_load("8rps").duration == 1800.0


def test_a_csv_file_holds_times_and_rates(tmp_path: Path) -> None:
    path = tmp_path / "load.csv"
    path.write_text("time_s,rate_rpm\n100,120\n160,480\n")
    load = parse_load(str(path))
    assert load.times == pytest.approx([0.0, 60.0])
    assert load.rates == pytest.approx([2.0, 8.0])
    for text, what in (
        ("time_s,rate\n0,1\n", "columns"),
        ("time_s,rate_rps\n0,x\n", "load.csv:2"),
        ("time_s,rate_rps\n", "no rows"),
        ("time_s,rate_rps\n5,1\n5,2\n", "rise"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=what):
            parse_load(str(path))


@pytest.mark.parametrize(
    "text", ["fast", "trapezoid:120rpm/3min", "0s=1rps", "10s=1rps,20s=2rps", "480rpm/20"]
)
def test_what_is_no_load_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_load(text)


@given(
    rates=st.lists(st.floats(0.0, 20.0), min_size=2, max_size=6).filter(lambda r: max(r) > 0.1),
    seed=st.integers(0, 1000),
)
def test_arrivals_are_sorted_within_the_load(rates: list[float], seed: int) -> None:
    load = LoadProfile(times=np.linspace(0.0, 100.0, len(rates)), rates=np.array(rates))
    arrivals = load.arrivals(stream(seed, "a"))
    assert np.all(np.diff(arrivals) >= 0)
    assert np.all((arrivals >= 0) & (arrivals <= load.duration))
    # none where the rate is zero all along
    edges = load.times
    counts = np.histogram(arrivals, edges)[0]
    idle = (load.rates[:-1] == 0) & (load.rates[1:] == 0)
    assert not counts[idle].any()


def count_error(load: LoadProfile, rate: LoadProfile) -> float:
    """Largest deviation of the counts in ten equal spans from those of a rate, in sigmas."""
    arrivals = load.arrivals(stream(3, "arrivals"))
    edges = np.linspace(0.0, load.duration, 11)
    fine = np.linspace(0.0, load.duration, 20_001)
    total = np.concatenate([[0.0], np.cumsum(0.5 * (rate.rate(fine[1:]) + rate.rate(fine[:-1])))])
    expected = np.diff(np.interp(edges, fine, total * (fine[1] - fine[0])))
    return float(np.max(np.abs(np.histogram(arrivals, edges)[0] - expected) / np.sqrt(expected)))


@pytest.mark.statistical
def test_arrivals_follow_the_rate() -> None:
    """False alarm 7e-5 (ten spans at 4.5 sigma); a rate off by a tenth is seen (18 sigma)."""
    load = parse_load("trapezoid:200rps,800rps/200s")
    assert count_error(load, load) < 4.5
    wrong = LoadProfile(times=load.times, rates=1.1 * load.rates)
    assert count_error(load, wrong) > 4.5
