"""Controlled sweeps of one deployment: prefill alone, prefill beside decodes, rates."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import InputError
from tailcast.workload.csv_file import CsvFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """What served each row of a sweep; every array has shape (n_row,).

    Parameters
    ----------
    llm, accelerator : ndarray of str
        Names as the file has them.
    tensor_parallel : ndarray of int
        Accelerators per replica.
    version : ndarray of str
        vLLM version.
    """

    llm: NDArray[np.str_]
    accelerator: NDArray[np.str_]
    tensor_parallel: NDArray[np.int64]
    version: NDArray[np.str_]

    def configurations(self) -> tuple[tuple[str, str, int, str], ...]:
        """Different (llm, accelerator, tensor_parallel, version), in order of appearance.

        Returns
        -------
        tuple of tuple
            Each once.
        """
        columns = (self.llm, self.accelerator, self.tensor_parallel, self.version)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return tuple(dict.fromkeys(rows))


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefillSweep:
    """One unique prompt at a time; every array has shape (n_row,).

    Parameters
    ----------
    served : Served
        Deployment of each row.
    prompt_tokens : ndarray of int
        Length of the prompt.
    repeat : ndarray of int
        Number of the repeat, from 0; the first one of a length may hold warm-up.
    ttft : ndarray
        Time to first token in seconds.
    """

    served: Served
    prompt_tokens: NDArray[np.int64]
    repeat: NDArray[np.int64]
    ttft: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class MixedSweep:
    """Steps with one prefill chunk beside decodes; every array has shape (n_row,).

    Parameters
    ----------
    served : Served
        Deployment of each row.
    decodes : ndarray of int
        Requests that decode in the step.
    context_tokens : ndarray of int
        Sum of their contexts.
    chunk_tokens, chunk_start : ndarray of int
        New tokens of the prefill chunk, and tokens of its prompt computed before.
    repeat : ndarray of int
        Number of the repeat, from 0.
    step_time : ndarray
        Duration of the step in seconds.
    context_rounded : ndarray of bool
        Where `context_tokens` is a rounded mean of the cell.
    n_misaligned : int
        Rows left out because the measured step carried no chunk.
    """

    served: Served
    decodes: NDArray[np.int64]
    context_tokens: NDArray[np.int64]
    chunk_tokens: NDArray[np.int64]
    chunk_start: NDArray[np.int64]
    repeat: NDArray[np.int64]
    step_time: NDArray[np.float64]
    context_rounded: NDArray[np.bool_]
    n_misaligned: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RateSweep:
    """Benchmarks at several rates with fixed lengths; every array has shape (n_row,).

    Parameters
    ----------
    served : Served
        Deployment of each row.
    prompt_tokens, output_tokens : ndarray of int
        Lengths of every request.
    strategy : ndarray of str
        ``synchronous`` (one at a time), ``throughput`` (all at once) or ``constant`` (even gaps).
    target_rate : ndarray
        Requests/s; NaN where the strategy has none.
    achieved_rate : ndarray
        Completed requests/s.
    mean_concurrency : ndarray
        Mean number of requests in flight.
    ttft, itl : ndarray, shape (n_row, 3)
        Seconds; columns are ``RateSweep.statistics``.
    n_requests : ndarray of int
        Completed requests.
    """

    served: Served
    prompt_tokens: NDArray[np.int64]
    output_tokens: NDArray[np.int64]
    strategy: NDArray[np.str_]
    target_rate: NDArray[np.float64]
    achieved_rate: NDArray[np.float64]
    mean_concurrency: NDArray[np.float64]
    ttft: NDArray[np.float64]
    itl: NDArray[np.float64]
    n_requests: NDArray[np.int64]

    @property
    def statistics(self) -> tuple[str, str, str]:
        """Names of the columns of `ttft` and `itl`."""
        return ("p50", "mean", "p95")


def load_prefill_sweep(path: Path | str) -> PrefillSweep:
    """Sweep of TTFT against prompt length.

    Parameters
    ----------
    path : pathlib.Path or str
        CSV ``model,gpu,tp,vllm,prompt_tokens,repeat,ttft_ms``.

    Returns
    -------
    PrefillSweep
        All rows.

    Raises
    ------
    InputError
        If a column is missing or a value impossible.
    """
    file = _opened(path)
    return PrefillSweep(
        served=_served(file, np.ones(len(file), dtype=np.bool_)),
        prompt_tokens=_counts(file, "prompt_tokens", 1),
        repeat=_counts(file, "repeat", 0),
        ttft=_seconds(file, "ttft_ms"),
    )


def load_mixed_sweep(path: Path | str) -> MixedSweep:
    """Sweep of step duration with one prefill chunk beside decodes.

    Parameters
    ----------
    path : pathlib.Path or str
        CSV ``model,gpu,tp,vllm,decode_batch,resident_context_tokens,chunk_tokens,``
        ``chunk_start_position,repeat,step_ms,flag``.

    Returns
    -------
    MixedSweep
        Rows whose flag says ``misaligned`` are left out and counted.

    Raises
    ------
    InputError
        If a column is missing, a value impossible or a flag unknown.
    """
    file = _opened(path)
    flags = file.text("flag")
    for row, flag in enumerate(flags):
        if flag and not flag.startswith(("misaligned", "context rounded")):
            raise file.error(row, f"flag {flag!r} is not understood")
    keep = np.array([not flag.startswith("misaligned") for flag in flags], dtype=np.bool_)
    rounded = np.array([flag.startswith("context rounded") for flag in flags], dtype=np.bool_)
    return MixedSweep(
        served=_served(file, keep),
        decodes=_counts(file, "decode_batch", 0)[keep],
        context_tokens=_counts(file, "resident_context_tokens", 0)[keep],
        chunk_tokens=_counts(file, "chunk_tokens", 1)[keep],
        chunk_start=_counts(file, "chunk_start_position", 0)[keep],
        repeat=_counts(file, "repeat", 0)[keep],
        step_time=_seconds(file, "step_ms")[keep],
        context_rounded=rounded[keep],
        n_misaligned=int((~keep).sum()),
    )


def load_rate_sweep(path: Path | str) -> RateSweep:
    """Sweep of a guidellm run over rates.

    Parameters
    ----------
    path : pathlib.Path or str
        CSV with ``strategy,target_rate_rps,achieved_rps,mean_concurrency``, p50, mean and p95 of
        TTFT and ITL in milliseconds, and ``n``.

    Returns
    -------
    RateSweep
        All rows.

    Raises
    ------
    InputError
        If a column is missing or a value impossible.
    """
    file = _opened(path)
    target = np.array([float(cell) if cell else np.nan for cell in _checked_rates(file)])
    latencies = {
        metric: np.stack([_seconds(file, f"{metric}_{s}_ms") for s in ("p50", "mean", "p95")], 1)
        for metric in ("ttft", "itl")
    }
    return RateSweep(
        served=_served(file, np.ones(len(file), dtype=np.bool_)),
        prompt_tokens=_counts(file, "prompt_tokens", 1),
        output_tokens=_counts(file, "output_tokens", 1),
        strategy=np.array(file.text("strategy"), dtype=np.str_),
        target_rate=target,
        achieved_rate=file.numbers("achieved_rps"),
        mean_concurrency=file.numbers("mean_concurrency"),
        ttft=latencies["ttft"],
        itl=latencies["itl"],
        n_requests=_counts(file, "n", 1),
    )


def _opened(path: Path | str) -> CsvFile:
    file = CsvFile(Path(path))
    if not len(file):
        raise InputError(f"{path}: no rows")
    return file


def _served(file: CsvFile, keep: NDArray[np.bool_]) -> Served:
    return Served(
        llm=np.array(file.text("model"), dtype=np.str_)[keep],
        accelerator=np.array(file.text("gpu"), dtype=np.str_)[keep],
        tensor_parallel=_counts(file, "tp", 1)[keep],
        version=np.array(file.text("vllm"), dtype=np.str_)[keep],
    )


def _counts(file: CsvFile, name: str, least: int) -> NDArray[np.int64]:
    values = file.whole(name)
    for row in np.flatnonzero(values < least):
        raise file.error(int(row), f"{name} must be at least {least}, got {values[row]}")
    return values


def _seconds(file: CsvFile, name: str) -> NDArray[np.float64]:
    values = file.numbers(name)
    for row in np.flatnonzero(values <= 0):
        raise file.error(int(row), f"{name} must be positive, got {values[row]}")
    return values * 1e-3


def _checked_rates(file: CsvFile) -> list[str]:
    rates = file.numbers("target_rate_rps", empty=1.0)
    for row in np.flatnonzero(rates <= 0):
        raise file.error(int(row), f"target_rate_rps must be positive, got {rates[row]}")
    return file.text("target_rate_rps")
