"""Mode and curvature of a posterior: the dense metric and the starts that NUTS is given."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import InferenceError
from tailcast.streams import stream

Array = NDArray[np.float64]

_LAPLACE_WEIGHT = 60.0
"""Pilot draws that the Laplace covariance is worth."""

_FOLDED = "_log_exp_m1__"
_STEP = 1e-3
_SCALE_PRECISION = 2.0
_LEAST_CURVATURE = 0.8
"""Lower bound of the precision in any direction; the priors are standard normal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """Laplace approximation of a posterior in its unconstrained coordinates.

    Parameters
    ----------
    mode : ndarray, shape (n_parameter,)
        Where the density is highest.
    covariance : ndarray, shape (n_parameter, n_parameter)
        Inverse curvature at the mode.
    layout : object
        PyMC's map from the flat vector to named values.
    """

    mode: Array
    covariance: Array
    layout: Any


def compiled_density(graph: Any) -> Any:
    """Log density with gradient of a built model, compiled once and used by all that follows.

    Parameters
    ----------
    graph : pymc.Model
        Built model.

    Returns
    -------
    object
        PyMC's function of a flat vector.
    """
    density = graph.logp_dlogp_function(ravel_inputs=True)
    density.set_extra_values({})
    return density


def geometry(graph: Any, density: Any) -> Geometry:
    """Mode by L-BFGS and curvature from gradients, so that NUTS starts with the right metric.

    The parameters are standard normal a priori and the data pin a few directions to a hundredth
    of that: a diagonal metric needs trajectories of hundreds of steps, this one of a few.

    Parameters
    ----------
    graph : pymc.Model
        Built model.
    density : object
        From `compiled_density`.

    Returns
    -------
    Geometry
        Mode and covariance.

    Raises
    ------
    InferenceError
        If no mode is found.
    """
    from pymc.blocking import DictToArrayBijection, RaveledVars
    from scipy.optimize import minimize

    start = DictToArrayBijection.map(graph.initial_point())
    held = _scale_positions(start.point_map_info)

    def negative(x: Array) -> tuple[float, Array]:
        value, gradient = density(RaveledVars(x, start.point_map_info))
        if not np.isfinite(value):
            return 1e100, np.zeros_like(x)
        slope = -np.array(gradient)
        slope[held] = 0.0
        return -float(value), slope

    found = minimize(
        negative,
        start.data,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 5000, "maxfun": 20000},
    )
    mode = np.asarray(found.x)
    if not np.isfinite(found.fun) or found.fun >= 1e99:
        raise InferenceError("no posterior mode found: the data contradict every draw of the prior")
    n = len(mode)
    curvature = np.empty((n, n))
    for k in range(n):
        step = np.zeros(n)
        step[k] = _STEP
        curvature[k] = (negative(mode + step)[1] - negative(mode - step)[1]) / (2 * _STEP)
    curvature[held, :] = 0.0
    curvature[:, held] = 0.0
    curvature[held, held] = _SCALE_PRECISION
    values, vectors = np.linalg.eigh((curvature + curvature.T) / 2)
    values = np.maximum(values, _LEAST_CURVATURE)
    covariance = (vectors / values) @ vectors.T
    return Geometry(mode=mode, covariance=(covariance + covariance.T) / 2, layout=start)


def _scale_positions(layout: Any) -> NDArray[np.int64]:
    """Positions of the log scales in the flat vector.

    They are held at their prior medians: the joint mode of a hierarchy lies where its scales
    collapse, and the curvature there is no metric for the rest.
    """
    positions: list[int] = []
    offset = 0
    for name, _, size, _ in layout:
        if str(name).startswith(("log_noise", "log_scale_")):
            positions += range(offset, offset + size)
        offset += size
    return np.array(positions, dtype=np.int64)


def learned_geometry(found: Geometry, pilot: Any) -> Geometry:
    """Geometry with mean and covariance of pilot draws, shrunk toward the Laplace approximation.

    Parameters
    ----------
    found : Geometry
        Laplace approximation.
    pilot : xarray.DataTree
        Short run; its first half is left out.

    Returns
    -------
    Geometry
        Centre and covariance for the run proper.
    """
    data = pilot["posterior"].to_dataset()
    columns = []
    for name, _, size, _ in found.layout.point_map_info:
        own = data[str(name).removesuffix(_FOLDED)].values[:, data.sizes["draw"] // 2 :]
        flat = own.reshape(-1, size)
        columns.append(np.log(np.expm1(flat)) if str(name).endswith(_FOLDED) else flat)
    draws = np.concatenate(columns, axis=1)
    n = len(draws)
    covariance = (n * np.cov(draws.T) + _LAPLACE_WEIGHT * found.covariance) / (n + _LAPLACE_WEIGHT)
    return Geometry(mode=draws.mean(axis=0), covariance=covariance, layout=found.layout)


def starts(found: Geometry, n_chain: int, seed: int) -> list[dict[str, Any]]:
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
    list of dict
        Values by the names of unconstrained variables.
    """
    from pymc.blocking import DictToArrayBijection, RaveledVars

    rng = stream(seed, "starts")
    root = np.linalg.cholesky(found.covariance)
    points = []
    for _ in range(n_chain):
        x = found.mode + root @ rng.standard_normal(len(found.mode))
        point = DictToArrayBijection.rmap(RaveledVars(x, found.layout.point_map_info))
        points.append(dict(_constrained(str(name), value) for name, value in point.items()))
    return points


def _constrained(name: str, value: Array) -> tuple[str, Array]:
    """Start of a folded variable by its own name: PyMC cannot name this transform's value."""
    if name.endswith(_FOLDED):
        return name.removesuffix(_FOLDED), np.logaddexp(0.0, value)
    return name, value
