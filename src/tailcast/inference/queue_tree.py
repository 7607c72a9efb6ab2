"""A sampled fit of the three numbers as a DataTree, and back as arrays."""

import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import xarray as xr

from tailcast.errors import InputError
from tailcast.inference.queue_data import (
    BIAS_SD,
    FREE,
    METRICS,
    NUMBERS,
    QueueData,
    ShapeGroups,
)
from tailcast.inference.queue_draws import (
    QueueDraws,
    draws_from_free,
    latency_draws,
    prior_free,
)
from tailcast.queueing.parameter_prior import NumbersPrior
from tailcast.queueing.server import Floats, ServerLimits
from tailcast.streams import stream

SCHEMA = "tailcast/queue-fit/1"
N_PRIOR = 500


def queue_tree(sampled: xr.DataTree, data: QueueData, seed: int) -> xr.DataTree:
    """Groups in their own units from a sampled model.

    Parameters
    ----------
    sampled : xarray.DataTree
        Groups posterior (free variables) and sample_stats.
    data : QueueData
        That the model was built from.
    seed : int
        Of the prior and predictive draws.

    Returns
    -------
    xarray.DataTree
        Groups posterior, prior, sample_stats, observed_data, posterior_predictive and
        constant_data.
    """
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
            "/observed_data": latency_dataset(measured[None, None]).isel(
                chain=0, draw=0, drop=True
            ),
            "/posterior_predictive": latency_dataset(
                replicated.reshape(*size, *replicated.shape[1:])
            ),
            "/constant_data": _windows_dataset(data),
        }
    )
    tree.attrs = {
        "schema": SCHEMA,
        "limits": json.dumps(asdict(data.limits)),
        "prior_log_mean": json.dumps(data.prior.log_mean.tolist()),
        "prior_log_cov": json.dumps(data.prior.log_cov.tolist()),
        "prior_source": data.prior.source,
        "shape_log_tokens": json.dumps(data.groups.log_tokens.tolist()),
        "seed": seed,
    }
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
        "ttft_bias": ((*draw, "bias"), sized(draws.bias * np.array(BIAS_SD)), {"units": "1"}),
        "window_scale": (metric, sized(draws.window_scale), {"units": "1"}),
        "shape_scale": (metric, sized(draws.shape_scale), {"units": "1"}),
        "shape_offset": (
            (*draw, "shape", "metric"),
            sized(draws.shape_offset),
            {"units": "1"},
        ),
    }
    coords = {"metric": list(METRICS), "bias": ["level", "slope"], "shape": shapes}
    return xr.Dataset(variables, coords={**coords, **_counts(size)})


def _counts(size: tuple[int, int]) -> dict[str, Any]:
    return {"chain": np.arange(size[0]), "draw": np.arange(size[1])}


def latency_dataset(latencies: Floats) -> xr.Dataset:
    """Latencies as variables.

    Parameters
    ----------
    latencies : ndarray, shape (n_chain, n_draw, n_window, 2)
        TTFT and ITL in seconds.

    Returns
    -------
    xarray.Dataset
        ttft and itl.
    """
    names = ("chain", "draw", "window")
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
        bias=_pooled(data["ttft_bias"]) / np.array(BIAS_SD),
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
