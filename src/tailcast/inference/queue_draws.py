"""Draws of everything unknown in the model of the three numbers, and of latencies from them."""

from dataclasses import dataclass

import numpy as np

from tailcast.inference.queue_data import (
    OVERHEAD_MEAN,
    OVERHEAD_SCALE,
    OVERHEAD_SD,
    SCALE_LOG_SD,
    SHAPE_SCALE,
    STUDENT_DOF,
    WINDOW_SCALE,
    QueueData,
    ShapeGroups,
    bias_design,
    shape_groups,
)
from tailcast.queueing.log_filter import WAIT_LOG_SD
from tailcast.queueing.sensitivity import LogLatencies, log_latencies
from tailcast.queueing.server import Floats, ServerLimits
from tailcast.queueing.windows import WindowColumns


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
        * np.logaddexp(0.0, OVERHEAD_MEAN + OVERHEAD_SD * free["z_overhead"]),
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
    logs = _chain_logs(draws, found)
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
        [
            np.hypot(columns.ttft_error, waiting),
            np.broadcast_to(columns.itl_error, waiting.shape),
        ],
        axis=-1,
    )
    scale = np.hypot(draws.window_scale[:, None], noise)
    return np.asarray(np.exp(logs + scale * generator.standard_t(STUDENT_DOF, logs.shape)))


def _chain_logs(draws: QueueDraws, found: LogLatencies) -> Floats:
    ttft = np.logaddexp(found.ttft, np.log(np.maximum(draws.overhead, 1e-12))[:, None])
    return np.stack([ttft, found.itl], axis=-1)


def expected_logs(
    draws: QueueDraws, columns: WindowColumns, limits: ServerLimits, groups: ShapeGroups
) -> Floats:
    """Centres of the likelihood in windows of shapes that were measured.

    Parameters
    ----------
    draws : QueueDraws
        Of the unknowns.
    columns : WindowColumns
        Rates and shapes.
    limits : ServerLimits
        Of the replica.
    groups : ShapeGroups
        Of the offsets; every window must be of one of them.

    Returns
    -------
    ndarray, shape (n_draw, n_window, 2)
        Logs of seconds.
    """
    logs = _chain_logs(draws, log_latencies(draws.log_numbers, columns, limits))
    logs[..., 0] += draws.bias @ bias_design(columns).T
    expected: Floats = logs + draws.shape_offset[:, groups.members(columns)]
    return expected
