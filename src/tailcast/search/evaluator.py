"""Outcomes of candidates on blocks: remembered ones from the store, the others simulated."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tailcast.risk.trial import Outcomes, outcomes_of
from tailcast.search.bounds import Bounds
from tailcast.search.executors import Context, Executor, Task
from tailcast.search.space import Candidate
from tailcast.search.store import Store

Array = NDArray[np.float64]

_CHUNK = 16
_COMMIT_EVERY = 2.0


def silent(*told: object) -> None:
    """Hear a step or a number, and say nothing.

    Parameters
    ----------
    *told : object
        Whatever.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Blocks of one candidate that are wanted.

    Parameters
    ----------
    candidate : int
        Its place.
    purpose : str
        Which blocks.
    first, last : int
        The blocks ``first <= b < last``.
    share : float
        Share of the requests that is run.
    """

    candidate: int
    purpose: str
    first: int
    last: int
    share: float = 1.0


class Evaluator(Protocol):
    """What a race needs to know of its candidates."""

    @property
    def cost(self) -> Array:
        """Cost by candidate, shape (n_candidate,)."""

    def bound(self, n_block: int) -> NDArray[np.bool_]:
        """Blocks missed for certain, without a run; shape (n_candidate, n_block)."""

    def evaluate(self, jobs: Sequence[Job]) -> "list[Scores]":
        """Outcomes of jobs, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """What a race looks at; one row a block.

    Parameters
    ----------
    missed : ndarray of bool, shape (n_block,)
        Whether any objective is missed.
    rank : ndarray, shape (n_block,)
        Log of the statistic that decides between candidates of one cost, less is better; NaN beyond
        the stability boundary.
    margin : ndarray, shape (n_block,)
        Largest log margin over the objectives, positive where missed; infinite beyond the stability
        boundary.
    """

    missed: NDArray[np.bool_]
    rank: Array
    margin: Array


@dataclass(kw_only=True)
class Simulator:
    """Evaluator that simulates.

    Parameters
    ----------
    candidates : tuple of Candidate
        Of the space.
    context : Context
        Posteriors, workload, question, seed.
    store : Store
        Remembers outcomes.
    executor : Executor
        Runs tasks.
    progress : callable
        Told ``(done, wanted)`` blocks of a batch.
    """

    candidates: tuple[Candidate, ...]
    context: Context
    store: Store
    executor: Executor
    progress: Callable[[int, int], None] = field(default_factory=lambda: silent)
    n_simulated: int = field(default=0, init=False)

    @property
    def cost(self) -> Array:
        """Cost by candidate, shape (n_candidate,)."""
        return np.array([candidate.cost for candidate in self.candidates])

    def bound(self, n_block: int) -> NDArray[np.bool_]:
        """Blocks that a candidate misses for certain.

        Parameters
        ----------
        n_block : int
            Leading blocks of the race.

        Returns
        -------
        ndarray of bool, shape (n_candidate, n_block)
            See `tailcast.search.bounds`.
        """
        bounds = Bounds(context=self.context)
        return np.array([bounds.missed(c.fleet, c.posterior, n_block) for c in self.candidates])

    def evaluate(self, jobs: Sequence[Job]) -> list[Scores]:
        """Scores of jobs.

        Parameters
        ----------
        jobs : sequence of Job
            What is wanted.

        Returns
        -------
        list of Scores
            In order.
        """
        question = self.context.question
        return [
            Scores(
                missed=found.missed(question).any(axis=1),
                rank=-found.rank if question.ranked.is_goodput else found.rank,
                margin=np.where(found.stable, found.margins(question).max(axis=1), np.inf),
            )
            for found in self.outcomes(jobs)
        ]

    def outcomes(self, jobs: Sequence[Job]) -> list[Outcomes]:
        """Everything that jobs found.

        Parameters
        ----------
        jobs : sequence of Job
            What is wanted.

        Returns
        -------
        list of Outcomes
            In order.
        """
        self._simulate([part for job in jobs for part in _parts(job)])
        found = []
        for job in jobs:
            rows = self.store.known(self._key(job), _purpose(job), range(job.first, job.last))
            if rows is None:  # pragma: no cover
                raise RuntimeError(f"outcomes of {job} were not stored")
            found.append(outcomes_of(rows))
        return found

    def _key(self, job: Job) -> str:
        return self.candidates[job.candidate].key

    def _simulate(self, parts: Sequence[Job]) -> None:
        """Simulate what is not stored; what is done when interrupted is kept."""
        missing: dict[tuple[str, str, int], Job] = {}
        for part in parts:
            blocks = range(part.first, part.last)
            if self.store.known(self._key(part), _purpose(part), blocks) is None:
                missing[self._key(part), _purpose(part), part.first] = part
        wanted = list(missing.values())
        total = sum(part.last - part.first for part in wanted)
        done, fresh, kept = 0, [], time.monotonic()
        try:
            for place, rows in self.executor.run(self.context, [self._task(p) for p in wanted]):
                part = wanted[place]
                blocks = range(part.first, part.last)
                fresh.append((self._key(part), _purpose(part), blocks, rows))
                done += len(rows)
                self.n_simulated += len(rows)
                if time.monotonic() - kept > _COMMIT_EVERY:
                    self.store.keep(fresh)
                    fresh, kept = [], time.monotonic()
                self.progress(done, total)
        finally:
            self.store.keep(fresh)

    def _task(self, part: Job) -> Task:
        candidate = self.candidates[part.candidate]
        return Task(
            fleet=candidate.fleet,
            posterior=candidate.posterior,
            purpose=part.purpose,
            first=part.first,
            last=part.last,
            share=part.share,
        )


def _purpose(job: Job) -> str:
    return job.purpose if job.share >= 1.0 else f"{job.purpose} {job.share:.6g}"


def _parts(job: Job) -> list[Job]:
    """Parts of a job at fixed places, so that the store knows them again."""
    edges = [job.first]
    while edges[-1] < job.last:
        edges.append(min((edges[-1] // _CHUNK + 1) * _CHUNK, job.last))
    return [
        Job(
            candidate=job.candidate,
            purpose=job.purpose,
            first=first,
            last=last,
            share=job.share,
        )
        for first, last in pairwise(edges)
    ]
