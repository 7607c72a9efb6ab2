"""The engine as a function from effective numbers to log summaries of one observed run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.basis import FEATURES
from tailcast.coefficients import deployment_basis
from tailcast.deployment import Deployment
from tailcast.engine.deployment_limits import deployment_limits
from tailcast.engine.result import EngineResult
from tailcast.engine.run import simulate
from tailcast.errors import InputError
from tailcast.inference.effective import EffectiveMap, effective_law
from tailcast.inference.evidence import Output
from tailcast.latency_model import LatencyModel, Scale
from tailcast.request import RequestTable
from tailcast.workload.uncached import with_unique_prompts

Array = NDArray[np.float64]

UNCACHED = "uncached_odds"
"""Effective number of a run whose share of repeated prompts is unknown."""

_N_ODDS = 32

STAT_QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
"""Statistics over requests that are emulated, beside the mean."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInput:
    """One observed run before it is emulated.

    Parameters
    ----------
    name : str
        Identity of the run.
    deployment : Deployment
        Where it ran.
    requests : callable
        Seed to the requests that were sent.
    outputs : sequence of Output
        Observed summaries.
    content : str
        Hash of what the run was, for the emulator cache.
    n_seed : int
        How many different workload realisations the design uses.
    uncached : Scale, optional
        Prior of the odds that a prompt does not repeat an earlier one, where that is unknown.
    """

    name: str
    deployment: Deployment
    requests: Callable[[int], RequestTable]
    outputs: Sequence[Output]
    content: str
    n_seed: int = 8
    uncached: Scale | None = None


def run_engine(
    run: RunInput, mapping: EffectiveMap, effective: Array, seed: int, threads: int
) -> tuple[Array, EngineResult]:
    """Log summaries of engine runs at given effective numbers.

    Parameters
    ----------
    run : RunInput
        Observed run: deployment, requests, which summaries.
    mapping : EffectiveMap
        Of the deployment.
    effective : ndarray, shape (n_draw, n_effective)
        Effective numbers.
    seed : int
        First workload seed; draw i uses ``seed + i % n_seed``.
    threads : int
        Engine threads.

    Returns
    -------
    ndarray, shape (n_draw, n_output)
        Log seconds, NaN where a run gave nothing.
    EngineResult
        All else that the engine reports.
    """
    law = effective_law(mapping, effective)
    tables, of_draw = _tables(run, mapping, effective, seed)
    result = simulate(
        tables[0],
        deployment_limits(run.deployment),
        law,
        quantiles=tuple(STAT_QUANTILES.values()),
        threads=threads,
        draw_requests=[tables[k] for k in of_draw],
    )
    columns = []
    for output in run.outputs:
        metric = result.metrics.index(output.metric)
        stat = 0 if output.stat == "mean" else 1 + list(STAT_QUANTILES).index(output.stat)
        columns.append(result.stat[:, output.stage, metric, stat])
    with np.errstate(divide="ignore", invalid="ignore"):
        logs: Array = np.log(np.array(columns).T)
    return logs, result


def odds_grid(prior: Scale) -> Array:
    """Odds of an unshared prompt at which workloads are realised: quantiles of their prior.

    Parameters
    ----------
    prior : Scale
        Median and sd of the log odds.

    Returns
    -------
    ndarray, shape (n_grid,)
        Ascending.
    """
    from scipy.special import ndtri

    middle = (np.arange(_N_ODDS) + 0.5) / _N_ODDS
    odds: Array = prior.centre * np.exp(prior.sd * ndtri(middle))
    return odds


def _tables(
    run: RunInput, mapping: EffectiveMap, effective: Array, seed: int
) -> tuple[list[RequestTable], list[int]]:
    """Workload realisations, and which one each draw faces."""
    n = len(effective)
    if run.uncached is None or UNCACHED not in mapping.names:
        tables = [run.requests(seed + k) for k in range(min(run.n_seed, n))]
        return tables, [i % len(tables) for i in range(n)]
    grid = odds_grid(run.uncached)
    tables = [
        with_unique_prompts(run.requests(seed + k), float(odds / (1 + odds)), seed + k)
        for k, odds in enumerate(grid)
    ]
    own = np.log(effective[:, mapping.names.index(UNCACHED)])
    nearest = np.abs(own[:, None] - np.log(grid)[None, :]).argmin(axis=1)
    return tables, [int(k) for k in nearest]


def basis_range(model: LatencyModel, deployment: Deployment, ranges: Array) -> Array:
    """Least and largest value of each step basis over the steps of engine runs.

    Parameters
    ----------
    model : LatencyModel
        Which coefficients there are.
    deployment : Deployment
        Where the steps ran.
    ranges : ndarray, shape (n_draw, 5, 2)
        `EngineResult.ranges`: prefill tokens, prefill pairs, decodes, context, new tokens.

    Returns
    -------
    ndarray, shape (n_coefficient, 2)
        Seconds at datasheet peak or counts; zero for overheads.
    """
    basis = deployment_basis(model, deployment)
    low, high = np.nanmin(ranges[:, :, 0], axis=0), np.nanmax(ranges[:, :, 1], axis=0)
    out = np.zeros((len(model.names), 2))
    for k, name in enumerate(basis.names):
        for side, edge in enumerate((low, high)):
            features = np.zeros(len(FEATURES))
            features[FEATURES.index("step")] = 1.0
            features[FEATURES.index("prefill_token")] = edge[0]
            features[FEATURES.index("prefill_pair")] = edge[1]
            features[FEATURES.index("prefill_request")] = float(edge[0] > 0)
            features[FEATURES.index("decode")] = edge[2]
            features[FEATURES.index("context_token")] = edge[3]
            value = basis.features[k] @ features
            if name in basis.tables:
                table = basis.tables[name]
                value += table[min(int(edge[4]), len(table) - 1)]
            out[model.names.index(name), side] = value
    return out


def checked_outputs(name: str, outputs: Sequence[Output], n_stage: int) -> None:
    """Refuse summaries that no engine run can answer.

    Parameters
    ----------
    name : str
        Identity of the run, for the message.
    outputs : sequence of Output
        Observed summaries.
    n_stage : int
        Number of load stages of the requests.

    Raises
    ------
    InputError
        If there is none, a stage does not exist or a value is not finite.
    """
    if not outputs:
        raise InputError(f"{name}: no observed summary of ttft, e2e or tpot that can be fitted")
    for output in outputs:
        if not 0 <= output.stage < n_stage:
            raise InputError(f"{name}: observed stage {output.stage} but {n_stage} were sent")
        if not np.isfinite(output.log_observed):
            raise InputError(f"{name}: observed {output.key} of stage {output.stage} is no latency")
