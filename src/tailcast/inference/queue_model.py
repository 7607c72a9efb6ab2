"""Bayesian model of the three numbers: datasheet priors, overhead, discrepancy by shape and window.

For window i of shape s and metric k in (TTFT, ITL)::

    ln y_ik ~ StudentT(5, ln h_k(theta, overhead, x_i) + bias_k(x_i) + omega_k u_sk,
                       sqrt(sigma_k^2 + noise_ik^2))

with h the chain (V2), the overhead added to TTFT, u standard normal. The bias is that of TTFT, a
level and a slope in ln(output tokens): without them fits to long outputs, where the chain is too
low, put the excess on beta. The scales have informative
priors: what the chain misses is known from the public Llama sweep, and eight windows cannot tell
it. Throughput enters only where the server fell short of the rate. All free variables
are standard normal a priori, and data enter as shared variables, so that the compiled
density is found in PyTensor's cache whatever the data.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import UsageError
from tailcast.queueing.log_filter import WAIT_LOG_SD, LogFilter
from tailcast.queueing.parameter_prior import NumbersPrior
from tailcast.queueing.sensitivity import chunk_table, log_latencies
from tailcast.queueing.server import Floats, ServerLimits
from tailcast.queueing.windows import Window, WindowColumns, window_columns

METRICS = ("ttft", "itl")
NUMBERS = ("alpha", "beta", "gamma")
FREE = ("z_numbers", "z_overhead", "z_bias", "z_window_scale", "z_shape_scale", "z_offset")
STUDENT_DOF = 5.0
# medians of the scales, and the sd of their logs: together about 15 % for TTFT and 5 % for ITL,
# split as on the public Llama-3.1-8B sweep into windows of one shape and between shapes
WINDOW_SCALE = (0.06, 0.03)
SHAPE_SCALE = (0.10, 0.035)
# sd of the bias of TTFT: its level at LOG_OUTPUT, and its slope in the log of the output tokens
BIAS_SD = (0.10, 0.07)
LOG_OUTPUT = 6.0
SCALE_LOG_SD = 0.4
_SAME_SHAPE = 0.25
# softplus of a normal with the 5, 50 and 95 % points of a half-normal of 5 ms (0.6, 3.4, 9.8 ms);
# unlike that it has no edge at zero for the sampler to creep along
OVERHEAD_SCALE = 0.004
_OVERHEAD_MEAN, _OVERHEAD_SD = 0.28, 1.265
_SATURATED_BELOW = 0.97
_THROUGHPUT_LOG_SD = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeGroups:
    """Request shapes that share an offset.

    Parameters
    ----------
    log_tokens : ndarray, shape (n_shape, 2)
        Logs of prompt tokens (plus one) and output tokens.
    """

    log_tokens: Floats

    def members(self, columns: WindowColumns) -> NDArray[np.int64]:
        """Group of each window.

        Parameters
        ----------
        columns : WindowColumns
            Windows.

        Returns
        -------
        ndarray of int, shape (n_window,)
            Place of the group; -1 for a shape that is not among them.
        """
        apart = np.abs(_log_tokens(columns)[:, None] - self.log_tokens[None]).max(axis=-1)
        nearest = apart.argmin(axis=-1)
        return np.where(apart.min(axis=-1) <= _SAME_SHAPE, nearest, -1)

    @property
    def names(self) -> list[str]:
        """Names of the groups, ``i<prompt>-o<output>``."""
        tokens = np.exp(self.log_tokens)
        return [f"i{prompt - 1:.0f}-o{output:.0f}" for prompt, output in tokens]


def _log_tokens(columns: WindowColumns) -> Floats:
    return np.log(np.stack([columns.tokens_in + 1.0, columns.tokens_out], axis=-1))


def bias_design(columns: WindowColumns) -> Floats:
    """Regressors of the bias of TTFT, in units of its prior.

    Parameters
    ----------
    columns : WindowColumns
        Windows.

    Returns
    -------
    ndarray, shape (n_window, 2)
        Level and slope.
    """
    away = np.log(columns.tokens_out) - LOG_OUTPUT
    basis: NDArray[np.float64] = np.stack([np.ones_like(away), away], axis=-1) * np.array(BIAS_SD)
    return basis


def shape_groups(columns: WindowColumns) -> ShapeGroups:
    """Group windows by request shape: tokens within about a quarter of each other.

    Parameters
    ----------
    columns : WindowColumns
        Windows.

    Returns
    -------
    ShapeGroups
        In the order of appearance.
    """
    centers: list[Floats] = []
    for tokens in _log_tokens(columns):
        if not any(np.abs(tokens - center).max() <= _SAME_SHAPE for center in centers):
            centers.append(tokens)
    return ShapeGroups(log_tokens=np.array(centers))


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueData:
    """What the model is built from.

    Parameters
    ----------
    windows : tuple of Window
        Measurements.
    prior : NumbersPrior
        Belief before them.
    limits : ServerLimits
        Of the replica.
    columns : WindowColumns
        The windows as columns.
    groups : ShapeGroups
        Shapes with an offset each.
    mode : ndarray, shape (3,)
        Rough posterior mode of the logs, from the filter.
    wait_share : ndarray, shape (n_window,)
        Part of TTFT spent waiting, at that mode.
    """

    windows: tuple[Window, ...]
    prior: NumbersPrior
    limits: ServerLimits
    columns: WindowColumns
    groups: ShapeGroups
    mode: Floats
    wait_share: Floats

    @property
    def centring(self) -> Floats:
        """How far each offset is centred, shape (n_shape, 2): nought with no window, one with many.

        An offset that its windows tell is sampled as itself, one that they do not in units of its
        scale; either alone gives the sampler a funnel (Papaspiliopoulos, Roberts and Skold 2007,
        doi:10.1214/088342307000000014).
        """
        n_shape = self.groups.log_tokens.shape[0]
        known = np.isfinite(self.log_measured).astype(np.float64)
        counts = np.zeros((n_shape, 2))
        np.add.at(counts, self.groups.members(self.columns), known)
        told = counts * np.square(SHAPE_SCALE)
        return np.asarray(told / (told + np.square(WINDOW_SCALE)))

    @property
    def saturated(self) -> NDArray[np.bool_]:
        """Windows whose throughput falls short of their rate."""
        return self.columns.throughput < _SATURATED_BELOW * self.columns.rate

    @property
    def log_measured(self) -> Floats:
        """Logs of TTFT and ITL, shape (n_window, 2); NaN where unknown."""
        return np.log(np.stack([self.columns.ttft, self.columns.itl], axis=-1))

    @property
    def noise(self) -> Floats:
        """Sampling error, and in TTFT what waiting leaves open; sd of logs, shape (n_window, 2)."""
        waiting = WAIT_LOG_SD * self.wait_share
        ttft = np.hypot(self.columns.ttft_error, waiting)
        return np.stack([ttft, self.columns.itl_error], axis=-1)


def queue_data(windows: Sequence[Window], prior: NumbersPrior, limits: ServerLimits) -> QueueData:
    """Prepare windows for the model.

    Parameters
    ----------
    windows : sequence of Window
        At least one with a latency.
    prior : NumbersPrior
        Belief before them.
    limits : ServerLimits
        Of the replica.

    Returns
    -------
    QueueData
        With a rough mode to start from.

    Raises
    ------
    UsageError
        If no window has a latency.
    """
    columns = window_columns(windows)
    if not np.any(np.isfinite(columns.ttft) | np.isfinite(columns.itl)):
        raise UsageError("a fit needs TTFT or ITL of at least one window")
    scale = np.array(total_log_sd())
    step = LogFilter(windows, limits, scale**2).update(prior.log_mean, prior.log_cov)
    found = log_latencies(step.mean, columns, limits)
    return QueueData(
        windows=tuple(windows),
        prior=prior,
        limits=limits,
        columns=columns,
        groups=shape_groups(columns),
        mode=step.mean,
        wait_share=found.wait_share[0],
    )


def build_queue_model(data: QueueData) -> Any:
    """Build the model, unsampled.

    Parameters
    ----------
    data : QueueData
        From `queue_data`.

    Returns
    -------
    pymc.Model
        Free variables ``z_numbers``, ``z_overhead``, ``z_window_scale``, ``z_shape_scale`` and
        ``z_offset``; observed ``log_latency`` and, if a window was saturated, ``log_throughput``.
    """
    import pymc as pm
    import pytensor.tensor as pt

    from tailcast.inference.chain_op import ChainLatencies

    columns, known = data.columns, np.isfinite(data.log_measured)
    place, metric = np.nonzero(known)
    coords = {
        "number": list(NUMBERS),
        "metric": list(METRICS),
        "bias": ["level", "slope"],
        "shape": data.groups.names,
        "window": np.arange(columns.n_window),
    }
    with pm.Model(coords=coords) as graph:
        numbers = pm.Normal("z_numbers", dims="number")
        free_overhead = pm.Normal("z_overhead")
        bias = pm.Normal("z_bias", dims="bias")
        z_window = pm.Normal("z_window_scale", dims="metric")
        z_shape = pm.Normal("z_shape_scale", dims="metric")
        ratio = pt.exp(SCALE_LOG_SD * z_shape)
        centring = pm.Data("centring", data.centring)
        offset = pm.Normal("z_offset", sigma=ratio**centring, dims=("shape", "metric"))
        mean = pm.Data("prior_mean", data.prior.log_mean, dims="number")
        factor = pm.Data("prior_factor", np.linalg.cholesky(data.prior.log_cov))
        overhead = OVERHEAD_SCALE * pt.softplus(_OVERHEAD_MEAN + _OVERHEAD_SD * free_overhead)
        parameters = pt.concatenate([mean + factor @ numbers, overhead[None]])
        values, _ = ChainLatencies(data.limits.max_queue)(
            parameters,
            pm.Data("tokens_in", columns.tokens_in, dims="window"),
            pm.Data("tokens_out", columns.tokens_out, dims="window"),
            pm.Data("rate", columns.rate, dims="window"),
            pm.Data("chunks", chunk_table(columns.shape, data.limits)),
        )
        window_scale = np.array(WINDOW_SCALE) * pt.exp(SCALE_LOG_SD * z_window)
        shape_offset = np.array(SHAPE_SCALE) * ratio ** (1.0 - centring) * offset
        group = pm.Data("group", data.groups.members(columns)[place])
        at, kind = pm.Data("place", place), pm.Data("kind", metric)
        noise = pm.Data("noise", data.noise[place, metric])
        design = pm.Data("bias_design", bias_design(columns)[place] * (metric == 0)[:, None])
        fitted = values[at, kind] + design @ bias + shape_offset[group, kind]
        pm.StudentT(
            "log_latency",
            nu=STUDENT_DOF,
            mu=fitted,
            sigma=pt.sqrt(window_scale[kind] ** 2 + noise**2),
            observed=pm.Data("log_measured", data.log_measured[place, metric]),
        )
        if data.saturated.any():
            short = np.flatnonzero(data.saturated)
            pm.StudentT(
                "log_throughput",
                nu=STUDENT_DOF,
                mu=values[pm.Data("short", short), 2],
                sigma=_THROUGHPUT_LOG_SD,
                observed=pm.Data("log_completed", np.log(columns.throughput[short])),
            )
    return graph


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueDraws:
    """Draws of everything unknown, chains pooled.

    Parameters
    ----------
    log_numbers : ndarray, shape (n_draw, 3)
        Logs of alpha, beta, gamma in seconds.
    overhead : ndarray, shape (n_draw,)
        Seconds.
    bias : ndarray, shape (n_draw, 2)
        Bias of ln TTFT: level and slope, in units of their prior sd.
    window_scale, shape_scale : ndarray, shape (n_draw, 2)
        Scales of the discrepancy of TTFT and ITL, in logs.
    shape_offset : ndarray, shape (n_draw, n_shape, 2)
        Offsets of the shapes, in logs.
    """

    log_numbers: Floats
    overhead: Floats
    bias: Floats
    window_scale: Floats
    shape_scale: Floats
    shape_offset: Floats

    @property
    def n_draw(self) -> int:
        """Number of draws."""
        return int(self.overhead.size)


def draws_from_free(free: dict[str, Floats], data: QueueData) -> QueueDraws:
    """Draws in their own units from the model's free variables.

    Parameters
    ----------
    free : dict of str to ndarray
        By name, draws first.
    data : QueueData
        That the model was built with.

    Returns
    -------
    QueueDraws
        The same draws.
    """
    ratio = np.exp(SCALE_LOG_SD * free["z_shape_scale"])
    part = ratio[:, None, :] ** (1.0 - data.centring)
    prior, factor = data.prior, np.linalg.cholesky(data.prior.log_cov)
    return QueueDraws(
        log_numbers=prior.log_mean + free["z_numbers"] @ factor.T,
        overhead=OVERHEAD_SCALE
        * np.logaddexp(0.0, _OVERHEAD_MEAN + _OVERHEAD_SD * free["z_overhead"]),
        bias=free["z_bias"],
        window_scale=np.array(WINDOW_SCALE) * np.exp(SCALE_LOG_SD * free["z_window_scale"]),
        shape_scale=np.array(SHAPE_SCALE) * ratio,
        shape_offset=np.array(SHAPE_SCALE) * part * free["z_offset"],
    )


def prior_free(n_draw: int, data: QueueData, generator: np.random.Generator) -> dict[str, Floats]:
    """Draws of the free variables from their priors.

    Parameters
    ----------
    n_draw : int
        How many.
    data : QueueData
        That the model is built with.
    generator : numpy.random.Generator
        Source of randomness.

    Returns
    -------
    dict of str to ndarray
        By name, draws first.
    """
    centring = data.centring
    z_shape = generator.standard_normal((n_draw, 2))
    spread = np.exp(SCALE_LOG_SD * z_shape)[:, None, :] ** centring
    return {
        "z_numbers": generator.standard_normal((n_draw, 3)),
        "z_overhead": generator.standard_normal(n_draw),
        "z_bias": generator.standard_normal((n_draw, 2)),
        "z_window_scale": generator.standard_normal((n_draw, 2)),
        "z_shape_scale": z_shape,
        "z_offset": spread * generator.standard_normal((n_draw, *centring.shape)),
    }


def latency_draws(
    draws: QueueDraws,
    columns: WindowColumns,
    limits: ServerLimits,
    groups: ShapeGroups,
    generator: np.random.Generator,
    *,
    discrepancy: bool = True,
) -> Floats:
    """Draws of measured TTFT and ITL in windows.

    Parameters
    ----------
    draws : QueueDraws
        Of the unknowns.
    columns : WindowColumns
        Rates, shapes and sampling errors.
    limits : ServerLimits
        Of the replica.
    groups : ShapeGroups
        Shapes whose offsets were drawn; another shape gets a new offset, one for all its windows.
    generator : numpy.random.Generator
        Source of randomness.
    discrepancy : bool
        False for the chain and the overhead alone.

    Returns
    -------
    ndarray, shape (n_draw, n_window, 2)
        Seconds.
    """
    found = log_latencies(draws.log_numbers, columns, limits)
    ttft = np.logaddexp(found.ttft, np.log(np.maximum(draws.overhead, 1e-12))[:, None])
    logs = np.stack([ttft, found.itl], axis=-1)
    if not discrepancy:
        return np.exp(logs)
    logs[..., 0] += draws.bias @ bias_design(columns).T
    member, fresh = groups.members(columns), shape_groups(columns)
    new = fresh.members(columns)
    size = (draws.n_draw, fresh.log_tokens.shape[0], 2)
    offset = draws.shape_scale[:, None] * generator.standard_normal(size)
    unknown = member < 0
    logs += np.where(unknown[:, None], offset[:, new], draws.shape_offset[:, member])
    waiting = WAIT_LOG_SD * found.wait_share
    noise = np.stack(
        [np.hypot(columns.ttft_error, waiting), np.broadcast_to(columns.itl_error, ttft.shape)],
        axis=-1,
    )
    scale = np.hypot(draws.window_scale[:, None], noise)
    return np.asarray(np.exp(logs + scale * generator.standard_t(STUDENT_DOF, logs.shape)))


def total_log_sd() -> tuple[float, float]:
    """Standard deviations of the logs that the priors expect around the chain.

    Returns
    -------
    tuple of float
        Of TTFT and ITL, windows and shapes together.
    """
    spread = math.sqrt(STUDENT_DOF / (STUDENT_DOF - 2.0))
    ttft, itl = np.hypot(spread * np.array(WINDOW_SCALE), SHAPE_SCALE)
    return float(np.hypot(ttft, BIAS_SD[0])), float(itl)
