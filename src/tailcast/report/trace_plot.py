"""Pictures of recorded runs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import UsageError
from tailcast.traces.importers.imported import Imported
from tailcast.traces.run_summary import RunSummary
from tailcast.traces.step_log import StepLog
from tailcast.traces.step_noise import step_noise
from tailcast.traces.token_times import TokenTimes, token_gaps
from tailcast.traces.trace_latencies import trace_latencies
from tailcast.traces.tracev2 import Trace

type Floats = NDArray[np.float64]

_SIZE = (10.0, 7.0)
_COLOURS = ("#1f5a91", "#c8553d", "#3f8f5b", "#8a5aa8", "#b58900", "#5c6370")
_MOST_POINTS = 20_000
_ENDINGS = (".svg", ".png", ".pdf")
_STATISTICS = ("mean", "p50", "p90", "p99")


def plot_imported(found: Imported, path: Path) -> None:
    """Draw what was imported.

    Parameters
    ----------
    found : Imported
        Trace: arrivals, latencies by distribution and over time. Statistics: metrics by load.
        Steps: durations by batch and their noise.
    path : pathlib.Path
        ``.svg``, ``.png`` or ``.pdf`` file; the same content gives the same bytes.

    Raises
    ------
    UsageError
        If the ending is another, matplotlib is missing or the file cannot be written.
    """
    if path.suffix.lower() not in _ENDINGS:
        raise UsageError(f"{path}: a plot ends in {', '.join(_ENDINGS)}")
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError as error:
        raise UsageError("plots need matplotlib; install tailcast[plots]") from error
    figure = Figure(figsize=_SIZE, layout="constrained")
    content = found.content
    if isinstance(content, Trace):
        _draw_trace(figure, content, found.token_times)
    elif isinstance(content, StepLog):
        _draw_steps(figure, content)
    else:
        _draw_runs(figure, content)
    figure.suptitle(f"{Path(found.path).name} ({found.format})", fontsize=11)
    metadata = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix.lower())
    try:
        with mpl.rc_context({"svg.hashsalt": "tailcast"}):
            figure.savefig(path, dpi=110, metadata=metadata)
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror})") from error


def _draw_trace(figure: Any, trace: Trace, times: TokenTimes | None) -> None:
    latencies = trace_latencies(trace)
    axes = figure.subplots(2, 2)
    groups = trace.columns.get("group", np.zeros(len(trace), dtype=np.int64))
    _arrivals(axes[0, 0], trace["arrival_time"])
    if not latencies.counted.any():
        prompts = trace["input_tokens"] + trace["prefix_length"]
        _lengths(axes[0, 1], {"prompt": prompts, "output": trace["output_tokens"]})
        _scatter(axes[1, 0], trace["arrival_time"], prompts, "prompt tokens", groups)
        _scatter(axes[1, 1], trace["arrival_time"], trace["output_tokens"], "output tokens", groups)
        return
    curves = {"TTFT": latencies.ttft, "TPOT": latencies.tpot, "E2E": latencies.e2e}
    if times is not None:
        row, gap = token_gaps(times)
        curves["ITL"] = gap[latencies.counted[row]]
    _distributions(axes[0, 1], curves)
    _scatter(axes[1, 0], trace["arrival_time"], latencies.ttft * 1e3, "TTFT, ms", groups)
    _scatter(axes[1, 1], trace["arrival_time"], latencies.tpot * 1e3, "TPOT, ms", groups)
    failed = trace["status"] != "ok"
    if failed.any():
        for axis in axes[1]:
            low = axis.get_ylim()[0]
            axis.plot(
                trace["arrival_time"][failed],
                np.full(failed.sum(), low),
                "|",
                color=_COLOURS[1],
                label=f"{failed.sum()} failed",
            )
            axis.legend(frameon=False, fontsize=8)


def _plain_log(axis: Any, which: str) -> None:
    """Logarithmic axis with plain numbers at 1 and 3."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    getattr(axis, f"set_{which}scale")("log")
    side = getattr(axis, f"{which}axis")
    side.set_major_locator(LogLocator(subs=(1, 3), numticks=12))
    side.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    side.set_minor_formatter(NullFormatter())


def _arrivals(axis: Any, times: Floats) -> None:
    span = float(times.max()) or 1.0
    edges = np.linspace(0, span, min(60, max(2, len(times) // 8)) + 1)
    counts, _ = np.histogram(times, edges)
    axis.stairs(counts / np.diff(edges), edges, fill=True, color=_COLOURS[0], alpha=0.35)
    axis.stairs(counts / np.diff(edges), edges, color=_COLOURS[0], lw=1)
    axis.axhline(len(times) / span, color=_COLOURS[5], lw=1, ls="--")
    axis.set(xlabel="seconds", ylabel="arrivals per second", title="Arrivals (dashed: mean)")
    axis.set_xlim(0, span)
    axis.set_ylim(bottom=0)


def _distributions(axis: Any, curves: dict[str, Floats]) -> None:
    for colour, (name, values) in zip(_COLOURS, curves.items(), strict=False):
        known = np.sort(values[np.isfinite(values) & (values > 0)])
        if len(known):
            kept = known[np.unique(np.linspace(0, len(known) - 1, 2000).astype(int))]
            share = np.linspace(0, 1, len(kept))
            axis.plot(kept * 1e3, share, color=colour, label=name, drawstyle="steps-post")
    _plain_log(axis, "x")
    axis.tick_params(axis="x", labelsize=8)
    axis.set_ylim(0, 1)
    axis.axhline(0.99, color=_COLOURS[5], lw=0.8, ls=":")
    axis.set(xlabel="ms", ylabel="share at most", title="Latencies (dotted: 99 %)")
    axis.legend(frameon=False, fontsize=8)


def _lengths(axis: Any, curves: dict[str, NDArray[np.int64]]) -> None:
    for colour, (name, values) in zip(_COLOURS, curves.items(), strict=False):
        known = np.sort(values[values > 0])
        if len(known):
            kept = known[np.unique(np.linspace(0, len(known) - 1, 2000).astype(int))]
            share = np.linspace(0, 1, len(kept))
            axis.plot(kept, share, color=colour, label=f"{name} tokens", drawstyle="steps-post")
    _plain_log(axis, "x")
    axis.tick_params(axis="x", labelsize=8)
    axis.set_ylim(0, 1)
    axis.set(xlabel="tokens", ylabel="share at most", title="Lengths")
    axis.legend(frameon=False, fontsize=8)


def _scatter(axis: Any, x: Floats, y: Floats, label: str, groups: NDArray[np.int64]) -> None:
    good = np.isfinite(x) & np.isfinite(y) & (y > 0)
    step = max(1, int(good.sum()) // _MOST_POINTS)
    names = np.unique(groups)
    for index, group in enumerate(names.tolist()):
        rows = np.flatnonzero(good & (groups == group))[::step]
        colour = _COLOURS[index % len(_COLOURS)]
        size = 5 if good.sum() < 2000 else 3
        axis.plot(x[rows], y[rows], ".", ms=size, alpha=0.6, color=colour, mec="none")
        axis.plot([], [], "o", ms=5, color=colour, label=f"group {group}")
    _plain_log(axis, "y")
    title = f"{label.removesuffix(', ms')} over time"
    axis.set(xlabel="seconds of arrival", ylabel=label.replace(", ", " in "), title=title)
    if 1 < len(names) <= len(_COLOURS):
        axis.legend(frameon=False, fontsize=8)


def _draw_steps(figure: Any, log: StepLog) -> None:
    axes = figure.subplots(2, 2)
    noise = step_noise(log)
    step = max(1, len(log) // _MOST_POINTS)
    rows = np.arange(0, len(log), step)
    prefill = log.prefill_tokens > 0
    elapsed = log.elapsed * 1e3
    for mine, colour, name in (
        (prefill, _COLOURS[1], "with prefill"),
        (~prefill, _COLOURS[0], "decode only"),
    ):
        own = rows[mine[rows]]
        style: dict[str, Any] = {"ms": 3, "alpha": 0.5, "color": colour, "mec": "none"}
        axes[0, 0].plot(log.prefill_tokens[own], elapsed[own], ".", **style)
        axes[0, 1].plot(log.decode_requests[own], elapsed[own], ".", **style)
        axes[0, 1].plot([], [], "o", ms=5, color=colour, label=name)
        axes[1, 0].plot(own, noise.residual[own], ".", **style)
    axes[0, 0].set(xlabel="prefill tokens in the step", ylabel="ms", title="Step duration")
    axes[0, 1].set(xlabel="decodes in the step", ylabel="ms", title="Step duration")
    axes[0, 1].legend(frameon=False, fontsize=8)
    for axis in axes[0]:
        _plain_log(axis, "y")
    axes[1, 0].axhline(0, color=_COLOURS[5], lw=0.8)
    axes[1, 0].set(xlabel="step", ylabel="log(elapsed / law)", title="Noise over time")
    known = noise.residual[np.isfinite(noise.residual)]
    counts, edges = np.histogram(known, bins=80)
    axes[1, 1].stairs(counts, edges, fill=True, color=_COLOURS[0], alpha=0.7)
    axes[1, 1].set(
        xlabel="log(elapsed / law)",
        ylabel="steps",
        title=f"Noise: sd {noise.sd:.2f}, skew {noise.skew:+.1f}, lag 1 {noise.lag1:.2f}",
    )


def _draw_runs(figure: Any, runs: Sequence[RunSummary]) -> None:
    """One panel a metric: statistics by stage, in order of load."""
    stages = [stage for run in runs for stage in run.stages]
    loads = np.array([s.concurrency or s.rate for s in stages], dtype=np.float64)
    x = loads if np.isfinite(loads).all() else np.arange(len(stages), dtype=np.float64)
    order = np.argsort(x, kind="stable")
    metrics = list(dict.fromkeys(metric for stage in stages for metric in stage.metrics))
    axes = figure.subplots(-(-len(metrics) // 2), 2 if len(metrics) > 1 else 1, squeeze=False)
    for axis in axes.flat[len(metrics) :]:
        axis.set_axis_off()
    for axis, metric in zip(axes.flat, metrics, strict=False):
        for colour, statistic in zip(_COLOURS, _STATISTICS, strict=False):
            y = np.array([s.value(metric, statistic) for s in stages])[order] * 1e3
            if np.isfinite(y).any():
                axis.plot(x[order], y, "o", ms=4, color=colour, label=statistic)
            for place, stage in zip(x.tolist(), stages, strict=True):
                for bound in stage.bounds:
                    if (bound.metric, bound.statistic) == (metric, statistic):
                        high = bound.high if np.isfinite(bound.high) else 2 * bound.low
                        ends = [bound.low * 1e3, high * 1e3]
                        axis.plot([place, place], ends, "-", lw=4, alpha=0.4, color=colour)
                        axis.plot([], [], "-", lw=4, alpha=0.4, color=colour, label=statistic)
        _plain_log(axis, "y")
        if not np.isfinite(loads).all():
            axis.set_xticks(x)
        closed = any(stage.concurrency for stage in stages)
        named = "users" if closed else "requests per second"
        axis.set(xlabel=named if np.isfinite(loads).all() else "stage", ylabel="ms", title=metric)
        axis.legend(frameon=False, fontsize=8)
