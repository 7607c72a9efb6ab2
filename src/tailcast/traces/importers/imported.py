"""What reading another tool's file gives."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tailcast.errors import UsageError, near_name
from tailcast.traces.importers.findings import Findings
from tailcast.traces.raw_table import Fault
from tailcast.traces.run_summary import RunSummary
from tailcast.traces.step_log import StepLog
from tailcast.traces.token_times import TokenTimes
from tailcast.traces.tracev2 import Trace

type Content = Trace | StepLog | tuple[RunSummary, ...]

CLOCKS = ("arrival", "queued")


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What a reader may be told; each format takes some of it and refuses the rest.

    Parameters
    ----------
    clock : str
        Instant that TTFT counts from where the file has several on the server: ``arrival``, or
        ``queued`` (the engine accepted the request).
    before : pathlib.Path, optional
        Earlier scrape that is taken off a scrape of counters.
    limit : int, optional
        At most so many requests of a workload, the first ones.
    window : tuple of float, optional
        Seconds from the start of a workload between which requests are taken.
    seed : int
        Seed of requests that are drawn from a description.
    """

    clock: str = "arrival"
    before: Path | None = None
    limit: int | None = None
    window: tuple[float, float] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.clock not in CLOCKS:
            raise UsageError(f"no clock {self.clock!r}; {near_name(self.clock, CLOCKS)}")
        if self.limit is not None and self.limit < 1:
            raise UsageError(f"the limit of requests must be at least 1, got {self.limit}")
        if self.window is not None and not 0 <= self.window[0] < self.window[1]:
            raise UsageError(f"the window must run forwards from 0 on, got {self.window}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """Content of a file in this project's terms, and what was done to get there.

    Parameters
    ----------
    format : str
        Name of the format it was read as.
    path : str
        File or folder.
    content : Trace, StepLog or tuple of RunSummary
        Requests one by one, engine steps one by one, or statistics of runs.
    token_times : TokenTimes, optional
        Times of the tokens of a trace.
    notes : tuple of str
        What was converted, assumed or refused.
    faults : tuple of Fault
        What makes the file say something else than what happened; severe ones first.
    counts : mapping of str to int
        Rows read, and rows left out by reason.
    """

    format: str
    path: str
    content: Content
    token_times: TokenTimes | None = None
    notes: tuple[str, ...] = ()
    faults: tuple[Fault, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """``trace``, ``steps`` or ``summary``."""
        if isinstance(self.content, Trace):
            return "trace"
        return "steps" if isinstance(self.content, StepLog) else "summary"


def imported(
    name: str, findings: Findings, content: Content, token_times: TokenTimes | None = None
) -> Imported:
    """Result of an importer.

    Parameters
    ----------
    name : str
        Format.
    findings : Findings
        What was noted while the file was read.
    content : Trace, StepLog or tuple of RunSummary
        What was read.
    token_times : TokenTimes, optional
        Times of the tokens of a trace.

    Returns
    -------
    Imported
        With the notes, faults and counts of `findings`.
    """
    return Imported(
        format=name,
        path=findings.path,
        content=content,
        token_times=token_times,
        notes=tuple(findings.notes),
        faults=tuple(sorted(findings.faults, key=lambda fault: not fault.severe)),
        counts=dict(findings.counts),
    )
