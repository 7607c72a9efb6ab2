"""Fits of the three numbers without sampling: draws of the prior in the posterior's place."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr

from tailcast.inference.queue_data import queue_data
from tailcast.inference.queue_draws import prior_free
from tailcast.inference.queue_tree import queue_tree
from tailcast.queueing.parameter_prior import NumbersPrior
from tailcast.queueing.server import ServerLimits
from tailcast.queueing.windows import Window
from tailcast.streams import stream

N_CHAIN, N_DRAW = 2, 60


def unsampled_fit(
    windows: Sequence[Window], prior: NumbersPrior, limits: ServerLimits, *, seed: int, **_: Any
) -> xr.DataTree:
    """As `fit_queue`, with draws of the prior."""
    data = queue_data(windows, prior, limits)
    free = prior_free(N_CHAIN * N_DRAW, data, stream(seed, "unsampled"))
    names = ("chain", "draw")
    posterior = xr.Dataset(
        {
            name: (
                (*names, *(f"{name}_{k}" for k in range(values.ndim - 1))),
                values.reshape(N_CHAIN, N_DRAW, *values.shape[1:]),
            )
            for name, values in free.items()
        }
    )
    clocks = {
        "diverging": np.zeros((N_CHAIN, N_DRAW), bool),
        "perf_counter_diff": np.empty((2, 60)),
    }
    stats = xr.Dataset({name: (names, values) for name, values in clocks.items()})
    stats.attrs["created_at"] = "now"
    tree = queue_tree(
        xr.DataTree.from_dict({"/posterior": posterior, "/sample_stats": stats}), data, seed
    )
    tree.attrs |= {"rhat": 1.0, "divergences": 0}
    return tree
