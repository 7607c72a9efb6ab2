"""`tailcast tune`: the three numbers window by window, from a live server or from recorded runs."""

import signal
import time
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tailcast.cli.emit import emit, say
from tailcast.cli.options import Format, FormatOption, OutputOption
from tailcast.cli.queue import GpuOption, ModelOption, SeqsOption, TokensOption, TpOption
from tailcast.errors import InputError, UsageError

if TYPE_CHECKING:
    from tailcast.observe.follow import FollowedWindow, Follower, FollowSettings
    from tailcast.queueing.windows import Window

CI_PROB = 0.89
_LEAST_POLL, _MOST_POLL = 0.2, 15.0
# looks that may fail at the start before the command gives up
_PATIENCE = 3


class Baseline(StrEnum):
    """Filters to compare with."""

    wva = "wva"


PathArgument = Annotated[
    Path | None,
    typer.Argument(
        help="Recorded instead of live: sweep, experiments, trace, or another tool's runs."
    ),
]
PrometheusOption = Annotated[
    str | None,
    typer.Option("--prometheus", help="Prometheus server, or a vLLM's own /metrics page."),
]
SelectorOption = Annotated[
    str, typer.Option("--selector", help='Label matchers, e.g. namespace="prod",model_name="x".')
]
NumbersOption = Annotated[
    str | None,
    typer.Option("--numbers", help="First belief: 6.7ms+-30%,20us+-40%,55ns+-50%."),
]
StateOption = Annotated[
    Path | None, typer.Option("--state", help="Saved after every window; read at the start.")
]
ListenOption = Annotated[
    str | None, typer.Option("--listen", help="Port (or HOST:PORT) of a metrics page of its own.")
]
WindowOption = Annotated[str, typer.Option("--window", help="Length of a window, e.g. 60s.")]
CountOption = Annotated[
    int | None, typer.Option("--windows", min=1, help="Stop after so many; never by default.")
]
BaselineOption = Annotated[
    Baseline | None, typer.Option("--baseline", help="wva: WVA's filter beside it, faults included")
]


def tune(
    path: PathArgument = None,
    prometheus: PrometheusOption = None,
    selector: SelectorOption = "",
    numbers: NumbersOption = None,
    model: ModelOption = None,
    gpu: GpuOption = None,
    tensor_parallel: TpOption = 1,
    max_num_seqs: SeqsOption = 256,
    max_num_batched_tokens: TokensOption = 8192,
    state: StateOption = None,
    listen: ListenOption = None,
    window: WindowOption = "60s",
    windows: CountOption = None,
    baseline: BaselineOption = None,
    style: FormatOption = Format.table,
    output: OutputOption = None,
) -> None:
    """Follow a server: estimates of the three numbers with intervals, drift, state, metrics.

    One line a window as it ends (json: one object a line); with -o or markdown, all at the end.
    Ctrl-C ends it; the state is whole after every window.
    """
    from tailcast.observe.follow import FollowSettings
    from tailcast.queueing.wva import WvaTuner
    from tailcast.units import parse_duration

    if (path is None) == (prometheus is None):
        raise UsageError("give a recorded run, or --prometheus URL, not both")
    if path is not None and (selector or listen):
        raise UsageError("--selector and --listen go with --prometheus")
    settings = FollowSettings(window=parse_duration(window))
    follower = _follower(
        state, settings, numbers, model, gpu, tensor_parallel, max_num_seqs, max_num_batched_tokens
    )
    if baseline is not None:
        follower.baseline = WvaTuner(follower.tuner.limits.max_batch)
    lines = _Lines(follower, style, output)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        if path is not None:
            for found in _recorded(follower, _windows(path, settings.window), windows):
                lines.add(found)
                _save(follower, state)
        else:
            _follow(follower, str(prometheus), selector, listen, windows, state, lines.add)
    except KeyboardInterrupt:
        say("stopped; the state is that of the last whole window")
    finally:
        lines.close()


def _follower(
    state: Path | None,
    settings: "FollowSettings",
    numbers: str | None,
    model: str | None,
    gpu: str | None,
    tensor_parallel: int,
    max_num_seqs: int,
    max_num_batched_tokens: int,
) -> "Follower":
    from tailcast.autoscale.replica import Source, named_deployment, uncertain_numbers
    from tailcast.observe.follow import Follower, restore_follower
    from tailcast.queueing.parameter_prior import hardware_prior
    from tailcast.queueing.server import ServerLimits
    from tailcast.queueing.tuner import Tuner

    if state is not None and state.exists():
        try:
            text = state.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{state} cannot be read: {error}") from None
        follower = restore_follower(text, settings, str(state))
        say(f"going on from {state}: {follower.tuner.n_window} windows so far")
        return follower
    limits = ServerLimits(max_batch=max_num_seqs, max_batched_tokens=max_num_batched_tokens)
    if numbers is not None:
        prior = uncertain_numbers(numbers)
    elif model is not None and gpu is not None:
        source = Source(llm_name=model, gpu=gpu, tensor_parallel=tensor_parallel)
        prior = hardware_prior(named_deployment(source, limits))
    else:
        raise UsageError("name a first belief: --model and --gpu, --numbers, or a --state file")
    return Follower(tuner=Tuner(prior, limits), settings=settings)


def _windows(path: Path, width: float) -> "list[Window]":
    """Windows of a recorded run, whatever the path holds."""
    from tailcast.inference.queue_sources import read_windows

    found = read_windows([path], width)
    for note in found.notes:
        say(note)
    return list(found.windows)


def _recorded(
    follower: "Follower", windows: "list[Window]", most: int | None
) -> "Iterator[FollowedWindow]":
    import math

    from tailcast.observe.follow import FollowedWindow
    from tailcast.queueing.counters import CountedWindow

    for place, window in enumerate(windows[:most], start=1):
        update = follower.tuner.update(window)
        both = math.isfinite(window.ttft) and math.isfinite(window.itl)
        cycle = None
        if follower.baseline is not None and both:
            cycle = follower.baseline.update(window)
        counted = CountedWindow(
            window=window, reason="", n_request=window.n_request, duration=math.nan
        )
        yield FollowedWindow(
            replica=window.label,
            time=float(place),
            counted=counted,
            update=update,
            baseline=cycle,
            cached_share=math.nan,
        )


def _follow(
    follower: "Follower",
    url: str,
    selector: str,
    listen: str | None,
    most: int | None,
    state: Path | None,
    show: "Callable[[FollowedWindow], None]",
) -> None:
    from contextlib import nullcontext

    from tailcast.observe.exposition import MetricsPage, parse_listen
    from tailcast.observe.live import live_source
    from tailcast.observe.settings import ServerError
    from tailcast.report.tune import exposition

    source = live_source(url, selector)
    pause = min(max(follower.settings.window / 4.0, _LEAST_POLL), _MOST_POLL)
    n_seen = n_failed = 0
    last: FollowedWindow | None = None
    with MetricsPage(*parse_listen(listen)) if listen else nullcontext() as page:
        if page is not None:
            say(f"metrics at port {page.port}")
            page.show(exposition(follower, last, n_failed, CI_PROB))
        while True:
            began = time.monotonic()
            try:
                for last in follower.poll(source, time.time()):
                    n_seen += 1
                    show(last)
                    _save(follower, state)
                    if most is not None and n_seen >= most:
                        break
            except ServerError as error:
                n_failed += 1
                say(f"look {n_failed} failed: {error}")
                if follower.since < 0 and n_failed >= _PATIENCE:
                    raise
            if page is not None:
                page.show(exposition(follower, last, n_failed, CI_PROB))
            if most is not None and n_seen >= most:
                return
            time.sleep(max(0.0, pause - (time.monotonic() - began)))


def _save(follower: "Follower", state: Path | None) -> None:
    if state is not None:
        from tailcast.observe.follow import save_state

        save_state(follower, state)


class _Lines:
    """Prints windows as they come, or all at the end."""

    def __init__(self, follower: "Follower", style: Format, output: Path | None) -> None:
        self._follower, self._style, self._output = follower, style, output
        self._live = output is None and style is not Format.markdown
        self._texts: list[str] = []
        self._rows: list[list[str]] = []

    def add(self, window: "FollowedWindow") -> None:
        """Take one."""
        from tailcast.report.tune import tune_line, tune_row

        tuner = self._follower.tuner
        if self._style is Format.json:
            self._put(tune_line(window, tuner, self._follower.baseline, CI_PROB))
            return
        self._rows.append(tune_row(window, tuner, CI_PROB))
        if self._live:
            self._put(*self._new_lines())

    def _new_lines(self) -> list[str]:
        from tailcast.report.tables import render_rows
        from tailcast.report.tune import HEADER

        first = len(self._rows) == 1
        if self._style is Format.csv:
            return render_rows(HEADER, self._rows[-1:], "csv").split("\n")[0 if first else 1 :]
        cells = [HEADER, self._rows[-1]] if first else [self._rows[-1]]
        widths = (20, 21, 8, 9, 8, 8, 22, 22, 22, 0)
        return [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in cells
        ]

    def _put(self, *lines: str) -> None:
        for line in lines:
            if self._live:
                print(line, flush=True)
            else:
                self._texts.append(line)

    def close(self) -> None:
        """Write what was held back."""
        from tailcast.report.tables import render_rows
        from tailcast.report.tune import HEADER

        if self._live:
            return
        if self._style is Format.json:
            emit("\n".join(self._texts), self._output)
        else:
            emit(render_rows(HEADER, self._rows, self._style.value), self._output)
