"""Laws of the requests that a workload sends."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailcast.errors import InputError
from tailcast.request import RequestTable
from tailcast.workload.arrivals import PROCESSES, Arrivals, Stage
from tailcast.workload.lengths import Constant, Empirical, Gaussian, LogNormal, Uniform
from tailcast.workload.materialise import materialise
from tailcast.workload.spec import (
    Concurrency,
    RepeatedPrompts,
    RequestClass,
    Session,
    SharedPrefix,
    Workload,
)
from workload.distance import KS_LIMIT, ks

law = settings(max_examples=40, deadline=None, derandomize=True)

COLUMNS = tuple(RequestTable.__dataclass_fields__)
seeds = st.integers(0, 2**32)
length_laws = st.one_of(
    st.integers(1, 300).map(lambda n: Constant(value=n)),
    st.integers(1, 300).map(lambda n: Uniform(minimum=1, maximum=n)),
    st.integers(1, 300).map(lambda n: LogNormal(median=n, sigma=0.7, maximum=1000)),
)
prefixes = st.none() | st.builds(SharedPrefix, tokens=st.integers(0, 99), groups=st.integers(1, 4))
sessions = st.builds(
    Session,
    turns=st.integers(1, 5).map(lambda n: Uniform(minimum=1, maximum=n)),
    think_time=st.sampled_from([0.0, 2.5]),
    think_law=st.sampled_from(["exponential", "constant"]),
    history=st.booleans(),
)
repeats = st.builds(
    RepeatedPrompts, distinct=st.integers(4, 9), order=st.sampled_from(["cycled", "random"])
)


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    """Any workload with a known number of requests."""
    classes = []
    for i in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["plain", "session", "repeat"]))
        classes.append(
            RequestClass(
                name=f"class {i}",
                input_tokens=draw(length_laws),
                output_tokens=draw(length_laws),
                weight=draw(st.sampled_from([0.5, 1.0, 3.0])),
                prefix=draw(prefixes),
                session=draw(sessions) if kind == "session" else None,
                repeat=draw(repeats) if kind == "repeat" else None,
                priority=draw(st.integers(-1, 2)),
                timeout=draw(st.sampled_from([math.inf, 30.0])),
            )
        )
    n = draw(st.integers(1, 120))
    if draw(st.booleans()):
        loop = Concurrency(
            users=draw(st.integers(1, 9)), think_time=draw(st.sampled_from([0.0, 1.0])), ramp=2.0
        )
        return Workload(classes=tuple(classes), concurrency=loop, n_requests=n)
    process = draw(st.sampled_from(PROCESSES))
    arrivals = Arrivals(process=process, cv=2.0 if process in {"gamma", "weibull"} else None)
    stage = Stage(rate=draw(st.floats(0.1, 30.0)))
    return Workload(classes=tuple(classes), stages=(stage,), arrivals=arrivals, n_requests=n)


def chat(**changes: Any) -> RequestClass:
    laws = {"input_tokens": Constant(value=100), "output_tokens": Constant(value=40)}
    return RequestClass(**(laws | changes))


def open_loop(kind: RequestClass, *, rate: float = 5.0, n: int = 200) -> Workload:
    return Workload(classes=(kind,), stages=(Stage(rate=rate),), arrivals=Arrivals(), n_requests=n)


def same(one: RequestTable, two: RequestTable, *but: str) -> bool:
    return all(
        np.array_equal(getattr(one, name), getattr(two, name))
        for name in COLUMNS
        if name not in but
    )


@law
@given(workloads(), seeds)
def test_requests_are_sorted_counted_and_causal(workload: Workload, seed: int) -> None:
    table = materialise(workload, seed)
    assert len(table) == workload.n_requests
    assert np.all(np.diff(table.arrival) >= 0)
    waits = np.flatnonzero(table.parent >= 0)
    assert np.all(table.parent[waits] < waits)
    earliest = table.arrival[table.parent[waits]] + table.think_time[waits]
    assert np.all(table.arrival[waits] >= table.arrival[table.parent[waits]])
    np.testing.assert_array_equal(table.arrival[waits], earliest)
    assert np.all(table.think_time[table.parent < 0] == 0)
    assert table.n_group <= len(workload.group_names)


@law
@given(workloads(), seeds)
def test_equal_seeds_give_equal_requests(workload: Workload, seed: int) -> None:
    assert same(materialise(workload, seed), materialise(workload, seed))


@law
@given(workloads(), seeds)
def test_equal_contents_have_equal_prefixes(workload: Workload, seed: int) -> None:
    table = materialise(workload, seed)
    prefix: dict[int, int] = {}
    for content, own in zip(
        table.content_stream.tolist(), table.prefix_stream.tolist(), strict=True
    ):
        if content >= 0:
            assert prefix.setdefault(content, own) == own


@law
@given(workloads(), seeds)
def test_nobody_waits_for_two_answers_at_once(workload: Workload, seed: int) -> None:
    """Each request has at most one follower, so a closed loop never multiplies."""
    parent = materialise(workload, seed).parent
    waited = parent[parent >= 0]
    assert len(set(waited.tolist())) == len(waited)


@law
@given(st.floats(0.5, 40.0), seeds)
def test_a_rate_changes_arrivals_alone(rate: float, seed: int) -> None:
    kind = chat(input_tokens=LogNormal(median=200, sigma=0.8), prefix=SharedPrefix(tokens=9))
    one, two = (materialise(open_loop(kind, rate=r), seed) for r in (1.0, rate))
    assert same(one, two, "arrival")
    np.testing.assert_allclose(one.arrival, two.arrival * rate, rtol=1e-9)


@law
@given(length_laws, length_laws, seeds)
def test_lengths_change_lengths_alone(first: Constant, second: Constant, seed: int) -> None:
    one = materialise(open_loop(chat(input_tokens=first)), seed)
    two = materialise(open_loop(chat(input_tokens=second)), seed)
    assert same(one, two, "input_tokens")


@law
@given(seeds)
def test_a_weight_changes_no_length(seed: int) -> None:
    kinds = [chat(name="a", input_tokens=Uniform(minimum=1, maximum=99)), chat(name="b")]
    tables = []
    for weight in (1.0, 9.0):
        classes = (kinds[0], replace(kinds[1], weight=weight))
        tables.append(materialise(replace(open_loop(chat()), classes=classes), seed))
    both_a = (tables[0].group == 0) & (tables[1].group == 0)
    np.testing.assert_array_equal(tables[0].input_tokens[both_a], tables[1].input_tokens[both_a])
    np.testing.assert_array_equal(tables[0].arrival, tables[1].arrival)


def test_seeds_differ() -> None:
    workload = open_loop(chat(input_tokens=Gaussian(mean=100, sd=20)))
    assert not same(materialise(workload, 1), materialise(workload, 2))


@law
@given(seeds)
def test_history_holds_every_earlier_turn(seed: int) -> None:
    session = Session(turns=Constant(value=4), think_time=1.0)
    kind = chat(
        input_tokens=Uniform(minimum=1, maximum=50), prefix=SharedPrefix(tokens=7), session=session
    )
    table = materialise(open_loop(kind, n=40), seed)
    for row in np.flatnonzero(table.parent >= 0):
        before = table.parent[row]
        own = table.input_tokens[row] - table.input_tokens[before] - table.output_tokens[before]
        assert 1 <= own <= 50
        assert table.content_stream[row] == table.content_stream[before]
    assert table.session_output.all()
    assert len(set(table.content_stream.tolist())) == 10


def test_sessions_without_history_have_unique_prompts() -> None:
    session = Session(turns=Constant(value=4), history=False)
    table = materialise(open_loop(chat(session=session), n=40), 0)
    assert set(table.input_tokens.tolist()) == {100}
    assert set(table.content_stream.tolist()) == {-1}
    assert not table.session_output.any()


def test_repeated_prompts_cycle_through_one_shuffled_list() -> None:
    kind = chat(
        input_tokens=Uniform(minimum=1, maximum=500),
        prefix=SharedPrefix(tokens=30, groups=5),
        repeat=RepeatedPrompts(distinct=20),
    )
    table = materialise(open_loop(kind, n=70), 4)
    first = table.content_stream[:20]
    assert sorted(first.tolist()) == list(range(20))
    assert first.tolist() != list(range(20))
    np.testing.assert_array_equal(table.content_stream, np.resize(first, 70))
    np.testing.assert_array_equal(table.input_tokens[:50], table.input_tokens[20:])
    np.testing.assert_array_equal(table.prefix_stream, table.content_stream // 4)
    assert not table.session_output.any()


def test_the_cycle_goes_on_over_stages() -> None:
    workload = Workload(
        classes=(chat(repeat=RepeatedPrompts(distinct=7)),),
        stages=(Stage(rate=1.0, duration=10.0), Stage(rate=2.0, duration=10.0)),
        arrivals=Arrivals(process="conditioned-poisson"),
    )
    table = materialise(workload, 2)
    assert np.bincount(table.group).tolist() == [10, 20]
    np.testing.assert_array_equal(table.content_stream[:-7], table.content_stream[7:])


def test_classes_never_share_streams() -> None:
    kinds = (
        chat(name="a", prefix=SharedPrefix(tokens=8, groups=3), repeat=RepeatedPrompts(distinct=5)),
        chat(
            name="b",
            prefix=SharedPrefix(tokens=8, groups=2),
            session=Session(turns=Constant(value=2)),
        ),
        chat(name="c", repeat=RepeatedPrompts(distinct=6)),
    )
    table = materialise(replace(open_loop(chat()), classes=kinds), 3)
    for name in ("prefix_stream", "content_stream"):
        column = getattr(table, name)
        streams = [set(column[table.group == group].tolist()) - {-1} for group in range(3)]
        assert not streams[0] & streams[1]
        assert not (streams[0] | streams[1]) & streams[2]


def test_groups_are_stage_major() -> None:
    workload = Workload(
        classes=(chat(name="a"), chat(name="b", priority=1, timeout=5.0)),
        stages=(Stage(rate=50.0, duration=2.0), Stage(rate=50.0, duration=2.0)),
    )
    table = materialise(workload, 1)
    assert workload.group_names == ("stage 0, a", "stage 0, b", "stage 1, a", "stage 1, b")
    np.testing.assert_array_equal(table.group // 2, (table.arrival > 2.0).astype(int))
    np.testing.assert_array_equal(table.priority, table.group % 2)
    np.testing.assert_array_equal(np.isinf(table.timeout), table.group % 2 == 0)


def test_a_fixed_concurrency_deals_requests_to_users_in_turn() -> None:
    loop = Concurrency(users=3, think_time=0.5, ramp=3.0)
    table = materialise(Workload(classes=(chat(),), concurrency=loop, n_requests=8), 0)
    chains = sorted(table.arrival[table.parent < 0].tolist())
    assert chains == [0.0, 1.0, 2.0]
    assert np.sum(table.parent >= 0) == 5
    assert set(table.think_time[table.parent >= 0].tolist()) == {0.5}


def test_a_user_finishes_a_session_before_the_next() -> None:
    session = Session(turns=Constant(value=3), think_time=1.0, think_law="constant")
    loop = Concurrency(users=2, think_time=10.0)
    workload = Workload(classes=(chat(session=session),), concurrency=loop, n_requests=12)
    table = materialise(workload, 0)
    assert np.sum(table.parent < 0) == 2
    assert sorted(table.think_time[table.parent >= 0].tolist()) == [1.0] * 8 + [10.0] * 2
    assert len(set(table.content_stream.tolist())) == 4


def test_paired_lengths_come_from_one_row() -> None:
    kind = chat(
        input_tokens=Empirical(values=(10, 20, 30)),
        output_tokens=Empirical(values=(1, 2, 3)),
        paired_lengths=True,
    )
    table = materialise(open_loop(kind), 0)
    np.testing.assert_array_equal(table.input_tokens, table.output_tokens * 10)


@pytest.mark.statistical
def test_classes_come_by_their_weights() -> None:
    """False alarm 1e-4 (3.9 sigma); n = 20,000 sees a share of 0.77 for 0.75 with power 0.99."""
    kinds = (chat(name="a", weight=3.0), chat(name="b"))
    table = materialise(replace(open_loop(chat(), n=20_000), classes=kinds), 6)
    sigma = math.sqrt(0.75 * 0.25 / 20_000)
    assert abs(np.mean(table.group == 0) - 0.75) < 3.9 * sigma
    assert abs(np.mean(table.group == 0) - 0.77) > 3.9 * sigma  # negative control


@pytest.mark.statistical
def test_think_times_are_exponential() -> None:
    """False alarm 1e-4 (Kolmogorov); n = 20,000 sees a mean 8 % off with power 0.99."""
    session = Session(turns=Constant(value=2), think_time=3.0)
    table = materialise(open_loop(chat(session=session), n=40_000), 6)
    think = table.think_time[table.parent >= 0]
    assert len(think) == 20_000
    assert ks(think, lambda t: -np.expm1(-t / 3.0)) < KS_LIMIT
    assert ks(think, lambda t: -np.expm1(-t / 3.24)) > KS_LIMIT  # negative control


def test_a_workload_without_a_request_says_so() -> None:
    workload = Workload(classes=(chat(),), stages=(Stage(rate=0.001, duration=1.0),))
    with pytest.raises(InputError, match="no request arrives"):
        materialise(replace(workload, arrivals=Arrivals(process="constant")), 0)


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(ValueError, match="seed"):
        materialise(open_loop(chat()), -1)
