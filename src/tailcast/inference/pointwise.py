"""What a posterior predicts for each piece of its evidence: location, scale, log likelihood."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tailcast.errors import InputError
from tailcast.inference.density import Density, density
from tailcast.inference.density_kernel import UNFOLDED, predicted_logs
from tailcast.inference.evidence import Evidence
from tailcast.inference.geometry import folded
from tailcast.inference.population import free_names
from tailcast.inference.stack import level_offsets
from tailcast.latency_model import LatencyModel
from tailcast.streams import stream

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pointwise:
    """Predictive Student-t of every observed log, by draw.

    Parameters
    ----------
    item : tuple of str
        Run or step source of each observation.
    label : tuple of str
        Name of each observation: ``run/stage/metric.stat`` or ``source/row``.
    observed : ndarray, shape (n_observation,)
        Log seconds.
    location, scale : ndarray, shape (n_draw, n_observation)
        Of the Student-t of the log.
    nu : float
        Its degrees of freedom.
    """

    item: tuple[str, ...]
    label: tuple[str, ...]
    observed: Array
    location: Array
    scale: Array
    nu: float

    def log_likelihood(self) -> Array:
        """Log density of each observation.

        Returns
        -------
        ndarray, shape (n_draw, n_observation)
            Natural logs.
        """
        from scipy.stats import t

        value: Array = np.asarray(t.logpdf(self.observed, self.nu, self.location, self.scale))
        return value

    def replicated(self, seed: int) -> Array:
        """One replicated log of each observation a draw, shape (n_draw, n_observation).

        Parameters
        ----------
        seed : int
            Of the random stream.

        Returns
        -------
        ndarray, shape (n_draw, n_observation)
            Log seconds.
        """
        rng = stream(seed, "replicated")
        value: Array = self.location + self.scale * rng.standard_t(self.nu, self.location.shape)
        return value


def flat_draws(model: LatencyModel, evidence: Evidence, own: Density, data: xr.Dataset) -> Array:
    """Unconstrained draws of a posterior group, stored or fresh; the inverse of `Density.named`.

    Parameters
    ----------
    model : LatencyModel
        That was fitted.
    evidence : Evidence
        It was fitted to, or more: what the group does not name stands at its prior median.
    own : Density
        Of that evidence.
    data : xarray.Dataset
        Group ``posterior``.

    Returns
    -------
    ndarray, shape (n_draw, n_parameter)
        Chains pooled.

    Raises
    ------
    InputError
        If the group lacks the coefficients.
    """
    if "location" not in data:
        raise InputError("posterior has no variable 'location'; was it made by tailcast fit?")
    n = data.sizes["chain"] * data.sizes["draw"]
    out = np.tile(own.start(), (n, 1))
    stop = 0
    for block in own.blocks:
        start, stop = stop, stop + block.size
        if block.name == "excess":
            out[:, start:stop] = _excess(model, evidence, data, own.tables.unfolded)
        elif block.name == "offset":
            terms = level_offsets(model, evidence).terms
            out[:, start:stop] = np.array([_offset(data, *term) for term in terms]).T
        elif block.name == "log_noise":
            scale = _aligned(data, "noise_scale", ("noise",), own, own.tables.noise_centre)
            out[:, start:stop] = np.log(scale / own.tables.noise_centre) / own.tables.noise_sd
        elif block.name.startswith("log_scale_"):
            names = [b.name for b in own.blocks if b.name.startswith("log_scale_")]
            k = names.index(block.name)
            name = block.name.removeprefix("log_")
            if name in data:
                scale = data[name].values.reshape(n, 1) / own.tables.scale_centre[k]
                out[:, start:stop] = np.log(scale) / own.tables.scale_sd[k]
        else:
            values = _aligned(data, block.name, block.dims, own, np.zeros(block.shape))
            out[:, start:stop] = values.reshape(n, -1)
    return out


def _excess(model: LatencyModel, evidence: Evidence, data: xr.Dataset, unfolded: Array) -> Array:
    names = free_names(model)
    location = data["location"].sel(coefficient=list(names)).values
    total = location.reshape(-1, len(names)) * np.array([model.coefficient(n).sd for n in names])
    for name, groups in level_offsets(model, evidence).collapsed.items():
        for group, level in groups.items():
            own = _offset(data, group, name, level)
            total[:, names.index(name)] += model.coefficient(name).effects[group] * own
    return folded(unfolded * np.exp(total))


def _offset(data: xr.Dataset, group: str, name: str, level: str) -> Array:
    """Stored standardised offset, or zero where the posterior does not know the level."""
    key = f"offset_{group}"
    if key not in data or level not in data[group].values:
        return np.zeros(data.sizes["chain"] * data.sizes["draw"])
    own: Array = data[key].sel({group: level, f"{group}_coefficient": name}).values.reshape(-1)
    return own


def _aligned(
    data: xr.Dataset, name: str, dims: tuple[str, ...], own: Density, default: Array
) -> Array:
    """Values of a variable at the density's own coordinates, `default` where it has none."""
    n = data.sizes["chain"] * data.sizes["draw"]
    out = np.tile(default, (n, *(1 for _ in dims)))
    if name not in data:
        return out
    source = data[name].values.reshape(n, *data[name].shape[2:])
    where = [
        [(i, list(data[d].values).index(v)) for i, v in enumerate(own.coords[d]) if v in data[d]]
        for d in dims
    ]
    if all(where):
        to: tuple[Any, ...] = np.ix_(*[[pair[0] for pair in axis] for axis in where])
        of: tuple[Any, ...] = np.ix_(*[[pair[1] for pair in axis] for axis in where])
        out[(slice(None), *to)] = source[(slice(None), *of)]
    return out


def pointwise(model: LatencyModel, evidence: Evidence, data: xr.Dataset) -> Pointwise:
    """Predictive distribution of every observation at posterior draws.

    Parameters
    ----------
    model : LatencyModel
        That was fitted.
    evidence : Evidence
        What to predict.
    data : xarray.Dataset
        Group ``posterior``.

    Returns
    -------
    Pointwise
        Summaries first, then step timings.
    """
    own = density(model, evidence, unfolded=np.full(len(free_names(model)), UNFOLDED))
    draws = flat_draws(model, evidence, own, data)
    t = own.tables
    output = np.empty((len(draws), len(t.output_log), 2))
    row = np.empty((len(draws), len(t.row_log), 2))
    for k, x in enumerate(draws):
        predicted_logs(x, t, output[k], row[k])
    both = np.concatenate([output, row], axis=1)
    summaries = [
        (run.name, f"{run.name}/{o.stage}/{o.key}") for run in evidence.runs for o in run.outputs
    ]
    rows = [(s.name, f"{s.name}/{k}") for s in evidence.steps for k in range(len(s.log_observed))]
    return Pointwise(
        item=tuple(item for item, _ in (*summaries, *rows)),
        label=tuple(label for _, label in (*summaries, *rows)),
        observed=np.concatenate([t.output_log, t.row_log]),
        location=both[..., 0],
        scale=both[..., 1],
        nu=t.nu,
    )
