"""Fit of the three numbers to windows by NUTS, from one window to hundreds."""

import json
import logging
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import xarray as xr

from tailcast.errors import InferenceError, InputError
from tailcast.inference.queue_model import (
    FREE,
    METRICS,
    NUMBERS,
    QueueData,
    QueueDraws,
    ShapeGroups,
    build_queue_model,
    draws_from_free,
    latency_draws,
    prior_free,
    queue_data,
)
from tailcast.queueing.identify import (
    NextMeasurement,
    UnseenDirection,
    next_measurement,
    unseen_directions,
)
from tailcast.queueing.parameter_prior import NumbersPrior
from tailcast.queueing.server import Floats, RequestShape, ServerLimits
from tailcast.queueing.sizing import Targets
from tailcast.queueing.windows import Window, window_columns
from tailcast.streams import stream

SCHEMA = "tailcast/queue-fit/1"
RHAT_LIMIT = 1.05
N_PRIOR = 500
_SCALES = ("z_window_scale", "z_shape_scale")
_CURVATURE_STEP = 1e-3
_LEAST_CURVATURE = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueSampler:
    """How the posterior is sampled.

    Parameters
    ----------
    draws, tune : int
        Kept and discarded draws of each chain.
    chains, cores : int
        Number of chains and of processes.
    target_accept : float
        Target of the step-size adaptation.
    """

    draws: int = 500
    tune: int = 400
    chains: int = 2
    cores: int = 2
    target_accept: float = 0.85


def fit_queue(
    windows: Sequence[Window],
    prior: NumbersPrior,
    limits: ServerLimits,
    *,
    seed: int,
    sampler: QueueSampler | None = None,
) -> xr.DataTree:
    """Posterior of the three numbers, the overhead and the discrepancy.

    Parameters
    ----------
    windows : sequence of Window
        One to hundreds; latencies that were not measured are NaN.
    prior : NumbersPrior
        Belief before them, for example from `hardware_prior`.
    limits : ServerLimits
        Of the replica.
    seed : int
        Same seed, same draws.
    sampler : QueueSampler, optional
        Sizes.

    Returns
    -------
    xarray.DataTree
        Groups posterior, prior, sample_stats, observed_data, posterior_predictive and
        constant_data.

    Raises
    ------
    InferenceError
        If sampling fails or the chains disagree.
    """
    data = queue_data(windows, prior, limits)
    graph = build_queue_model(data)
    sampled = _sample(graph, data, sampler or QueueSampler(), seed)
    return _tree(sampled, data, seed)


def _sample(graph: Any, data: QueueData, sampler: QueueSampler, seed: int) -> xr.DataTree:
    import pymc as pm

    logging.getLogger("pymc").setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            density = graph.logp_dlogp_function(ravel_inputs=True)
            density.set_extra_values({})
            starts, covariance = _geometry(graph, density, data, sampler.chains, seed)
            step = pm.NUTS(
                scaling=covariance,
                is_cov=True,
                target_accept=sampler.target_accept,
                logp_dlogp_func=density,
                model=graph,
            )
            sampled: xr.DataTree = pm.sample(
                draws=sampler.draws,
                tune=sampler.tune,
                chains=sampler.chains,
                cores=sampler.cores,
                step=step,
                nuts_sampler="pymc",
                initvals=starts,
                random_seed=seed,
                progressbar=False,
                compute_convergence_checks=False,
                mp_ctx="fork" if sampler.cores > 1 else None,
                model=graph,
            )
    except (RuntimeError, ValueError, FloatingPointError, pm.SamplingError) as error:
        raise InferenceError(f"queue fit failed: {str(error).splitlines()[0]}") from error
    return sampled


def _geometry(
    graph: Any, density: Any, data: QueueData, n_chain: int, seed: int
) -> tuple[list[dict[str, Any]], Floats]:
    """Starts around the mode, and the curvature there as a dense metric.

    The log scales are held at their prior medians: the joint mode of a hierarchy lies where its
    scales collapse, and the curvature there is no metric for the rest.
    """
    from pymc.blocking import DictToArrayBijection, RaveledVars
    from scipy.optimize import minimize

    point = graph.initial_point()
    factor = np.linalg.cholesky(data.prior.log_cov)
    point["z_numbers"] = np.linalg.solve(factor, data.mode - data.prior.log_mean)
    start = DictToArrayBijection.map(point)
    names = np.repeat(
        [str(name) for name, *_ in start.point_map_info],
        [size for _, _, size, _ in start.point_map_info],
    )
    held = np.isin(names, _SCALES)

    def negative(x: Floats) -> tuple[float, Floats]:
        value, gradient = density(RaveledVars(x, start.point_map_info))
        if not np.isfinite(value):
            return 1e100, np.zeros_like(x)
        return -float(value), np.where(held, 0.0, -np.asarray(gradient))

    found = minimize(negative, start.data, jac=True, method="L-BFGS-B")
    if not np.isfinite(found.fun) or found.fun >= 1e99:
        raise InferenceError("queue fit: the data contradict every draw of the prior")
    mode, n_free = np.asarray(found.x), found.x.size
    curvature = np.empty((n_free, n_free))
    for row, step in zip(curvature, _CURVATURE_STEP * np.eye(n_free), strict=True):
        row[:] = (negative(mode + step)[1] - negative(mode - step)[1]) / (2 * _CURVATURE_STEP)
    curvature[held] = curvature[:, held] = 0.0
    curvature[held, held] = 1.5
    values, vectors = np.linalg.eigh(0.5 * (curvature + curvature.T))
    covariance = (vectors / np.maximum(values, _LEAST_CURVATURE)) @ vectors.T
    generator, root = stream(seed, "queue starts"), np.linalg.cholesky(covariance)
    starts = []
    for _ in range(n_chain):
        x = mode + root @ generator.standard_normal(n_free)
        starts.append(DictToArrayBijection.rmap(RaveledVars(x, start.point_map_info)))
    return starts, covariance


def _tree(sampled: xr.DataTree, data: QueueData, seed: int) -> xr.DataTree:
    posterior = sampled["posterior"].to_dataset()
    size = (posterior.sizes["chain"], posterior.sizes["draw"])
    free = {name: _pooled(posterior[name]) for name in FREE}
    draws = draws_from_free(free, data)
    generator = stream(seed, "queue predictive")
    replicated = latency_draws(draws, data.columns, data.limits, data.groups, generator)
    shape_names = data.groups.names
    before = prior_free(N_PRIOR, data, stream(seed, "queue prior"))
    prior_draws = draws_from_free(before, data)
    measured = np.exp(data.log_measured)
    tree = xr.DataTree.from_dict(
        {
            "/posterior": _parameters(draws, size, shape_names),
            "/prior": _parameters(prior_draws, (1, N_PRIOR), shape_names),
            "/sample_stats": sampled["sample_stats"].to_dataset(),
            "/observed_data": _latency_dataset(measured[None, None], ("window",)).isel(
                chain=0, draw=0, drop=True
            ),
            "/posterior_predictive": _latency_dataset(
                replicated.reshape(*size, *replicated.shape[1:]), ("window",)
            ),
            "/constant_data": _windows_dataset(data),
        }
    )
    rhat = _worst_rhat(tree)
    tree.attrs = {
        "schema": SCHEMA,
        "limits": json.dumps(asdict(data.limits)),
        "prior_log_mean": json.dumps(data.prior.log_mean.tolist()),
        "prior_log_cov": json.dumps(data.prior.log_cov.tolist()),
        "prior_source": data.prior.source,
        "shape_log_tokens": json.dumps(data.groups.log_tokens.tolist()),
        "seed": seed,
        "rhat": rhat,
        "divergences": int(sampled["sample_stats"]["diverging"].sum()),
    }
    if rhat > RHAT_LIMIT:
        raise InferenceError(f"queue fit: the chains disagree (r-hat {rhat:.3f}); draw more")
    return tree


def _pooled(variable: xr.DataArray) -> Floats:
    values = np.asarray(variable.values, dtype=np.float64)
    return values.reshape(-1, *values.shape[2:])


def _parameters(draws: QueueDraws, size: tuple[int, int], shapes: list[str]) -> xr.Dataset:
    numbers = np.exp(draws.log_numbers)

    def sized(values: Floats) -> Floats:
        return values.reshape(*size, *values.shape[1:])

    draw = ("chain", "draw")
    variables: dict[str, Any] = {
        name: (draw, sized(numbers[:, place]), {"units": unit})
        for place, (name, unit) in enumerate(zip(NUMBERS, ("s", "s/token", "s/token"), strict=True))
    }
    metric = (*draw, "metric")
    variables |= {
        "overhead": (draw, sized(draws.overhead), {"units": "s"}),
        "window_scale": (metric, sized(draws.window_scale), {"units": "1"}),
        "shape_scale": (metric, sized(draws.shape_scale), {"units": "1"}),
        "shape_offset": (
            (*draw, "shape", "metric"),
            sized(draws.shape_offset),
            {"units": "1"},
        ),
    }
    return xr.Dataset(variables, coords={"metric": list(METRICS), "shape": shapes, **_counts(size)})


def _counts(size: tuple[int, int]) -> dict[str, Any]:
    return {"chain": np.arange(size[0]), "draw": np.arange(size[1])}


def _latency_dataset(latencies: Floats, dims: tuple[str, ...]) -> xr.Dataset:
    names = ("chain", "draw", *dims)
    coords = {**_counts(latencies.shape[:2]), "window": np.arange(latencies.shape[2])}
    return xr.Dataset(
        {
            metric: (names, latencies[..., place], {"units": "s"})
            for place, metric in enumerate(METRICS)
        },
        coords=coords,
    )


def _windows_dataset(data: QueueData) -> xr.Dataset:
    columns = data.columns
    fields = {
        "tokens_in": (columns.tokens_in, "tokens"),
        "tokens_out": (columns.tokens_out, "tokens"),
        "rate": (columns.rate, "requests/s"),
        "wait_share": (data.wait_share, "1"),
    }
    return xr.Dataset(
        {name: ("window", values, {"units": unit}) for name, (values, unit) in fields.items()},
        coords={"window": np.arange(columns.n_window)},
    )


def _worst_rhat(tree: xr.DataTree) -> float:
    import arviz as az

    posterior = tree["posterior"].to_dataset()
    if posterior.sizes["chain"] < 2:
        return 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = az.rhat(posterior)
    dataset = found.to_dataset() if isinstance(found, xr.DataTree) else found
    return max(float(np.nanmax(dataset[name].values)) for name in dataset.data_vars)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuePosterior:
    """A fit as arrays, chains pooled.

    Parameters
    ----------
    draws : QueueDraws
        Of everything unknown.
    prior : NumbersPrior
        Belief before the data.
    limits : ServerLimits
        Of the replica.
    groups : ShapeGroups
        Shapes that were measured.
    """

    draws: QueueDraws
    prior: NumbersPrior
    limits: ServerLimits
    groups: ShapeGroups

    @property
    def belief(self) -> NumbersPrior:
        """Mean and covariance of the logs, to start a tuner with."""
        logs = self.draws.log_numbers
        return NumbersPrior(
            log_mean=logs.mean(axis=0),
            log_cov=np.cov(logs, rowvar=False),
            source=f"fit over {self.prior.source}",
        )


def queue_posterior(tree: xr.DataTree) -> QueuePosterior:
    """Arrays of a fit.

    Parameters
    ----------
    tree : xarray.DataTree
        From `fit_queue`.

    Returns
    -------
    QueuePosterior
        Chains pooled.

    Raises
    ------
    InputError
        If the tree is not a fit of this schema.
    """
    if tree.attrs.get("schema") != SCHEMA:
        raise InputError(f"not a fit of the three numbers ({SCHEMA})")
    data, attrs = tree["posterior"].to_dataset(), tree.attrs
    logs = np.log(np.stack([_pooled(data[name]) for name in NUMBERS], axis=-1))
    draws = QueueDraws(
        log_numbers=logs,
        overhead=_pooled(data["overhead"]),
        window_scale=_pooled(data["window_scale"]),
        shape_scale=_pooled(data["shape_scale"]),
        shape_offset=_pooled(data["shape_offset"]),
    )
    prior = NumbersPrior(
        log_mean=np.array(json.loads(attrs["prior_log_mean"])),
        log_cov=np.array(json.loads(attrs["prior_log_cov"])),
        source=str(attrs["prior_source"]),
    )
    groups = ShapeGroups(log_tokens=np.array(json.loads(attrs["shape_log_tokens"])))
    limits = ServerLimits(**json.loads(attrs["limits"]))
    return QueuePosterior(draws=draws, prior=prior, limits=limits, groups=groups)


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
    predictions = _latency_dataset(shaped, ("window",))
    predictions.attrs["extrapolates"] = json.dumps(_extrapolates(tree, fit, windows))
    return xr.DataTree.from_dict({"/predictions": predictions})


def _extrapolates(tree: xr.DataTree, fit: QueuePosterior, windows: Sequence[Window]) -> list[int]:
    from tailcast.queueing.sensitivity import log_latencies

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
