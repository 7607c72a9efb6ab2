"""What a workload refuses, assumes and calls its groups."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from tailcast.errors import InputError
from tailcast.workload.arrivals import Arrivals, Stage
from tailcast.workload.lengths import Constant, Empirical
from tailcast.workload.spec import (
    DEFAULT_REQUESTS,
    Concurrency,
    RepeatedPrompts,
    RequestClass,
    Session,
    SharedPrefix,
    Workload,
)

ONE = Constant(value=1)
CHAT = RequestClass(input_tokens=ONE, output_tokens=ONE)
STAGE = Stage(rate=1.0)
TIMED = Stage(rate=1.0, duration=5.0)


def test_a_rate_alone_is_assumed_poisson_and_says_so() -> None:
    workload = Workload(classes=(CHAT,), stages=(STAGE,))
    assert workload.process == Arrivals(process="poisson")
    assert workload.count == DEFAULT_REQUESTS
    assert "Poisson" in workload.notes[0]
    assert str(DEFAULT_REQUESTS) in workload.notes[1]


def test_nothing_is_noted_when_everything_was_said() -> None:
    said = Workload(classes=(CHAT,), stages=(TIMED,), arrivals=Arrivals())
    assert said.notes == ()
    assert said.count is None
    assert Workload(classes=(CHAT,), concurrency=Concurrency(users=2), n_requests=9).notes == ()


def test_sessions_note_what_the_rate_counts() -> None:
    kind = RequestClass(
        input_tokens=ONE, output_tokens=ONE, session=Session(turns=Constant(value=3))
    )
    workload = Workload(classes=(kind,), stages=(TIMED,), arrivals=Arrivals())
    assert workload.notes == ("The rate counts session starts, not the turns that follow.",)


def test_groups_are_stages_or_classes_or_both() -> None:
    other = RequestClass(input_tokens=ONE, output_tokens=ONE, name="other")
    assert Workload(classes=(CHAT,), stages=(STAGE,)).group_names == ("all",)
    assert Workload(classes=(CHAT, other), stages=(STAGE,)).group_names == ("all", "other")
    assert Workload(classes=(CHAT,), stages=(TIMED, TIMED)).group_names == ("stage 0", "stage 1")
    assert len(Workload(classes=(CHAT, other), stages=(TIMED, TIMED)).group_names) == 4


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Workload(classes=(), stages=(STAGE,)), "at least one request class"),
        (lambda: Workload(classes=(CHAT, CHAT), stages=(STAGE,)), "same name"),
        (lambda: Workload(classes=(CHAT,)), "either a rate"),
        (
            lambda: Workload(classes=(CHAT,), stages=(STAGE,), concurrency=Concurrency(users=1)),
            "either a rate",
        ),
        (
            lambda: Workload(
                classes=(CHAT,), concurrency=Concurrency(users=1), arrivals=Arrivals()
            ),
            "no meaning",
        ),
        (lambda: Workload(classes=(CHAT,), stages=(STAGE, TIMED)), "needs a duration"),
        (lambda: Workload(classes=(CHAT,), stages=(TIMED,), n_requests=5), "not both"),
        (lambda: Workload(classes=(CHAT,), stages=(STAGE,), n_requests=0), "at least 1"),
        (lambda: Workload(classes=(CHAT,), stages=(STAGE,), n_requests=10**9), "at most"),
    ],
)
def test_contradictory_workloads_are_refused(build: Callable[[], Workload], message: str) -> None:
    with pytest.raises(InputError, match=message):
        build()


@pytest.mark.parametrize("bad", [math.nan, -1.0, 0.0, math.inf])
def test_impossible_weights_are_refused(bad: float) -> None:
    with pytest.raises(InputError, match="weight must be positive"):
        RequestClass(input_tokens=ONE, output_tokens=ONE, weight=bad)


@pytest.mark.parametrize("bad", [math.nan, -1.0, 0.0])
def test_impossible_timeouts_are_refused(bad: float) -> None:
    with pytest.raises(InputError, match="timeout must be positive"):
        RequestClass(input_tokens=ONE, output_tokens=ONE, timeout=bad)


@pytest.mark.parametrize("bad", [math.nan, -1.0, math.inf])
def test_impossible_waits_are_refused(bad: float) -> None:
    for build in (
        lambda: Session(turns=ONE, think_time=bad),
        lambda: Concurrency(users=1, think_time=bad),
        lambda: Concurrency(users=1, ramp=bad),
    ):
        with pytest.raises(InputError, match="finite and not negative"):
            build()


@pytest.mark.parametrize("bad", [math.nan, -1, 1.5])
def test_impossible_counts_are_refused(bad: float) -> None:
    for build in (
        lambda: Concurrency(users=bad),  # type: ignore[arg-type]
        lambda: SharedPrefix(tokens=bad),  # type: ignore[arg-type]
        lambda: SharedPrefix(tokens=1, groups=bad),  # type: ignore[arg-type]
        lambda: RepeatedPrompts(distinct=bad),  # type: ignore[arg-type]
    ):
        with pytest.raises(InputError, match="whole number"):
            build()


def test_impossible_words_are_refused() -> None:
    with pytest.raises(InputError, match="cycled or random"):
        RepeatedPrompts(distinct=1, order="sorted")
    with pytest.raises(InputError, match="exponential or constant"):
        Session(turns=ONE, think_law="gamma")


def test_contradictory_classes_are_refused() -> None:
    pair = Empirical(values=(1, 2))
    repeat, session = RepeatedPrompts(distinct=2), Session(turns=ONE)
    cases: tuple[tuple[str, dict[str, Any]], ...] = (
        ("cannot be sessions", {"repeat": repeat, "session": session}),
        ("3 prefix groups", {"repeat": repeat, "prefix": SharedPrefix(tokens=1, groups=3)}),
        ("both be empirical", {"paired_lengths": True}),
    )
    for message, arguments in cases:
        with pytest.raises(InputError, match=message):
            RequestClass(input_tokens=ONE, output_tokens=ONE, **arguments)
    with pytest.raises(InputError, match="differ in number"):
        RequestClass(input_tokens=pair, output_tokens=Empirical(values=(1,)), paired_lengths=True)
    with pytest.raises(InputError, match="cannot have paired"):
        RequestClass(input_tokens=pair, output_tokens=pair, paired_lengths=True, repeat=repeat)
