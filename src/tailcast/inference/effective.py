"""Inside one deployment the step law is a handful of numbers; this is the exact map to them."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.basis import FEATURES
from tailcast.coefficients import deployment_basis, pipeline_depth
from tailcast.deployment import Deployment
from tailcast.latency_model import LatencyModel
from tailcast.step_law import StepLaw

Array = NDArray[np.float64]

TABLE_PREFIX = "table:"


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectiveMap:
    """Linear map from coefficients to the effective numbers of one deployment.

    Parameters
    ----------
    names : tuple of str
        Effective numbers: batch features, ``table:<coefficient>``, ingest, schedule_lag.
    matrix : ndarray, shape (n_effective, n_coefficient)
        Effective numbers = matrix @ coefficients (all of the model, in its order).
    in_clock : ndarray of bool, shape (n_effective,)
        Whether the step speed multiplies the number.
    tables : mapping of str to ndarray, shape (n_table,)
        Token tables by coefficient.
    depth : float
        Scheduler pipeline depth in steps, added to schedule_lag.
    """

    names: tuple[str, ...]
    matrix: Array
    in_clock: NDArray[np.bool_]
    tables: Mapping[str, Array]
    depth: float


def effective_map(model: LatencyModel, deployment: Deployment) -> EffectiveMap:
    """Map of a deployment under a latency model.

    Parameters
    ----------
    model : LatencyModel
        Which coefficients there are.
    deployment : Deployment
        LLM, accelerator, parallelism, engine.

    Returns
    -------
    EffectiveMap
        Numbers that are zero whatever the coefficients are left out.
    """
    basis = deployment_basis(model, deployment)
    column = {name: k for k, name in enumerate(model.names)}
    rows: list[tuple[str, Array, bool]] = []
    for f, feature in enumerate(FEATURES):
        row = np.zeros(len(model.names))
        for k, name in enumerate(basis.names):
            row[column[name]] = basis.features[k, f]
        if row.any():
            rows.append((feature, row, True))
    for name in basis.tables:
        row = np.zeros(len(model.names))
        row[column[name]] = 1.0
        rows.append((TABLE_PREFIX + name, row, True))
    for coefficient in model.coefficients:
        if coefficient.basis in {"ingest", "schedule_lag"}:
            row = np.zeros(len(model.names))
            row[column[coefficient.name]] = 1.0
            rows.append((coefficient.basis, row, False))
    return EffectiveMap(
        names=tuple(name for name, _, _ in rows),
        matrix=np.array([row for _, row, _ in rows]),
        in_clock=np.array([clock for _, _, clock in rows]),
        tables=dict(basis.tables),
        depth=pipeline_depth(deployment),
    )


def effective_law(mapping: EffectiveMap, values: Array) -> StepLaw:
    """Step law of effective numbers, without finish and stream overheads.

    Parameters
    ----------
    mapping : EffectiveMap
        Of the deployment.
    values : ndarray, shape (n_draw, n_effective)
        Effective numbers, step speed included.

    Returns
    -------
    StepLaw
        One row a draw; `finish` and `stream` are zero.
    """
    n = len(values)
    by_name = {name: values[:, k] for k, name in enumerate(mapping.names)}
    zero = np.zeros(n)
    table = np.zeros((n, 1))
    for name, column in mapping.tables.items():
        table = table + by_name[TABLE_PREFIX + name][:, None] * column
    return StepLaw(
        **{f"per_{name}": by_name.get(name, zero) for name in FEATURES},
        ingest=by_name.get("ingest", zero),
        finish=zero,
        stream=zero,
        schedule_lag=np.minimum(mapping.depth + by_name.get("schedule_lag", zero), 2.0),
        token_table=table,
    )
