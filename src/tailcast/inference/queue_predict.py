"""What a fit of the three numbers is for: predictions, sizing, the tuner, the next measurement."""

import json
from collections.abc import Sequence

import numpy as np
import xarray as xr

from tailcast.deployment import Deployment
from tailcast.inference.queue_data import bias_design
from tailcast.inference.queue_draws import latency_draws
from tailcast.inference.queue_tree import QueuePosterior, latency_dataset, queue_posterior
from tailcast.queueing.capacity import Discrepancy
from tailcast.queueing.identify import (
    NextMeasurement,
    UnseenDirection,
    next_measurement,
    unseen_directions,
)
from tailcast.queueing.known_numbers import KnownNumbers
from tailcast.queueing.parameter_prior import numbers_at_peak
from tailcast.queueing.sensitivity import log_latencies
from tailcast.queueing.server import Floats, RequestShape
from tailcast.queueing.sizing import Targets
from tailcast.queueing.tuner import Tuner, TunerSettings
from tailcast.queueing.windows import Window, WindowColumns, window_columns
from tailcast.streams import stream

# sd of the log of a cost that stands for the chain's own error
STRUCTURAL_LOG_SD = 0.04


def predict_windows(tree: xr.DataTree, windows: Sequence[Window], *, seed: int) -> xr.DataTree:
    """Predict TTFT and ITL of windows that were not fitted.

    Parameters
    ----------
    tree : xarray.DataTree
        From `fit_queue`.
    windows : sequence of Window
        Rates and shapes; their latencies are not looked at.
    seed : int
        Of the discrepancy's draws.

    Returns
    -------
    xarray.DataTree
        Group predictions with ttft and itl, dims (chain, draw, window); attribute
        ``extrapolates`` lists the windows whose predicted occupancy exceeds the largest fitted.
    """
    fit, columns = queue_posterior(tree), window_columns(windows)
    generator = stream(seed, "queue predictions")
    latencies = latency_draws(fit.draws, columns, fit.limits, fit.groups, generator)
    sizes = tree["posterior"].sizes
    shaped = latencies.reshape(sizes["chain"], sizes["draw"], *latencies.shape[1:])
    predictions = latency_dataset(shaped)
    predictions.attrs["extrapolates"] = json.dumps(_extrapolates(tree, fit, windows))
    return xr.DataTree.from_dict({"/predictions": predictions})


def _extrapolates(tree: xr.DataTree, fit: QueuePosterior, windows: Sequence[Window]) -> list[int]:
    seen = tree["constant_data"].to_dataset()
    fitted = [
        Window(tokens_in=float(i), tokens_out=float(o), rate=float(r))
        for i, o, r in zip(
            seen["tokens_in"].values, seen["tokens_out"].values, seen["rate"].values, strict=True
        )
    ]
    center = fit.belief.log_mean
    known = log_latencies(center, window_columns(fitted), fit.limits).in_service[0].max()
    asked = log_latencies(center, window_columns(windows), fit.limits).in_service[0]
    return [int(place) for place in np.flatnonzero(asked > known + np.log(1.1))]


def unseen(tree: xr.DataTree) -> list[UnseenDirection]:
    """What the windows of a fit could not tell.

    Parameters
    ----------
    tree : xarray.DataTree
        From `fit_queue`.

    Returns
    -------
    list of UnseenDirection
        The least known first; empty where everything was seen.
    """
    fit = queue_posterior(tree)
    return unseen_directions(fit.belief, fit.prior)


def propose_measurement(
    tree: xr.DataTree, shape: RequestShape, targets: Targets
) -> NextMeasurement | None:
    """The measurement that would tell most of the capacity at a shape.

    Parameters
    ----------
    tree : xarray.DataTree
        From `fit_queue`.
    shape : RequestShape
        Mean tokens where the capacity is needed.
    targets : Targets
        On means.

    Returns
    -------
    NextMeasurement or None
        None where the targets are infeasible.
    """
    fit = queue_posterior(tree)
    ttft, itl = np.hypot(fit.draws.window_scale, fit.draws.shape_scale).mean(axis=0)
    return next_measurement(fit.belief, shape, fit.limits, targets, (float(ttft), float(itl)))


def _alone(shape: RequestShape) -> WindowColumns:
    tokens_in, tokens_out = float(shape.tokens_in), float(shape.tokens_out)
    return window_columns([Window(tokens_in=tokens_in, tokens_out=tokens_out, rate=1.0)])


def fitted_discrepancy(tree: xr.DataTree, shape: RequestShape, *, seed: int) -> Discrepancy:
    """What lies between the chain and a long-run mean at a shape, drawn like the posterior.

    Parameters
    ----------
    tree : xarray.DataTree
        From `fit_queue`.
    shape : RequestShape
        Mean tokens; a shape that was not fitted gets a new offset.
    seed : int
        Of that offset.

    Returns
    -------
    Discrepancy
        For `capacity_draws`, beside the draws of the fit.
    """
    fit, columns = queue_posterior(tree), _alone(shape)
    draws, member = fit.draws, int(fit.groups.members(columns)[0])
    if member >= 0:
        offset = draws.shape_offset[:, member]
    else:
        generator = stream(seed, "queue discrepancy")
        offset = draws.shape_scale * generator.standard_normal(draws.shape_scale.shape)
    bias = draws.bias @ bias_design(columns)[0]
    return Discrepancy(
        overhead=draws.overhead,
        ttft_factor=np.exp(bias + offset[:, 0]),
        itl_factor=np.exp(offset[:, 1]),
    )


def known_from_fit(
    tree: xr.DataTree, shape: RequestShape, *, seed: int, source: str
) -> KnownNumbers:
    """The three numbers of a fit, for solving and sizing.

    Parameters
    ----------
    tree : xarray.DataTree
        From `fit_queue`.
    shape : RequestShape
        Mean tokens of what is asked.
    seed : int
        Of the offset of a shape that was not fitted.
    source : str
        Where the fit comes from.

    Returns
    -------
    KnownNumbers
        As many draws as the fit has.
    """
    return KnownNumbers(
        log_draws=queue_posterior(tree).draws.log_numbers,
        discrepancy=fitted_discrepancy(tree, shape, seed=seed),
        source=source,
    )


def datasheet_shares(tree: xr.DataTree, deployment: Deployment, *, seed: int) -> dict[str, Floats]:
    """Shares of the datasheet's peaks that a fit implies, by draw.

    Reading a fitted cost as time of the hardware takes the chain for exact. It is not: against a
    step-by-step simulation with known costs its ITL is 1 to 5 % off below 0.6 load. So the draws
    carry that structural error beside the posterior's.

    Parameters
    ----------
    tree : xarray.DataTree
        From `fit_queue`.
    deployment : Deployment
        What was measured.
    seed : int
        Of the structural error.

    Returns
    -------
    dict of str to ndarray
        "compute" (of peak FLOP/s, all active parameters counted) and "kv_read" (of bandwidth).
    """
    draws = queue_posterior(tree).draws
    _, beta, gamma = np.exp(draws.log_numbers).T
    peak = numbers_at_peak(deployment)
    generator = stream(seed, "structural error")
    structural = np.exp(STRUCTURAL_LOG_SD * generator.standard_normal((2, draws.n_draw)))
    return {
        "compute": float(peak.beta) / beta * structural[0],
        "kv_read": float(peak.gamma) / gamma * structural[1],
    }


def tuner_from_fit(tree: xr.DataTree, shape: RequestShape) -> Tuner:
    """Online tuner that starts where a fit ended: joint moments of logs and bias, overhead, noise.

    Parameters
    ----------
    tree : xarray.DataTree
        From `fit_queue`.
    shape : RequestShape
        Mean tokens of the traffic to come.

    Returns
    -------
    Tuner
        Its later windows must not be those of the fit.
    """
    fit = queue_posterior(tree)
    draws, member = fit.draws, int(fit.groups.members(_alone(shape))[0])
    bias = draws.bias @ bias_design(_alone(shape))[0]
    if member >= 0:
        bias = bias + draws.shape_offset[:, member, 0]
    states = np.column_stack([draws.log_numbers, bias])
    cov = np.cov(states, rowvar=False)
    window, shapes = draws.window_scale.mean(axis=0), draws.shape_scale.mean(axis=0)
    if member < 0:  # the offset of a new shape is one for all its windows: bias, not noise
        cov[3, 3] += float(shapes[0]) ** 2
    settings = TunerSettings(
        ttft_log_sd=float(window[0]),
        itl_log_sd=float(np.hypot(window[1], shapes[1])),
        overhead=float(draws.overhead.mean()),
    )
    return Tuner.from_moments(states.mean(axis=0), cov, fit.limits, settings)
