"""Run a fleet on blocks and score what comes out against objectives."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from tailcast.engine.deployment_limits import deployment_limits
from tailcast.engine.result import EngineResult
from tailcast.engine.run import simulate
from tailcast.errors import UsageError
from tailcast.risk.blocks import Blocks
from tailcast.risk.fleet import Fleet
from tailcast.risk.measures import Measures, attainment, pooled, run_measures
from tailcast.risk.stability import Shape, offered_load
from tailcast.risk.tables import Dealt, Tables
from tailcast.slo import Objective
from tailcast.step_law import StepLaw

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked of every block.

    Parameters
    ----------
    objectives : tuple of Objective
        All of them must be met.
    groups : tuple of str
        Names of the values of the requests' column `group`.
    headline : Objective, optional
        Statistic that fleets are ranked by; the first latency objective by default.
    """

    objectives: tuple[Objective, ...]
    groups: tuple[str, ...] = ("all",)
    headline: Objective | None = None

    def __post_init__(self) -> None:
        if not self.objectives:
            raise UsageError("no objective given; add for example --slo ttft.p99=300ms")
        for objective in (*self.objectives, self.ranked):
            if objective.group is None:
                continue
            if not self.members_of(objective.group):
                known = sorted({part for name in self.groups for part in name.split(", ")})
                raise UsageError(
                    f"{objective}: no request class {objective.group!r}; known: {', '.join(known)}"
                )
            if objective.metric == "itl":
                raise UsageError(f"{objective}: gaps are pooled over classes; use tpot for a class")

    @property
    def ranked(self) -> Objective:
        """Statistic that fleets are ranked by."""
        latencies = [o for o in self.objectives if not o.is_goodput]
        return self.headline or (latencies or list(self.objectives))[0]

    @property
    def asked(self) -> tuple[Objective, ...]:
        """The objectives and, last, the ranking statistic."""
        return (*self.objectives, self.ranked)

    @property
    def needs_gaps(self) -> bool:
        """Whether token gaps are looked at."""
        return any(o.metric == "itl" for o in self.asked)

    def members_of(self, group: str) -> tuple[int, ...]:
        """Values of the column `group` that a class or stage name stands for.

        Parameters
        ----------
        group : str
            Full name, or the name of a class or a stage among ``"stage 0, chat"``.

        Returns
        -------
        tuple of int
            Empty where there is no such name.
        """
        return tuple(
            k for k, name in enumerate(self.groups) if group == name or group in name.split(", ")
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcomes:
    """What blocks said about a question; one row a block.

    Parameters
    ----------
    load : ndarray, shape (n_block,)
        Offered work over capacity; 1 and more is beyond the stability boundary.
    failed : ndarray, shape (n_block,)
        Share of the requests that did not finish.
    value, part, whole : ndarray, shape (n_block, n_asked)
        By objective, the ranking statistic last: its value, and the numbers that pool it, see
        `tailcast.risk.measures.attainment`.
    """

    load: Array
    failed: Array
    value: Array
    part: Array
    whole: Array

    def __len__(self) -> int:
        return len(self.load)

    @property
    def stable(self) -> NDArray[np.bool_]:
        """Which blocks lie within the stability boundary, shape (n_block,)."""
        return self.load < 1.0

    def missed(self, question: Question) -> NDArray[np.bool_]:
        """Which blocks miss which objective.

        Parameters
        ----------
        question : Question
            That was asked.

        Returns
        -------
        ndarray of bool, shape (n_block, n_objective)
            True beyond the stability boundary or where nothing finished, too.
        """
        margins = self.margins(question)
        beyond: NDArray[np.bool_] = ~self.stable
        return (margins > 0) | beyond[:, None]

    def margins(self, question: Question) -> Array:
        """By how much each objective is missed, on the log scale; see `Objective.margin`.

        Parameters
        ----------
        question : Question
            That was asked.

        Returns
        -------
        ndarray, shape (n_block, n_objective)
            Positive where missed.
        """
        columns = [o.margin(self.value[:, k]) for k, o in enumerate(question.objectives)]
        return np.column_stack(columns)

    @property
    def rank(self) -> Array:
        """Log of the ranking statistic; NaN beyond the stability boundary, shape (n_block,)."""
        with np.errstate(divide="ignore"):
            return np.where(self.stable, np.log(self.value[:, -1]), np.nan)

    def to_array(self) -> Array:
        """Everything in one array.

        Returns
        -------
        ndarray, shape (n_block, 2 + 3 * n_asked)
            For storage; `outcomes_of` undoes it.
        """
        return np.column_stack([self.load, self.failed, self.value, self.part, self.whole])


def outcomes_of(array: Array) -> Outcomes:
    """Outcomes stored by `Outcomes.to_array`.

    Parameters
    ----------
    array : ndarray, shape (n_block, 2 + 3 * n_asked)
        As stored.

    Returns
    -------
    Outcomes
        The same numbers.
    """
    n = (array.shape[1] - 2) // 3
    value, part, whole = (array[:, 2 + k * n : 2 + (k + 1) * n] for k in range(3))
    return Outcomes(load=array[:, 0], failed=array[:, 1], value=value, part=part, whole=whole)


def joined(parts: Sequence[Outcomes]) -> Outcomes:
    """Outcomes of several ranges of blocks, one after the other.

    Parameters
    ----------
    parts : sequence of Outcomes
        Answers to the same question.

    Returns
    -------
    Outcomes
        All rows.
    """
    return outcomes_of(np.concatenate([part.to_array() for part in parts]))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """One engine run: one scheduler's requests in one repetition of a block."""

    row: int
    draw: int
    repetition: int
    dealt: Dealt


def run_blocks(
    fleet: Fleet,
    blocks: Blocks,
    tables: Tables,
    question: Question,
    chosen: Ints,
    *,
    share: float = 1.0,
    threads: int = 1,
) -> Outcomes:
    """Simulate a fleet in some blocks.

    Parameters
    ----------
    fleet : Fleet
        Replicas.
    blocks : Blocks
        Common random numbers.
    tables : Tables
        Requests by workload seed.
    question : Question
        What is asked.
    chosen : ndarray of int, shape (n,)
        Which blocks.
    share : float
        Share of the requests that is run; below 1 for a cheap look.
    threads : int
        Engine threads; the result does not depend on it.

    Returns
    -------
    Outcomes
        One row a chosen block.
    """
    draws = blocks.draws(fleet.deployment)
    runs = [
        _Run(row=row, draw=int(blocks.draw_of[block]), repetition=repetition, dealt=dealt)
        for row, block in enumerate(chosen)
        for repetition, seed in enumerate(blocks.workload_seeds[block])
        for dealt in tables.dealt(int(seed), fleet.n_rank, share)
    ]
    law = law_rows(draws.law, np.array([run.draw for run in runs]))
    result = simulate(
        runs[0].dealt.table,
        deployment_limits(fleet.deployment),
        law,
        quantiles=(),
        records=True,
        gaps=question.needs_gaps,
        threads=threads,
        draw_requests=[run.dealt.table for run in runs],
    )
    loads = _loads(law, fleet, result, runs)
    late = draws.late(np.array([run.draw for run in runs]), loads)
    return _scored(runs, _measures(runs, result, law, late), loads, question)


def _measures(
    runs: Sequence[_Run], result: EngineResult, law: StepLaw, late: Array
) -> list[Measures]:
    records = result.records or ()
    return [
        run_measures(
            run.dealt.table,
            records[k],
            stream=float(law.stream[k]),
            finish=float(law.finish[k]),
            ttft=float(late[k]),
            group=run.dealt.group,
            gaps=None if result.gaps is None else result.gaps[k],
        )
        for k, run in enumerate(runs)
    ]


def _loads(law: StepLaw, fleet: Fleet, result: EngineResult, runs: Sequence[_Run]) -> Array:
    """Load of each run with the prompt tokens that it really computed."""
    columns = {
        name: np.array([getattr(run.dealt.shape, name) for run in runs])
        for name in Shape.__dataclass_fields__
    }
    n = np.array([len(run.dealt.table) for run in runs])
    computed = np.asarray(result.counters["prefill_tokens"], dtype=np.float64) / n
    ratio = np.minimum(computed / columns["computed"], 1.0)
    columns["computed"] *= ratio
    columns["pairs"] *= ratio
    return offered_load(law, fleet.deployment, Shape(**columns))


def _scored(
    runs: Sequence[_Run], measures: Sequence[Measures], loads: Array, question: Question
) -> Outcomes:
    n, width = runs[-1].row + 1, len(question.asked)
    load, failed = np.zeros(n), np.zeros(n)
    value, part, whole = (np.full((n, width), np.nan) for _ in range(3))
    for row, each in groupby(range(len(runs)), key=lambda k: runs[k].row):
        mine = list(each)
        seconds: dict[int, float] = {}
        for k in mine:
            known = seconds.get(runs[k].repetition, 0.0)
            seconds[runs[k].repetition] = max(known, measures[k].seconds)
        own = pooled([measures[k] for k in mine], seconds=sum(seconds.values()))
        load[row] = loads[mine].max()
        failed[row] = float(np.isnan(own.e2e).mean())
        for k, objective in enumerate(question.asked):
            member = None
            if objective.group is not None:
                member = np.isin(own.group, question.members_of(objective.group))
            value[row, k], part[row, k], whole[row, k] = attainment(own, objective, member)
    return Outcomes(load=load, failed=failed, value=value, part=part, whole=whole)


def law_rows(law: StepLaw, rows: Ints) -> StepLaw:
    """Chosen draws of a step law.

    Parameters
    ----------
    law : StepLaw
        One row a draw.
    rows : ndarray of int, shape (n,)
        Draws; one may be used more than once.

    Returns
    -------
    StepLaw
        With n draws.
    """
    return StepLaw(**{name: getattr(law, name)[rows] for name in StepLaw.__dataclass_fields__})
