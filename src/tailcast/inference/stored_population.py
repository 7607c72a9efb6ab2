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
        If a variable is missing or of another size: the file is no posterior of this model.
    """
    _check_sizes(arrays, model)
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


def _check_sizes(arrays: Arrays, model: LatencyModel) -> None:
    """Refuse draws that are missing, not finite or do not fit their names and the model."""
    n_free = sum(not c.fixed for c in model.coefficients)
    sizes: dict[str, tuple[int | str, ...]] = {"location": (n_free,), "noise_scale": ("noise",)}
    optional: dict[str, tuple[int | str, ...]] = {
        **{f"offset_{name}": (len(varying(model, name)), name) for name in GROUPS},
        **{f"scale_{name}": () for name in model.discrepancy},
        "deployment_speed": ("deployment",),
        "run_speed": ("run",),
        "run_ttft": ("run",),
    }
    sizes |= {name: own for name, own in optional.items() if name in arrays}
    for name in [*sizes, *(n for own in sizes.values() for n in own if isinstance(n, str))]:
        if name not in arrays:
            raise InputError(f"posterior has no variable {name!r}; was it made by tailcast fit?")
    draws = np.shape(arrays["location"])[:2]
    for name, own in sizes.items():
        wanted = (*draws, *(n if isinstance(n, int) else len(arrays[n]) for n in own))
        found = np.shape(arrays[name])
        if found != wanted:
            raise InputError(
                f"posterior's {name!r} has shape {found}, not {wanted}; fetch or fit it again"
            )
        if not np.isfinite(arrays[name]).all():
            raise InputError(f"posterior's {name!r} has draws that are no number; fit it again")


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
