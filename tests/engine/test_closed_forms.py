"""Runs short or regular enough to be computed by hand."""

import numpy as np
import pytest

from engine.runs import ENGINES, RunEngine
from tailcast.engine.limits import Limits
from tailcast.request import request_table
from tailcast.step_law import StepLaw
from tailcast.streams import stream

TTFT, ITL, TPOT, E2E, QUEUE_DELAY = range(5)
both_engines = pytest.mark.parametrize("run", ENGINES.values(), ids=ENGINES)


@both_engines
@pytest.mark.parametrize("lag", [0.0, 0.4, 0.5, 1.0, 1.7, 2.0])
@pytest.mark.parametrize(("budget", "threshold"), [(2048, 0), (64, 0), (64, 30), (1, 0)])
def test_a_lone_request_takes_the_sum_of_its_steps(
    run: RunEngine, lag: float, budget: int, threshold: int
) -> None:
    """With nobody to wait for, the schedule lag costs nothing."""
    n, outputs, size = 200, 37, min(budget, threshold or budget)
    law = StepLaw.single(
        per_step=5e-3,
        per_prefill_token=4e-5,
        per_prefill_pair=3e-8,
        per_prefill_request=2e-4,
        per_decode=6e-4,
        per_context_token=2e-7,
        ingest=3e-3,
        finish=1e-3,
        stream=2e-5,
        schedule_lag=lag,
    )
    limits = Limits(max_num_batched_tokens=budget, long_prefill_token_threshold=threshold)
    out = run(request_table(np.array([0.25]), n, outputs), limits, law)
    chunks = -(-n // size)
    # The pairs of all chunks add up to n * n / 2 whatever the chunks.
    prefill = chunks * (5e-3 + 2e-4) + n * 4e-5 + n * n / 2 * 3e-8
    k = outputs - 1
    decode = k * (5e-3 + 6e-4 + n * 2e-7) + 2e-7 * k * (k - 1) / 2
    ttft = 3e-3 + prefill + 2e-5
    e2e = 3e-3 + prefill + decode + outputs * 2e-5 + 1e-3
    np.testing.assert_allclose(out.stat[1, TTFT], ttft, rtol=1e-12)
    np.testing.assert_allclose(out.stat[1, E2E], e2e, rtol=1e-12)
    np.testing.assert_allclose(out.stat[1, TPOT], (e2e - ttft) / k, rtol=1e-12)
    np.testing.assert_allclose(out.stat[1, QUEUE_DELAY], 3e-3, rtol=1e-12)
    gaps = 5e-3 + 6e-4 + (n + np.arange(k)) * 2e-7 + 2e-5
    expected = [gaps.mean(), *np.quantile(gaps, [0.5, 0.9, 0.95, 0.99])]
    np.testing.assert_allclose(out.stat[1, ITL], expected, rtol=1e-12)
    assert out.counters["steps"] == chunks + k


@both_engines
def test_the_token_table_is_clipped_at_its_end(run: RunEngine) -> None:
    law = StepLaw.single(token_table=np.array([9.0, 1.0, 5.0, 2.0]))
    out = run(request_table(np.array([0.0]), 7, 3), Limits(max_num_batched_tokens=5), law)
    # Steps of 5, 2, 1, 1 new tokens.
    assert out.first_token[0] == 2.0 + 5.0
    assert out.finish[0] == 2.0 + 5.0 + 1.0 + 1.0


@both_engines
@pytest.mark.parametrize("lag", [0.0, 0.5, 1.0, 2.0])
def test_one_server_with_regular_arrivals_falls_behind_linearly(run: RunEngine, lag: float) -> None:
    """D/D/1 above saturation: request k waits k (D - A); the one slot hides the lag."""
    n, gap, service = 50, 0.75, 1.0
    arrival = np.arange(n, dtype=np.float64) * gap
    law = StepLaw.single(per_step=service, schedule_lag=lag)
    out = run(request_table(arrival, 10, 1), Limits(max_num_seqs=1), law)
    np.testing.assert_allclose(out.scheduled - arrival, np.arange(n) * (service - gap), atol=1e-12)


@both_engines
def test_one_server_obeys_lindley(run: RunEngine) -> None:
    """W(k+1) = max(0, W(k) + S(k) - A(k)), exactly, with service by prompt length."""
    rng = stream(3, "lindley")
    arrival = np.cumsum(rng.exponential(0.05, size=300))
    inputs = rng.integers(1, 60, size=300)
    law = StepLaw.single(per_step=0.01, per_prefill_token=1e-3)
    out = run(request_table(arrival, inputs, 1), Limits(max_num_seqs=1), law)
    wait = np.zeros(300)
    for k in range(299):
        service = 0.01 + 1e-3 * inputs[k]
        wait[k + 1] = max(0.0, wait[k] + service - (arrival[k + 1] - arrival[k]))
    np.testing.assert_allclose(out.scheduled - arrival, wait, atol=1e-9)


def wait_error(run: RunEngine, rate: float, n: int, expected: float) -> float:
    """Batch-means z score of the mean wait of a queue with unit service and Poisson arrivals."""
    arrival = np.cumsum(stream(11, "md1").exponential(1 / rate, size=n))
    out = run(request_table(arrival, 10, 1), Limits(max_num_seqs=1), StepLaw.single(per_step=1.0))
    waits = (out.scheduled - arrival)[n // 100 :]
    batches = np.array([batch.mean() for batch in np.array_split(waits, 100)])
    return float(abs(batches.mean() - expected) / (batches.std(ddof=1) / 10))


@both_engines
@pytest.mark.statistical
def test_poisson_arrivals_wait_as_in_m_d_1(run: RunEngine, request: pytest.FixtureRequest) -> None:
    """Pollaczek and Khinchine: W = rho / (2 (1 - rho)) at unit service.

    False alarm 4e-5 (Student t with 99 degrees of freedom beyond 4.3). The slow engine runs 4,000
    requests and sees a rate 40 % too high with power 0.99, the compiled one runs 200,000 and sees
    5 %.
    """
    slow = "reference" in request.node.name
    n, wrong = (4_000, 0.7) if slow else (200_000, 0.525)
    expected = 0.5 / (2 * (1 - 0.5))
    assert wait_error(run, 0.5, n, expected) < 4.3
    assert wait_error(run, wrong, n, expected) > 4.3  # negative control


@both_engines
@pytest.mark.parametrize(
    ("lag", "steps_to_wait"),
    [(0.0, 1), (0.3, 1), (0.49, 1), (0.7, 2), (1.0, 2), (1.3, 2), (2.0, 3)],
)
def test_a_newcomer_waits_for_the_first_batch_fixed_after_it(
    run: RunEngine, lag: float, steps_to_wait: int
) -> None:
    """Steps last 1 s and start at 0, 1, 2...; the newcomer comes 0.4 s into the step at 10.

    The batch of the step at t is fixed at t - lag, so it joins the first step with t - lag >= 10.4.
    """
    law = StepLaw.single(per_step=1.0, schedule_lag=lag)
    out = run(request_table(np.array([0.0, 10.4]), 5, np.array([30, 3])), Limits(), law)
    first = 10 + steps_to_wait
    assert out.scheduled[1] == first
    assert out.first_token[1] == first + 1
    assert out.finish[1] == first + 3


@both_engines
@pytest.mark.parametrize("lag", [0.0, 1.0, 2.0])
def test_a_request_queued_exactly_at_the_fixing_time_gets_in(run: RunEngine, lag: float) -> None:
    law = StepLaw.single(per_step=1.0, schedule_lag=lag)
    out = run(request_table(np.array([0.0, 10.0]), 5, np.array([30, 3])), Limits(), law)
    assert out.scheduled[1] == 10 + lag


@both_engines
@pytest.mark.parametrize(("lag", "start"), [(0.0, 5.0), (0.49, 5.0), (0.5, 6.0), (2.0, 6.0)])
def test_lag_holds_the_slot_of_a_finished_request_for_a_step(
    run: RunEngine, lag: float, start: float
) -> None:
    """Two slots, both taken; the short one ends at 5. The third request has waited for long."""
    law = StepLaw.single(per_step=1.0, schedule_lag=lag)
    table = request_table(np.zeros(3), 5, np.array([5, 30, 4]))
    out = run(table, Limits(max_num_seqs=2), law)
    assert out.scheduled[2] == start


@both_engines
def test_a_batch_of_equals_decodes_in_step(run: RunEngine) -> None:
    """Duration of m decodes at context n + j is c + m d + m s (n + j)."""
    m, n, outputs = 12, 30, 20
    law = StepLaw.single(per_step=4e-3, per_decode=2e-4, per_context_token=1e-6)
    out = run(request_table(np.zeros(m), n, outputs), Limits(), law)
    gaps = 4e-3 + m * 2e-4 + m * 1e-6 * (n + np.arange(outputs - 1))
    np.testing.assert_allclose(out.first_token, 4e-3, rtol=1e-12)
    np.testing.assert_allclose(out.finish, 4e-3 + gaps.sum(), rtol=1e-12)
    assert out.counters["max_batch"] == m
    np.testing.assert_array_equal(out.ranges[2], [0, m])


@both_engines
@pytest.mark.parametrize("lag", [0.0, 1.0])
def test_blocks_bound_the_batch_like_slots(run: RunEngine, lag: float) -> None:
    """A request fills one block of 16 for its whole life, so two blocks serve two at a time."""
    law = StepLaw.single(per_step=1.0, schedule_lag=lag)
    table = request_table(np.zeros(6), 10, 6)
    out = run(table, Limits(kv_blocks=2), law)
    np.testing.assert_array_equal(out.scheduled, [0, 0, 6, 6, 12, 12])
    assert out.counters["peak_kv_blocks"] == 2
    assert out.counters["preemptions"] == 0


@both_engines
def test_preemption_by_hand(run: RunEngine) -> None:
    """Blocks of one token, 9 of them, two requests of 3 prompt and 5 output tokens, no cache.

    Both hold 3, 4, 4.. blocks: steps 0 (prefill, 3 + 3 blocks) and 1 (4 + 4). In step 2 the first
    takes the ninth block, the second finds none and loses its own: it has 2 tokens, the first goes
    on to 5 + 2 = 7 blocks and ends with step 4 at t = 5. The second needs 5 blocks to come back:
    free are 9 - 5 = 4 in step 3, 3 in step 4, 9 in step 5. Steps 5 (recompute 5 tokens, third
    token), 6, 7: it ends at 8.
    """
    law = StepLaw.single(per_step=1.0)
    limits = Limits(block_size=1, kv_blocks=9, prefix_caching=False)
    out = run(request_table(np.zeros(2), 3, 5), limits, law)
    np.testing.assert_array_equal(out.finish, [5, 8])
    np.testing.assert_array_equal(out.first_token, [1, 1])
    np.testing.assert_array_equal(out.preemptions, [0, 1])
    assert out.counters["prefill_tokens"] == 3 + 3 + 5
    assert out.counters["steps"] == 8
    # Gaps of the second: 1, 4 (the token of step 5 after that of step 1), 1, 1.
    np.testing.assert_allclose(out.stat[1, ITL, 0], (4 * 1 + 1 + 4 + 1 + 1) / 8)


@both_engines
def test_a_preempted_request_finds_what_it_left_in_the_cache(run: RunEngine) -> None:
    """As above with the cache on: the first ends with 7 of 9 blocks used or evicted by it."""
    law = StepLaw.single(per_step=1.0)
    limits = Limits(block_size=1, kv_blocks=9)
    out = run(request_table(np.zeros(2), 3, 5), limits, law)
    # Preempted with 4 blocks in cache. The first takes two of them from the tail for its last two
    # tokens, so blocks 0 and 1 remain: 2 cached tokens, 3 recomputed; never all before t = 5.
    assert out.counters["cached_tokens"] == 2
    assert out.counters["prefill_tokens"] == 3 + 3 + 3
    np.testing.assert_array_equal(out.cached_tokens, [0, 2])
    np.testing.assert_array_equal(out.finish, [5, 8])


@both_engines
@pytest.mark.parametrize(("n", "cached"), [(15, 0), (16, 0), (17, 16), (32, 16), (33, 32)])
def test_a_repeated_prompt_recomputes_at_least_one_token(
    run: RunEngine, n: int, cached: int
) -> None:
    table = request_table(np.array([0.0, 100.0]), n, 3, content_stream=np.zeros(2))
    out = run(table, Limits(), StepLaw.single(per_step=1.0))
    np.testing.assert_array_equal(out.cached_tokens, [0, cached])
    assert out.counters["prefill_tokens"] == 2 * n - cached


@both_engines
def test_twins_in_one_batch_share_what_is_granted(run: RunEngine) -> None:
    """A block counts as cached from the moment its tokens are granted, before they are computed."""
    table = request_table(np.zeros(2), 40, 3, content_stream=np.zeros(2))
    out = run(table, Limits(), StepLaw.single(per_step=1.0))
    np.testing.assert_array_equal(out.scheduled, [0, 0])
    np.testing.assert_array_equal(out.cached_tokens, [0, 32])
    assert out.counters["peak_kv_blocks"] == 4


@both_engines
def test_a_shared_prefix_hits_whole_blocks_only(run: RunEngine) -> None:
    """50 shared tokens are three blocks of 16; the block that holds the border is private."""
    table = request_table(
        np.array([0.0, 100.0]), 80, 3, prefix_stream=np.zeros(2), prefix_tokens=np.full(2, 50)
    )
    out = run(table, Limits(), StepLaw.single(per_step=1.0))
    np.testing.assert_array_equal(out.cached_tokens, [0, 48])


@both_engines
@pytest.mark.parametrize(("session", "cached"), [(True, 48), (False, 16)])
def test_a_session_hits_its_own_answer(run: RunEngine, session: bool, cached: int) -> None:
    """Turn one: 20 tokens and 30 out, of which 49 were computed: three blocks of 16."""
    table = request_table(
        np.zeros(2),
        np.array([20, 80]),
        np.array([30, 3]),
        content_stream=np.zeros(2),
        session_output=np.full(2, session),
        parent=np.array([-1, 0]),
        think_time=np.array([0.0, 7.0]),
    )
    out = run(table, Limits(), StepLaw.single(per_step=1.0))
    np.testing.assert_array_equal(out.cached_tokens, [0, cached])
    assert out.scheduled[1] == 30 + 7


@both_engines
def test_a_long_prefill_under_the_threshold_lets_others_in(run: RunEngine) -> None:
    """Budget 10, threshold 4: 20 prompt tokens take five steps and a second prompt rides along."""
    law = StepLaw.single(per_step=1.0)
    limits = Limits(max_num_batched_tokens=10, long_prefill_token_threshold=4, max_num_seqs=8)
    out = run(request_table(np.zeros(2), np.array([20, 6]), 2), limits, law)
    np.testing.assert_array_equal(out.first_token, [5, 2])


@both_engines
def test_a_prompt_that_takes_the_whole_budget_keeps_the_queue_out(run: RunEngine) -> None:
    """Budget 5: 14 tokens take 5, 5 and 4; only the third step has room for another prompt."""
    law = StepLaw.single(per_step=1.0)
    table = request_table(np.zeros(2), np.array([14, 1]), np.array([2, 3]))
    out = run(table, Limits(max_num_batched_tokens=5), law)
    np.testing.assert_array_equal(out.scheduled, [0, 2])
    np.testing.assert_array_equal(out.finish, [4, 5])
    capped = run(table, Limits(max_num_batched_tokens=5, long_prefill_token_threshold=4), law)
    np.testing.assert_array_equal(capped.finish, [5, 3])


@both_engines
def test_priority_admits_the_urgent_first_and_preempts_the_others(run: RunEngine) -> None:
    law = StepLaw.single(per_step=1.0)
    table = request_table(np.zeros(3), 3, 2, priority=np.array([2, 1, 0]))
    out = run(table, Limits(max_num_seqs=1, priority=True), law)
    np.testing.assert_array_equal(out.scheduled, [4, 2, 0])
    limits = Limits(block_size=1, kv_blocks=9, prefix_caching=False, priority=True)
    pressed = run(request_table(np.zeros(2), 3, 5, priority=np.array([1, 0])), limits, law)
    np.testing.assert_array_equal(pressed.preemptions, [1, 0])
    np.testing.assert_array_equal(pressed.finish, [8, 5])


@both_engines
def test_batches_are_formed_again_until_one_is_not_empty(run: RunEngine) -> None:
    """Blocks of one token, 15 of them, chunks of 4; the most patient came first.

    Steps 0 to 2 leave 3 + 8 + 4 blocks in use. At t = 3 the first needs a fourth, is itself the one
    to lose, and nobody else is looked at: an empty batch. On the second attempt the second needs 4
    where 3 are free and loses its own: empty again. On the third the urgent one gets its block and
    both come back, the second with 4 of its tokens, the first with all 4 that it has: its last
    token comes with this step. The second computes 4, 8, 12, 14 tokens in steps 3 to 6.
    """
    law = StepLaw.single(per_step=1.0)
    limits = Limits(
        block_size=1,
        kv_blocks=15,
        prefix_caching=False,
        priority=True,
        long_prefill_token_threshold=4,
    )
    table = request_table(
        np.array([0.0, 0.5, 1.5]),
        np.array([1, 14, 4]),
        np.array([4, 1, 3]),
        priority=np.array([2, 1, 0]),
    )
    out = run(table, limits, law)
    np.testing.assert_array_equal(out.scheduled, [0, 1, 2])
    np.testing.assert_array_equal(out.preemptions, [1, 1, 0])
    np.testing.assert_array_equal(out.finish, [4, 7, 5])


@both_engines
def test_clients_leave_the_queue_and_the_batch(run: RunEngine) -> None:
    """One slot: the first leaves at the end of the step in which its patience ends (t = 4)."""
    law = StepLaw.single(per_step=1.0)
    timeout = np.array([3.5, 2.5, np.inf, 4.5])
    table = request_table(np.zeros(4), 3, 6, timeout=timeout)
    out = run(table, Limits(max_num_seqs=1), law)
    assert out.status == ["timed_out", "timed_out", "finished", "timed_out"]
    assert out.scheduled[2] == 4
    assert out.finish[2] == 10


@both_engines
def test_a_client_behind_a_blocked_queue_leaves_too(run: RunEngine) -> None:
    """Nobody gets in before the horizon; the third client leaves at 13.5 all the same."""
    timeout = np.array([np.inf, np.inf, 3.5])
    table = request_table(np.array([0.0, 1.5, 10.0]), 5, np.array([100, 3, 3]), timeout=timeout)
    out = run(table, Limits(max_num_seqs=1, horizon=20), StepLaw.single(per_step=1.0))
    assert out.status == ["unfinished", "unfinished", "timed_out"]


@both_engines
def test_a_last_token_in_time_beats_the_time_out(run: RunEngine) -> None:
    law = StepLaw.single(per_step=1.0)
    table = request_table(np.zeros(2), 3, np.array([3, 4]), timeout=np.full(2, 2.5))
    assert run(table, Limits(), law).status == ["finished", "timed_out"]


@both_engines
def test_what_cannot_be_served_is_rejected_and_its_follow_ups_are_not_sent(run: RunEngine) -> None:
    law = StepLaw.single(per_step=1.0)
    limits = Limits(max_model_len=100, kv_blocks=5, max_num_batched_tokens=100)
    table = request_table(
        np.zeros(6),
        np.array([96, 50, 10, 75, 10, 10]),
        np.array([4, 51, 5, 6, 5, 5]),
        parent=np.array([-1, -1, 1, -1, 3, 4]),
    )
    # 96 + 4 - 1 = 99 tokens need 7 of 5 blocks; 101 tokens are too many; 75 + 6 - 1 = 80 just fit.
    out = run(table, limits, law)
    assert out.status == ["rejected", "rejected", "unsent", "finished", "finished", "finished"]


@both_engines
def test_no_step_starts_at_the_horizon(run: RunEngine) -> None:
    law = StepLaw.single(per_step=1.0)
    out = run(
        request_table(np.array([0.0, 0.0, 9.0]), 3, np.array([5, 9, 1])), Limits(horizon=5), law
    )
    assert out.status == ["finished", "unfinished", "unfinished"]
    assert out.counters["steps"] == 5
    assert out.counters["end_time"] == 5
    assert out.stat[1, E2E, 0] == 5


@both_engines
def test_a_closed_loop_without_overheads_never_misses_a_beat(run: RunEngine) -> None:
    """The next request is queued just when the last token ends, which is when a batch is fixed."""
    law = StepLaw.single(per_step=0.1)
    table = request_table(np.zeros(4), 3, 3, parent=np.array([-1, 0, 1, 2]))
    out = run(table, Limits(), law)
    np.testing.assert_array_equal(out.scheduled[1:], out.finish[:-1])


@both_engines
@pytest.mark.parametrize("step", [0.0137, 0.1, 0.3])
@pytest.mark.parametrize("finish", [0.0, 1e-3, 0.0014977])
def test_users_answered_together_come_back_together(
    run: RunEngine, step: float, finish: float
) -> None:
    """Rounding must not tear apart who gets the last token of the same step."""
    n = 50
    first = np.sort(stream(5, "together").uniform(0.1 * step, 0.9 * step, size=n))
    law = StepLaw.single(per_step=step, finish=finish, stream=1e-5, ingest=3e-3)
    table = request_table(
        np.concatenate([[0.0], first, np.zeros(n)]),
        7,
        np.concatenate([[2], np.full(2 * n, 9)]),
        parent=np.concatenate([np.full(n + 1, -1), np.arange(1, n + 1)]),
    )
    out = run(table, Limits(), law)
    assert np.unique(out.finish[1 : n + 1]).size == 1
    assert np.unique(out.scheduled[n + 1 :]).size == 1
