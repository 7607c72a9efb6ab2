"""Windows made ready for the Bayesian model of the three numbers: shapes, bias, noise, a mode."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import UsageError
from tailcast.queueing.log_filter import WAIT_LOG_SD, LogFilter
from tailcast.queueing.parameter_prior import NumbersPrior
from tailcast.queueing.sensitivity import log_latencies
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
OVERHEAD_MEAN, OVERHEAD_SD = 0.28, 1.265
_SATURATED_BELOW = 0.97
THROUGHPUT_LOG_SD = 0.05


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
