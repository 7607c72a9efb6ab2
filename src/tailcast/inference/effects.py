"""Discrepancies as blocks of random effects: how many, with which scales, acting on what."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.inference.evidence import Evidence
from tailcast.latency_model import TTFT_NU, LatencyModel

Array = NDArray[np.float64]
Index = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class EffectBlock:
    """Random effects of one kind.

    Parameters
    ----------
    name : str
        Variable in the posterior.
    dim : str
        Its dimension.
    units : tuple of str
        Names along it.
    part : ndarray, shape (n_unit, n_scale)
        Which discrepancy scales add up, as variances, to each unit's scale.
    own : float
        Fixed scale of each unit beside those.
    nu : float
        Degrees of freedom, 0 for normal.
    item : ndarray, shape (n_item,)
        Unit that multiplies each item's step clock, -1 for none.
    output : ndarray, shape (n_output,)
        Unit that multiplies each summary, -1 for none.
    latent : ndarray, shape (n_run,)
        Unit that moves each run's unknown number, -1 for none.
    """

    name: str
    dim: str
    units: tuple[str, ...]
    part: Array
    own: float
    nu: float
    item: Index
    output: Index
    latent: Index


def effect_blocks(model: LatencyModel, evidence: Evidence) -> tuple[EffectBlock, ...]:
    """Blocks that a latency model has on given evidence; empty ones are left out.

    Parameters
    ----------
    model : LatencyModel
        With discrepancies and latents.
    evidence : Evidence
        With regimes, saturated stages and unknown numbers.

    Returns
    -------
    tuple of EffectBlock
        In the order of the flat parameter vector.
    """
    blocks = (
        _deployments(model, evidence),
        _runs(model, evidence),
        _ttft(model, evidence),
        _saturation(model, evidence),
        _latent(model, evidence),
    )
    return tuple(block for block in blocks if len(block.units))


def _block(
    evidence: Evidence,
    name: str,
    dim: str,
    units: Sequence[str],
    part: Array,
    **placed: Index | float,
) -> EffectBlock:
    n_output = sum(len(run.outputs) for run in evidence.runs)
    default = {
        "own": 0.0,
        "nu": 0.0,
        "item": np.full(len(evidence.items), -1, dtype=np.int64),
        "output": np.full(n_output, -1, dtype=np.int64),
        "latent": np.full(len(evidence.runs), -1, dtype=np.int64),
    }
    values: dict[str, object] = {**default, **placed}
    return EffectBlock(name=name, dim=dim, units=tuple(units), part=part, **values)  # type: ignore[arg-type]


def _part(model: LatencyModel, units: Sequence[Sequence[str]]) -> Array:
    names = tuple(model.discrepancy)
    rows = [[float(name in wanted) for name in names] for wanted in units]
    return np.array(rows, dtype=np.float64).reshape(len(units), len(names))


def _deployments(model: LatencyModel, evidence: Evidence) -> EffectBlock:
    keys = evidence.deployments if "deployment" in model.discrepancy else ()
    regimes = {item.deployment: set(item.regimes) for item in evidence.items}
    own = [("deployment", *(regimes[key] & {"moe", "tensor_parallel"})) for key in keys]
    item = [keys.index(i.deployment) if keys else -1 for i in evidence.items]
    return _block(
        evidence,
        "deployment_speed",
        "deployment",
        keys,
        _part(model, own),
        item=np.array(item, dtype=np.int64),
    )


def _runs(model: LatencyModel, evidence: Evidence) -> EffectBlock:
    runs = evidence.runs if "run" in model.discrepancy else ()
    own = [("run", *(set(run.regimes) & {"long_decode"})) for run in runs]
    item = np.full(len(evidence.items), -1, dtype=np.int64)
    item[: len(runs)] = np.arange(len(runs))
    return _block(
        evidence, "run_speed", "run", [run.name for run in runs], _part(model, own), item=item
    )


def _ttft(model: LatencyModel, evidence: Evidence) -> EffectBlock:
    runs = evidence.runs if "ttft" in model.discrepancy else ()
    output = [
        r if runs and o.metric == "ttft" else -1
        for r, run in enumerate(evidence.runs)
        for o in run.outputs
    ]
    return _block(
        evidence,
        "run_ttft",
        "run",
        [run.name for run in runs],
        _part(model, [("ttft",)] * len(runs)),
        nu=TTFT_NU,
        output=np.array(output, dtype=np.int64),
    )


def _saturation(model: LatencyModel, evidence: Evidence) -> EffectBlock:
    runs = evidence.runs if "saturation" in model.discrepancy else ()
    stages = [(run.name, stage) for run in runs for stage in run.saturated]
    output = [
        stages.index((run.name, o.stage))
        if o.metric == "ttft" and (run.name, o.stage) in stages
        else -1
        for run in evidence.runs
        for o in run.outputs
    ]
    return _block(
        evidence,
        "stage_saturation",
        "saturated_stage",
        [f"{name}/{stage}" for name, stage in stages],
        _part(model, [("saturation",)] * len(stages)),
        nu=TTFT_NU,
        output=np.array(output, dtype=np.int64),
    )


def _latent(model: LatencyModel, evidence: Evidence) -> EffectBlock:
    prior = model.latent.get("uncached_share")
    unknown = [r for r, run in enumerate(evidence.runs) if run.latent >= 0] if prior else []
    latent = np.full(len(evidence.runs), -1, dtype=np.int64)
    latent[unknown] = np.arange(len(unknown))
    return _block(
        evidence,
        "run_uncached",
        "uncached_run",
        [evidence.runs[r].name for r in unknown],
        _part(model, [()] * len(unknown)),
        own=prior.sd if prior else 0.0,
        latent=latent,
    )
