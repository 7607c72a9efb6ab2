"""The compiled engine gives what the plain one gives, on random small cases."""

from dataclasses import replace

import numpy as np
import pytest

from engine.random_cases import Case, busy_hour, random_case
from engine.reference import reference_run
from engine.reference_summary import request_metrics, statistics
from engine.runs import Run, run_compiled, run_reference
from tailcast.engine.limits import Limits
from tailcast.engine.run import simulate
from tailcast.request import request_table
from tailcast.step_law import StepLaw

N_FAST, N_SLOW = 300, 2_000


def assert_agreement(plain: Run, compiled: Run) -> None:
    """Decisions and counts are equal, times agree to 1e-9 relative."""
    np.testing.assert_equal(compiled.status, plain.status)
    np.testing.assert_equal(compiled.counters["steps"], plain.counters["steps"])
    np.testing.assert_array_equal(compiled.steps[:, 2:], plain.steps[:, 2:])
    np.testing.assert_allclose(compiled.steps[:, :2], plain.steps[:, :2], rtol=1e-9, atol=1e-13)
    np.testing.assert_array_equal(compiled.preemptions, plain.preemptions)
    np.testing.assert_array_equal(compiled.cached_tokens, plain.cached_tokens)
    for name in ("scheduled", "first_token", "finish"):
        np.testing.assert_allclose(getattr(compiled, name), getattr(plain, name), rtol=1e-9)
    ended = np.array(plain.status) != "unfinished"
    np.testing.assert_allclose(compiled.arrival[ended], plain.arrival[ended], rtol=1e-9)
    np.testing.assert_allclose(compiled.stat, plain.stat, rtol=1e-9, atol=1e-13)
    np.testing.assert_allclose(compiled.ranges, plain.ranges, rtol=1e-9)
    np.testing.assert_equal(compiled.completed_by_group, plain.completed_by_group)
    for name, value in plain.counters.items():
        np.testing.assert_allclose(compiled.counters[name], value, rtol=1e-9, err_msg=name)


def compare(case: Case) -> str | None:
    """First line of what differs in one case."""
    arguments = (case.requests, case.limits, case.law)
    try:
        assert_agreement(run_reference(*arguments), run_compiled(*arguments))
    except AssertionError as error:
        return " | ".join(line for line in str(error).splitlines() if line.strip())[:300]
    return None


def disagreements(seeds: range) -> dict[int, str]:
    """What differs, by case."""
    found = {seed: compare(random_case(seed)) for seed in seeds}
    return {seed: message for seed, message in found.items() if message is not None}


@pytest.mark.parametrize("first", range(0, N_FAST, 30))
def test_engines_agree_on_random_cases(first: int) -> None:
    assert disagreements(range(first, first + 30)) == {}


@pytest.mark.slow
def test_engines_agree_on_many_random_cases() -> None:
    assert disagreements(range(N_FAST, N_FAST + N_SLOW)) == {}


@pytest.mark.parametrize(
    "seed", [0, 17, *(pytest.param(k, marks=pytest.mark.slow) for k in range(1, 17))]
)
def test_engines_agree_on_a_busy_hour(seed: int) -> None:
    assert compare(busy_hour(seed)) is None


def test_a_copy_is_judged_when_it_is_made() -> None:
    """The second request computes what the third has cached, which is evicted only later.

    So when it is preempted and comes back it finds the one block it shared, not its own copies.
    """
    table = request_table(
        np.array([0.0, 2.0, 3.0]),
        np.array([1, 2, 10]),
        np.array([20, 29, 1]),
        content_stream=np.array([-1, 0, 0]),
        session_output=np.array([True, True, False]),
    )
    limits = Limits(block_size=2, kv_blocks=19)
    law = StepLaw.single(per_step=1.0)
    plain, compiled = run_reference(table, limits, law), run_compiled(table, limits, law)
    np.testing.assert_array_equal(plain.cached_tokens, [0, 2, 2])
    assert_agreement(plain, compiled)


def test_a_blocked_head_gets_in_when_its_own_hits_are_evicted() -> None:
    """With fewer hits it claims fewer blocks for its next chunk, so a decode can let it in."""
    table = request_table(
        np.array([0.0, 1.0, 2.0, 3.0]),
        np.array([43, 44, 153, 170]),
        np.array([1, 10, 1, 1]),
        prefix_stream=np.array([2, -1, 2, 2]),
        prefix_tokens=np.array([40, 0, 40, 40]),
    )
    limits = Limits(block_size=4, kv_blocks=44, long_prefill_token_threshold=12)
    law = StepLaw.single(per_step=4.0)
    assert_agreement(run_reference(table, limits, law), run_compiled(table, limits, law))


@pytest.mark.parametrize("seed", [3, 4, 5, 11])
def test_many_draws_are_many_single_runs(seed: int) -> None:
    """Draws, threads and what a thread kept from the draw before leave no trace."""
    case = random_case(seed)
    laws = [random_case(other).law for other in range(40, 47)]
    width = max(law.token_table.shape[1] for law in laws)
    table = np.stack(
        [np.pad(t := law.token_table[0], (0, width - len(t)), mode="edge") for law in laws]
    )
    names = [name for name in StepLaw.__dataclass_fields__ if name != "token_table"]
    draws = StepLaw(
        token_table=table,
        **{name: np.concatenate([getattr(law, name) for law in laws]) for name in names},
    )
    many = simulate(case.requests, case.limits, draws, records=True, threads=2)
    assert many.records is not None
    for k, law in enumerate(laws):
        one = simulate(case.requests, case.limits, law, records=True)
        assert one.records is not None
        np.testing.assert_array_equal(many.stat[k], one.stat[0])
        np.testing.assert_array_equal(many.records[k].finish, one.records[0].finish)
        assert run_reference(case.requests, case.limits, law).status == [
            {1: "finished", 2: "rejected", 3: "unsent", 4: "timed_out"}.get(s, "unfinished")
            for s in many.records[k].status.tolist()
        ]


@pytest.mark.parametrize("seed", range(8))
def test_warm_up_and_quantiles_are_as_asked(seed: int) -> None:
    case = random_case(seed)
    quantiles, warmup = (0.0, 0.123, 0.5, 0.999, 1.0), len(case.requests) // 3
    engine = reference_run(case.requests, case.limits, case.law)
    result = simulate(case.requests, case.limits, case.law, quantiles=quantiles, warmup=warmup)
    np.testing.assert_allclose(
        result.stat[0], statistics(engine, quantiles, warmup), rtol=1e-9, atol=1e-13
    )


@pytest.mark.parametrize("seed", range(30, 36))
def test_draws_may_have_their_own_requests(seed: int) -> None:
    """One table of requests a draw: each draw answers its own."""
    cases = [random_case(seed), random_case(seed + 6)]
    tables = [case.requests for case in cases]
    groups = max(table.n_group for table in tables)
    tables = [replace(t, group=np.minimum(np.arange(len(t)), groups - 1)) for t in tables]
    if min(len(table) for table in tables) < groups:
        pytest.skip("too few requests for all groups")
    law, limits = cases[0].law, cases[0].limits
    two = StepLaw(
        **{name: np.repeat(getattr(law, name), 2, axis=0) for name in StepLaw.__dataclass_fields__}
    )
    both = simulate(tables[0], limits, two, draw_requests=tables)
    for k, table in enumerate(tables):
        alone = statistics(reference_run(table, limits, law))
        np.testing.assert_allclose(both.stat[k], alone, rtol=1e-9, atol=1e-13)


@pytest.mark.parametrize("seed", range(12))
def test_gap_runs_unfold_to_every_gap(seed: int) -> None:
    case = random_case(seed)
    engine = reference_run(case.requests, case.limits, case.law)
    finished = [job for job in engine.jobs if job.status == "finished"]
    expected = np.sort(
        [gap for job in finished for gap in request_metrics(engine, job)["itl"]] or np.empty(0)
    )
    gaps = simulate(case.requests, case.limits, case.law, gaps=True).gaps
    assert gaps is not None
    columns = (gaps[0].first, gaps[0].slope, gaps[0].count, gaps[0].multiplicity)
    found = [
        np.repeat(first + slope * np.arange(count), multiplicity)
        for first, slope, count, multiplicity in zip(*columns, strict=True)
    ]
    unfolded = np.sort(np.concatenate(found)) if found else np.empty(0)
    np.testing.assert_allclose(unfolded, expected, rtol=1e-9, atol=1e-13)
