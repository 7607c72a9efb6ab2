"""The prior of a latency model stored as a posterior: a whole folder without a fit."""

from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from tailcast.inference.population import free_names, prior_population
from tailcast.latency_model import LatencyModel, load_latency_model
from tailcast.posteriors import save_posterior

N_CHAIN, N_DRAW = 2, 30


def prior_tree(model: LatencyModel, seed: int = 0) -> xr.DataTree:
    """Groups posterior, prior and sample_stats with the same draws."""
    prior = prior_population(model, N_CHAIN * N_DRAW, seed)
    names = free_names(model)
    free = [model.coefficient(name) for name in names]
    floor = np.array([c.floor for c in free])
    sd = np.array([c.sd for c in free])
    value = floor + np.exp(np.log([c.centre - c.floor for c in free]) + sd * prior.location)
    data = xr.Dataset(
        {
            "location": (("chain", "draw", "coefficient"), chained(prior.location)),
            "value": (("chain", "draw", "coefficient"), chained(value)),
            "noise_scale": (
                ("chain", "draw", "noise"),
                chained(np.stack(list(prior.noise.values()), axis=1)),
            ),
            **{f"scale_{k}": (("chain", "draw"), chained(v)) for k, v in prior.scale.items()},
        },
        coords={
            "chain": np.arange(N_CHAIN),
            "draw": np.arange(N_DRAW),
            "coefficient": list(names),
            "noise": list(prior.noise),
        },
    )
    stats = xr.Dataset({"diverging": (("chain", "draw"), np.zeros((N_CHAIN, N_DRAW), bool))})
    return xr.DataTree.from_dict(
        {"posterior": data, "prior": data[["value"]], "sample_stats": stats}
    )


def chained(values: Any) -> Any:
    """Pooled draws laid out by chain."""
    return np.asarray(values).reshape(N_CHAIN, N_DRAW, *np.shape(values)[1:])


def prior_card(model: LatencyModel, **changes: Any) -> dict[str, Any]:
    """Card with every key that loading asks for."""
    card = {
        "schema": "tailcast/card/1",
        "name": "prior",
        "latency_model": model.name,
        "model_sha256": model.sha256,
        "scope": {"accelerator": ["h100-sxm-80gb"]},
        "method": {"route": "none", "n_run": 0, "n_summary": 0, "n_timing": 0},
        "diagnostics": {
            "rhat": 1.0,
            "ess_bulk": 60.0,
            "ess_tail": 60.0,
            "divergences": 0,
            "n_draw": N_CHAIN * N_DRAW,
        },
        "contraction": {},
        "basis_range": {},
        "data_sha256": {},
        "seed": 0,
    }
    return {**card, **changes}


def save_prior(folder: Path, seed: int = 0, **changes: Any) -> Path:
    """Write the folder; `changes` are of the card."""
    model = load_latency_model("physics")
    save_posterior(folder, prior_tree(model, seed), prior_card(model, **changes), "A prior.\n")
    return folder
