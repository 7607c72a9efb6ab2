"""Which run to observe next: how likely it is to settle, or to flip, the decision at hand.

Preposterior analysis by reweighting: an observation is simulated from each posterior draw in turn,
the other draws are weighted by its likelihood, and the decision is made again with the weights.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tailcast.engine.deployment_limits import deployment_limits
from tailcast.engine.result import METRICS
from tailcast.engine.run import simulate
from tailcast.errors import UsageError
from tailcast.inference.population import Population
from tailcast.inference.regimes import workload_regimes
from tailcast.request import RequestTable
from tailcast.risk.blocks import Blocks
from tailcast.risk.fleet import Fleet
from tailcast.risk.stability import offered_load, request_shape
from tailcast.risk.trial import law_rows
from tailcast.slo import stat_quantile
from tailcast.streams import stream
from tailcast.workload.materialise import materialise
from tailcast.workload.spec import Workload

Array = NDArray[np.float64]

DEPLOYMENT_SCALES = ("deployment", "moe", "tensor_parallel")
"""Discrepancies that a deployment keeps from run to run; the others are drawn for each run."""

_FLOOR = 0.005
_LEAST_ESS = 20.0
_WIDER = 1.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Stakes:
    """The decision that an observation could change.

    Parameters
    ----------
    cost : ndarray, shape (n_candidate,)
        Of the contenders.
    missed : ndarray of bool, shape (n_candidate, n_block)
        Which contender misses in which block.
    risk : float
        Accepted P(miss).
    """

    cost: Array
    missed: NDArray[np.bool_]
    risk: float

    @property
    def is_settled(self) -> bool:
        """Whether a contender holds the risk now, and no cheaper one may."""
        n = self.missed.shape[1]
        chosen, settled = self.choice(np.full((1, n), 1.0 / n))
        return bool(settled[0] and chosen[0] >= 0)

    def choice(self, weights: Array) -> tuple[Array, NDArray[np.bool_]]:
        """Decision under weights of the blocks.

        Parameters
        ----------
        weights : ndarray, shape (n_case, n_block)
            Each row sums to 1.

        Returns
        -------
        tuple of ndarray
            The contender chosen in each case, -1 for none; and whether that is settled: no cheaper
            contender is neither likely to miss nor shown to meet.
        """
        p_miss = weights @ self.missed.T
        order = np.lexsort((np.arange(len(self.cost)), self.cost))
        chosen = np.full(len(weights), -1)
        settled = np.ones(len(weights), dtype=np.bool_)
        for case, row in enumerate(p_miss):
            held = [k for k in order if row[k] <= self.risk + 1e-12]
            if held:
                level = self.cost[held[0]]
                chosen[case] = min((k for k in held if self.cost[k] == level), key=row.__getitem__)
            least = self.cost[chosen[case]] if held else np.inf
            open_ = (self.cost < least) & (row > self.risk) & (row <= 0.5)
            settled[case] = not open_.any()
        return chosen, settled


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """A run that could be observed.

    Parameters
    ----------
    fleet : Fleet
        One replica.
    workload : Workload
        What would be sent.
    label : str
        For people.
    """

    fleet: Fleet
    workload: Workload
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Worth:
    """What observing a run is worth.

    Parameters
    ----------
    option : Option
        The run.
    p_flip : float
        Probability that the decision changes.
    p_settle : float
        Probability that it is settled afterwards.
    p_none : float
        Probability that no contender holds the risk afterwards.
    mcse : float
        Monte Carlo standard error of `p_settle`.
    saving : float
        Expected cost of the decision now minus afterwards; NaN where there is none now.
    ess : float
        Median effective number of draws after an observation.
    widening : float
        Factor by which the noise was widened to keep that number; above 1 the run is worth more
        than is said.
    """

    option: Option
    p_flip: float
    p_settle: float
    p_none: float
    mcse: float
    saving: float
    ess: float
    widening: float


def worth_of(
    option: Option, blocks: Blocks, stakes: Stakes, *, seed: int = 0, threads: int = 1
) -> Worth:
    """Expected effect of observing one run on a decision.

    Parameters
    ----------
    option : Option
        The run.
    blocks : Blocks
        Whose outcomes the stakes are.
    stakes : Stakes
        The decision.
    seed : int
        Of the simulated noise.
    threads : int
        Engine threads.

    Returns
    -------
    Worth
        Probabilities over what may be observed.
    """
    n = stakes.missed.shape[1]
    sent = materialise(option.workload, int(blocks.workload_seeds[0, 0]))
    blocks = blocks.but(
        draw_of=blocks.draw_of[:n],
        workload_seeds=blocks.workload_seeds[:n],
        regimes=workload_regimes(sent),
    )
    names = observed_names(blocks.population)
    steady_blocks = blocks.but(population=_without_run_effects(blocks))
    shown, steady = (
        _summaries(option, sent, own, names, threads) for own in (blocks, steady_blocks)
    )
    keep = np.isfinite(shown).all(axis=1) & np.isfinite(steady).all(axis=1)
    if keep.sum() < 2:
        return _worthless(option, stakes)
    noise = np.array([np.median(blocks.population.noise[name]) for name in names])
    noise = np.sqrt(noise**2 + _FLOOR**2)
    nu = blocks.population.latency_model.noise_nu
    rng = stream(seed, "measure", option.label)
    observed = shown[keep] + noise * rng.standard_t(nu, (int(keep.sum()), len(names)))
    spread = np.cov((shown - steady)[keep].T).reshape(len(names), len(names))
    weights, ess, widening = observation_weights(
        observed, steady[keep], spread + np.diag(noise**2), nu
    )
    kept = replace(stakes, missed=stakes.missed[:, keep])
    return _judged(option, kept, weights, ess, widening)


def observed_names(population: Population) -> list[str]:
    """Summaries of a run that a posterior has a noise scale for.

    Parameters
    ----------
    population : Population
        Draws with noise scales.

    Returns
    -------
    list of str
        ``"metric.statistic"``.
    """
    return [name for name in population.noise if name.partition(".")[0] in METRICS]


def observation_weights(
    observed: Array, predicted: Array, covariance: Array, nu: float
) -> tuple[Array, float, float]:
    """Weights of the other draws after each simulated observation.

    Parameters
    ----------
    observed, predicted : ndarray, shape (n_draw, n_summary)
        Logs: what would be seen if draw i were true, and what draw j predicts.
    covariance : ndarray, shape (n_summary, n_summary)
        Of what a run adds: run discrepancies and noise.
    nu : float
        Degrees of freedom of the multivariate t likelihood.

    Returns
    -------
    tuple
        Weights of shape (n_draw, n_draw), each row summing to 1 and zero for the draw itself; the
        median effective number; the factor by which the scale was widened so that it is at least
        20 (or a fifth of the draws).
    """
    n, width = observed.shape
    root = np.linalg.cholesky(covariance + 1e-12 * np.eye(width))
    left, right = (np.linalg.solve(root, x.T).T for x in (observed, predicted))
    distance = ((left[:, None, :] - right[None, :, :]) ** 2).sum(axis=2)
    widening, least = 1.0, min(_LEAST_ESS, n / 5)
    while True:
        log_w = -0.5 * (nu + width) * np.log1p(distance / widening**2 / nu)
        np.fill_diagonal(log_w, -np.inf)
        weights = np.exp(log_w - log_w.max(axis=1, keepdims=True))
        weights /= weights.sum(axis=1, keepdims=True)
        ess = float(np.median(1.0 / (weights**2).sum(axis=1)))
        if ess >= least:
            return weights, ess, widening
        widening *= _WIDER


def _judged(option: Option, stakes: Stakes, weights: Array, ess: float, widening: float) -> Worth:
    n = weights.shape[1]
    now, _ = stakes.choice(np.full((1, n), 1.0 / n))
    after, settled = stakes.choice(weights)
    p_settle = float((settled & (after >= 0)).mean())
    saving = math.nan
    if now[0] >= 0:
        known = after >= 0
        spent = np.where(known, stakes.cost[after], stakes.cost.max())
        saving = float(stakes.cost[now[0]] - spent.mean())
    return Worth(
        option=option,
        p_flip=float((after != now[0]).mean()),
        p_settle=p_settle,
        p_none=float((after < 0).mean()),
        mcse=math.sqrt(max(p_settle * (1 - p_settle), 1 / n) / n),
        saving=saving,
        ess=ess,
        widening=widening,
    )


def _worthless(option: Option, stakes: Stakes) -> Worth:
    return Worth(
        option=option,
        p_flip=0.0,
        p_settle=0.0,
        p_none=0.0,
        mcse=0.0,
        saving=0.0 if stakes.cost.size else math.nan,
        ess=0.0,
        widening=math.inf,
    )


def _without_run_effects(blocks: Blocks) -> Population:
    """The population with deployments as different as they are, and runs all alike."""
    scale = {
        name: values if name in DEPLOYMENT_SCALES else np.zeros_like(values)
        for name, values in blocks.population.scale.items()
    }
    return replace(blocks.population, scale=scale)


def _summaries(
    option: Option, sent: RequestTable, blocks: Blocks, names: Sequence[str], threads: int
) -> Array:
    """Logs of a run's summaries by block; one trace is sent to all, as it would be."""
    deployment = option.fleet.deployment
    draws = blocks.draws(deployment)
    wanted = [name.partition(".")[::2] for name in names]
    quantiles = {stat: stat_quantile(stat) for _, stat in wanted}
    levels = {stat: q for stat, q in quantiles.items() if q is not None}
    law = law_rows(draws.law, blocks.draw_of)
    result = simulate(
        sent,
        deployment_limits(deployment),
        law,
        quantiles=tuple(levels.values()),
        threads=threads,
    )
    shape = request_shape(sent, prefix_caching=deployment.engine.prefix_caching)
    late = draws.late(blocks.draw_of, offered_load(law, deployment, shape))
    columns = ["mean", *levels]
    found = np.empty((len(blocks.draw_of), len(names)))
    for k, (metric, stat) in enumerate(wanted):
        values = result.stat[:, -1, METRICS.index(metric), columns.index(stat)]
        factor = late if metric == "ttft" else 1.0
        with np.errstate(divide="ignore", invalid="ignore"):
            found[:, k] = np.log(values * factor)
    return found


def rank_options(
    options: Sequence[Option],
    blocks: Blocks,
    stakes: Stakes,
    *,
    seed: int = 0,
    threads: int = 1,
    progress: Callable[[str], None] = lambda line: None,
) -> list[Worth]:
    """Worth of several runs, the best first.

    Parameters
    ----------
    options : sequence of Option
        Runs that could be observed.
    blocks : Blocks
        Whose outcomes the stakes are.
    stakes : Stakes
        The decision.
    seed : int
        Of the simulated noise.
    threads : int
        Engine threads.
    progress : callable
        Told each option.

    Returns
    -------
    list of Worth
        By probability to settle, then to flip.

    Raises
    ------
    UsageError
        If there is no option.
    """
    if not options:
        raise UsageError("nothing to observe: give rates in [measure], or contenders to search")
    worth = []
    for option in options:
        progress(f"weighing {option.label}")
        worth.append(worth_of(option, blocks, stakes, seed=seed, threads=threads))
    return sorted(worth, key=lambda w: (-w.p_settle, -w.p_flip))
