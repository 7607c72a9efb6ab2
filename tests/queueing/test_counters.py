"""Windows between two scrapes of a replica."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailcast.queueing.counters import Counters, window_between

START = Counters(
    time=100.0,
    first_tokens=50,
    ttft_sum=5.0,
    prompt_tokens=50_000,
    gaps=10_000,
    gap_sum=100.0,
    finished=48,
    output_tokens=9_600,
)


def later(seconds: float, n: int, *, ttft: float, itl: float, waiting: float = 0.0) -> Counters:
    """Counters after n requests of 512 prompt and 200 output tokens came and went."""
    return Counters(
        time=START.time + seconds,
        first_tokens=START.first_tokens + n,
        ttft_sum=START.ttft_sum + n * ttft,
        prompt_tokens=START.prompt_tokens + 512 * n,
        gaps=START.gaps + 199 * n,
        gap_sum=START.gap_sum + 199 * n * itl,
        finished=START.finished + n,
        output_tokens=START.output_tokens + 200 * n,
        waiting=waiting,
    )


@given(
    n=st.integers(1, 10_000),
    seconds=st.floats(1.0, 600.0),
    ttft=st.floats(1e-3, 10.0),
    itl=st.floats(1e-3, 1.0),
)
def test_means_are_recovered_from_sums(n: int, seconds: float, ttft: float, itl: float) -> None:
    window = window_between(START, later(seconds, n, ttft=ttft, itl=itl)).window
    assert window is not None
    assert window.ttft == pytest.approx(ttft, rel=1e-6)
    assert window.itl == pytest.approx(itl, rel=1e-6)
    assert (window.tokens_in, window.tokens_out) == pytest.approx((512, 200))
    assert window.rate == pytest.approx(n / seconds)
    assert window.n_request == n


def test_two_windows_in_a_row_hold_each_request_once() -> None:
    middle = later(60, 120, ttft=0.1, itl=0.01)
    end = replace(later(180, 500, ttft=0.1, itl=0.01), time=middle.time + 60)
    first, second = window_between(START, middle), window_between(middle, end)
    assert first.n_request + second.n_request == 500


def test_a_growing_queue_counts_as_arrivals_and_shows_the_throughput() -> None:
    waiting = replace(START, waiting=3.0)
    found = window_between(waiting, later(60, 120, ttft=0.5, itl=0.02, waiting=63.0)).window
    assert found is not None
    assert found.rate == pytest.approx(3.0)
    assert found.throughput == pytest.approx(2.0)
    calm = window_between(START, later(60, 120, ttft=0.1, itl=0.02)).window
    assert calm is not None
    assert calm.throughput != calm.throughput  # without a queue it is no news


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        (replace(START, time=160.0), "no request"),
        (replace(START, time=160.0, first_tokens=2, ttft_sum=0.2), "started again"),
        (replace(START, time=90.0), "no time"),
        (replace(later(60, 120, ttft=0.1, itl=0.01), finished=58.0), "transient"),
        (replace(later(60, 6, ttft=0.1, itl=0.01), finished=48.0), "not known"),
    ],
)
def test_what_cannot_be_used_says_why(after: Counters, reason: str) -> None:
    found = window_between(START, after)
    assert found.window is None
    assert reason in found.reason


def test_output_tokens_may_be_known_from_before() -> None:
    after = replace(later(60, 6, ttft=0.1, itl=0.01), finished=48.0)
    window = window_between(START, after, tokens_out=150.0).window
    assert window is not None
    assert window.tokens_out == 150.0
