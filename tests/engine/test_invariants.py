"""Laws that any run keeps, asked of both engines on random small workloads."""

from collections import Counter
from dataclasses import fields, replace
from itertools import pairwise
from math import ceil

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from engine.random_cases import Case, random_case
from engine.reference import Engine, Job, reference_run
from engine.runs import ENGINES, Run, RunEngine
from tailcast.request import RequestTable, request_table
from tailcast.step_law import StepLaw
from tailcast.streams import stream

TTFT, ITL, TPOT, E2E, QUEUE_DELAY = range(5)
cases = st.integers(0, 2**31 - 1).map(random_case)
few = settings(max_examples=40, deadline=None, derandomize=True)
both_engines = pytest.mark.parametrize("run", ENGINES.values(), ids=ENGINES)


def run_case(run: RunEngine, case: Case) -> Run:
    """Run a random case."""
    return run(case.requests, case.limits, case.law)


def reference_case(case: Case) -> Engine:
    """Run a random case step by step and keep every step."""
    return reference_run(case.requests, case.limits, case.law)


def assert_same(a: Run, b: Run, rtol: float = 1e-9) -> None:
    """Two runs agree: decisions exactly, times within `rtol`."""
    assert a.status == b.status
    np.testing.assert_array_equal(a.preemptions, b.preemptions)
    np.testing.assert_array_equal(a.cached_tokens, b.cached_tokens)
    for name in ("scheduled", "first_token", "finish"):
        np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=rtol, atol=1e-15)
    np.testing.assert_allclose(a.stat, b.stat, rtol=rtol, atol=1e-12)


@both_engines
@few
@given(case=cases)
def test_every_request_ends_in_one_way(run: RunEngine, case: Case) -> None:
    out = run_case(run, case)
    count = Counter(out.status)
    names = {"completed": "finished"}
    for name in ("completed", "rejected", "unsent", "timed_out", "unfinished"):
        assert out.counters[name] == count[names.get(name, name)]
    assert sum(count.values()) == out.counters["n"] == len(case.requests)
    if np.isinf(case.limits.horizon):
        assert count["unfinished"] == 0


@both_engines
@few
@given(case=cases)
def test_tokens_are_conserved(run: RunEngine, case: Case) -> None:
    """Without anybody cut short each prompt token is computed or found; preemption adds to it."""
    out = run_case(run, case)
    finished = np.array(out.status) == "finished"
    prompt = int(case.requests.input_tokens[finished].sum())
    handled = out.counters["prefill_tokens"] + out.counters["cached_tokens"]
    assert handled >= prompt
    if out.counters["preemptions"] == out.counters["timed_out"] == out.counters["unfinished"] == 0:
        assert handled == prompt
    assert out.counters["cached_tokens"] == out.cached_tokens.sum()
    once = out.preemptions == 0
    assert np.all(out.cached_tokens[once] < case.requests.input_tokens[once])
    if not case.limits.prefix_caching:
        assert out.counters["cached_tokens"] == 0


@both_engines
@few
@given(case=cases)
def test_causes_come_before_effects(run: RunEngine, case: Case) -> None:
    out = run_case(run, case)
    table, law = case.requests, case.law
    done = np.array(out.status) == "finished"
    queued = table.arrival + law.ingest[0]
    for row in np.flatnonzero(table.parent >= 0):
        parent = table.parent[row]
        seen = out.finish[parent] + law.stream[0] * table.output_tokens[parent] + law.finish[0]
        if done[row]:
            queued[row] = max(table.arrival[row], seen + table.think_time[row]) + law.ingest[0]
    slack = 1e-9 * (1 + queued[done])
    assert np.all(out.scheduled[done] >= queued[done] - slack)
    assert np.all(out.first_token[done] > out.scheduled[done])
    single = table.output_tokens[done] == 1
    gap = out.finish[done] - out.first_token[done]
    assert np.all(np.where(single, gap == 0, gap > 0))
    assert not np.isfinite(out.finish[~done]).any()


@both_engines
@few
@given(case=cases)
def test_mean_e2e_is_ttft_plus_gaps_plus_finish(run: RunEngine, case: Case) -> None:
    out = run_case(run, case)
    done = np.array(out.status) == "finished"
    assume(done.any())
    n, n_gaps = done.sum(), (case.requests.output_tokens[done] - 1).sum()
    ttft, itl, _, e2e, _ = out.stat[-1, :, 0]
    gaps = n_gaps * itl if n_gaps else 0.0
    np.testing.assert_allclose(n * e2e, n * ttft + gaps + n * case.law.finish[0], rtol=1e-9)


@both_engines
@few
@given(case=cases)
def test_limits_hold(run: RunEngine, case: Case) -> None:
    out = run_case(run, case)
    limits = case.limits
    assert out.counters["peak_kv_blocks"] <= limits.kv_blocks
    assert out.counters["max_batch"] <= min(limits.max_num_seqs, limits.max_num_batched_tokens)
    assert out.counters["busy_time"] <= out.counters["end_time"] * (1 + 1e-12)
    if out.counters["steps"]:
        assert out.ranges[4, 1] <= limits.max_num_batched_tokens
        assert out.ranges[4, 0] >= 1
        assert np.all(out.ranges[:, 0] <= out.ranges[:, 1])


@both_engines
@few
@given(case=cases)
def test_the_same_case_gives_the_same_bytes(run: RunEngine, case: Case) -> None:
    first, second = run_case(run, case), run_case(run, case)
    assert first.stat.tobytes() == second.stat.tobytes()
    assert first.finish.tobytes() == second.finish.tobytes()
    assert first.counters == second.counters


@both_engines
@few
@given(case=cases)
def test_quantiles_rise(run: RunEngine, case: Case) -> None:
    stat = run_case(run, case).stat
    rising = np.diff(stat[:, :, 1:], axis=-1)
    assert np.all((rising >= -1e-15) | np.isnan(rising))


@both_engines
@few
@given(case=cases, factor=st.sampled_from([0.25, 4.0, 3.7]))
def test_time_has_no_natural_unit(run: RunEngine, case: Case, factor: float) -> None:
    """Scaling every second by c scales every answer by c; exact ties need a power of two."""
    assume(factor != 3.7 or not case.exact)
    law = StepLaw(
        **{
            f.name: getattr(case.law, f.name) * (1 if f.name == "schedule_lag" else factor)
            for f in fields(StepLaw)
        }
    )
    table = replace(
        case.requests,
        arrival=case.requests.arrival * factor,
        think_time=case.requests.think_time * factor,
        timeout=case.requests.timeout * factor,
    )
    limits = replace(case.limits, horizon=case.limits.horizon * factor)
    plain, scaled = run_case(run, case), run(table, limits, law)
    back = replace(
        scaled,
        scheduled=scaled.scheduled / factor,
        first_token=scaled.first_token / factor,
        finish=scaled.finish / factor,
        stat=scaled.stat / factor,
    )
    assert_same(plain, back)


@both_engines
@few
@given(case=cases, seed=st.integers(0, 2**31))
def test_names_of_streams_and_groups_do_not_matter(run: RunEngine, case: Case, seed: int) -> None:
    rng = stream(seed, "names")
    table = case.requests
    names = np.append(rng.permutation(1000), -1)  # -1 stays -1
    order = rng.permutation(table.n_group)
    renamed = replace(
        table,
        prefix_stream=names[table.prefix_stream],
        content_stream=names[table.content_stream],
        group=order[table.group],
    )
    plain, other = run_case(run, case), run(renamed, case.limits, case.law)
    rows = np.append(order, table.n_group)
    assert_same(plain, replace(other, stat=other.stat[rows]))


@both_engines
@few
@given(case=cases)
def test_identical_requests_can_be_swapped(run: RunEngine, case: Case) -> None:
    """Everybody comes at once with the same request: a shuffled group column moves no time."""
    n = len(case.requests)
    twin = {f.name: np.repeat(getattr(case.requests, f.name)[:1], n) for f in fields(RequestTable)}
    table = RequestTable(**{**twin, "parent": np.full(n, -1)})
    plain, other = (
        run(replace(table, group=group), case.limits, case.law)
        for group in (case.requests.group, case.requests.group[::-1].copy())
    )
    assert_same(replace(plain, stat=plain.stat[-1:]), replace(other, stat=other.stat[-1:]))


@both_engines
@few
@given(case=cases, seed=st.integers(0, 2**31))
def test_a_slower_law_never_helps_a_lone_request(run: RunEngine, case: Case, seed: int) -> None:
    rng = stream(seed, "slower")
    table = request_table(
        np.array([0.3]), case.requests.input_tokens[:1], case.requests.output_tokens[:1]
    )
    slower = StepLaw(
        **{
            f.name: getattr(case.law, f.name)
            * (1 if f.name == "schedule_lag" else 1 + rng.random() * (rng.random() < 0.5))
            for f in fields(StepLaw)
        }
    )
    limits = replace(case.limits, horizon=np.inf)
    fast, slow = (run(table, limits, law) for law in (case.law, slower))
    assert fast.status == slow.status
    bound = np.nextafter(fast.stat, 0) * (1 - 1e-12)
    assert np.all((slow.stat >= bound) | np.isnan(slow.stat))


@both_engines
@few
@given(case=cases)
def test_clients_who_leave_before_they_are_queued_change_nothing(
    run: RunEngine, case: Case
) -> None:
    """Ghosts interrupt any stretch of steps that is handled at once, and must leave no trace."""
    law = replace(case.law, ingest=np.maximum(case.law.ingest, 2.0**-10))
    table = case.requests
    end = run(table, case.limits, law).counters["end_time"]
    ghosts = np.linspace(0, end, 150)
    columns = {f.name: getattr(table, f.name) for f in fields(RequestTable)}
    filler = request_table(ghosts, 1, 1, timeout=np.full(150, 2.0**-11), group=np.zeros(150))
    both = {name: np.append(column, getattr(filler, name)) for name, column in columns.items()}
    order = np.argsort(both["arrival"], kind="stable")
    mixed, place = _reordered(both, order)
    plain, haunted = run(table, case.limits, law), run(mixed, case.limits, law)
    rows = place[: len(table)]
    kept = replace(
        haunted,
        status=[haunted.status[row] for row in rows],
        **{
            name: getattr(haunted, name)[rows]
            for name in ("scheduled", "first_token", "finish", "cached_tokens", "preemptions")
        },
    )
    assert_same(plain, kept)


def _reordered(
    columns: dict[str, np.ndarray], order: np.ndarray
) -> tuple[RequestTable, np.ndarray]:
    """Rows of a table in another order, parents renamed; and where each row went.

    Children keep their place after their parents because their arrival is not before it or they
    are moved behind it.
    """
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    parent = columns["parent"]
    renamed = np.where(parent >= 0, place[parent], -1)
    table = {name: column[order] for name, column in columns.items()}
    table["parent"] = renamed[order]
    return RequestTable(**table), place


# Laws of single steps need the plain engine, which keeps them ------------------------------------


def arrival_order(job: Job) -> tuple[float, int]:
    """Order in which requests enter the queue."""
    return job.queue_time, job.row


@few
@given(case=cases)
def test_the_clock_runs_forward(case: Case) -> None:
    steps = reference_case(case).steps
    for step in steps:
        assert step.end > step.start >= step.fixed
    for before, after in pairwise(steps):
        assert after.start >= before.end


@few
@given(case=cases)
def test_the_server_idles_only_when_nobody_waits(case: Case) -> None:
    """Work conservation: an idle stretch ends at the first queue time after it."""
    engine = reference_case(case)
    for before, after in pairwise(engine.steps):
        if after.start == before.end:
            continue
        assert any(job.queue_time == after.start for job in engine.jobs)
        for job in engine.jobs:
            if job.queue_time <= before.end:
                gone = {"finished": max(job.token_times, default=np.inf), "timed_out": job.leave}
                assert gone[job.status] <= before.end


@few
@given(case=cases)
def test_blocks_are_shared_out_exactly(case: Case) -> None:
    engine = reference_case(case)
    cache, size = engine.cache, case.limits.block_size
    in_use = {id(block) for job in engine.jobs for block in job.holding.blocks}
    assert len(in_use) + cache.free == case.limits.kv_blocks
    assert not in_use & set(cache.pool)
    for job in engine.running:
        assert len(job.holding.blocks) == ceil(job.computed / size)
    cached: dict[tuple[str, int, int], list[int]] = {}
    for name, stream_id, prefix, index in cache.cached:
        cached.setdefault((name, stream_id, prefix), []).append(index)
    table = case.requests
    for (name, stream_id, _), indices in cached.items():
        base = 0
        if name != "prefix":
            column = table.content_stream == stream_id
            row = int(np.flatnonzero(column)[0]) if name == "content" else stream_id
            base = int(table.prefix_tokens[row] * (table.prefix_stream[row] >= 0)) // size
        assert sorted(indices) == list(range(base, base + len(indices)))


@few
@given(case=cases)
def test_first_come_first_served_never_overtakes(case: Case) -> None:
    """First scheduled steps follow the order of the queue; nobody running misses a step."""
    assume(not case.limits.priority)
    engine = reference_case(case)
    served = [job for job in engine.jobs if np.isfinite(job.scheduled)]
    starts = [job.scheduled for job in sorted(served, key=arrival_order)]
    assert starts == sorted(starts)
    for step in engine.steps:
        assert len(step.grants) == step.running


@few
@given(case=cases)
def test_each_token_is_computed_once_between_preemptions(case: Case) -> None:
    """Grants of a request start at its hits and follow on one another without gap."""
    engine = reference_case(case)
    table = case.requests
    at: dict[int, int] = {}
    for step in engine.steps:
        for grant in step.grants:
            row = grant.job.row
            if row in at and grant.progress != at[row]:
                assert grant.progress % case.limits.block_size == 0  # came back after preemption
                assert grant.job.preemptions > 0
            at[row] = grant.progress + grant.tokens
    for job in engine.jobs:
        if job.status == "finished":
            assert len(job.token_times) == table.output_tokens[job.row]
            assert at[job.row] == table.input_tokens[job.row] + table.output_tokens[job.row] - 1


@few
@given(case=cases)
def test_a_batch_never_knows_the_future(case: Case) -> None:
    """Whoever is in a batch was queued when the batch was fixed."""
    for step in reference_case(case).steps:
        assert all(grant.job.queue_time <= step.fixed for grant in step.grants)
