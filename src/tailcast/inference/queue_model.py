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

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.inference.queue_data import (
    METRICS,
    NUMBERS,
    OVERHEAD_MEAN,
    OVERHEAD_SCALE,
    OVERHEAD_SD,
    SCALE_LOG_SD,
    SHAPE_SCALE,
    STUDENT_DOF,
    THROUGHPUT_LOG_SD,
    WINDOW_SCALE,
    QueueData,
    bias_design,
)
from tailcast.queueing.sensitivity import chunk_table

_DATA_DIMS = {
    "prior_mean": "number",
    "tokens_in": "window",
    "tokens_out": "window",
    "rate": "window",
}


def model_data(data: QueueData) -> dict[str, NDArray[Any]]:
    """What the model reads: enters it as shared variables, so that it can be exchanged.

    Parameters
    ----------
    data : QueueData
        From `queue_data`.

    Returns
    -------
    dict of str to ndarray
        By the name of the shared variable.
    """
    columns, log_measured = data.columns, data.log_measured
    place, kind = np.nonzero(np.isfinite(log_measured))
    found: dict[str, NDArray[Any]] = {
        "prior_mean": data.prior.log_mean,
        "prior_factor": np.linalg.cholesky(data.prior.log_cov),
        "centring": data.centring,
        "tokens_in": columns.tokens_in,
        "tokens_out": columns.tokens_out,
        "rate": columns.rate,
        "chunks": chunk_table(columns.shape, data.limits),
        "place": place,
        "kind": kind,
        "group": data.groups.members(columns)[place],
        "bias_design": bias_design(columns)[place] * (kind == 0)[:, None],
        "noise": data.noise[place, kind],
        "log_measured": log_measured[place, kind],
    }
    short = np.flatnonzero(data.saturated)
    if short.size:
        found |= {"short": short, "log_completed": np.log(columns.throughput[short])}
    return found


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

    coords = {
        "number": list(NUMBERS),
        "metric": list(METRICS),
        "bias": ["level", "slope"],
        "shape": data.groups.names,
        "window": np.arange(data.columns.n_window),
    }
    with pm.Model(coords=coords) as graph:
        of = {
            name: pm.Data(name, values, dims=_DATA_DIMS.get(name))
            for name, values in model_data(data).items()
        }
        numbers = pm.Normal("z_numbers", dims="number")
        free_overhead = pm.Normal("z_overhead")
        bias = pm.Normal("z_bias", dims="bias")
        z_window = pm.Normal("z_window_scale", dims="metric")
        z_shape = pm.Normal("z_shape_scale", dims="metric")
        ratio = pt.exp(SCALE_LOG_SD * z_shape)
        offset = pm.Normal("z_offset", sigma=ratio ** of["centring"], dims=("shape", "metric"))
        overhead = OVERHEAD_SCALE * pt.softplus(OVERHEAD_MEAN + OVERHEAD_SD * free_overhead)
        log_numbers = of["prior_mean"] + of["prior_factor"] @ numbers
        values, _ = ChainLatencies(data.limits.max_queue)(
            pt.concatenate([log_numbers, overhead[None]]),
            *(of[name] for name in ("tokens_in", "tokens_out", "rate", "chunks")),
        )
        window_scale = np.array(WINDOW_SCALE) * pt.exp(SCALE_LOG_SD * z_window)
        shape_offset = np.array(SHAPE_SCALE) * ratio ** (1.0 - of["centring"]) * offset
        at, kind = of["place"], of["kind"]
        fitted = values[at, kind] + of["bias_design"] @ bias + shape_offset[of["group"], kind]
        pm.StudentT(
            "log_latency",
            nu=STUDENT_DOF,
            mu=fitted,
            sigma=pt.sqrt(window_scale[kind] ** 2 + of["noise"] ** 2),
            observed=of["log_measured"],
        )
        if "short" in of:
            pm.StudentT(
                "log_throughput",
                nu=STUDENT_DOF,
                mu=values[of["short"], 2],
                sigma=THROUGHPUT_LOG_SD,
                observed=of["log_completed"],
            )
    return graph
