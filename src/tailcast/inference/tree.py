"""Between samples and stored groups: DataTree in, `Population` and `Evidence` out, and back."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import xarray as xr

from tailcast.errors import InputError
from tailcast.inference.emulator import Emulator
from tailcast.inference.evidence import Evidence, Output, RunEvidence, StepEvidence
from tailcast.inference.population import Population
from tailcast.inference.stored_population import stored_population
from tailcast.latency_model import LatencyModel

_RUN_ARRAYS = ("matrix", "in_clock", "batch_range")
_EMULATOR_ARRAYS = ("centre", "spread", "weights", "residual")
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
        Children ``runs`` and ``steps``, each one dataset: a group an item would cost more than its
        numbers. ``entry`` describes an item in JSON, ``packed`` holds all its arrays in turn.
    """
    found = {
        "runs": [_run_entry(run) for run in evidence.runs],
        "steps": [_step_entry(source) for source in evidence.steps],
    }
    return xr.DataTree(children={name: _packed(items) for name, items in found.items() if items})


type _Entry = tuple[dict[str, Any], dict[str, Any]]


def _packed(items: Sequence[_Entry]) -> xr.DataTree:
    entries, values = [], []
    for entry, arrays in items:
        layout = {name: list(np.shape(value)) for name, value in arrays.items()}
        entries.append(json.dumps({**entry, "layout": layout}))
        values += [np.ravel(value).astype(np.float64) for value in arrays.values()]
    return xr.DataTree(
        dataset=xr.Dataset(
            {"packed": ("value", np.concatenate(values)), "entry": ("item", entries)}
        )
    )


def _described(item: RunEvidence | StepEvidence) -> dict[str, Any]:
    return {
        "name": item.name,
        "deployment": item.deployment,
        "weight": item.weight,
        "regimes": list(item.regimes),
        "levels": dict(sorted(item.levels.items())),
    }


def _step_entry(source: StepEvidence) -> _Entry:
    arrays = {name: getattr(source, name) for name in _STEP_ARRAYS}
    return {**_described(source), "noise": list(source.noise)}, arrays


def _run_entry(run: RunEvidence) -> _Entry:
    arrays: dict[str, Any] = {name: getattr(run, name) for name in _RUN_ARRAYS}
    arrays |= {name: getattr(run.emulator, name) for name in _EMULATOR_ARRAYS}
    for name in _OUTPUT_ARRAYS:
        arrays[name] = np.array([getattr(output, name) for output in run.outputs])
    entry = {
        **_described(run),
        "outputs": [f"{o.stage}/{o.metric}/{o.stat}" for o in run.outputs],
        "saturated": list(run.saturated),
        "latent": run.latent,
    }
    return entry, arrays


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
        for entry in _entries(child.to_dataset()):
            if name.startswith("run"):
                runs.append(_run(entry))
            else:
                steps.append(StepEvidence(**entry))
    return Evidence(runs=tuple(runs), steps=tuple(steps))


def _entries(data: xr.Dataset) -> Iterator[dict[str, Any]]:
    """Each item of a group: what describes it, and its arrays by name."""
    values = np.asarray(data["packed"].values, dtype=np.float64)
    entries = [json.loads(str(text)) for text in data["entry"].values] if "entry" in data else []
    start = 0
    for entry in entries or [_attributes(data)]:
        for name, shape in entry.pop("layout").items():
            size = int(np.prod(shape))
            entry[name] = values[start : start + size].reshape(shape)
            start += size
        entry["regimes"] = tuple(entry["regimes"])
        yield entry


def _attributes(data: xr.Dataset) -> dict[str, Any]:
    """One item in the attributes of its group, as posteriors were stored at first."""
    entry: dict[str, Any] = {"weight": 1.0, "regimes": "[]"} | data.attrs
    for name in ("regimes", "levels", "layout", "outputs", "saturated", "noise"):
        if name in entry:
            entry[name] = json.loads(entry[name])
    entry["weight"] = float(entry["weight"])
    return entry


def _run(entry: dict[str, Any]) -> RunEvidence:
    columns = {name: entry.pop(name) for name in _OUTPUT_ARRAYS if name in entry}
    outputs = []
    for k, text in enumerate(entry.pop("outputs")):
        stage, metric, stat = text.split("/")
        own = {name: float(column[k]) for name, column in columns.items()}
        outputs.append(Output(stage=int(stage), metric=metric, stat=stat, **own))
    emulator = Emulator(**{name: entry.pop(name) for name in _EMULATOR_ARRAYS})
    changed = {
        "in_clock": entry["in_clock"].astype(bool),
        "saturated": tuple(entry.get("saturated", ())),
        "latent": int(entry.get("latent", -1)),
    }
    return RunEvidence(**{**entry, **changed}, emulator=emulator, outputs=tuple(outputs))
