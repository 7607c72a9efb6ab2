"""Between samples and stored groups: DataTree in, `Population` and `Evidence` out, and back."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from tailcast.errors import InputError
from tailcast.inference.emulator import Emulator
from tailcast.inference.evidence import Evidence, Output, RunEvidence, StepEvidence
from tailcast.inference.population import Population
from tailcast.inference.stored_population import stored_population
from tailcast.latency_model import LatencyModel

_RUN_ARRAYS = ("matrix", "in_clock", "batch_range")
_OUTPUT_ARRAYS = ("log_observed", "finish", "stream", "warm_up")
_STEP_ARRAYS = ("clock", "overhead", "log_observed")


def population_of(tree: xr.DataTree, model: LatencyModel, group: str = "posterior") -> Population:
    """Population draws of a fitted posterior, chains pooled.

    Parameters
    ----------
    tree : xarray.DataTree
        With the group, as `tailcast.inference.fit` makes it.
    model : LatencyModel
        The latency model that was fitted.
    group : str
        ``"posterior"`` or ``"prior"``.

    Returns
    -------
    Population
        One row a draw, chain by chain.

    Raises
    ------
    InputError
        If a variable is missing: the file is no posterior of this model.
    """
    arrays = {str(name): value.values for name, value in tree[group].to_dataset().variables.items()}
    return stored_population(arrays, model)


def evidence_tree(evidence: Evidence) -> xr.DataTree:
    """Evidence as a group to be stored beside the posterior.

    Parameters
    ----------
    evidence : Evidence
        Runs with emulators, step timings.

    Returns
    -------
    xarray.DataTree
        One child a run or step source.
    """
    children: dict[str, xr.DataTree] = {}
    for k, run in enumerate(evidence.runs):
        emulator = run.emulator
        arrays: dict[str, Any] = {name: getattr(run, name) for name in _RUN_ARRAYS}
        arrays |= {n: getattr(emulator, n) for n in ("centre", "spread", "weights", "residual")}
        arrays["log_observed"] = np.array([o.log_observed for o in run.outputs])
        arrays["finish"] = np.array([o.finish for o in run.outputs])
        arrays["stream"] = np.array([o.stream for o in run.outputs])
        arrays["warm_up"] = np.array([o.warm_up for o in run.outputs])
        outputs = [f"{o.stage}/{o.metric}/{o.stat}" for o in run.outputs]
        attrs = {
            "outputs": json.dumps(outputs),
            "saturated": json.dumps(list(run.saturated)),
            "latent": str(run.latent),
        }
        children[f"run_{k:03d}"] = _child(run, arrays, attrs)
    if evidence.steps:
        children["steps"] = _packed_steps(evidence.steps)
    return xr.DataTree(children=children)


def _packed_steps(sources: Sequence[StepEvidence]) -> xr.DataTree:
    """All step sources in one dataset: a group each would cost more than their numbers."""
    values, entries = [], []
    for source in sources:
        arrays = {name: getattr(source, name) for name in _STEP_ARRAYS}
        entry = {**_described(source, arrays), "noise": list(source.noise)}
        values.append(_packed(arrays))
        entries.append(json.dumps(entry))
    return xr.DataTree(
        dataset=xr.Dataset(
            {"packed": ("value", np.concatenate(values)), "entry": ("source", entries)}
        )
    )


def _described(item: RunEvidence | StepEvidence, arrays: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": item.name,
        "deployment": item.deployment,
        "weight": item.weight,
        "regimes": list(item.regimes),
        "levels": dict(sorted(item.levels.items())),
        "layout": {name: list(np.shape(value)) for name, value in arrays.items()},
    }


def _packed(arrays: dict[str, Any]) -> NDArray[np.float64]:
    return np.concatenate([np.ravel(value).astype(np.float64) for value in arrays.values()])


def _child(item: RunEvidence, arrays: dict[str, Any], attrs: dict[str, str]) -> xr.DataTree:
    known = _described(item, arrays)
    for name in ("regimes", "levels", "layout"):
        known[name] = json.dumps(known[name])
    dataset = xr.Dataset({"packed": ("value", _packed(arrays))}, attrs={**known, **attrs})
    return xr.DataTree(dataset=dataset)


def evidence_of(tree: xr.DataTree) -> Evidence:
    """Evidence that a posterior was conditioned on.

    Parameters
    ----------
    tree : xarray.DataTree
        With the group ``evidence``.

    Returns
    -------
    Evidence
        Ready to be extended and fitted again.

    Raises
    ------
    InputError
        If the posterior carries none.
    """
    if "evidence" not in tree.children:
        raise InputError("posterior carries no evidence group; it cannot be updated or checked")
    runs: list[RunEvidence] = []
    steps: list[StepEvidence] = []
    for name, child in tree["evidence"].children.items():
        data = child.to_dataset()
        if name == "steps":
            steps += _steps(data)
            continue
        common: dict[str, Any] = {
            "name": data.attrs["name"],
            "deployment": data.attrs["deployment"],
            "weight": float(data.attrs.get("weight", 1.0)),
            "regimes": tuple(json.loads(data.attrs.get("regimes", "[]"))),
            "levels": json.loads(data.attrs["levels"]),
        }
        if name.startswith("run_"):
            runs.append(_run(data, common))
        else:  # a group a step source, as posteriors were written at first
            for key in _STEP_ARRAYS:
                common[key] = _values(data, key)
            steps.append(StepEvidence(**common, noise=json.loads(data.attrs["noise"])))
    return Evidence(runs=tuple(runs), steps=tuple(steps))


def _steps(data: xr.Dataset) -> Iterator[StepEvidence]:
    values = np.asarray(data["packed"].values, dtype=np.float64)
    start = 0
    for text in data["entry"].values:
        entry = json.loads(str(text))
        for name, shape in entry.pop("layout").items():
            size = int(np.prod(shape))
            entry[name] = values[start : start + size].reshape(shape)
            start += size
        yield StepEvidence(**{**entry, "regimes": tuple(entry["regimes"])})


def _values(data: xr.Dataset, name: str) -> NDArray[np.float64]:
    """One array out of the packed ones; a small file holds few datasets."""
    start = 0
    for key, shape in json.loads(data.attrs["layout"]).items():
        size = int(np.prod(shape))
        if key == name:
            own = np.asarray(data["packed"].values, dtype=np.float64)[start : start + size]
            return own.reshape(shape)
        start += size
    raise InputError(f"posterior evidence lacks {name!r}; fit it again")


def _run(data: xr.Dataset, common: dict[str, Any]) -> RunEvidence:
    known = json.loads(data.attrs["layout"])
    columns = {name: _values(data, name) for name in _OUTPUT_ARRAYS if name in known}
    outputs = []
    for k, text in enumerate(json.loads(data.attrs["outputs"])):
        stage, metric, stat = text.split("/")
        own = {name: float(column[k]) for name, column in columns.items()}
        outputs.append(Output(stage=int(stage), metric=metric, stat=stat, **own))
    emulator = Emulator(
        **{name: _values(data, name) for name in ("centre", "spread", "weights", "residual")}
    )
    return RunEvidence(
        **common,
        matrix=_values(data, "matrix"),
        in_clock=_values(data, "in_clock").astype(bool),
        emulator=emulator,
        outputs=tuple(outputs),
        batch_range=_values(data, "batch_range"),
        saturated=tuple(json.loads(data.attrs.get("saturated", "[]"))),
        latent=int(data.attrs.get("latent", -1)),
    )
