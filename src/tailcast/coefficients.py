"""One named coefficient vector, many draws; from it the step law of a deployment."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.basis import FEATURES, Term, basis_term
from tailcast.deployment import Deployment
from tailcast.errors import InputError
from tailcast.latency_model import LatencyModel
from tailcast.step_law import StepLaw


@dataclass(frozen=True, slots=True, kw_only=True)
class Coefficients:
    """Coefficients of one deployment, looked up by name.

    Parameters
    ----------
    latency_model : LatencyModel
        Whose coefficients these are.
    values : mapping of str to ndarray, shape (n_draw,)
        By coefficient name, in the model's units.
    speed : ndarray, shape (n_draw,)
        Factor on every step's duration: the discrepancy that enters the step clock.

    Raises
    ------
    InputError
        If a coefficient is missing, not finite, or below its physical floor.
    """

    latency_model: LatencyModel
    values: Mapping[str, NDArray[np.float64]]
    speed: NDArray[np.float64]

    def __post_init__(self) -> None:
        for coefficient in self.latency_model.coefficients:
            value = self.values.get(coefficient.name)
            if value is None:
                raise InputError(f"coefficient {coefficient.name!r} is missing")
            low = np.min(value, initial=np.inf)
            if not (np.all(np.isfinite(value)) and low >= coefficient.floor):
                raise InputError(
                    f"coefficient {coefficient.name!r} must be finite and at least "
                    f"{coefficient.floor:g} (the datasheet's peak), got {low:g}"
                )

    @property
    def n_draw(self) -> int:
        """Number of draws."""
        return len(self.speed)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentBasis:
    """All step bases of one deployment under one latency model.

    Parameters
    ----------
    names : tuple of str
        Step coefficients, in the model's order.
    features : ndarray, shape (n_basis, n_feature)
        Basis value per unit of each batch feature.
    tables : mapping of str to ndarray, shape (n_table,)
        Basis value by new tokens in the step, for the coefficients that need it.
    """

    names: tuple[str, ...]
    features: NDArray[np.float64]
    tables: Mapping[str, NDArray[np.float64]]


def deployment_basis(model: LatencyModel, deployment: Deployment) -> DeploymentBasis:
    """Evaluate every step basis of a model for a deployment.

    Parameters
    ----------
    model : LatencyModel
        Which coefficients there are.
    deployment : Deployment
        LLM, accelerator, parallelism, engine limits.

    Returns
    -------
    DeploymentBasis
        Seconds at datasheet peak, or counts, per unit of each batch feature.
    """
    terms: dict[str, Term] = {
        c.name: basis_term(c.basis, deployment) for c in model.coefficients if not c.is_overhead
    }
    return DeploymentBasis(
        names=tuple(terms),
        features=np.array([term.features for term in terms.values()]).reshape(-1, len(FEATURES)),
        tables={name: term.table for name, term in terms.items() if term.table is not None},
    )


def pipeline_depth(deployment: Deployment) -> float:
    """Steps by which the engine's scheduler runs ahead: 1 with asynchronous scheduling, else 0.

    Parameters
    ----------
    deployment : Deployment
        Whose engine settings say it.

    Returns
    -------
    float
        Steps.
    """
    return 1.0 if deployment.engine.schedules_ahead else 0.0


def step_law(coefficients: Coefficients, deployment: Deployment) -> StepLaw:
    r"""Law of a deployment's steps and request overheads, one row a draw.

    .. math:: T = \mathrm{speed} \cdot \sum_k \beta_k X_k(\mathrm{batch})

    Parameters
    ----------
    coefficients : Coefficients
        Of this deployment.
    deployment : Deployment
        LLM, accelerator, parallelism, engine limits.

    Returns
    -------
    StepLaw
        All in seconds.
    """
    basis = deployment_basis(coefficients.latency_model, deployment)
    values, speed = coefficients.values, coefficients.speed
    beta = np.array([values[name] for name in basis.names]).T
    linear = speed[:, None] * (beta @ basis.features)
    table = np.zeros((coefficients.n_draw, 1))
    for name, column in basis.tables.items():
        table = table + (speed * values[name])[:, None] * column
    overhead = {
        c.basis: values[c.name] for c in coefficients.latency_model.coefficients if c.is_overhead
    }
    zero = np.zeros(coefficients.n_draw)
    lag = np.minimum(pipeline_depth(deployment) + overhead.get("schedule_lag", zero), 2.0)
    return StepLaw(
        **{f"per_{name}": linear[:, k] for k, name in enumerate(FEATURES)},
        ingest=overhead.get("ingest", zero),
        finish=overhead.get("finish", zero),
        stream=overhead.get("stream", zero),
        schedule_lag=lag,
        token_table=table,
    )
