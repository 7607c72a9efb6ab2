"""Windows of the three-number model from files: sweeps, experiments, traces, other tools' runs."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tailcast.deployment import Deployment
from tailcast.errors import InputError, TailcastError, UsageError
from tailcast.queueing.server import ServerLimits
from tailcast.queueing.sweep import is_sweep, read_sweep, sweep_runs
from tailcast.queueing.window_table import is_window_table, read_window_table
from tailcast.queueing.windows import Window
from tailcast.traces.experiment import Experiment, attempt_experiments
from tailcast.traces.importers.reading import read_any
from tailcast.traces.queue_windows import experiment_windows, trace_windows
from tailcast.traces.run_summary import RunSummary, Stage
from tailcast.traces.trace_latencies import trace_latencies
from tailcast.traces.trace_server import trace_deployment
from tailcast.traces.tracev2 import Trace

_YAML = (".yaml", ".yml")
_CACHED = "prompts count whole: what a prefix cache spared shows as a smaller beta"


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSources:
    """Windows that were read, and what was left out.

    Parameters
    ----------
    windows : tuple of Window
        In the order of the paths.
    files : tuple of str
        What they came from.
    deployment : Deployment or None
        That the files name, or else the one that was asked for.
    limits : ServerLimits or None
        Of its engine, where the files name it; the waiting room is as large as the batch.
    notes : tuple of str
        One sentence each: what was left out, converted or assumed.
    """

    windows: tuple[Window, ...]
    files: tuple[str, ...]
    deployment: Deployment | None
    limits: ServerLimits | None
    notes: tuple[str, ...]


def read_windows(
    paths: Sequence[Path], width: float, deployment: Deployment | None = None
) -> QueueSources:
    """Windows of any files that hold rates, lengths and mean latencies.

    Parameters
    ----------
    paths : sequence of Path
        Guidellm sweeps, tables of windows, experiments or folders of them, TraceV2, or what
        ``tailcast trace formats`` lists.
    width : float
        Seconds of a window of a trace.
    deployment : Deployment, optional
        Only runs of its LLM, accelerator and parallelism are taken.

    Returns
    -------
    QueueSources
        At least one window.

    Raises
    ------
    InputError
        If a file cannot be read or nothing in it can be used.
    UsageError
        If the files are of different deployments and none was asked for.
    """
    found = _Found(deployment)
    for path in paths:
        if not path.exists():
            raise InputError(f"{path}: no such file or folder")
        if is_sweep(path):
            found.add_sweep(path)
        elif is_window_table(path):
            found.windows += read_window_table(path)
        elif _holds_experiments(path):
            found.add_experiments(path)
        else:
            found.add_other(path, width)
    if not found.windows:
        raise InputError("; ".join(["no window with a latency was found", *found.notes]))
    return QueueSources(
        windows=tuple(found.windows),
        files=tuple(str(path) for path in paths),
        deployment=found.named or deployment,
        limits=None if found.named is None else _limits(found.named),
        notes=tuple(dict.fromkeys(found.notes)),
    )


def _holds_experiments(path: Path) -> bool:
    if path.is_dir():
        return any(path.glob("*.y*ml")) and not (path / "header.yaml").exists()
    if path.suffix not in _YAML:
        return False
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    return {"deployment", "workload"} <= {line.split(":")[0] for line in lines}


def _kind(deployment: Deployment) -> str:
    parallel = deployment.tensor_parallel
    return f"{deployment.llm.name} on {parallel} x {deployment.accelerator.name}"


def _limits(deployment: Deployment) -> ServerLimits:
    engine = deployment.engine
    return ServerLimits(
        max_batch=engine.max_num_seqs,
        max_queue=engine.max_num_seqs,
        max_batched_tokens=engine.max_num_batched_tokens,
    )


class _Found:
    """Windows so far, all of one deployment."""

    def __init__(self, wanted: Deployment | None) -> None:
        self.windows: list[Window] = []
        self.notes: list[str] = []
        self.named: Deployment | None = None
        self._wanted = wanted

    def _is_same(self, other: Deployment) -> bool:
        if self._wanted is not None and _kind(other) != _kind(self._wanted):
            return False
        self.named = self.named or other
        if _kind(other) != _kind(self.named):
            raise UsageError(
                f"runs of {_kind(self.named)} and of {_kind(other)} have different numbers; "
                "name one with --model, --gpu and -tp"
            )
        return True

    def add_sweep(self, path: Path) -> None:
        """Take the runs that the published fits use."""
        kept = read_sweep(path)
        n_run = sweep_runs(path)
        self.windows += kept
        self.notes.append(
            f"{path}: {len(kept)} of {n_run} runs; left out are those at full throughput and, of "
            "each shape, the two highest rates, where the server was past its batch cap; TTFT is "
            "the median"
        )

    def add_experiments(self, path: Path) -> None:
        """Take experiments of the deployment, one window a stage."""
        left: Counter[str] = Counter()
        for run in attempt_experiments(path):
            if not isinstance(run, Experiment):
                left[f"not usable ({run.error})"] += 1
            elif not self._is_same(run.deployment):
                left["of another deployment"] += 1
            else:
                self._add_experiment(run, left)
        self.notes += [f"{path}: {n} runs left out, {why}" for why, n in left.items()]

    def _add_experiment(self, run: Experiment, left: Counter[str]) -> None:
        try:
            windows = experiment_windows(run)
        except InputError:
            left["without a mean latency at a rate"] += 1
            return
        share = 1.0 / run.deployment.data_parallel
        self.windows += [_of_replica(window, share) for window in windows]
        self.notes.append(_CACHED)

    def add_other(self, path: Path, width: float) -> None:
        """Take a trace in windows of a width, or the stages of a run's summary."""
        read = read_any(path)
        self.notes += [f"{path}: {note}" for note in read.notes]
        if isinstance(read.content, Trace):
            self._add_trace(read.content, path, width)
        elif isinstance(read.content, tuple):
            for run in read.content:
                self._add_summary(run, path)
        else:
            raise InputError(f"{path}: holds engine steps, not latencies of requests")

    def _add_trace(self, trace: Trace, path: Path, width: float) -> None:
        replicas = trace.header.server.data_parallel or 1
        try:
            if not self._is_same(trace_deployment(trace.header)):
                self.notes.append(f"{path}: left out, of another deployment")
                return
        except UsageError:
            raise
        except TailcastError as error:
            self.notes.append(f"{path}: taken for the deployment named ({error})")
        whole = _length(trace)
        if whole < width:
            self.notes.append(f"{path}: shorter than {width:g} s, taken as one window")
        windows = trace_windows(trace, min(width, whole))
        self.windows += [_of_replica(window, 1.0 / replicas) for window in windows]
        self.notes.append(_CACHED)

    def _add_summary(self, run: RunSummary, path: Path) -> None:
        share, left = 1.0 / (run.server.data_parallel or 1), 0
        for place, stage in enumerate(run.stages):
            window = _stage_window(stage, f"{run.id} stage {place}")
            if window is None:
                left += 1
            else:
                self.windows.append(_of_replica(window, share))
        if left:
            self.notes.append(
                f"{path}: {left} of {len(run.stages)} stages left out: rate, lengths or mean "
                "latency are not known"
            )
        self.notes.append(_CACHED)


def _length(trace: Trace) -> float:
    """Seconds between the first requests having filled the batch and the last being sent."""
    seen, sent = trace_latencies(trace), trace.injection
    if not seen.counted.any():
        raise InputError("no request of the trace succeeded, so it has no windows")
    return float(np.nanmax(sent) - np.nanmin(sent) - np.nanmedian(seen.e2e))


def _mean_ttft(stage: Stage) -> float:
    """Mean TTFT; the median where the mean is impossible, as sentinels in some tools make it."""
    mean, low = stage.value("ttft", "mean"), stage.value("ttft", "min")
    impossible = mean <= 0 or mean < low or mean > stage.value("ttft", "max")
    return stage.value("ttft", "p50") if impossible or math.isnan(mean) else mean


def _of_replica(window: Window, share: float) -> Window:
    throughput = window.throughput * share
    return replace(window, rate=window.rate * share, throughput=throughput)


def _stage_window(stage: Stage, label: str) -> Window | None:
    ttft = _mean_ttft(stage)
    itl = [stage.value(metric, "mean") for metric in ("itl", "tpot")]
    gap = itl[0] if math.isfinite(itl[0]) else itl[1]
    rate = stage.rate
    if not math.isfinite(rate) and stage.duration > 0:
        rate = stage.n_requests / stage.duration
    lengths = (stage.input_tokens.mean, stage.output_tokens.mean)
    if not all(map(math.isfinite, (rate, *lengths))) or (math.isnan(ttft) and math.isnan(gap)):
        return None
    return Window(
        tokens_in=lengths[0],
        tokens_out=max(1.0, lengths[1]),
        rate=rate,
        ttft=ttft,
        itl=gap,
        n_request=max(1, stage.n_requests),
        label=label,
    )
