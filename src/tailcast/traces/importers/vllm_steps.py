"""vLLM's log with ``--enable-logging-iteration-details``: one line an engine step."""

import math
import re
from datetime import UTC, datetime

import numpy as np

from tailcast.errors import InputError
from tailcast.traces.importers.findings import Findings
from tailcast.traces.importers.imported import Imported, ReadOptions, imported
from tailcast.traces.importers.sample import Sample
from tailcast.traces.step_log import STEP_COLUMNS, StepLog, read_step_log

NAME = "vllm-steps"
CSV_NAME = "steps-csv"

_MARK = "Iteration("
_STEP = re.compile(
    r"(?:Engine (?P<engine>\d+): )?Iteration\((?P<iteration>\d+)\): "
    r"(?P<prefills>\d+) context requests, (?P<prefill_tokens>\d+) context tokens, "
    r"(?P<decodes>\d+) generation requests, (?P<decode_tokens>\d+) generation tokens, "
    r"iteration elapsed time: (?P<elapsed>[\d.]+) ms(?P<dummy> \(dummy\))?"
    r"(?:, \w+ KV cache usage: (?P<usage>[\d.]+)%)?"
)
_RANK = re.compile(r"EngineCore_DP(\d+)")
_UNIX = re.compile(r"(?<![\d.:-])(\d{9,10}\.\d+)(?![\d:-])")
_DATED = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,](\d+))?")
_UNDATED = re.compile(r"(?<![\d-])(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)(?:[.,](\d+))?")
# Lines of start-up that may come before the first step.
_SEARCHED_LINES = 200_000
_DAY = 86400.0
_LARGEST = 10**12


def recognises(sample: Sample) -> bool:
    """Whether a file is a log with lines of engine steps.

    Parameters
    ----------
    sample : Sample
        What may be one.

    Returns
    -------
    bool
        Start-up lines before the first step are searched through.
    """
    if sample.is_folder or not sample.head or sample.looks_like_json:
        return False
    if _MARK in sample.head:
        return "iteration elapsed time" in sample.head or "context requests" in sample.head
    if not re.search(r"\b(INFO|WARNING|DEBUG)\b", sample.head):
        return False
    try:
        for number, line in sample.lines():
            if _MARK in line and "context requests" in line:
                return True
            if number > _SEARCHED_LINES:
                break
    except InputError:
        return False
    return False


def recognises_csv(sample: Sample) -> bool:
    """Whether a file is a step log as this project writes it.

    Parameters
    ----------
    sample : Sample
        What may be one.

    Returns
    -------
    bool
        By the columns.
    """
    return sample.has_columns(*STEP_COLUMNS[2:7])


def read_csv(sample: Sample, options: ReadOptions) -> Imported:
    """Steps of a CSV file.

    Parameters
    ----------
    sample : Sample
        The file.
    options : ReadOptions
        Nothing of it applies.

    Returns
    -------
    Imported
        A step log.
    """
    findings = Findings(str(sample.path))
    log = read_step_log(sample.path)
    findings.count("read", len(log))
    return imported(CSV_NAME, findings, log)


def read(sample: Sample, options: ReadOptions) -> Imported:
    """Steps of a log.

    Lines are read whatever their prefix: vLLM's own (without a year, whole seconds), a Unix time
    (``%(created).6f``) or a dated one. Steps of several engines and of several starts of one are
    kept apart as segments; dummy steps of data parallel engines and steps without a request are
    left out and counted.

    Parameters
    ----------
    sample : Sample
        The log.
    options : ReadOptions
        Nothing of it applies.

    Returns
    -------
    Imported
        A step log.

    Raises
    ------
    InputError
        If no line can be read as a step.
    """
    findings = Findings(str(sample.path), lines=[])
    rows, bad, last = _parsed(sample, findings)
    if not rows:
        raise InputError(
            f"{sample.path}: no engine step in this log; start vLLM with "
            "--enable-logging-iteration-details"
        )
    lines = np.array([row[0] for row in rows])
    findings.lines = lines.tolist()
    for number in bad:
        cut = number == last
        findings.lines = [number]
        text = "ends in the middle of a step" if cut else "names an iteration but is no step line"
        findings.rows("truncated" if cut else "line", np.ones(1, np.bool_), "", text)
    findings.lines = lines.tolist()
    findings.count("lines that are no whole step", len(bad))
    return imported(NAME, findings, _step_log(rows, findings))


def _parsed(sample: Sample, findings: Findings) -> tuple[list[tuple[float, ...]], list[int], int]:
    """Rows (line, time, engine, iteration, counts, elapsed, usage), bad lines, last line."""
    rows: list[tuple[float, ...]] = []
    bad: list[int] = []
    number = n_dummy = n_empty = 0
    clock = _Clock()
    for number, line in sample.lines():
        if _MARK not in line:
            continue
        match = _STEP.search(line)
        if match is None:
            bad.append(number)
            continue
        if match["dummy"]:
            n_dummy += 1
            continue
        counts = [int(match[key]) for key in ("prefills", "prefill_tokens", "decodes")]
        if counts[0] + counts[2] == 0:
            n_empty += 1
            continue
        rank = _RANK.search(line[: match.start()])
        engine = int(match["engine"] or (rank[1] if rank else 0))
        elapsed = _finite(match["elapsed"], f"{sample.path}:{number}: elapsed time")
        usage = math.nan if match["usage"] is None else _finite(match["usage"], str(sample.path))
        stamp = clock.seconds(line[: match.start()])
        counts.append(int(match["decode_tokens"]))
        if max(*counts, int(match["iteration"])) > _LARGEST:
            bad.append(number)
            continue
        step = (number, stamp, engine, int(match["iteration"]))
        rows.append((*step, *counts, elapsed * 1e-3, usage / 100))
    findings.count("read", len(rows))
    findings.count("dummy steps of data parallel engines", n_dummy)
    findings.count("steps without a request", n_empty)
    clock.say(findings)
    return rows, bad, number


def _finite(text: str, where: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InputError(f"{where} must be a number, got {text!r}") from None


def _step_log(rows: list[tuple[float, ...]], findings: Findings) -> StepLog:
    table = np.array(rows, dtype=np.float64)
    whole = table[:, 2:8].astype(np.int64)
    engine, iteration = whole[:, 0], whole[:, 1]
    order = np.argsort(engine, kind="stable")
    engine, iteration = engine[order], iteration[order]
    new = np.append(False, (np.diff(engine) != 0) | (np.diff(iteration) < 0))
    segment = np.cumsum(new)
    missing = np.append(0, np.where(new[1:], 0, np.diff(iteration) - 1))
    n_engine, n_segment = len(np.unique(engine)), int(segment[-1]) + 1
    if n_engine > 1:
        findings.note(f"{n_engine} engines logged; their steps are kept apart as segments")
    if n_segment > n_engine:
        findings.note(f"the engine started again {n_segment - n_engine} times within the log")
    if missing.sum() > 0:
        findings.note(f"{missing.sum()} iteration numbers are not in the log (or were left out)")
    table, whole = table[order], whole[order]
    slow = table[:, 8] <= 0
    findings.lines = [int(line) for line in table[:, 0]]
    findings.rows("number", slow, "iteration elapsed time", "step of no duration", severe=False)
    empty = (whole[:, 2] > 0) & (whole[:, 3] == 0)
    findings.rows("count", empty, "context tokens", "context requests without a token")
    start = float(table[0, 1])
    return StepLog(
        log_time=table[:, 1] - start,
        iteration=iteration,
        prefill_requests=whole[:, 2],
        prefill_tokens=whole[:, 3],
        decode_requests=whole[:, 4],
        decode_tokens=whole[:, 5],
        kv_usage=table[:, 9],
        elapsed=table[:, 8],
        segment=segment,
    )


class _Clock:
    """Seconds of log prefixes, of whichever kind the log has."""

    def __init__(self) -> None:
        self._kinds: set[str] = set()
        self._years = 0
        self._latest = -math.inf

    def seconds(self, prefix: str) -> float:
        if match := _DATED.search(prefix):
            self._kinds.add("dated")
            text = f"{match[1]}T{match[2]}.{(match[3] or '0')[:6]:0<6}+00:00"
            return datetime.fromisoformat(text).timestamp()
        if match := _UNIX.search(prefix):
            self._kinds.add("unix")
            return float(match[1])
        if match := _UNDATED.search(prefix):
            self._kinds.add("undated")
            return self._within_year(match)
        self._kinds.add("none")
        return math.nan

    def _within_year(self, match: re.Match[str]) -> float:
        month, day, hour, minute, second = (int(match[i]) for i in range(1, 6))
        try:  # a leap year, so that every day exists
            moment = datetime(2000, month, day, hour, minute, min(second, 59), tzinfo=UTC)
        except ValueError:
            return math.nan
        seconds = moment.timestamp() + float(f"0.{match[6] or 0}") + self._years * 366 * _DAY
        if seconds < self._latest - 180 * _DAY:
            self._years += 1
            seconds += 366 * _DAY
        self._latest = max(self._latest, seconds)
        return seconds

    def say(self, findings: Findings) -> None:
        if "undated" in self._kinds:
            findings.note(
                "the log's times have no year and whole seconds; they serve for the order and the "
                "length of the run only, durations are the engine's own"
            )
        if self._kinds == {"none"}:
            findings.note("the log has no times; durations are the engine's own")
        if len(self._kinds - {"none"}) > 1:
            findings.whole(
                "clock", f"several kinds of times: {', '.join(sorted(self._kinds))}", severe=True
            )
