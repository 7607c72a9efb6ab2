"""What the compiled engine knows while it runs."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailcast.engine.blis.columns import Live, Run
from tailcast.engine.blis.kv_blocks import KvBlocks


class Replica(NamedTuple):
    """One running engine; requests are known by their row."""

    rules: NDArray[np.int64]  # (Rule,)
    facts: NDArray[np.int64]  # (n_request, Fact)
    live: NDArray[np.int64]  # (n_request, Live)
    kv: KvBlocks
    heap: NDArray[np.int64]  # (n_request, 2) waiting requests
    running: NDArray[np.int64]  # (n_slot,) rows in admission order
    free_slots: NDArray[np.int64]  # (n_slot,) stack
    counts: NDArray[np.int64]  # (Count,)


class StepLog(NamedTuple):
    """Step durations and each request's runs of consecutive decode steps."""

    duration_us: NDArray[np.int64]  # (capacity,)
    runs: NDArray[np.int64]  # (capacity, Run)


def new_live(n: int) -> NDArray[np.int64]:
    """State of requests that have not arrived.

    Parameters
    ----------
    n : int
        Requests.

    Returns
    -------
    ndarray of int64, shape (n, n_column)
        Columns by `Live`; -1 where nothing happened yet.
    """
    live = np.zeros((n, len(Live)), dtype=np.int64)
    for column in (
        Live.SLOT,
        Live.TTFT_US,
        Live.E2E_US,
        Live.SCHEDULED_US,
        Live.FINISHED_US,
        Live.LAST_STEP,
        Live.RUN,
    ):
        live[:, column] = -1
    return live


def new_step_log(n_step: int, n_run: int) -> StepLog:
    """Empty log.

    Parameters
    ----------
    n_step, n_run : int
        Room for steps and for runs of decode steps.

    Returns
    -------
    StepLog
        Ready for a run.
    """
    return StepLog(
        duration_us=np.zeros(n_step, dtype=np.int64),
        runs=np.zeros((n_run, len(Run)), dtype=np.int64),
    )


def roomier_log(log: StepLog) -> StepLog:
    """The same log with twice the room.

    Parameters
    ----------
    log : StepLog
        Full log.

    Returns
    -------
    StepLog
        Copy.
    """
    larger = new_step_log(2 * len(log.duration_us), 2 * len(log.runs))
    larger.duration_us[: len(log.duration_us)] = log.duration_us
    larger.runs[: len(log.runs)] = log.runs
    return larger
