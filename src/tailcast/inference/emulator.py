"""Quadratic emulators of log summaries in the standardised log effective numbers of one run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import InferenceError

Array = NDArray[np.float64]

REACH = 4.0
"""Standardised inputs are folded smoothly into (-REACH, REACH), so no polynomial runs away."""

_RIDGE = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulator:
    """Quadratic regressions of several outputs on common inputs.

    Parameters
    ----------
    centre, spread : ndarray, shape (n_effective,)
        Standardisation of the log effective numbers.
    weights : ndarray, shape (n_output, n_feature)
        Regression weights of `quadratic_features`.
    residual : ndarray, shape (n_output,)
        Leave-one-out standard deviation in log units over the design: lack of fit, roughness and
        workload noise together.
    """

    centre: Array
    spread: Array
    weights: Array
    residual: Array

    def mean(self, log_effective: Array) -> Array:
        """Emulated log outputs.

        Parameters
        ----------
        log_effective : ndarray, shape (n_draw, n_effective)
            Logs of the effective numbers.

        Returns
        -------
        ndarray, shape (n_draw, n_output)
            Log outputs.
        """
        z = fold((log_effective - self.centre) / self.spread)
        mean: Array = quadratic_features(z) @ self.weights.T
        return mean


def fold(z: Array) -> Array:
    """Smooth fold of standardised inputs into ``(-REACH, REACH)``.

    Parameters
    ----------
    z : ndarray
        Standardised inputs.

    Returns
    -------
    ndarray
        ``REACH * tanh(z / REACH)``.
    """
    folded: Array = REACH * np.tanh(z / REACH)
    return folded


def pair_indices(n_effective: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Index pairs of the quadratic terms.

    Parameters
    ----------
    n_effective : int
        Number of inputs.

    Returns
    -------
    tuple of ndarray
        Rows and columns of the upper triangle, diagonal included.
    """
    rows, columns = np.triu_indices(n_effective)
    return rows.astype(np.int64), columns.astype(np.int64)


def quadratic_features(z: Array) -> Array:
    """Constant, linear and quadratic terms.

    Parameters
    ----------
    z : ndarray, shape (n_draw, n_effective)
        Folded standardised inputs.

    Returns
    -------
    ndarray, shape (n_draw, n_feature)
        ``1, z_i, z_i z_j`` for i <= j.
    """
    rows, columns = pair_indices(z.shape[1])
    return np.hstack([np.ones((len(z), 1)), z, z[:, rows] * z[:, columns]])


def fit_emulator(log_effective: Array, log_outputs: Array, weight: Array | None = None) -> Emulator:
    """Fit one emulator to engine runs.

    Parameters
    ----------
    log_effective : ndarray, shape (n_run, n_effective)
        Design.
    log_outputs : ndarray, shape (n_run, n_output)
        Log summaries; NaN where a run gave none.
    weight : ndarray, shape (n_run,), optional
        Importance of each run; 1 by default.

    Returns
    -------
    Emulator
        With leave-one-out residuals.

    Raises
    ------
    InferenceError
        If too few runs gave an output.
    """
    centre = log_effective.mean(axis=0)
    spread = np.maximum(log_effective.std(axis=0), 1e-3)
    features = quadratic_features(fold((log_effective - centre) / spread))
    importance = np.ones(len(features)) if weight is None else weight
    weights = np.zeros((log_outputs.shape[1], features.shape[1]))
    residual = np.zeros(log_outputs.shape[1])
    for k in range(log_outputs.shape[1]):
        good = np.isfinite(log_outputs[:, k]) & (importance > 1e-3)
        if good.sum() < features.shape[1] // 2 + 10:
            raise InferenceError(
                f"emulator: only {good.sum()} of {len(good)} engine runs gave output {k}; "
                "widen the horizon or check the workload"
            )
        weights[k], residual[k] = _regression(
            features[good], log_outputs[good, k], importance[good]
        )
    return Emulator(centre=centre, spread=spread, weights=weights, residual=residual)


def _regression(features: Array, output: Array, importance: Array) -> tuple[Array, float]:
    root = np.sqrt(importance)[:, None]
    scaled = features * root
    gram = scaled.T @ scaled
    penalty = np.full(len(gram), _RIDGE * len(scaled))
    penalty[0] = 0.0
    penalty[1:] += 0.02 * (len(scaled) < 2 * len(gram)) * len(scaled)
    inverse = np.linalg.inv(gram + np.diag(penalty))
    beta = inverse @ (scaled.T @ (output * root[:, 0]))
    leverage = np.einsum("ij,jk,ik->i", scaled, inverse, scaled)
    loo = (output - features @ beta) / np.maximum(1.0 - leverage, 0.1)
    spread = np.sqrt(np.average(loo**2, weights=importance))
    return beta, float(spread)


def emulator_check(
    emulator: Emulator,
    log_effective: Array,
    run: Callable[[Array], Array],
    names: Sequence[str],
) -> dict[str, tuple[float, float]]:
    """Error of an emulator against the engine at given points.

    Parameters
    ----------
    emulator : Emulator
        To be checked.
    log_effective : ndarray, shape (n_draw, n_effective)
        Points, usually posterior draws.
    run : callable
        Engine: log effective numbers to log outputs, shape (n_draw, n_output).
    names : sequence of str
        Output names.

    Returns
    -------
    dict of str to (float, float)
        Mean error and root mean square error in log units by output.
    """
    error = emulator.mean(log_effective) - run(log_effective)
    return {
        name: (float(np.nanmean(error[:, k])), float(np.sqrt(np.nanmean(error[:, k] ** 2))))
        for k, name in enumerate(names)
    }
