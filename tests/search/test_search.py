"""Whole searches on the engine: the same whatever the executor, resumed where they stopped."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from search.studies import search_of, study_of
from tailcast.search.bounds import Bounds
from tailcast.search.evaluator import Job
from tailcast.search.executors import CONFIRM, RACE, Context, Task, Threads, run_task
from tailcast.search.search import may_shorten
from tailcast.workload.mapping import workload_from_mapping


class Counting(Threads):
    """Threads that count tasks and may be interrupted."""

    def __init__(self, stop_after: int | None = None) -> None:
        super().__init__(2)
        self.done = 0
        self._stop = stop_after

    def run(
        self, context: Context, tasks: Sequence[Task]
    ) -> Iterator[tuple[int, NDArray[np.float64]]]:
        """As threads do, until it stops."""
        for item in super().run(context, tasks):
            yield item
            self.done += 1
            if self._stop is not None and self.done >= self._stop:
                raise KeyboardInterrupt


def test_the_chosen_is_the_cheapest_that_an_exhaustive_search_finds(tmp_path: Path) -> None:
    search = search_of(study_of(tmp_path, target="200ms"))
    found = search.run()
    assert found.decision is not None
    assert found.decision.winner is not None
    jobs = [Job(candidate=k, purpose=CONFIRM, first=0, last=40) for k in range(4)]
    every = search.simulator.evaluate(jobs)
    held = [k for k in range(4) if every[k].missed.mean() <= 0.2]
    cost = search.simulator.cost
    assert cost[found.decision.winner.candidate] == min(cost[held])
    assert found.is_found
    assert set(found.outcomes) >= {found.decision.winner.candidate}


def test_an_interrupted_search_goes_on_to_the_same_end(tmp_path: Path) -> None:
    study, results = study_of(tmp_path), tmp_path / "results.sqlite"
    straight = search_of(study).run()
    with pytest.raises(KeyboardInterrupt):
        search_of(study, Counting(stop_after=3), results=results).run()
    executor = Counting()
    resumed = search_of(study, executor, results=results)
    kept = resumed.simulator.store.n_stored
    assert kept > 0
    found = resumed.run()
    np.testing.assert_array_equal(found.race.rank, straight.race.rank)
    assert found.race.status == straight.race.status
    assert found.decision is not None
    assert straight.decision is not None
    assert [c.n_missed for c in found.decision.confirmed] == [
        c.n_missed for c in straight.decision.confirmed
    ]
    assert found.n_simulated + kept == straight.n_simulated
    resumed.close()
    again = search_of(study, Counting(), results=results)
    assert again.run().n_simulated == 0


@pytest.mark.slow
def test_overload_names_a_rate_and_no_latency(tmp_path: Path) -> None:
    study = study_of(tmp_path, rate=3000)
    found = search_of(study).run()
    assert not found.is_found
    assert found.sustained is not None
    assert found.sustained.p_saturated == 1
    assert 0 < found.sustained.held.value <= 1.05 * found.sustained.boundary < 3000
    assert found.race.runs == 0
    assert found.next_runs == ()
    from tailcast.report.search import search_json, search_rows, search_text

    text = "\n".join(search_text(found, 0.89))
    assert "nothing met the objectives" in text
    assert "Largest sustainable rate" in text
    assert "ms" not in text.replace("msgs", "").split("combinations")[0].replace("items", "")
    _, rows = search_rows(found, 0.89)
    assert all(row[5] == "n/a" for row in rows)
    content = search_json(found, 0.89, {})
    assert content["chosen"] is None
    assert content["found"] is False


@pytest.mark.slow
def test_undecided_between_names_a_run_to_observe(tmp_path: Path) -> None:
    asked = {"objective": "tpot.mean", "space": "max_num_seqs = [64]"}
    loose = search_of(study_of(tmp_path, target="1s", **asked))
    (seen,) = loose.simulator.outcomes([Job(candidate=0, purpose=CONFIRM, first=0, last=40)])
    target = f"{1e3 * float(np.quantile(seen.value[:, 0], 0.8))}ms"
    study = study_of(tmp_path, target=target, **asked)
    study = replace(study, terms=replace(study.terms, risk=0.02))
    found = search_of(study).run()
    assert not found.is_found
    assert found.sustained is not None
    p_miss = float(found.outcomes[0].missed(found.question).mean())
    assert 0.02 < p_miss <= 0.5, p_miss
    assert found.next_runs
    from tailcast.report.search import search_text

    assert any(line.startswith("Observe next: ") for line in search_text(found, 0.89))


@pytest.mark.slow
def test_a_front_holds_nothing_that_another_beats(tmp_path: Path) -> None:
    space = "tensor_parallel = [1, 2]\nreplicas = [1, 2]\nmax_num_seqs = [16, 64]"
    study = study_of(tmp_path, search='goal = "pareto"', space=space)
    found = search_of(study).run()
    assert found.front
    for one in found.front:
        for other in found.front:
            beats = (
                other.cost <= one.cost
                and other.p_met >= one.p_met
                and other.capacity >= one.capacity
            )
            assert other is one or not beats
    assert [m.cost for m in found.front] == sorted(m.cost for m in found.front)


def test_bounds_are_never_wrong(tmp_path: Path) -> None:
    """What a bound calls a miss is a miss when it is run."""
    study = study_of(tmp_path, rate=60, target="40ms")
    search = search_of(study)
    sure = search.simulator.bound(24)
    jobs = [Job(candidate=k, purpose=RACE, first=0, last=24) for k in range(4)]
    missed = np.array([found.missed for found in search.simulator.evaluate(jobs)])
    assert sure.any()
    assert np.all(missed[sure])
    bounds = Bounds(context=search.simulator.context)
    least = bounds.load(search.space.candidates[0].fleet, study.posterior, 24)
    (found,) = search.simulator.outcomes(jobs[:1])
    np.testing.assert_allclose(least, found.load, rtol=1e-9)


def test_a_task_is_a_function_of_its_context(tmp_path: Path) -> None:
    import pickle

    search = search_of(study_of(tmp_path))
    context = search.simulator.context
    task = Task(
        fleet=search.space.candidates[1].fleet,
        posterior=search.study.posterior,
        purpose=RACE,
        first=2,
        last=6,
        share=0.5,
    )
    here = run_task(context, task)
    there = run_task(pickle.loads(pickle.dumps(context)), pickle.loads(pickle.dumps(task)))
    np.testing.assert_array_equal(here, there)


@pytest.mark.parametrize(
    ("changes", "may"),
    [
        ({}, True),
        ({"prefix": {"tokens": 10}}, False),
        ({"repeat": {"distinct": 5}}, False),
        ({"rate": None, "concurrency": 4}, False),
        ({"rate": None, "stages": [{"rate": 1.0, "duration": "9s"}] * 2}, False),
    ],
)
def test_only_plain_workloads_are_shortened(changes: dict[str, object], may: bool) -> None:
    table = {"rate": 1.0, "input_tokens": 9, "output_tokens": 9, **changes}
    spec = workload_from_mapping({k: v for k, v in table.items() if v is not None}, "test")
    assert may_shorten(spec) is may


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_dask_finds_what_threads_find(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
    from tailcast.search.executors import Dask

    study = study_of(tmp_path)
    here = search_of(study).run()
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=2, processes=True, dashboard_address=None
    ) as cluster:
        search = search_of(study, Dask(cluster))
        there = search.run()
        search.close()
    np.testing.assert_array_equal(here.race.rank, there.race.rank)
    assert here.race.status == there.race.status
    assert here.race.rungs == there.race.rungs
