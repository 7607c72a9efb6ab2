"""Bars of the loop of traces, measured: ``python benchmarks/loop_bars.py [BAR...]``.

Bars: replay-8b and replay-32b (half of a public run predicts the other half), cpu (a trace of a
real engine on a CPU predicts another load), time (update with 10 000 requests). Real measurements
are looked for in ``../shared/data``; a bar that needs them is left out where they are absent.
"""

import csv
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from tailcast.artifacts import DEFAULT_POSTERIOR
from tailcast.catalog.accelerators import accelerator
from tailcast.catalog.llms import llm
from tailcast.coefficients import Coefficients, step_law
from tailcast.deployment import Deployment, EngineSettings
from tailcast.engine.deployment_limits import deployment_limits
from tailcast.engine.run import simulate
from tailcast.inference.fit import Fit, fit
from tailcast.inference.forward import RunInput
from tailcast.inference.nuts import Sampler
from tailcast.inference.recorded import Stated, read_recorded
from tailcast.inference.trace_input import StagedTrace, staged_trace, trace_run, trace_runs
from tailcast.inference.tree import population_of
from tailcast.inference.update import update
from tailcast.latency_model import LatencyModel, load_latency_model
from tailcast.measurement import measured_draws
from tailcast.posteriors import Posterior, load_posterior
from tailcast.prediction import predictive
from tailcast.report.tables import render_rows
from tailcast.request import request_table
from tailcast.scoring.score import Score, score
from tailcast.sensitivity import median_coefficients
from tailcast.streams import stream
from tailcast.traces.tracev2 import Trace

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT.parent / "shared" / "data"
SETS = ("RTXPRO6000__Llama-3.1-8B", "RTXPRO6000__Qwen3-32B")
BARS = {(m, s): 0.15 for m in ("ttft", "tpot") for s in ("mean", "p90")}
CPU_BARS = {("ttft", "mean"): 0.25, ("itl", "mean"): 0.15}
HEADER = ["set", "predicted", "metric", "stat", "observed", "median", "90 % interval", "error"]


def updated(parent: Posterior, run: RunInput, seed: int = 0) -> Posterior:
    """Posterior after one more run."""
    model = parent.latency_model
    fitted = update(
        model,
        parent.tree(),
        parent.population,
        parent.evidence(),
        [run],
        seed=seed,
        patient=True,
        report=_say,
    )
    found = fitted.diagnostics
    print(
        f"{run.name}: r-hat {found.rhat:.3f}, bulk ESS {found.ess_bulk:.0f}, "
        f"{found.divergences} divergences"
    )
    return as_posterior(model, fitted)


def as_posterior(model: LatencyModel, fitted: Fit) -> Posterior:
    """A fit that predictions can be made with, without a folder."""
    return Posterior(
        name="benchmark",
        latency_model=model,
        population=population_of(fitted.tree, model),
        card={},
        path=Path(),
    )


def scores(
    posterior: Posterior, deployment: Deployment, staged: StagedTrace, stage: int
) -> list[Score]:
    """Scores of one stage, predicted by replaying all recorded arrivals."""
    prediction = predictive(
        posterior, deployment, lambda _: staged.requests, n_draw=400, seed=1, n_seed=1
    )
    found = []
    for o in staged.observed:
        if o.stage == stage and o.statistic in prediction.stats:
            draws = measured_draws(prediction, posterior, o.metric, o.statistic, o.stage, 1)
            found.append(score(o.metric, o.statistic, draws, o.value))
    return found


def rows(name: str, what: str, found: list[Score], bars: Mapping[tuple[str, str], float]) -> None:
    """Print scores beside their bars, and the coverage."""
    cells = []
    for own in found:
        bar = bars.get((own.metric, own.statistic))
        error = own.quantiles["q50"] / own.observed - 1
        verdict = (
            "" if bar is None else f" ({'meets' if abs(error) <= bar else 'MISSES'} {bar:.0%})"
        )
        span = f"{1e3 * own.quantiles['q05']:.1f} - {1e3 * own.quantiles['q95']:.1f}"
        cells.append(
            [
                name,
                what,
                own.metric,
                own.statistic,
                f"{1e3 * own.observed:.1f} ms",
                f"{1e3 * own.quantiles['q50']:.1f} ms",
                span,
                f"{error:+.1%}{verdict}",
            ]
        )
    print(render_rows(HEADER, cells, "table"))
    held = np.mean([own.covered(90) for own in found])
    print(f"90 % intervals hold {held:.0%} of {len(found)} statistics\n")


def replay_bar(name: str) -> None:
    """Half of the requests of a public run predict the other half, all arrivals replayed."""
    folder = SHARED / "public" / "llmservingsim-bench"
    if not folder.is_dir():
        print("replay: left out, the public runs are not there")
        return
    parent = load_posterior(DEFAULT_POSTERIOR)
    (one,) = read_recorded(folder / f"requests_{name}.csv.gz", Stated(gpu="rtx-pro-6000"))
    if one.trace is None:
        return
    if one.deployment.accelerator.name in parent.card["scope"]["accelerator"]:
        print("replay: the parent has seen this accelerator already, so this is no test of it")
    order = np.argsort(np.argsort(one.trace["arrival_time"], kind="stable"))
    halves = {"2nd half": order * 2 // len(order), "the others": order % 2}
    for label, group in halves.items():
        staged = staged_trace(one.trace, groups=group.astype(np.int64))
        run = trace_run(staged, one.deployment, f"{name} {label}", parent.latency_model)
        half = replace(run, outputs=tuple(o for o in run.outputs if o.stage == 0))
        found = scores(updated(parent, half), one.deployment, staged, 1)
        rows(name, label, found, BARS)


def cpu_deployment(llm_folder: Path, host: Path) -> Deployment:
    """What recorded the CPU traces."""
    return Deployment(
        llm=llm(llm_folder),
        accelerator=accelerator(str(host)),
        kv_blocks=8192,
        engine=EngineSettings(
            version="0.32.0",
            max_num_seqs=64,
            max_num_batched_tokens=512,
            max_model_len=2048,
            block_size=32,
            prefix_caching=False,
            async_scheduling=False,
            enforce_eager=True,
        ),
    )


def by_phase(folder: Path, trace: Trace) -> Trace:
    """Trace with its load phases, which stand beside it."""
    with (folder / "requests_ext.csv").open() as file:
        phase = {row["request_id"]: int(row["phase"]) for row in csv.DictReader(file)}
    return trace.with_column("group", np.array([phase[i] for i in trace["request_id"].tolist()]))


def cpu_bar() -> None:
    """Two load phases of a real engine on a CPU predict the third; quiet predicts busy."""
    from tempfile import TemporaryDirectory

    source = SHARED / "cpu_engine_trace"
    if not source.is_dir():
        print("cpu: left out, the recorded traces are not there")
        return
    sys.path.insert(0, str(ROOT / "tests"))
    from real_engine.tiny_llm import write_folder, write_host

    with TemporaryDirectory() as scratch:
        write_folder(Path(scratch) / "tiny")
        deployment = cpu_deployment(Path(scratch) / "tiny", write_host(Path(scratch)))
    model = load_latency_model("cpu-engine")
    staged = {}
    for name, folder in (("quiet", source / "quiet"), ("busy", source)):
        (one,) = read_recorded(folder, Stated(deployment=deployment))
        if one.trace is not None:
            staged[name] = staged_trace(by_phase(folder, one.trace), token_times=one.token_times)
    runs = trace_runs(staged["quiet"], deployment, "quiet", model)
    for phase in (2, 0, 1):
        part = [run for k, run in enumerate(runs) if k != phase]
        posterior = as_posterior(
            model, fit(model, part, seed=1, sampler=Sampler(draws=500, tune=300), report=_say)
        )
        found = scores(posterior, deployment, staged["quiet"], phase)
        rows("quiet", f"phase {phase}", found, CPU_BARS)
        if phase == 2:
            rows("busy", "phase 0", scores(posterior, deployment, staged["busy"], 0), CPU_BARS)


def time_bar() -> None:
    """Update of the shipped posterior with one trace of 10 000 requests."""
    parent = load_posterior(DEFAULT_POSTERIOR)
    deployment = Deployment(llm=llm("llama-3.1-8b"), accelerator=accelerator("h100-sxm"))
    rng, n = stream(0, "loop bars"), 10_000
    requests = request_table(
        np.cumsum(rng.exponential(1 / 12.0, n)),
        rng.integers(50, 1500, n),
        rng.integers(20, 500, n),
    )
    empty = RunInput(
        name="synthetic 10 000",
        deployment=deployment,
        requests=lambda _: requests,
        outputs=(),
        content="synthetic 10 000",
        n_seed=1,
    )
    base = median_coefficients(parent, empty, 0)
    trace = synthetic_trace(base, deployment, empty)
    run = trace_run(staged_trace(trace), deployment, "synthetic", parent.latency_model)
    begin, cpu = time.perf_counter(), time.process_time()
    after = updated(parent, run)
    wall = time.perf_counter() - begin
    print(
        f"update with {n} requests: {wall:.0f} s wall (bar 60 s), "
        f"{time.process_time() - cpu:.0f} s CPU of this process, "
        f"{after.population.n_draw} draws\n"
    )


def synthetic_trace(base: Coefficients, deployment: Deployment, run: RunInput) -> Trace:
    """Trace of a simulated run."""
    from tailcast.engine.run_export import simulated_trace
    from tailcast.traces.trace_header import TraceHeader
    from tailcast.traces.trace_server import server_of

    law = step_law(base, deployment)
    requests = run.requests(0)
    found = simulate(requests, deployment_limits(deployment), law, records=True)
    if found.records is None:
        raise RuntimeError("the engine kept no records")
    header = TraceHeader(mode="generated", server=server_of(deployment))
    return simulated_trace(requests, found.records[0], law, header)


def _say(line: str) -> None:
    print(f"  {line}", file=sys.stderr, flush=True)


ALL: dict[str, Callable[[], None]] = {
    "replay-8b": partial(replay_bar, SETS[0]),
    "replay-32b": partial(replay_bar, SETS[1]),
    "cpu": cpu_bar,
    "time": time_bar,
}


def main(names: list[str]) -> None:
    """Measure the bars that are named, all by default."""
    for name in names or list(ALL):
        if name not in ALL:
            raise SystemExit(f"no bar {name!r}; known: {', '.join(ALL)}")
        print(f"== {name}", flush=True)
        ALL[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
