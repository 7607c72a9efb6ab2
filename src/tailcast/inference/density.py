"""The compiled density of a latency model given evidence, and what its flat coordinates mean."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tailcast.inference.density_kernel import UNFOLDED, Tables, log_density
from tailcast.inference.effects import EffectBlock, effect_blocks
from tailcast.inference.emulator import REACH
from tailcast.inference.evidence import Evidence
from tailcast.inference.population import free_names
from tailcast.inference.stack import Offsets, Stack, level_offsets, stacked, total_scales
from tailcast.latency_model import GROUPS, LatencyModel

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Consecutive coordinates of the flat vector that belong to one variable.

    Parameters
    ----------
    name : str
        Variable, by the names of `tailcast.inference.graph.build_model`.
    dims : tuple of str
        Its dimensions.
    shape : tuple of int
        Its sizes.
    """

    name: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return int(np.prod(self.shape))


@dataclass(frozen=True, slots=True, kw_only=True)
class Density:
    """Log density over unconstrained coordinates, with gradient.

    Parameters
    ----------
    tables : Tables
        What the compiled code reads.
    blocks : tuple of Block
        Layout of the flat vector.
    coords : mapping of str to sequence of str
        Names along the dimensions.
    """

    tables: Tables
    blocks: tuple[Block, ...]
    coords: Mapping[str, Sequence[str]]

    @property
    def size(self) -> int:
        """Length of the flat vector."""
        return sum(block.size for block in self.blocks)

    @property
    def scale_positions(self) -> Index:
        """Coordinates that are logs of noise and discrepancy scales."""
        place = np.arange(self.size)
        names = np.repeat([b.name for b in self.blocks], [b.size for b in self.blocks])
        held: Index = place[[name.startswith(("log_noise", "log_scale_")) for name in names]]
        return held

    def __call__(self, x: Array) -> tuple[float, Array]:
        """Value and gradient.

        Parameters
        ----------
        x : ndarray, shape (n_parameter,)
            Unconstrained point.

        Returns
        -------
        float
            Log density.
        ndarray, shape (n_parameter,)
            Gradient.
        """
        gradient = np.empty_like(x)
        return log_density(x, gradient, self.tables), gradient

    def start(self) -> Array:
        """Prior medians.

        Returns
        -------
        ndarray, shape (n_parameter,)
            Unconstrained.
        """
        x = np.zeros(self.size)
        x[: self.blocks[0].size] = np.log(np.expm1(self.tables.unfolded))
        return x

    def named(self, x: Array) -> xr.Dataset:
        """Variables of draws.

        Parameters
        ----------
        x : ndarray, shape (n_chain, n_draw, n_parameter)
            Unconstrained draws.

        Returns
        -------
        xarray.Dataset
            By the names of the PyMC model, excess unfolded, scales in their own units.
        """
        t = self.tables
        variables: dict[str, Any] = {}
        stop = 0
        for block in self.blocks:
            start, stop = stop, stop + block.size
            values = x[..., start:stop].reshape(*x.shape[:2], *block.shape)
            if block.name == "excess":
                values = np.logaddexp(0.0, values) * UNFOLDED / t.unfolded
            variables[block.name] = (("chain", "draw", *block.dims), values)
            if block.name == "log_noise":
                scale = t.noise_centre * np.exp(t.noise_sd * values)
                variables["noise_scale"] = (("chain", "draw", "noise"), scale)
            if block.name.startswith("log_scale_"):
                k = [b.name for b in self.blocks if b.name.startswith("log_scale_")].index(
                    block.name
                )
                scale = t.scale_centre[k] * np.exp(t.scale_sd[k] * values)
                variables[block.name.removeprefix("log_")] = (("chain", "draw"), scale)
        used = {dim for _, dims in ((b.name, b.dims) for b in self.blocks) for dim in dims}
        coords = {name: list(self.coords[name]) for name in used}
        return xr.Dataset(
            variables,
            coords={"chain": np.arange(x.shape[0]), "draw": np.arange(x.shape[1]), **coords},
        )


def density(
    model: LatencyModel,
    evidence: Evidence,
    *,
    weight: Mapping[str, float] | None = None,
    unfolded: Array | None = None,
) -> Density:
    """Compiled form of `tailcast.inference.graph.build_model`.

    Parameters
    ----------
    model : LatencyModel
        Priors, floors, hierarchy, discrepancy, noise.
    evidence : Evidence
        Runs with emulators, step timings.
    weight : mapping of str to float, optional
        Power of the likelihood of runs and step sources by name, 1 by default: 0 leaves one out,
        between 0 and 1 forgets (power prior, 10.1214/ss/1009212673).
    unfolded : ndarray, shape (n_free,), optional
        Prior median of each sampled excess: large, and the coordinate is the coefficient itself;
        small, and it is its logarithm. The posterior is the same; only the sampler's path differs.

    Returns
    -------
    Density
        Ready to be sampled.
    """
    stack = stacked(model, evidence)
    offsets = level_offsets(model, evidence)
    place, share = _offset_places(model, evidence, offsets)
    effects = effect_blocks(model, evidence)
    power = [item.weight * (weight or {}).get(item.name, 1.0) for item in evidence.items]
    free = [model.coefficient(name) for name in free_names(model)]
    median = np.full(len(free), UNFOLDED) if unfolded is None else unfolded
    tables = Tables(
        n_offset=len(offsets.terms),
        excess_sd=total_scales(model, offsets),
        unfolded=median,
        base=np.array([c.centre - c.floor for c in free]) / median,
        fixed=np.array([c.centre if c.fixed else c.floor for c in model.coefficients]),
        column=np.array([model.names.index(c.name) for c in free], dtype=np.int64),
        offset=place,
        share=share,
        noise_centre=np.array([model.noise[name].centre for name in stack.noise_names]),
        noise_sd=np.array([model.noise[name].sd for name in stack.noise_names]),
        scale_centre=np.array([s.centre for s in model.discrepancy.values()]),
        scale_sd=np.array([s.sd for s in model.discrepancy.values()]),
        **_effect_tables(effects, evidence),
        **_likelihood(model, evidence, stack, np.array(power)),
    )
    names = free_names(model)
    blocks = (
        Block(name="excess", dims=("coefficient",), shape=(len(names),)),
        Block(name="offset", dims=("offset_term",), shape=(len(offsets.terms),)),
        Block(name="log_noise", dims=("noise",), shape=(len(stack.noise_names),)),
        *(Block(name=f"log_scale_{k}", dims=(), shape=()) for k in model.discrepancy),
        *(Block(name=b.name, dims=(b.dim,), shape=(len(b.units),)) for b in effects),
    )
    coords: dict[str, Sequence[str]] = {
        "coefficient": names,
        "offset_term": tuple(":".join(term) for term in offsets.terms),
        "noise": stack.noise_names,
        **{block.dim: block.units for block in effects},
    }
    return Density(tables=tables, blocks=blocks, coords=coords)


def _offset_places(
    model: LatencyModel, evidence: Evidence, offsets: Offsets
) -> tuple[Index, Array]:
    """Where each coefficient of each item finds its standardised level offsets."""
    names, items = free_names(model), evidence.items
    place = np.full((len(items), len(names), len(GROUPS)), -1, dtype=np.int64)
    share = np.zeros((len(names), len(GROUPS)))
    for z, (group, name, level) in enumerate(offsets.terms):
        k, g = names.index(name), GROUPS.index(group)
        share[k, g] = model.coefficient(name).effects[group]
        for i, item in enumerate(items):
            if item.levels[group] == level:
                place[i, k, g] = z
    used = [g for g in range(len(GROUPS)) if (place[:, :, g] >= 0).any()] or [0]
    return np.ascontiguousarray(place[:, :, used]), np.ascontiguousarray(share[:, used])


def _effect_tables(blocks: Sequence[EffectBlock], evidence: Evidence) -> dict[str, Any]:
    """All blocks in one vector; an item or summary may have one effect of each block."""
    sizes = [len(block.units) for block in blocks]
    start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)[: len(blocks)]

    def placed(field: str, n: int) -> Index:
        columns = [
            np.where(getattr(b, field) >= 0, getattr(b, field) + s, -1)
            for b, s in zip(blocks, start, strict=True)
            if (getattr(b, field) >= 0).any()
        ]
        empty = np.full((n, 1), -1, dtype=np.int64)
        return np.ascontiguousarray(np.array(columns).T) if columns else empty

    latent = placed("latent", len(evidence.runs))
    return {
        "effect_part": np.concatenate([b.part for b in blocks]) if blocks else np.zeros((0, 0)),
        "effect_own": np.repeat([b.own for b in blocks], sizes),
        "effect_nu": np.repeat([b.nu for b in blocks], sizes),
        "item_effect": placed("item", len(evidence.items)),
        "output_effect": placed("output", sum(len(run.outputs) for run in evidence.runs)),
        "latent_effect": np.ascontiguousarray(latent[:, 0]),
    }


def _likelihood(
    model: LatencyModel, evidence: Evidence, stack: Stack, power: Array
) -> dict[str, Any]:
    n_run = len(evidence.runs)
    return {
        "matrix": stack.matrix,
        "pad": stack.pad,
        "in_clock": stack.in_clock,
        "centre": stack.centre,
        "spread": stack.spread,
        "reach": REACH,
        "weights": stack.weights,
        "residual": stack.residual,
        "run": stack.run_of_output,
        "overhead": stack.output_overhead,
        "latent": stack.latent,
        "output_noise": stack.output_noise,
        "output_log": stack.output_observed,
        "output_weight": power[stack.run_of_output] if n_run else np.zeros(0),
        "clock": stack.clock,
        "row_overhead": stack.overhead,
        "row_item": n_run + stack.source_of_row,
        "row_noise": stack.row_noise,
        "row_log": stack.row_observed,
        "row_weight": power[n_run + stack.source_of_row],
        "nu": float(model.noise_nu),
    }
