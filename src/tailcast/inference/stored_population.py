"""Population draws out of a stored group of named arrays, without a labelled-array library."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import InputError
from tailcast.inference.population import Population, varying
from tailcast.latency_model import GROUPS, LatencyModel

type Arrays = Mapping[str, NDArray[Any]]


def stored_population(arrays: Arrays, model: LatencyModel) -> Population:
    """Population draws of a group of a fitted posterior, chains pooled.

    Parameters
    ----------
    arrays : mapping of str to ndarray
        Variables with leading dimensions (chain, draw), and coordinates.
    model : LatencyModel
        The latency model that was fitted.

    Returns
    -------
    Population
        One row a draw, chain by chain.

    Raises
    ------
    InputError
        If a variable is missing: the file is no posterior of this model.
    """
    for name in ("location", "noise_scale"):
        if name not in arrays:
            raise InputError(f"posterior has no variable {name!r}; was it made by tailcast fit?")
    location = _pooled(arrays["location"])
    n_draw = len(location)
    noise = _pooled(arrays["noise_scale"])
    offsets, levels = {}, {}
    for name in GROUPS:
        key = f"offset_{name}"
        if key in arrays:
            offsets[name] = _pooled(arrays[key])
            levels[name] = tuple(str(level) for level in arrays[name])
        else:
            offsets[name] = np.zeros((n_draw, len(varying(model, name)), 0))
            levels[name] = ()
    known = "deployment_speed" in arrays
    return Population(
        latency_model=model,
        location=location,
        offsets=offsets,
        levels=levels,
        deployment=_pooled(arrays["deployment_speed"]) if known else np.zeros((n_draw, 0)),
        deployments=tuple(str(key) for key in arrays["deployment"]) if known else (),
        scale={
            key.removeprefix("scale_"): _pooled(arrays[key])
            for key in arrays
            if key.startswith("scale_")
        },
        noise={str(name): noise[:, k] for k, name in enumerate(arrays["noise"])},
        servers=_servers(arrays),
    )


def _servers(arrays: Arrays) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
    if "run" not in arrays:
        return {}
    names = [str(name) for name in arrays["run"]]
    none = np.zeros((len(_pooled(arrays["location"])), len(names)))
    speed, ttft = (
        _pooled(arrays[key]) if key in arrays else none for key in ("run_speed", "run_ttft")
    )
    return {name: (speed[:, k], ttft[:, k]) for k, name in enumerate(names)}


def _pooled(values: NDArray[Any]) -> NDArray[np.float64]:
    own = np.asarray(values, dtype=np.float64)
    return own.reshape(-1, *own.shape[2:])
