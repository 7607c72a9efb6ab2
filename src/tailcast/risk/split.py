r"""Where the spread of an answer comes from: coefficients, discrepancy, workload, finite run.

Draws and workload seeds are crossed, so the seeds are shared by all draws. The one-way formula
would then subtract the common seed effect from the spread between draws and find none; a two-way
layout does not (10.1002/9780470316856, chapter 4). Coefficients and discrepancies are told apart by
crossing each draw's coefficients with a second, fresh discrepancy and taking the covariance over
draws (10.1016/j.cpc.2009.09.018).
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.risk.blocks import Blocks
from tailcast.risk.fleet import Fleet
from tailcast.risk.tables import Tables
from tailcast.risk.trial import Outcomes, Question, run_blocks
from tailcast.slo import stat_quantile

Array = NDArray[np.float64]

PARTS = ("coefficients", "discrepancy", "workload", "finite_run")
_LOG_CAP = 3.0
_SHIFT = 982_451_653
"""Between the seeds of two sets of discrepancies."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """Variance of a quantity by source.

    Parameters
    ----------
    coefficients : float
        Which posterior draw, new levels included.
    discrepancy : float
        Deployment, run and TTFT discrepancies.
    workload : float
        Which requests arrive, alike for all draws.
    finite_run : float
        What is left: how draws and requests happen to meet in one run.
    """

    coefficients: float
    discrepancy: float
    workload: float
    finite_run: float

    @property
    def total(self) -> float:
        """Sum of the parts."""
        return self.coefficients + self.discrepancy + self.workload + self.finite_run

    def shares(self) -> dict[str, float]:
        """Share of each part.

        Returns
        -------
        dict of str to float
            By name in `PARTS`; all zero where nothing varies.
        """
        total = self.total
        return {name: getattr(self, name) / total if total > 0 else 0.0 for name in PARTS}


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossed:
    """Draws crossed with workload seeds.

    Parameters
    ----------
    both : Outcomes
        Draw i with its own coefficients and discrepancy; rows draw by draw, seeds inside.
    fresh : Outcomes
        The same coefficients with a fresh discrepancy.
    n_draw, n_seed : int
        Their number; each has ``n_draw * n_seed`` rows.
    """

    both: Outcomes
    fresh: Outcomes
    n_draw: int
    n_seed: int

    def split(self, question: Question) -> dict[str, Split]:
        """Variance of the log statistics by source, and of whether anything is missed.

        Parameters
        ----------
        question : Question
            That was asked.

        Returns
        -------
        dict of str to Split
            By objective; ``"all"`` is the largest log ratio of value to target, ``"missed"`` the
            indicator of missing anything, whose variance is that of one run.
        """
        pairs = {
            str(o): [_capped(run.margins(question)[:, k], run) for run in (self.both, self.fresh)]
            for k, o in enumerate(question.objectives)
        }
        pairs["all"] = [worst_margin(run, question) for run in (self.both, self.fresh)]
        pairs["missed"] = [(margin > 0).astype(np.float64) for margin in pairs["all"]]
        shape = (self.n_draw, self.n_seed)
        return {
            name: crossed_split(left.reshape(shape), right.reshape(shape))
            for name, (left, right) in pairs.items()
        }

    def long_run_missed(self, question: Question) -> NDArray[np.bool_]:
        """Which draws miss which objective in the long run, by exceedances pooled over seeds.

        A percentile is missed where more of the pooled requests exceed the target than it allows.

        Parameters
        ----------
        question : Question
            That was asked.

        Returns
        -------
        ndarray of bool, shape (n_draw, n_objective)
            True beyond the stability boundary, too.
        """
        shape = (self.n_draw, self.n_seed, -1)
        part = self.both.part.reshape(shape).sum(axis=1)
        whole = self.both.whole.reshape(shape).sum(axis=1)
        load = self.both.load.reshape(self.n_draw, self.n_seed).mean(axis=1)
        missed = np.zeros((self.n_draw, len(question.objectives)), dtype=np.bool_)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = part / whole
        for k, objective in enumerate(question.objectives):
            probability = None if objective.is_goodput else stat_quantile(objective.stat)
            if probability is None:
                missed[:, k] = objective.margin(ratio[:, k]) > 0
            else:
                missed[:, k] = ~(ratio[:, k] <= 1 - probability)
        beyond: NDArray[np.bool_] = ~(load < 1.0)
        return missed | beyond[:, None]


def crossed_runs(
    fleet: Fleet,
    blocks: Blocks,
    tables: Tables,
    question: Question,
    *,
    n_seed: int,
    threads: int = 1,
) -> Crossed:
    """Run every draw with every one of a few workload seeds, with two sets of discrepancies.

    Parameters
    ----------
    fleet : Fleet
        Replicas.
    blocks : Blocks
        Draws; the seeds are those of the first blocks.
    tables : Tables
        Requests by seed.
    question : Question
        What is asked.
    n_seed : int
        Seeds.
    threads : int
        Engine threads.

    Returns
    -------
    Crossed
        ``2 * n_draw * n_seed`` runs.
    """
    n = len(blocks.rows)
    crossed = blocks.but(
        draw_of=np.repeat(np.arange(n), n_seed),
        workload_seeds=np.tile(blocks.workload_seeds[:n_seed, 0], n)[:, None],
    )
    fresh = crossed.but(discrepancy_seed=blocks.seed + _SHIFT)
    chosen = np.arange(n * n_seed)
    both, other = (
        run_blocks(fleet, layout, tables, question, chosen, threads=threads)
        for layout in (crossed, fresh)
    )
    return Crossed(both=both, fresh=other, n_draw=n, n_seed=n_seed)


def crossed_split(both: Array, fresh: Array) -> Split:
    r"""Variance components of a crossed layout.

    With mean products :math:`M` in place of mean squares, the component of what two layouts have in
    common is

    .. math:: \sigma^2 = \frac{M_\mathrm{draw} - M_\mathrm{draw \times seed}}{S}

    Parameters
    ----------
    both, fresh : ndarray, shape (n_draw, n_seed)
        A quantity under the two layouts of `Crossed`.

    Returns
    -------
    Split
        Estimates below zero are zero; what coefficients and discrepancy do only together counts as
        discrepancy.
    """
    n_draw, n_seed = both.shape
    epistemic = max(_component(both, both), 0.0)
    coefficients = min(max(_component(both, fresh), 0.0), epistemic)
    interaction = _interaction(both, both)
    between = n_draw * float(both.mean(axis=0).var(ddof=1)) if n_seed > 1 else 0.0
    return Split(
        coefficients=coefficients,
        discrepancy=epistemic - coefficients,
        workload=max((between - interaction) / n_draw, 0.0),
        finite_run=interaction,
    )


def _component(left: Array, right: Array) -> float:
    n_draw, n_seed = left.shape
    a, b = left.mean(axis=1), right.mean(axis=1)
    between = n_seed * float(((a - a.mean()) * (b - b.mean())).sum()) / (n_draw - 1)
    return float((between - _interaction(left, right)) / n_seed)


def _interaction(left: Array, right: Array) -> float:
    """Mean product of what draw and seed effects leave."""
    n_draw, n_seed = left.shape
    rest = []
    for table in (left, right):
        row = table.mean(axis=1, keepdims=True)
        rest.append(table - row - table.mean(axis=0, keepdims=True) + table.mean())
    degrees = (n_draw - 1) * max(n_seed - 1, 1)
    return float((rest[0] * rest[1]).sum() / degrees)


def worst_margin(outcomes: Outcomes, question: Question) -> Array:
    """Largest log ratio of value to target over objectives, by run.

    Parameters
    ----------
    outcomes : Outcomes
        Of runs.
    question : Question
        That was asked.

    Returns
    -------
    ndarray, shape (n_run,)
        Capped, so that runs that saturate count as far off and no more.
    """
    return _capped(outcomes.margins(question).max(axis=1), outcomes)


def _capped(margin: Array, outcomes: Outcomes) -> Array:
    within = np.where(outcomes.stable, margin, _LOG_CAP)
    return np.asarray(np.clip(within, -_LOG_CAP, _LOG_CAP), dtype=np.float64)
