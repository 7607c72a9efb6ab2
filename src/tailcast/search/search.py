"""`tailcast search`: from a study with a space to a decision."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.posteriors import Posterior
from tailcast.risk.curve import Edge, largest_held
from tailcast.risk.trial import Outcomes, Question
from tailcast.risk.vary import mean_rate, rate_curve, workload_at
from tailcast.search.bounds import Bounds
from tailcast.search.decision import Decision, decide
from tailcast.search.evaluator import Job, Simulator, silent
from tailcast.search.executors import CONFIRM, LAW, RACE, Context, Executor
from tailcast.search.front import FrontMember, confirm_front
from tailcast.search.gate import LOOKS
from tailcast.search.measure import Worth
from tailcast.search.measure_plan import contenders, observe_next
from tailcast.search.race import Race, Rules
from tailcast.search.settings import SearchStudy
from tailcast.search.space import Space
from tailcast.search.store import Store
from tailcast.workload.spec import Workload

Array = NDArray[np.float64]

_CAPACITY_BLOCKS = 100
_SHOWN = 3
"""Contenders that are shown where nobody was confirmed."""
_NEAR = 0.8
"""Share of the stability boundary at which the search for a sustainable rate begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sustained:
    """What the best candidate can do where nothing met the objectives.

    Parameters
    ----------
    candidate : int
        Its place.
    held : Edge
        Largest rate at which it holds the risk, requests/s; value 0 where none does.
    boundary : float
        Rate from which it is beyond the stability boundary in more draws than the risk.
    p_saturated : float
        Share of draws in which it is beyond the boundary at the requested rate.
    """

    candidate: int
    held: Edge
    boundary: float
    p_saturated: float


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """Answer of a search.

    Parameters
    ----------
    study : SearchStudy
        What was asked.
    space : Space
        Candidates.
    race : Race
        How the field was narrowed down.
    decision : Decision or None
        For the goal ``"cheapest"``.
    front : tuple of FrontMember
        For the goal ``"pareto"``.
    outcomes : mapping of int to Outcomes
        Fresh blocks of whoever is reported, by candidate.
    law_p_miss : float
        P(miss) of the winner by the latency law alone; NaN without a winner.
    capacity : ndarray, shape (n_candidate,)
        Median rate at the stability boundary, requests/s; infinite for a closed loop.
    known_deployment : mapping of int to bool
        Whether the posterior knows the deployment, by reported candidate.
    sustained : Sustained or None
        Where nothing met the objectives.
    next_runs : tuple of Worth
        What to observe next, the best first, where the spread decides.
    n_simulated : int
        Blocks simulated now; the others were remembered.
    question : Question
        As put to every block.
    """

    study: SearchStudy
    space: Space
    race: Race
    decision: Decision | None
    front: tuple[FrontMember, ...]
    outcomes: Mapping[int, Outcomes]
    law_p_miss: float
    capacity: Array
    known_deployment: Mapping[int, bool]
    sustained: Sustained | None
    next_runs: tuple[Worth, ...]
    n_simulated: int
    question: Question

    @property
    def is_found(self) -> bool:
        """Whether some candidate is shown to hold the risk."""
        if self.decision is not None:
            return self.decision.winner is not None
        return any(member.holds for member in self.front)

    @property
    def n_exhaustive(self) -> int:
        """Full runs that every candidate on every block would take."""
        return len(self.space.candidates) * self.study.settings.draws


@dataclass(kw_only=True)
class Search:
    """A search that is under way.

    Parameters
    ----------
    study : SearchStudy
        What is asked.
    space : Space
        Its candidates.
    posteriors : mapping of str to Posterior
        Those that the candidates name.
    executor : Executor
        Where simulations run.
    results : pathlib.Path, optional
        File that outcomes are remembered in.
    seed : int
        Of everything.
    tell : callable
        Told each step.
    progress : callable
        Told ``(done, wanted)`` blocks of a batch.
    """

    study: SearchStudy
    space: Space
    posteriors: Mapping[str, Posterior]
    executor: Executor
    results: Path | None = None
    seed: int = 0
    tell: Callable[[str], None] = field(default_factory=lambda: silent)
    progress: Callable[[int, int], None] = field(default_factory=lambda: silent)
    simulator: Simulator = field(init=False)

    def __post_init__(self) -> None:
        settings, study = self.study.settings, self.study
        context = Context(
            posteriors=dict(self.posteriors),
            workload=study.workload,
            question=study.question(),
            seed=self.seed,
            n_block=settings.draws,
            n_fresh=settings.confirm * 2 ** (LOOKS - 1),
            n_run=settings.runs,
        )
        self.simulator = Simulator(
            candidates=self.space.candidates,
            context=context,
            store=Store(self.results, _identity(context, self.posteriors)),
            executor=self.executor,
            progress=self.progress,
        )

    @property
    def rules(self) -> Rules:
        """How the race decides."""
        settings = self.study.settings
        return Rules(
            risk=self.study.terms.risk,
            zone=settings.zone,
            n_block=settings.draws,
            budget=settings.budget,
            short_run=settings.short_run if may_shorten(self.study.workload) else 1.0,
            keep=settings.finalists,
        )

    def run(self) -> SearchResult:
        """Search.

        Returns
        -------
        SearchResult
            The answer.
        """
        if self.study.settings.goal == "pareto":
            return self._pareto()
        settings = self.study.settings
        decision = decide(
            self.simulator,
            self.rules,
            n_confirm=settings.confirm,
            finalists=settings.finalists,
            tell=self.tell,
        )
        reported = [c.candidate for c in decision.confirmed] + list(decision.comparisons)
        law = math.nan
        if decision.winner is not None:
            law = self._law_p_miss(decision.winner.candidate)
        return self._answer(decision.race, decision, (), reported, law)

    def _pareto(self) -> SearchResult:
        race = Race(rules=self.rules, evaluator=self.simulator, tell=self.tell)
        front = confirm_front(
            race, self.capacity(), n_confirm=self.study.settings.confirm, tell=self.tell
        )
        return self._answer(race, None, front, [m.candidate for m in front], math.nan)

    def _answer(
        self,
        race: Race,
        decision: Decision | None,
        front: tuple[FrontMember, ...],
        reported: list[int],
        law_p_miss: float,
    ) -> SearchResult:
        settings = self.study.settings
        reported = list(dict.fromkeys(reported or contenders(race)[:_SHOWN]))
        jobs = [Job(candidate=k, purpose=CONFIRM, first=0, last=settings.confirm) for k in reported]
        outcomes = dict(zip(reported, self.simulator.outcomes(jobs), strict=True))
        found = decision.winner is not None if decision is not None else any(m.holds for m in front)
        sustained = None if found else self._sustained(race)
        runs: tuple[Worth, ...] = ()
        if not found and sustained is not None and sustained.p_saturated <= 0.5:
            runs = self.observe_next(race, only_open=True)
        return SearchResult(
            study=self.study,
            space=self.space,
            race=race,
            decision=decision,
            front=front,
            outcomes=outcomes,
            law_p_miss=law_p_miss,
            capacity=self.capacity(),
            known_deployment={k: self._is_known(k) for k in reported},
            sustained=sustained,
            next_runs=runs,
            n_simulated=self.simulator.n_simulated,
            question=self.simulator.context.question,
        )

    def observe_next(
        self, race: Race | None = None, *, only_open: bool = False
    ) -> tuple[Worth, ...]:
        """What to observe next for the decision.

        Parameters
        ----------
        race : Race, optional
            That names the contenders; run where absent.
        only_open : bool
            Whether nothing is said about a decision that is settled already.

        Returns
        -------
        tuple of Worth
            The best first; empty where a closed loop or several posteriors stand in the way, or
            nothing is open.
        """
        if race is None:
            settings = self.study.settings
            race = decide(
                self.simulator,
                self.rules,
                n_confirm=settings.confirm,
                finalists=settings.finalists,
                tell=self.tell,
            ).race
        chosen = contenders(race)
        if not chosen or len({self.space.candidates[k].posterior for k in chosen}) > 1:
            return ()
        return tuple(
            observe_next(
                self.simulator,
                self.study,
                chosen,
                seed=self.seed,
                only_open=only_open,
                tell=self.tell,
            )
        )

    def capacity(self) -> Array:
        """Median rate at the stability boundary, with a cache that never forgets.

        Returns
        -------
        ndarray, shape (n_candidate,)
            Requests/s over all replicas; infinite for a closed loop.
        """
        rate = mean_rate(self.study.workload)
        if math.isnan(rate):
            return np.full(len(self.space.candidates), np.inf)
        return np.array([rate / np.median(load) for load in self._loads()])

    def _loads(self) -> list[Array]:
        bounds = Bounds(context=self.simulator.context)
        n = min(_CAPACITY_BLOCKS, self.study.settings.draws)
        return [bounds.load(c.fleet, c.posterior, n) for c in self.space.candidates]

    def _sustained(self, race: Race) -> Sustained | None:
        """How much the best candidate could take; None for a closed loop."""
        rate = mean_rate(self.study.workload)
        if math.isnan(rate):
            return None
        risk = self.study.terms.risk
        loads = self._loads()
        worst = np.array([np.quantile(load, 1 - risk) for load in loads])
        seen = [k for k in range(len(loads)) if race.n_seen[k] > 1]
        if np.median(worst) >= 1 or not seen:
            best = int(np.argmin(worst))
        else:
            best = min(seen, key=lambda k: (race.p_miss(k), worst[k], k))
        candidate = self.space.candidates[best]
        self.tell(f"largest rate that {candidate.fleet.title} sustains")
        blocks = self.simulator.context.blocks(candidate.posterior, RACE)
        few = blocks.but(
            draw_of=blocks.draw_of[:_CAPACITY_BLOCKS],
            workload_seeds=blocks.workload_seeds[:_CAPACITY_BLOCKS],
        )
        curve = rate_curve(
            candidate.fleet,
            few,
            workload_at(self.study.workload, min(1.0, _NEAR / float(worst[best]))),
            self.simulator.context.question,
            risk=risk,
            threads=2,
        )
        return Sustained(
            candidate=best,
            held=largest_held(curve, risk, seed=self.seed),
            boundary=float(rate / worst[best]),
            p_saturated=float((loads[best] >= 1).mean()),
        )

    def _law_p_miss(self, candidate: int) -> float:
        job = Job(candidate=candidate, purpose=LAW, first=0, last=self.study.settings.confirm)
        (scores,) = self.simulator.evaluate([job])
        return float(scores.missed.mean())

    def _is_known(self, candidate: int) -> bool:
        one = self.space.candidates[candidate]
        blocks = self.simulator.context.blocks(one.posterior, RACE)
        return blocks.draws(one.fleet.deployment).known_deployment

    def close(self) -> None:
        """Close results and executor."""
        self.simulator.store.close()
        self.executor.close()


def may_shorten(workload: Workload) -> bool:
    """Whether the first requests of a run see no more queueing than the whole run.

    Parameters
    ----------
    workload : Workload
        What arrives.

    Returns
    -------
    bool
        False where a cold cache, stages or a closed loop make the beginning special.
    """
    shared = any(c.prefix or c.repeat or c.session for c in workload.classes)
    return workload.concurrency is None and len(workload.stages) == 1 and not shared


def _identity(context: Context, posteriors: Mapping[str, Posterior]) -> dict[str, Any]:
    from importlib.metadata import version

    return {
        "objectives": [repr(o) for o in context.question.asked],
        "workload": repr(context.workload),
        "seed": context.seed,
        "runs": context.n_run,
        "posteriors": {
            name: [str(p.card.get(key)) for key in ("created", "model_sha256", "seed", "method")]
            + [float(np.sum(p.population.location))]
            for name, p in posteriors.items()
        },
        "tailcast": version("tailcast"),
    }
