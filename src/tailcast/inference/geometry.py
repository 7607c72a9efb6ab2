"""Mode, curvature and coordinates of a posterior: the dense metric and the starts for NUTS."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import InferenceError
from tailcast.inference.density import Density
from tailcast.inference.density_kernel import UNFOLDED
from tailcast.streams import stream

Array = NDArray[np.float64]

_LAPLACE_WEIGHT = 60.0
"""Pilot draws that the Laplace covariance is worth."""

_STEP = 1e-3
_SCALE_PRECISION = 2.0
_LEAST_CURVATURE = 0.8
"""Lower bound of the precision in any direction; the priors are standard normal."""

_FOLDS = (0.4, 1.5, 4.0, 10.0)
"""Prior medians of the excess among which the least skewed coordinate is chosen."""

_STRAIGHT = 30.0
"""Excess from which softplus is the identity in double precision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """Centre and covariance of a posterior in its unconstrained coordinates.

    Parameters
    ----------
    centre : ndarray, shape (n_parameter,)
        Mode or mean.
    covariance : ndarray, shape (n_parameter, n_parameter)
        Inverse curvature or covariance of draws.
    """

    centre: Array
    covariance: Array


def laplace(density: Density) -> Geometry:
    """Mode by L-BFGS and curvature from gradients, so that NUTS starts with the right metric.

    The parameters are standard normal a priori and the data pin a few directions to a hundredth
    of that: a diagonal metric needs trajectories of hundreds of steps, this one of a few.

    Parameters
    ----------
    density : Density
        Of the posterior.

    Returns
    -------
    Geometry
        Mode and covariance.

    Raises
    ------
    InferenceError
        If no mode is found.
    """
    from scipy.optimize import minimize

    negative = _held(density)
    found = minimize(
        negative,
        density.start(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 5000, "maxfun": 20000},
    )
    mode = np.asarray(found.x)
    if not np.isfinite(found.fun) or found.fun >= 1e99:
        raise InferenceError("no posterior mode found: the data contradict every draw of the prior")
    return Geometry(centre=mode, covariance=_covariance(negative, mode, density))


def _held(density: Density) -> Callable[[Array], tuple[float, Array]]:
    """Negative log density with the scales held at their prior medians.

    The joint mode of a hierarchy lies where its scales collapse, and the curvature there is no
    metric for the rest.
    """
    held = density.scale_positions

    def negative(x: Array) -> tuple[float, Array]:
        value, gradient = density(x)
        if not np.isfinite(value):
            return 1e100, np.zeros_like(x)
        slope = -gradient
        slope[held] = 0.0
        return -value, slope

    return negative


def _covariance(
    negative: Callable[[Array], tuple[float, Array]], mode: Array, density: Density
) -> Array:
    n, held = len(mode), density.scale_positions
    curvature = np.empty((n, n))
    for k in range(n):
        step = np.zeros(n)
        step[k] = _STEP
        curvature[k] = (negative(mode + step)[1] - negative(mode - step)[1]) / (2 * _STEP)
    curvature[held, :] = 0.0
    curvature[:, held] = 0.0
    curvature[held, held] = _SCALE_PRECISION
    values, vectors = np.linalg.eigh((curvature + curvature.T) / 2)
    covariance = (vectors / np.maximum(values, _LEAST_CURVATURE)) @ vectors.T
    return (covariance + covariance.T) / 2


def learned(found: Geometry, draws: Array) -> Geometry:
    """Mean and covariance of pilot draws, shrunk toward an approximation.

    Parameters
    ----------
    found : Geometry
        Laplace approximation, in the same coordinates.
    draws : ndarray, shape (n_draw, n_parameter)
        Pilot draws.

    Returns
    -------
    Geometry
        Centre and covariance for the run proper.
    """
    n = len(draws)
    covariance = (n * np.cov(draws.T) + _LAPLACE_WEIGHT * found.covariance) / (n + _LAPLACE_WEIGHT)
    return Geometry(centre=draws.mean(axis=0), covariance=covariance)


def unfolding(draws: Array, n_free: int) -> Array:
    """Fold of each excess that leaves pilot draws least skewed.

    Parameters
    ----------
    draws : ndarray, shape (n_draw, n_parameter)
        Pilot draws at the fold `tailcast.inference.density_kernel.UNFOLDED`.
    n_free : int
        How many of the first coordinates are excesses.

    Returns
    -------
    ndarray, shape (n_free,)
        Prior medians for `tailcast.inference.density.density`.
    """
    excess = np.logaddexp(0.0, draws[:, :n_free]) / UNFOLDED
    skews = [np.abs(_skewness(folded(excess * fold))) for fold in _FOLDS]
    return np.array(_FOLDS)[np.argmin(skews, axis=0)]


def refolded(draws: Array, unfolded: Array) -> Array:
    """Draws in the coordinates of another fold.

    Parameters
    ----------
    draws : ndarray, shape (n_draw, n_parameter)
        At the fold `tailcast.inference.density_kernel.UNFOLDED`.
    unfolded : ndarray, shape (n_free,)
        The other fold.

    Returns
    -------
    ndarray, shape (n_draw, n_parameter)
        The same posterior draws.
    """
    out = draws.copy()
    excess = np.logaddexp(0.0, draws[:, : len(unfolded)]) * (unfolded / UNFOLDED)
    out[:, : len(unfolded)] = folded(excess)
    return out


def folded(excess: Array) -> Array:
    """Inverse of softplus.

    Parameters
    ----------
    excess : ndarray
        Positive.

    Returns
    -------
    ndarray
        Unconstrained.
    """
    small = np.minimum(excess, _STRAIGHT)
    value: Array = np.where(excess > _STRAIGHT, excess, np.log(np.expm1(small)))
    return value


def _skewness(x: Array) -> Array:
    centred = x - x.mean(axis=0)
    value: Array = (centred**3).mean(axis=0) / np.maximum(centred.std(axis=0), 1e-12) ** 3
    return value


def starts(found: Geometry, n_chain: int, seed: int) -> Array:
    """Dispersed starting points, one a chain: one posterior sd around the centre.

    Parameters
    ----------
    found : Geometry
        Of the posterior.
    n_chain : int
        Number of chains.
    seed : int
        Of the random stream.

    Returns
    -------
    ndarray, shape (n_chain, n_parameter)
        Unconstrained points.
    """
    rng = stream(seed, "starts")
    root = np.linalg.cholesky(found.covariance)
    return found.centre + rng.standard_normal((n_chain, len(found.centre))) @ root.T
