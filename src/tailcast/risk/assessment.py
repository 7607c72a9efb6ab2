"""The whole answer to "how likely is it that this fleet misses these objectives?"."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.inference.regimes import workload_regimes
from tailcast.latency_model import LatencyModel
from tailcast.posteriors import Posterior
from tailcast.prediction import predictive
from tailcast.risk.blocks import Blocks, predictive_blocks
from tailcast.risk.curve import Curve, least_target, target_curve
from tailcast.risk.fleet import Fleet
from tailcast.risk.split import Crossed, Split, crossed_runs
from tailcast.risk.tables import Tables
from tailcast.risk.trial import Outcomes, Question, run_blocks
from tailcast.risk.vary import mean_rate, rate_curve, replica_curve
from tailcast.slo import Miss, Verdict, miss_of, verdict_of
from tailcast.workload.materialise import materialise
from tailcast.workload.spec import Workload

Array = NDArray[np.float64]

_CROSSED_DRAWS = 60
_CROSSED_SEEDS = 6
_LONG_RUN = 10_000
_CURVE_DRAWS = 200
_WARNING_DRAWS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Assessment:
    """P(miss) of a fleet under a workload.

    Parameters
    ----------
    fleet : Fleet
        What was simulated.
    question : Question
        What was asked.
    workload : Workload
        What arrives.
    posterior : str
        Name of the posterior.
    known_deployment : bool
        Whether the posterior knows this very deployment.
    warnings : tuple of str
        What the answer leans on or extrapolates from, one sentence each.
    extrapolates : bool
        Whether steps leave the range of the posterior's data.
    outcomes : Outcomes
        One row a block: its own posterior draw and workload seed.
    law_only : Outcomes
        The same blocks without discrepancies.
    crossed : Crossed
        Draws crossed with workload seeds.
    curves : mapping of str to Curve
        By what they are over.
    n_request : int
        Requests of the first run.
    risk : float
        Accepted P(miss).
    horizon : str
        ``"window"`` or ``"process"``: which P(miss) decides.
    """

    fleet: Fleet
    question: Question
    workload: Workload
    posterior: str
    known_deployment: bool
    warnings: tuple[str, ...]
    extrapolates: bool
    outcomes: Outcomes
    law_only: Outcomes
    crossed: Crossed
    curves: Mapping[str, Curve]
    n_request: int
    risk: float
    horizon: str

    @property
    def mode(self) -> str:
        """``"transfer"`` where the posterior knows this deployment, else ``"cold"``."""
        return "transfer" if self.known_deployment else "cold"

    @property
    def p_saturated(self) -> float:
        """Share of blocks beyond the stability boundary."""
        return float(np.mean(~self.outcomes.stable))

    @property
    def rate(self) -> float:
        """Requests/s over the whole run; NaN for a closed loop."""
        return mean_rate(self.workload)

    @property
    def window(self) -> list[Miss]:
        """P(the next run of `n_request` requests shows a miss), joint one last."""
        return self._rows(self.outcomes.missed(self.question))

    @property
    def process(self) -> list[Miss]:
        """P(the long-run statistic misses), joint one last."""
        return self._rows(self.crossed.long_run_missed(self.question))

    @property
    def law(self) -> list[Miss]:
        """As `window`, by the latency law alone: no discrepancy between law and reality."""
        return self._rows(self.law_only.missed(self.question))

    @property
    def decisive(self) -> Miss:
        """Joint P(miss) that the decision is about."""
        return (self.window if self.horizon == "window" else self.process)[-1]

    def splits(self) -> dict[str, Split]:
        """Variance of the answer by source; see `tailcast.risk.split.Crossed.split`.

        Returns
        -------
        dict of str to Split
            By objective, ``"all"`` and ``"missed"``.
        """
        return self.crossed.split(self.question)

    def least_targets(self) -> list[float]:
        """Least target of each objective that the next run holds at the risk, seconds.

        Returns
        -------
        list of float
            NaN for a goodput.
        """
        return [
            math.nan if o.is_goodput else least_target(self.outcomes, k, self.risk)
            for k, o in enumerate(self.question.objectives)
        ]

    def verdict(self) -> Verdict:
        """Yes, no or unsure, and what to do.

        Returns
        -------
        Verdict
            ``yes`` where the decisive P(miss) is within the risk, ``no`` where it is above a half.
        """
        shares = self.splits()["all"].shares()
        learn = (
            "observe this deployment and update the posterior"
            if shares["coefficients"] + shares["discrepancy"] > 0.5
            else "which requests arrive decides; leave more headroom, or judge longer runs"
        )
        rows = self.window if self.horizon == "window" else self.process
        n_objective = len(self.question.objectives)
        return verdict_of(rows, n_objective, self.p_saturated, self.risk, learn)

    def _rows(self, missed: NDArray[np.bool_]) -> list[Miss]:
        labels = [str(o) for o in self.question.objectives]
        rows = [miss_of(label, missed[:, k]) for k, label in enumerate(labels)]
        return rows if len(rows) == 1 else [*rows, miss_of("all", missed.any(axis=1))]


def assess(
    posterior: Posterior | LatencyModel,
    fleet: Fleet,
    workload: Workload,
    question: Question,
    *,
    risk: float = 0.05,
    horizon: str = "window",
    n_draw: int = 400,
    seed: int = 0,
    curves: tuple[str, ...] = (),
    threads: int = 2,
    progress: Callable[[str], None] | None = None,
) -> Assessment:
    """Simulate a fleet and answer everything about its objectives.

    Parameters
    ----------
    posterior : Posterior or LatencyModel
        What to draw from.
    fleet : Fleet
        Replicas.
    workload : Workload
        What arrives.
    question : Question
        What is asked.
    risk : float
        Accepted P(miss).
    horizon : str
        ``"window"`` or ``"process"``.
    n_draw : int
        Blocks for the window's P(miss); the same as `tailcast.prediction.predictive` simulates.
    seed : int
        Same seed, same answer.
    curves : tuple of str
        ``"rate"``, ``"target"``, ``"replicas"``.
    threads : int
        Engine threads.
    progress : callable, optional
        Told what is being done.

    Returns
    -------
    Assessment
        With its runs.
    """
    tell = progress or _silent
    tables = Tables(lambda s: materialise(workload, s))
    regimes = workload_regimes(tables(seed))
    blocks = predictive_blocks(posterior, n_draw, seed).but(regimes=regimes)
    tell(f"{n_draw} draws of {fleet.title}")
    chosen = np.arange(n_draw)
    outcomes = run_blocks(fleet, blocks, tables, question, chosen, threads=threads)
    trusting = blocks.but(with_discrepancy=False)
    law_only = run_blocks(fleet, trusting, tables, question, chosen, threads=threads)
    n_request = len(tables(int(blocks.workload_seeds[0, 0])))
    tell("draws crossed with workloads")
    n_few = min(_CROSSED_DRAWS, max(n_draw, 2))
    few = predictive_blocks(posterior, n_few, seed).but(regimes=regimes)
    n_seed = min(max(_CROSSED_SEEDS, math.ceil(_LONG_RUN / n_request)), few.n_block, 24)
    crossed = crossed_runs(fleet, few, tables, question, n_seed=n_seed, threads=threads)
    rank = predictive(
        posterior,
        fleet.deployment,
        lambda s: tables.dealt(s, fleet.n_rank)[0].table,
        n_draw=min(n_draw, _WARNING_DRAWS),
        seed=seed,
        threads=threads,
    )
    return Assessment(
        fleet=fleet,
        question=question,
        workload=workload,
        posterior=posterior.name,
        known_deployment=blocks.draws(fleet.deployment).known_deployment,
        warnings=rank.warnings,
        extrapolates=rank.extrapolates,
        outcomes=outcomes,
        law_only=law_only,
        crossed=crossed,
        curves=_curves(
            fleet,
            predictive_blocks(posterior, min(n_draw, _CURVE_DRAWS), seed).but(regimes=regimes),
            workload,
            question,
            outcomes,
            wanted=curves,
            risk=risk,
            threads=threads,
            tell=tell,
        ),
        n_request=n_request,
        risk=risk,
        horizon=horizon,
    )


def _silent(line: str) -> None:
    """Tell nobody."""


def _curves(
    fleet: Fleet,
    blocks: Blocks,
    workload: Workload,
    question: Question,
    outcomes: Outcomes,
    *,
    wanted: tuple[str, ...],
    risk: float,
    threads: int,
    tell: Callable[[str], None],
) -> dict[str, Curve]:
    curves = {}
    if "rate" in wanted and workload.concurrency is None:
        curves["rate"] = rate_curve(
            fleet, blocks, workload, question, risk=risk, threads=threads, progress=tell
        )
    if "replicas" in wanted:
        tables = Tables(lambda s: materialise(workload, s))
        curves["replicas"] = replica_curve(
            fleet, blocks, tables, question, risk=risk, threads=threads
        )
    if "target" in wanted and np.any(outcomes.stable):
        for k, objective in enumerate(question.objectives):
            if not objective.is_goodput:
                curves[objective.name] = target_curve(outcomes, question, k)
    return curves
