"""Runs and traces as experiment files."""

from pathlib import Path

import numpy as np
import pytest

from tailcast.errors import InputError, UsageError
from tailcast.streams import stream
from tailcast.traces.experiment import experiment_requests, load_experiment, load_experiments
from tailcast.traces.experiment_file import Told, experiment_mappings, summary_of_trace
from tailcast.traces.importers.reading import read_any
from tailcast.traces.importers.writing import write_imported
from tailcast.traces.run_summary import Lengths, RunSummary, Stage, lengths_of
from tailcast.traces.trace_header import TraceHeader, TraceServer
from tailcast.traces.tracev2 import Trace, blank_columns
from traces.tool_files import (
    MAKERS,
    OK,
    bench,
    bench_summary,
    guidellm_metrics,
    lines,
    prometheus,
    stage_content,
    written,
)

TOLD = Told(model="llama-3.1-8b", gpu="h100-sxm", tensor_parallel=2)


def run_of(*stages: Stage) -> RunSummary:
    """Run of these stages on a known server."""
    server = TraceServer(type="vllm", model="llama-3.1-8b", accelerator="h100-sxm")
    return RunSummary(id="run", server=server, stages=stages)


def stage(rate: float = 8.0, mean: float = 40.0, **more: object) -> Stage:
    """Stage of 240 requests."""
    lengths = {"input_tokens": Lengths(mean=mean), "output_tokens": Lengths(mean=5.0)}
    return Stage(rate=rate, duration=240 / rate, n_requests=240, **{**lengths, **more})  # type: ignore[arg-type]


def served(n: int, gaps: np.ndarray[tuple[int], np.dtype[np.float64]], group: int = 0) -> Trace:
    """Trace of n requests with these gaps, TTFT 50 ms, 11 tokens 10 ms apart."""
    arrival = np.append(0.0, np.cumsum(gaps))[:n]
    columns = blank_columns(n)
    columns |= {
        "request_id": np.array([f"r{group}-{i}" for i in range(n)]),
        "arrival_time": arrival,
        "send_time": arrival,
        "first_chunk_time": arrival + 0.05,
        "last_chunk_time": arrival + 0.15,
        "input_tokens": np.full(n, 40),
        "output_tokens": np.full(n, 11),
        "status": np.full(n, "ok"),
        "group": np.full(n, group),
    }
    return Trace(header=TraceHeader(mode="real"), columns=columns)


def test_what_a_trace_says_is_read_back_from_the_experiment(tmp_path: Path) -> None:
    found = read_any(bench(tmp_path))
    paths, notes = write_imported(found, tmp_path / "x.yaml", to="experiment", told=TOLD)
    experiment = load_experiment(paths[0])
    assert (experiment.deployment.llm.name, experiment.deployment.tensor_parallel) == (
        "llama-3.1-8b",
        2,
    )
    values = {(o.metric, o.statistic): o.value for o in experiment.observed}
    assert values["ttft", "mean"] == pytest.approx(np.mean([r.ttft for r in OK]), rel=1e-5)
    gaps = [g for r in OK for g in r.gaps]
    assert values["itl", "p50"] == pytest.approx(np.median(gaps), rel=1e-5)
    requests = experiment_requests(experiment, 0)
    assert set(requests.input_tokens.tolist()) <= {r.n_in for r in OK}
    assert "whether they repeat" in " ".join(notes)
    assert not [note for note in notes if "cannot be simulated" in note]


@pytest.mark.parametrize(
    ("gaps", "law", "text"),
    [
        (np.full(400, 0.1), "constant", "evenly spaced"),
        (stream(1, "p").exponential(0.1, 400), "conditioned-poisson", "like Poisson"),
        (stream(1, "b").gamma(0.1, 1.0, 400), "gamma", "gamma gaps are assumed"),
        (np.full(5, 0.1), "conditioned-poisson", "too few arrivals"),
    ],
)
def test_arrivals_are_named_by_the_scatter_of_their_gaps(
    gaps: np.ndarray[tuple[int], np.dtype[np.float64]], law: str, text: str
) -> None:
    run, notes = summary_of_trace(served(len(gaps) + 1, gaps), None, "run")
    found = run.stages[0].arrivals
    assert (found if isinstance(found, str) else found["process"]) == law
    assert text in " ".join(notes)
    assert run.stages[0].rate == pytest.approx(1 / gaps.mean())


def test_groups_are_stages_only_where_they_follow_each_other() -> None:
    one, two = served(50, np.full(60, 0.1)), served(50, np.full(60, 0.05), 1)

    def joined(shift: float) -> Trace:
        columns = {k: np.concatenate([one[k], two[k]]) for k in one.columns}
        for key in ("arrival_time", "send_time", "first_chunk_time", "last_chunk_time"):
            columns[key][50:] += shift
        return Trace(header=one.header, columns=columns)

    run, _ = summary_of_trace(joined(10.0), None, "run")
    assert [s.rate for s in run.stages] == pytest.approx([10.0, 20.0])
    assert [s.duration for s in run.stages] == pytest.approx([5.0, 2.5])
    mixed, notes = summary_of_trace(joined(1.0), None, "run")
    assert len(mixed.stages) == 1
    assert "overlap in time" in " ".join(notes)
    with pytest.raises(InputError, match="no two arrivals"):
        summary_of_trace(served(1, np.ones(1)), None, "run")


def test_stages_of_like_lengths_are_one_experiment_and_others_several() -> None:
    assert len(experiment_mappings(run_of(stage(8.0), stage(16.0)), TOLD)) == 1
    (one,) = experiment_mappings(run_of(stage(8.0), stage(16.0)), TOLD)
    assert one["workload"]["stages"] == [
        {"rate_rps": 8.0, "duration_s": 30.0},
        {"rate_rps": 16.0, "duration_s": 15.0},
    ]
    apart = experiment_mappings(run_of(stage(8.0), stage(16.0, mean=80.0)), TOLD)
    assert [m["id"] for m in apart] == ["run-0", "run-1"]
    closed = stage(float("nan"), concurrency=16)
    found = experiment_mappings(run_of(stage(8.0), closed), TOLD)
    assert found[1]["workload"]["concurrency"] == 16
    assert found[1]["workload"]["requests"] == 240


@pytest.mark.parametrize(
    ("lengths", "law"),
    [
        (Lengths(mean=40.4), 40),
        (Lengths(mean=40.0, low=40.0, high=40.0), 40),
        (
            lengths_of(np.array([7, 7, 9])),
            {"law": "empirical", "values": [7, 9], "weights": [2, 1]},
        ),
        (
            Lengths(mean=40.0, sd=3.0, low=30.0),
            {"law": "gaussian", "mean": 40.0, "sd": 3.0, "min": 30},
        ),
    ],
)
def test_lengths_are_as_fine_as_they_are_known(lengths: Lengths, law: object) -> None:
    (mapping,) = experiment_mappings(run_of(stage(input_tokens=lengths)), TOLD)
    assert mapping["workload"]["prompt_tokens"] == law


def test_quantiles_become_a_law_with_their_mean() -> None:
    rng = stream(0, "lengths")
    values = np.maximum(np.rint(rng.lognormal(5, 0.5, 4000)), 1).astype(np.int64)
    known = {q: float(np.quantile(values, q)) for q in (0.01, 0.1, 0.5, 0.9, 0.99)}
    told = Lengths(
        mean=float(values.mean()),
        low=float(values.min()),
        high=float(values.max()),
        quantiles=known,
    )
    for lengths in (told, lengths_of(values)):
        (mapping,) = experiment_mappings(run_of(stage(output_tokens=lengths)), TOLD)
        law = mapping["workload"]["output_tokens"]
        mean = np.average(law["values"], weights=law["weights"])
        assert mean == pytest.approx(values.mean(), rel=0.01)


def test_many_runs_are_a_folder_that_can_be_loaded(tmp_path: Path) -> None:
    results = [bench_summary(request_rate=rate, label=f"a/b {rate}") for rate in (2.0, 4.0, 8.0)]
    found = read_any(lines(tmp_path / "runs.json", results))
    paths, _ = write_imported(found, tmp_path / "out", told=TOLD)
    assert len(load_experiments(tmp_path / "out")) == len(paths) == 3
    assert {path.parent for path in paths} == {tmp_path / "out"}


@pytest.mark.parametrize("name", ["guidellm-csv", "genai-perf", "vllm-bench-table"])
def test_statistics_of_every_tool_become_experiments(name: str, tmp_path: Path) -> None:
    found = read_any(MAKERS[name](tmp_path))
    paths, notes = write_imported(found, tmp_path / "out", told=TOLD)
    experiment = load_experiment(paths[0])
    assert {o.metric for o in experiment.observed} >= {"ttft", "e2e", "tpot"}
    assert not [note for note in notes if "cannot be simulated" in note]


def test_stages_of_inference_perf_and_metrics_of_guidellm_become_experiments(
    tmp_path: Path,
) -> None:
    for i in range(2):
        written(tmp_path / "r" / f"stage_{i}_lifecycle_metrics.json", stage_content(rate=8.0 + i))
    (path,), _ = write_imported(read_any(tmp_path / "r"), tmp_path / "a.yaml", told=TOLD)
    assert {o.stage for o in load_experiment(path).observed} == {0, 1}
    (path,), _ = write_imported(
        read_any(guidellm_metrics(tmp_path)), tmp_path / "b.yaml", told=TOLD
    )
    assert load_experiment(path).workload.arrivals is not None


def test_bounds_of_quantiles_stay_bounds(tmp_path: Path) -> None:
    found = read_any(prometheus(tmp_path))
    with pytest.raises(UsageError, match="does not say the load; give --rate"):
        write_imported(found, tmp_path / "x.yaml", told=TOLD)
    told = Told(model="llama-3.1-8b", gpu="h100-sxm", rate=8.0)
    (path,), _ = write_imported(found, tmp_path / "x.yaml", told=told)
    assert "quantile_bounds_ms" in path.read_text()
    experiment = load_experiment(path)
    assert {o.statistic for o in experiment.observed} == {"mean"}
    assert experiment.workload.stages[0].rate == 8.0


def test_what_is_missing_is_asked_for(tmp_path: Path) -> None:
    found = read_any(bench(tmp_path))
    with pytest.raises(UsageError, match="does not say the accelerator; give --gpu"):
        write_imported(found, tmp_path / "x.yaml", to="experiment")
    nameless = RunSummary(id="x", server=TraceServer(), stages=(stage(),))
    with pytest.raises(UsageError, match="does not say the LLM; give --model"):
        experiment_mappings(nameless, Told())
    with pytest.raises(InputError, match="lengths of prompts and answers"):
        experiment_mappings(run_of(stage(output_tokens=Lengths())), TOLD)
    assert not (tmp_path / "x.yaml").exists()


def test_what_cannot_be_simulated_is_written_and_said(tmp_path: Path) -> None:
    told = Told(model="nobody/knows", gpu="h100-sxm")
    paths, notes = write_imported(
        read_any(bench(tmp_path)), tmp_path / "x.yaml", to="experiment", told=told
    )
    assert paths[0].exists()
    assert "cannot be simulated as it is" in notes[-1]


def test_nothing_half_written_and_nothing_overwritten(tmp_path: Path) -> None:
    found = read_any(bench(tmp_path))
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "a").touch()
    with pytest.raises(InputError, match="is there already"):
        write_imported(found, tmp_path / "taken")
    with pytest.raises(UsageError, match="cannot be written"):
        write_imported(found, tmp_path / "no" / "where")
    with pytest.raises(InputError, match="is a folder; name a file"):
        write_imported(found, tmp_path / "taken", to="experiment", told=TOLD)
    with pytest.raises(UsageError, match="holds requests, which cannot become steps"):
        write_imported(found, tmp_path / "s.csv", to="steps")
    statistics = read_any(prometheus(tmp_path))
    with pytest.raises(UsageError, match="holds statistics, which cannot become tracev2"):
        write_imported(statistics, tmp_path / "t", to="tracev2")
    assert {p.name for p in tmp_path.iterdir()} == {"bench.json", "metrics.prom", "taken"}
