"""Where simulations run: threads of this process, or the workers of a dask cluster.

A task is a pure function of its context, so the answers do not depend on where or in which order
tasks run.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import UsageError
from tailcast.inference.regimes import workload_regimes
from tailcast.posteriors import Posterior
from tailcast.risk.blocks import Blocks, shuffled_blocks
from tailcast.risk.fleet import Fleet
from tailcast.risk.tables import Tables
from tailcast.risk.trial import Question, run_blocks
from tailcast.workload.materialise import materialise
from tailcast.workload.spec import Workload

Array = NDArray[np.float64]

RACE, CONFIRM, LAW = "race", "confirm", "law"
"""Purposes of blocks: to race on, fresh ones to confirm on, and those without discrepancies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """Some blocks of one candidate.

    Parameters
    ----------
    fleet : Fleet
        The candidate.
    posterior : str
        What predicts it.
    purpose : str
        Which blocks.
    first, last : int
        The blocks ``first <= b < last``.
    share : float
        Share of the requests that is run.
    """

    fleet: Fleet
    posterior: str
    purpose: str
    first: int
    last: int
    share: float


@dataclass(kw_only=True)
class Context:
    """What all tasks of a search have in common.

    Parameters
    ----------
    posteriors : dict of str to Posterior
        By name.
    workload : Workload
        What arrives.
    question : Question
        What is asked.
    seed : int
        Of everything.
    n_block : int
        Blocks to race on at most.
    n_fresh : int
        Blocks to confirm on at most.
    n_run : int
        Runs pooled in each block.
    """

    posteriors: dict[str, Posterior]
    workload: Workload
    question: Question
    seed: int
    n_block: int
    n_fresh: int
    n_run: int
    tables: Tables = field(init=False, repr=False)
    _blocks: dict[tuple[str, str], Blocks] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.tables = Tables(partial(materialise, self.workload))
        self._blocks = {}
        regimes = workload_regimes(self.tables(self.seed))
        for name, posterior in self.posteriors.items():
            for purpose in (RACE, CONFIRM):
                self._blocks[name, purpose] = shuffled_blocks(
                    posterior,
                    self.n_fresh if purpose == CONFIRM else self.n_block,
                    self.seed,
                    purpose,
                    n_run=self.n_run,
                    reverse=purpose == CONFIRM,
                ).but(regimes=regimes)
            fresh = self._blocks[name, CONFIRM]
            self._blocks[name, LAW] = fresh.but(with_discrepancy=False)

    def blocks(self, posterior: str, purpose: str) -> Blocks:
        """Blocks of a posterior for a purpose.

        Parameters
        ----------
        posterior, purpose : str
            Names.

        Returns
        -------
        Blocks
            The same for every candidate.
        """
        return self._blocks[posterior, purpose]


def run_task(context: Context, task: Task) -> Array:
    """Simulate a task.

    Parameters
    ----------
    context : Context
        Of the search.
    task : Task
        What to simulate.

    Returns
    -------
    ndarray, shape (n_block, n_number)
        See `tailcast.risk.trial.Outcomes.to_array`.
    """
    outcomes = run_blocks(
        task.fleet,
        context.blocks(task.posterior, task.purpose),
        context.tables,
        context.question,
        np.arange(task.first, task.last),
        share=task.share,
    )
    return outcomes.to_array()


class Executor(Protocol):
    """Something that runs tasks."""

    def run(self, context: Context, tasks: Sequence[Task]) -> Iterator[tuple[int, Array]]:
        """Place of each task with its outcomes, in any order."""

    def close(self) -> None:
        """Give back what was taken."""


class Threads:
    """Threads of this process.

    Parameters
    ----------
    n : int
        How many.
    """

    def __init__(self, n: int = 2) -> None:
        if n < 1:
            raise UsageError(f"threads must be at least 1, got {n}")
        self._pool = ThreadPoolExecutor(n)

    def run(self, context: Context, tasks: Sequence[Task]) -> Iterator[tuple[int, Array]]:
        """Run tasks; an interrupt gives up those that have not begun.

        Parameters
        ----------
        context : Context
            Of the search.
        tasks : sequence of Task
            What to simulate.

        Yields
        ------
        tuple
            Place of a task and its outcomes, as they are done.
        """
        place: dict[Future[Array], int] = {
            self._pool.submit(run_task, context, task): k for k, task in enumerate(tasks)
        }
        pending = set(place)
        try:
            while pending:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                for future in done:
                    yield place[future], future.result()
        finally:
            for future in pending:
                future.cancel()

    def close(self) -> None:
        """Wait for what runs and end the threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)


class Dask:
    """Workers of a dask cluster; needs the extra ``tailcast[dask]``.

    Parameters
    ----------
    address : object
        Address of a scheduler, a ``distributed`` cluster or a client.
    """

    def __init__(self, address: Any) -> None:
        try:
            from distributed import Client
        except ImportError as error:
            raise UsageError("dask needs its extra; install tailcast[dask]") from error
        self._own = not isinstance(address, Client)
        try:
            self._client = Client(address) if self._own else address
        except (OSError, ValueError) as error:
            raise UsageError(f"no dask scheduler at {address!r} ({error})") from error
        self._context: Context | None = None
        self._remote: Any = None

    def run(self, context: Context, tasks: Sequence[Task]) -> Iterator[tuple[int, Array]]:
        """Run tasks; the context is sent to every worker once.

        Parameters
        ----------
        context : Context
            Of the search.
        tasks : sequence of Task
            What to simulate.

        Yields
        ------
        tuple
            Place of a task and its outcomes, as they are done.
        """
        from distributed import as_completed

        if self._context is not context:
            self._remote = self._client.scatter(context, broadcast=True, hash=False)
            self._context = context
        futures = [self._client.submit(run_task, self._remote, task, pure=False) for task in tasks]
        place = {future.key: k for k, future in enumerate(futures)}
        try:
            for future, outcomes in as_completed(futures, with_results=True):
                yield place[future.key], outcomes
        finally:
            self._client.cancel(futures)

    def close(self) -> None:
        """Leave the cluster."""
        self._remote = None
        if self._own:
            self._client.close()
