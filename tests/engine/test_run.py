"""What `simulate` takes and returns: statistics, threads, extras, room for any number of steps."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from tailcast.engine.limits import Limits
from tailcast.engine.result import METRICS, RANGES, EngineResult, GapRuns, Status
from tailcast.engine.run import simulate
from tailcast.errors import UsageError
from tailcast.request import RequestTable, request_table
from tailcast.step_law import StepLaw
from tailcast.streams import stream

LAW = StepLaw.single(
    per_step=6e-3,
    per_prefill_token=2e-5,
    per_prefill_pair=1e-9,
    per_prefill_request=1e-4,
    per_decode=3e-5,
    per_context_token=3e-7,
    ingest=5e-3,
    finish=1e-3,
    stream=1e-5,
    schedule_lag=1.3,
)
LIMITS = Limits(max_num_seqs=64, kv_blocks=4000)


def poisson(n: int, rate: float, output: int = 60, *, groups: int = 1) -> RequestTable:
    """Poisson arrivals of prompts of about 200 tokens and geometric outputs."""
    rng = stream(5, "run", n, output)
    return request_table(
        np.cumsum(rng.exponential(1 / rate, size=n)),
        rng.integers(20, 400, size=n),
        rng.geometric(1 / output, size=n),
        group=np.arange(n) * groups // n,
    )


def many_draws(n_draw: int) -> StepLaw:
    """The law scaled by factors from 0.8 to 1.2."""
    scale = np.linspace(0.8, 1.2, n_draw)
    columns = {
        name: np.multiply.outer(scale, getattr(LAW, name)[0])
        for name in StepLaw.__dataclass_fields__
    }
    return StepLaw(**(columns | {"schedule_lag": np.full(n_draw, 1.3)}))


def every_gap(runs: GapRuns) -> NDArray[np.float64]:
    """All token gaps, one by one."""
    expanded = [
        np.repeat(first + slope * np.arange(count), multiplicity)
        for first, slope, count, multiplicity in zip(
            runs.first, runs.slope, runs.count, runs.multiplicity, strict=True
        )
    ]
    return np.concatenate(expanded)


def described(values: NDArray[np.float64], quantiles: tuple[float, ...]) -> NDArray[np.float64]:
    """Mean and quantiles by numpy."""
    return np.concatenate([[values.mean()], np.quantile(values, quantiles)])


def metrics_of(result: EngineResult, table: RequestTable) -> dict[str, NDArray[np.float64]]:
    """Every metric by completed request, from the records of the first draw."""
    assert result.records is not None
    r = result.records[0]
    done = r.status == Status.COMPLETED
    output = table.output_tokens
    ttft = r.first_token - r.arrival + LAW.stream
    e2e = r.finish - r.arrival + LAW.stream * output + LAW.finish
    several = done & (output > 1)
    return {
        "ttft": ttft[done],
        "tpot": ((e2e - ttft) / np.maximum(output - 1, 1))[several],
        "e2e": e2e[done],
        "queue_delay": (r.scheduled - r.arrival)[done],
    }


@pytest.mark.parametrize("rate", [2.0, 20.0, 60.0])
def test_statistics_are_those_of_records_and_gaps(rate: float) -> None:
    table, quantiles = poisson(700, rate), (0.0, 0.25, 0.5, 0.9, 0.99, 0.999, 1.0)
    result = simulate(table, LIMITS, LAW, quantiles=quantiles, records=True, gaps=True)
    assert result.gaps is not None
    values = metrics_of(result, table) | {"itl": every_gap(result.gaps[0])}
    assert len(values["itl"]) == (table.output_tokens - 1).sum()
    for i, metric in enumerate(METRICS):
        expected = described(values[metric], quantiles)
        np.testing.assert_allclose(result.stat[0, -1, i], expected, rtol=1e-11, err_msg=metric)


def test_quantiles_come_in_the_order_asked_for() -> None:
    table = poisson(100, 20.0)
    asked = simulate(table, LIMITS, LAW, quantiles=(0.99, 0.5, 0.5, 0.9))
    sorted_ = simulate(table, LIMITS, LAW, quantiles=(0.5, 0.9, 0.99))
    assert asked.quantiles == (0.99, 0.5, 0.5, 0.9)
    np.testing.assert_array_equal(asked.stat, sorted_.stat[..., [0, 3, 1, 1, 2]])


def test_means_alone_may_be_asked_for() -> None:
    table = poisson(50, 20.0)
    only = simulate(table, LIMITS, LAW, quantiles=())
    assert only.stat.shape == (1, 2, 5, 1)
    np.testing.assert_array_equal(only.stat[..., 0], simulate(table, LIMITS, LAW).stat[..., 0])


def test_a_group_is_what_it_would_be_alone_in_the_same_run() -> None:
    """Group statistics equal those of a run in which the other groups are warm-up or absent."""
    table = poisson(400, 40.0, groups=4)
    result = simulate(table, LIMITS, LAW)
    assert result.counters["completed_by_group"].tolist() == [[100, 100, 100, 100]]
    last = simulate(table, LIMITS, LAW, warmup=300)
    np.testing.assert_array_equal(result.stat[0, 3], last.stat[0, 3])
    np.testing.assert_allclose(last.stat[0, 4], last.stat[0, 3], rtol=1e-12)
    assert np.isnan(last.stat[0, :3]).all()
    one = simulate(replace(table, group=np.zeros(400, dtype=np.int64)), LIMITS, LAW)
    np.testing.assert_allclose(one.stat[0, -1], result.stat[0, -1], rtol=1e-12)


@pytest.mark.parametrize("threads", [2, 3, 7])
def test_threads_change_nothing(threads: int) -> None:
    table, law = poisson(150, 40.0, groups=2), many_draws(11)
    one = simulate(table, LIMITS, law, gaps=True, steps=True)
    several = simulate(table, LIMITS, law, gaps=True, steps=True, threads=threads)
    assert one.stat.tobytes() == several.stat.tobytes()
    assert one.ranges.tobytes() == several.ranges.tobytes()
    for name, values in one.counters.items():
        np.testing.assert_array_equal(values, several.counters[name])
    for a, b in zip(one.gaps or (), several.gaps or (), strict=True):
        np.testing.assert_array_equal(a.first, b.first)
        np.testing.assert_array_equal(a.multiplicity, b.multiplicity)
    for c, d in zip(one.steps or (), several.steps or (), strict=True):
        np.testing.assert_array_equal(c.start, d.start)


def test_a_slower_law_is_slower() -> None:
    """Common random numbers: statistics rise with the scale of the law, draw by draw."""
    stat = simulate(poisson(300, 10.0), LIMITS, many_draws(9)).stat[:, -1]
    assert (np.diff(stat[:, METRICS.index("itl"), 0]) > 0).all()
    assert (np.diff(stat[:, METRICS.index("e2e"), 0]) > 0).all()


def test_step_log_obeys_the_law_and_gives_the_ranges() -> None:
    result = simulate(poisson(200, 30.0), LIMITS, LAW, steps=True, records=True)
    assert result.steps is not None
    log = result.steps[0]
    new_tokens = log.prefill_tokens + log.decodes
    columns = (log.prefill_tokens, log.prefill_pairs, log.decodes, log.context, new_tokens)
    for i, (name, column) in enumerate(zip(RANGES, columns, strict=True)):
        assert result.ranges[0, i].tolist() == [column.min(), column.max()], name
    for k in range(0, len(log.start), 7):
        expected = LAW.duration(
            log.prefill_tokens[k],
            log.prefill_pairs[k],
            log.prefill_requests[k],
            log.decodes[k],
            log.context[k],
        )
        assert log.duration[k] == pytest.approx(expected.item(), rel=1e-11)
    assert len(log.start) == result.counters["steps"][0]
    assert (log.start[1:] >= (log.start + log.duration)[:-1] - 1e-9).all()
    busy = result.counters["busy_time"][0]
    assert busy == pytest.approx(log.duration.sum(), rel=1e-11)
    batch = log.decodes + log.prefill_requests
    assert result.counters["mean_batch"][0] == pytest.approx((batch * log.duration).sum() / busy)


def test_gap_room_grows_with_skips_and_preemptions() -> None:
    """Prefills that eat the whole budget make decodes wait over and over: one odd gap each."""
    rng = stream(8, "skips")
    n = 120
    table = request_table(np.zeros(n), rng.integers(1, 300, size=n), rng.integers(2, 200, size=n))
    limits = Limits(
        max_num_seqs=32,
        max_num_batched_tokens=24,
        kv_blocks=150,
        long_prefill_token_threshold=12,
    )
    result = simulate(table, limits, LAW, gaps=True)
    assert result.gaps is not None
    runs = result.gaps[0]
    assert (runs.count == 1).sum() > 1000
    assert result.counters["preemptions"][0] > 10
    assert (runs.count * runs.multiplicity).sum() == (table.output_tokens - 1).sum()


def test_step_runs_do_not_grow_with_the_output() -> None:
    """Twenty times the tokens at a twentieth of the rate: the same number of runs of gaps."""
    few = simulate(poisson(200, 1.0, 40), LIMITS, LAW, gaps=True)
    many = simulate(poisson(200, 0.05, 800), LIMITS, LAW, gaps=True)
    assert few.gaps is not None
    assert many.gaps is not None
    assert many.counters["steps"][0] > 10 * few.counters["steps"][0]
    assert len(many.gaps[0].first) < 1.5 * len(few.gaps[0].first)


def test_gaps_of_one_size_are_counted_without_listing_them() -> None:
    """More equal gaps than one bin of the search can list; a constant law has one gap only."""
    n = 30_000
    table = request_table(np.linspace(0.0, 900.0, n), 10, 2)
    law = StepLaw.single(per_step=0.01)
    stat = simulate(table, LIMITS, law, quantiles=(0.01, 0.5, 0.99)).stat[0, -1]
    np.testing.assert_allclose(stat[METRICS.index("itl")], 0.01, rtol=1e-12)


def test_nothing_arrives_and_nothing_happens() -> None:
    empty = request_table(np.empty(0), 1, 1)
    result = simulate(empty, LIMITS, LAW, records=True, gaps=True, steps=True)
    assert result.stat.shape == (1, 1, 5, 5)
    assert np.isnan(result.stat).all()
    assert np.isnan(result.ranges).all()
    assert result.counters["n"].tolist() == [0]
    assert result.counters["end_time"].tolist() == [0.0]


def test_nobody_counts_when_all_is_warm_up() -> None:
    result = simulate(poisson(20, 5.0), LIMITS, LAW, warmup=20)
    assert np.isnan(result.stat).all()
    assert result.counters["completed"].tolist() == [20]


def test_one_table_a_draw_is_one_run_a_draw() -> None:
    tables = [poisson(50 + 10 * i, 20.0) for i in range(4)]
    law = many_draws(4)
    paired = simulate(tables[0], LIMITS, law, draw_requests=tables, threads=2, records=True)
    assert paired.records is not None
    assert paired.counters["n"].tolist() == [50, 60, 70, 80]
    for i, table in enumerate(tables):
        alone = simulate(table, LIMITS, law.draw(i))
        np.testing.assert_array_equal(paired.stat[i], alone.stat[0])
        assert len(paired.records[i].status) == len(table)


def test_arguments_that_cannot_be_meant_are_refused() -> None:
    table, law = poisson(10, 5.0), many_draws(2)
    with pytest.raises(UsageError, match=r"quantiles must be a list of numbers in 0\.\.1"):
        simulate(table, LIMITS, LAW, quantiles=(0.5, 99.0))
    with pytest.raises(UsageError, match="threads >= 1, got 0 and 0"):
        simulate(table, LIMITS, LAW, threads=0)
    with pytest.raises(UsageError, match="warmup must be >= 0"):
        simulate(table, LIMITS, LAW, warmup=-1)
    with pytest.raises(UsageError, match="draw_requests has 1 tables for 2 draws"):
        simulate(table, LIMITS, law, draw_requests=[table])
    with pytest.raises(UsageError, match="must have the groups of requests"):
        simulate(table, LIMITS, law, draw_requests=[table, poisson(10, 5.0, groups=2)])
