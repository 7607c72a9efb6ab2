"""Simulation-based calibration of the fit of the three numbers.

Truths are drawn from the prior, windows from the truths, and each is fitted: the rank of a truth
among its draws is uniform if the sampler draws from the posterior of the model that it states
(Talts et al. 2018, arXiv:1804.06788). The joint log likelihood is ranked beside the parameters,
since it sees mistakes that no single parameter shows (Modrak et al. 2023, doi:10.1214/23-BA1404).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from tailcast.inference.queue_data import METRICS, NUMBERS, STUDENT_DOF, QueueData, queue_data
from tailcast.inference.queue_draws import (
    QueueDraws,
    draws_from_free,
    expected_logs,
    latency_draws,
    prior_free,
)
from tailcast.inference.queue_fit import CompiledQueueModel, QueueSampler, fit_queue
from tailcast.inference.queue_tree import queue_posterior
from tailcast.queueing.capacity import capacity_draws
from tailcast.queueing.parameter_prior import NumbersPrior
from tailcast.queueing.server import Floats, RequestShape, ServerLimits
from tailcast.queueing.sizing import Targets
from tailcast.queueing.windows import Window
from tailcast.streams import stream

# about as many draws count, thinned so that they are nearly independent
_KEPT = 100
_LEVELS = {"window_scale": METRICS, "shape_scale": METRICS, "ttft_bias": ("level", "slope")}


@dataclass(frozen=True, slots=True, kw_only=True)
class SbcDesign:
    """Windows that are simulated for every truth.

    Parameters
    ----------
    shapes : tuple of tuple of float
        Prompt and output tokens.
    n_each : int
        Windows of each shape.
    loads : tuple of float
        Least and largest rate, in stability boundaries at the prior's medians; rates must not
        depend on the truth, or they would tell of it what the fit does not know.
    spread : float
        Factor on the discrepancy that is simulated; one is what the likelihood states, any other
        value makes that likelihood wrong.
    """

    shapes: tuple[tuple[float, float], ...] = (
        (512.0, 256.0),
        (1024.0, 512.0),
        (128.0, 1024.0),
        (2048.0, 128.0),
    )
    n_each: int = 2
    loads: tuple[float, float] = (0.05, 0.5)
    spread: float = 1.0


def queue_sbc(
    n_simulation: int,
    prior: NumbersPrior,
    limits: ServerLimits,
    *,
    seed: int,
    design: SbcDesign | None = None,
    sampler: QueueSampler | None = None,
    report: Callable[[int], None] = lambda _: None,
) -> xr.DataTree:
    """Ranks of truths among the draws of their fits.

    Parameters
    ----------
    n_simulation : int
        Truths, and fits.
    prior : NumbersPrior
        That the truths come from.
    limits : ServerLimits
        Of the replica.
    seed : int
        Same seed, same ranks.
    design : SbcDesign, optional
        Windows.
    sampler : QueueSampler, optional
        Sizes of each fit.
    report : callable
        Receives the number of fits that are done.

    Returns
    -------
    xarray.DataTree
        Group prior_sbc: for each unknown its ranks as values within 0 and 1, dims (chain, draw)
        with one chain and a draw for each simulation, ready for ``arviz.plot_ecdf_pit``.
    """
    wanted, sizes = design or SbcDesign(), sampler or QueueSampler(draws=300, chains=1, cores=1)
    compiled: CompiledQueueModel | None = None
    ranks: list[dict[str, float]] = []
    for place in range(n_simulation):
        generator = stream(seed, "sbc", place)
        truth, windows = _simulated(wanted, prior, limits, generator)
        data = queue_data(windows, prior, limits)
        compiled = compiled or CompiledQueueModel(data)
        tree = fit_queue(
            windows, prior, limits, seed=seed + place, sampler=sizes, compiled=compiled
        )
        fitted = queue_posterior(tree).draws
        ranks.append(_ranks(_unknowns(fitted, data), _unknowns(truth, data), generator))
        report(place + 1)
    variables = {
        name: (("chain", "draw"), np.array([[row[name] for row in ranks]])) for name in ranks[0]
    }
    dataset = xr.Dataset(variables, coords={"chain": [0], "draw": np.arange(n_simulation)})
    return xr.DataTree.from_dict({"/prior_sbc": dataset})


def _simulated(
    design: SbcDesign, prior: NumbersPrior, limits: ServerLimits, generator: np.random.Generator
) -> tuple[QueueDraws, list[Window]]:
    windows = []
    for tokens_in, tokens_out in design.shapes:
        shape = RequestShape(tokens_in=tokens_in, tokens_out=tokens_out)
        boundary = float(capacity_draws(prior.log_mean, shape, limits, Targets()).rate[0])
        for _ in range(design.n_each):
            rate = boundary * generator.uniform(*design.loads)
            blank = Window(tokens_in=tokens_in, tokens_out=tokens_out, rate=rate, ttft=1, itl=1)
            windows.append(blank)
    data = queue_data(windows, prior, limits)
    truth = draws_from_free(prior_free(1, data, generator), data)
    spoilt = replace(
        truth,
        window_scale=design.spread * truth.window_scale,
        shape_offset=design.spread * truth.shape_offset,
    )
    drawn = latency_draws(spoilt, data.columns, limits, data.groups, generator)[0]
    measured = [
        replace(window, ttft=float(ttft), itl=float(itl))
        for window, (ttft, itl) in zip(windows, drawn, strict=True)
    ]
    return truth, measured


def _unknowns(draws: QueueDraws, data: QueueData) -> dict[str, Floats]:
    """Quantities that are ranked, each of shape (n_draw,)."""
    found = {name: draws.log_numbers[:, place] for place, name in enumerate(NUMBERS)}
    found["overhead"] = draws.overhead
    tables = {
        "window_scale": draws.window_scale,
        "shape_scale": draws.shape_scale,
        "ttft_bias": draws.bias,
    }
    for name, table in tables.items():
        for place, level in enumerate(_LEVELS[name]):
            found[f"{name}_{level}"] = table[:, place]
    found["log_likelihood"] = _log_likelihood(draws, data)
    return found


def _log_likelihood(draws: QueueDraws, data: QueueData) -> Floats:
    logs = expected_logs(draws, data.columns, data.limits, data.groups)
    scale = np.hypot(draws.window_scale[:, None], data.noise)
    away = (data.log_measured - logs) / scale
    each = -np.log(scale) - 0.5 * (STUDENT_DOF + 1.0) * np.log1p(away**2 / STUDENT_DOF)
    total: Floats = np.nansum(each, axis=(1, 2))
    return total


def _ranks(
    fitted: dict[str, Floats], truth: dict[str, Floats], generator: np.random.Generator
) -> dict[str, float]:
    found = {}
    for name, draws in fitted.items():
        kept = draws[:: max(1, draws.size // _KEPT)]
        # a rank among n draws, spread evenly over its cell, is uniform and continuous
        found[name] = float((np.sum(kept < truth[name]) + generator.random()) / (kept.size + 1))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniformity:
    """Whether ranks look uniform.

    Parameters
    ----------
    p_location, p_spread : mapping of str to float
        By unknown: p-values of Kolmogorov and Smirnov's exact test, of the ranks u and of
        ``|2 u - 1|``, which sees intervals that are too narrow or too wide.
    """

    p_location: dict[str, float]
    p_spread: dict[str, float]

    @property
    def p_value(self) -> float:
        """Least p-value times the number of tests (Bonferroni), at most one."""
        every = [*self.p_location.values(), *self.p_spread.values()]
        return min(1.0, min(every) * len(every))


def rank_uniformity(tree: xr.DataTree, names: Sequence[str] | None = None) -> Uniformity:
    """Test the ranks of `queue_sbc`.

    Parameters
    ----------
    tree : xarray.DataTree
        With group prior_sbc.
    names : sequence of str, optional
        Unknowns to look at; all by default.

    Returns
    -------
    Uniformity
        ``p_value`` below a level is a false alarm with at most that probability.
    """
    from scipy import stats

    group = tree["prior_sbc"].to_dataset()
    ranks: dict[str, Any] = {
        name: group[name].values.ravel() for name in names or [str(v) for v in group.data_vars]
    }
    return Uniformity(
        p_location={k: float(stats.kstest(u, "uniform").pvalue) for k, u in ranks.items()},
        p_spread={
            k: float(stats.kstest(np.abs(2 * u - 1), "uniform").pvalue) for k, u in ranks.items()
        },
    )
