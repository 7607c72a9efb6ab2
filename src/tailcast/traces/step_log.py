"""Engine steps one by one: what each batch held and how long it took."""

import csv
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import InputError
from tailcast.workload.csv_file import CsvFile

STEP_COLUMNS = (
    "log_time_us",
    "iteration",
    "context_requests",
    "context_tokens",
    "generation_requests",
    "generation_tokens",
    "elapsed_ms",
    "kv_usage_pct",
)
_OWN_COLUMNS = (*STEP_COLUMNS, "segment")


@dataclass(frozen=True, slots=True, kw_only=True)
class StepLog:
    """Steps in the order they ran; every array has shape (n_step,).

    Parameters
    ----------
    log_time : ndarray
        Seconds from the first line, when the step was logged; NaN where the log has no times.
    iteration : ndarray of int
        The engine's own number of the step.
    prefill_requests, prefill_tokens : ndarray of int
        Requests with a prefill chunk in the step, and tokens of these chunks.
    decode_requests, decode_tokens : ndarray of int
        Requests that decode, and tokens they compute (more than one each when speculating).
    kv_usage : ndarray
        Share of the KV cache in use, 0 to 1; NaN where the log does not say.
    elapsed : ndarray
        Duration of the step in seconds.
    segment : ndarray of int
        Stretch without a restart or another engine between its steps; from 0.
    """

    log_time: NDArray[np.float64]
    iteration: NDArray[np.int64]
    prefill_requests: NDArray[np.int64]
    prefill_tokens: NDArray[np.int64]
    decode_requests: NDArray[np.int64]
    decode_tokens: NDArray[np.int64]
    kv_usage: NDArray[np.float64]
    elapsed: NDArray[np.float64]
    segment: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.elapsed)

    @property
    def new_tokens(self) -> NDArray[np.int64]:
        """Tokens computed in each step."""
        return self.prefill_tokens + self.decode_tokens

    @property
    def n_segment(self) -> int:
        """Number of stretches."""
        return int(self.segment.max()) + 1 if len(self) else 0


def read_step_log(path: Path | str) -> StepLog:
    """Steps of a CSV file as `write_step_log` makes it.

    Parameters
    ----------
    path : pathlib.Path or str
        CSV with the columns `STEP_COLUMNS`, and ``segment`` where there are several.

    Returns
    -------
    StepLog
        In the order of the file.

    Raises
    ------
    InputError
        If a column is missing or a value impossible; the message has the line.
    """
    file = CsvFile(Path(path))
    file.require(STEP_COLUMNS[2:7])
    if not len(file):
        raise InputError(f"{path}: no rows")
    counts = {name: _counts(file, name) for name in STEP_COLUMNS[2:6]}
    elapsed = file.numbers("elapsed_ms")
    for row in np.flatnonzero(elapsed < 0):
        raise file.error(int(row), f"elapsed_ms must not be negative, got {elapsed[row]}")
    n, known = len(file), file.__contains__
    absent = np.full(n, np.nan)
    stamp = file.numbers("log_time_us", empty=np.nan) / 1e6 if known("log_time_us") else absent
    usage = file.numbers("kv_usage_pct", empty=np.nan) / 100 if known("kv_usage_pct") else absent
    segment = file.whole("segment") if known("segment") else np.zeros(n, dtype=np.int64)
    return StepLog(
        log_time=stamp - stamp[0],
        iteration=file.whole("iteration") if known("iteration") else np.arange(n),
        prefill_requests=counts["context_requests"],
        prefill_tokens=counts["context_tokens"],
        decode_requests=counts["generation_requests"],
        decode_tokens=counts["generation_tokens"],
        kv_usage=usage,
        elapsed=elapsed * 1e-3,
        segment=segment,
    )


def write_step_log(log: StepLog, path: Path | str) -> None:
    """Write steps so that `read_step_log` gives them back.

    Parameters
    ----------
    log : StepLog
        What to write.
    path : pathlib.Path or str
        CSV file to write.
    """
    columns = (
        [_cell(value * 1e6, 0) for value in log.log_time.tolist()],
        log.iteration.tolist(),
        log.prefill_requests.tolist(),
        log.prefill_tokens.tolist(),
        log.decode_requests.tolist(),
        log.decode_tokens.tolist(),
        [_cell(value * 1e3, 4) for value in log.elapsed.tolist()],
        [_cell(value * 100, 3) for value in log.kv_usage.tolist()],
        log.segment.tolist(),
    )
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(_OWN_COLUMNS)
        writer.writerows(zip(*columns, strict=True))


def _cell(value: float, digits: int) -> str:
    if np.isnan(value):
        return ""
    return f"{value:.{digits}f}".rstrip("0").rstrip(".") if digits else f"{value:.0f}"


def _counts(file: CsvFile, name: str) -> NDArray[np.int64]:
    values = file.whole(name)
    for row in np.flatnonzero(values < 0):
        raise file.error(int(row), f"{name} must not be negative, got {values[row]}")
    return values
