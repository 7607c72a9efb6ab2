"""Fit of the three numbers to windows by NUTS, from one window to hundreds."""

import json
import logging
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import xarray as xr

from tailcast.errors import InferenceError, UsageError
from tailcast.inference.queue_data import QueueData, queue_data
from tailcast.inference.queue_model import build_queue_model, model_data
from tailcast.inference.queue_tree import queue_tree
from tailcast.queueing.parameter_prior import NumbersPrior
from tailcast.queueing.server import Floats, ServerLimits
from tailcast.queueing.windows import Window
from tailcast.streams import stream

RHAT_LIMIT = 1.05
_CAREFUL = 0.97
_SCALES = ("z_window_scale", "z_shape_scale")
_CURVATURE_STEP = 1e-3
_LEAST_CURVATURE = 0.5
# draws of the tuning that the curvature counts for
_CURVATURE_WEIGHT = 20


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

    draws: int = 400
    tune: int = 500
    chains: int = 4
    cores: int = 2
    target_accept: float = 0.9


class CompiledQueueModel:
    """The model and its compiled density; windows laid out alike are exchanged without compiling.

    Parameters
    ----------
    data : QueueData
        First windows.
    """

    def __init__(self, data: QueueData) -> None:
        self.graph = build_queue_model(data)
        self.density = self.graph.logp_dlogp_function(ravel_inputs=True)
        self.density.set_extra_values({})
        self._layout = _layout(data)

    def fits(self, data: QueueData) -> bool:
        """Whether windows can be exchanged for those it was compiled for.

        Parameters
        ----------
        data : QueueData
            Other windows.

        Returns
        -------
        bool
            True where `take` takes them.
        """
        return _layout(data) == self._layout

    def take(self, data: QueueData) -> None:
        """Exchange the windows, the prior and everything else that is read.

        Parameters
        ----------
        data : QueueData
            As many windows, shapes and known latencies as before, and the same waiting room.

        Raises
        ------
        UsageError
            If they are laid out differently.
        """
        if not self.fits(data):
            raise UsageError(
                f"compiled queue model: windows are laid out as {self._layout}, got {_layout(data)}"
            )
        for name, values in model_data(data).items():
            self.graph.set_data(name, values)


def _layout(data: QueueData) -> tuple[object, ...]:
    sizes = {name: values.shape for name, values in model_data(data).items()}
    return data.limits.max_queue, data.groups.log_tokens.shape, tuple(sorted(sizes.items()))


def fit_queue(
    windows: Sequence[Window],
    prior: NumbersPrior,
    limits: ServerLimits,
    *,
    seed: int,
    sampler: QueueSampler | None = None,
    compiled: CompiledQueueModel | None = None,
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
    compiled : CompiledQueueModel, optional
        Of windows laid out alike; spares building and compiling.

    Returns
    -------
    xarray.DataTree
        Groups posterior, prior, sample_stats, observed_data, posterior_predictive and
        constant_data.

    Raises
    ------
    InferenceError
        If sampling fails, or the chains disagree even after a longer and more careful tuning.
    """
    data = queue_data(windows, prior, limits)
    compiled, sizes = compiled or CompiledQueueModel(data), sampler or QueueSampler()
    compiled.take(data)
    tree = _sampled_tree(compiled, data, sizes, seed)
    if tree.attrs["rhat"] > RHAT_LIMIT:
        longer = replace(sizes, tune=3 * sizes.tune, target_accept=_CAREFUL)
        tree = _sampled_tree(compiled, data, longer, seed)
    if tree.attrs["rhat"] > RHAT_LIMIT:
        raise InferenceError(
            f"queue fit: the chains disagree (r-hat {tree.attrs['rhat']:.3f}); draw more"
        )
    return tree


def _sampled_tree(
    compiled: CompiledQueueModel, data: QueueData, sampler: QueueSampler, seed: int
) -> xr.DataTree:
    tree = queue_tree(_sample(compiled, data, sampler, seed), data, seed)
    tree.attrs["rhat"] = _worst_rhat(tree)
    tree.attrs["divergences"] = int(tree["sample_stats"]["diverging"].sum())
    tree.attrs["sampler"] = json.dumps(asdict(sampler))
    return tree


def _sample(
    compiled: CompiledQueueModel, data: QueueData, sampler: QueueSampler, seed: int
) -> xr.DataTree:
    import pymc as pm

    graph, density = compiled.graph, compiled.density

    logging.getLogger("pymc").setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            starts, covariance = _geometry(graph, density, data, sampler.chains, seed)
            step = pm.NUTS(
                potential=_metric(covariance, sampler.tune),
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


def _metric(covariance: Floats, n_tune: int) -> Any:
    """Dense metric that starts at the curvature and learns the tails that it does not see."""
    from pymc.step_methods.hmc.quadpotential import QuadPotentialFullAdapt

    n_free = len(covariance)
    return QuadPotentialFullAdapt(
        n_free,
        np.zeros(n_free),
        covariance,
        initial_weight=_CURVATURE_WEIGHT,
        adaptation_window=max(n_tune // 3, 2 * n_free),
        update_window=10,
    )


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
