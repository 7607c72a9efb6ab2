"""Public sets of measurements as evidence for a fit."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tailcast.deployment import Deployment
from tailcast.inference.evidence import StepEvidence, step_evidence
from tailcast.inference.forward import RunInput
from tailcast.inference.trace_input import staged_trace, trace_run
from tailcast.latency_model import LatencyModel
from tailcast.traces.experiment import Experiment
from tailcast.traces.public_set import PublicSet, StepTable
from tailcast.traces.public_sets import load_public_set


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicEvidence:
    """What a public set is for a fit.

    Parameters
    ----------
    runs : tuple of RunInput
        Runs with statistics, and traces.
    steps : tuple of StepEvidence
        Step timings.
    deployments : tuple of Deployment
        Of the runs, in their order.
    files : dict of str to str
        SHA-256 by name of set and file.
    notes : tuple of str
        What was used, converted, assumed and refused.
    """

    runs: tuple[RunInput, ...]
    steps: tuple[StepEvidence, ...]
    deployments: tuple[Deployment, ...]
    files: dict[str, str]
    notes: tuple[str, ...]


def public_evidence(
    path: Path, model: LatencyModel, run_of: Callable[[Experiment, LatencyModel], RunInput]
) -> PublicEvidence:
    """Read a public set as evidence.

    Parameters
    ----------
    path : pathlib.Path
        Its folder, or the file by which it is recognised.
    model : LatencyModel
        Whose bases and noise scales are meant.
    run_of : callable
        From an experiment to a run; `tailcast.inference.sources.run_input`.

    Returns
    -------
    PublicEvidence
        Runs without a statistic that enters a fit, and timings whose noise the model lacks, are
        counted in the notes.

    Raises
    ------
    InputError
        If the set is malformed.
    """
    found = load_public_set(path)
    notes = [found.summary, *(f"{found.name}: {note}" for note in found.notes)]
    kept = [(e.deployment, run_of(e, model)) for e in found.experiments]
    runs = [(deployment, run) for deployment, run in kept if run.outputs]
    if len(runs) < len(kept):
        notes.append(
            f"{found.name}: {len(kept) - len(runs)} runs have no statistic that enters a fit"
        )
    for own in found.traces:
        runs.append((own.deployment, trace_run(staged_trace(own.trace), own.deployment, own.name)))
    steps = [table for table in found.steps if set(table.noise) <= set(model.noise)]
    if len(steps) < len(found.steps):
        notes.append(
            f"{found.name}: {len(found.steps) - len(steps)} step tables need a noise scale that "
            f"latency model {model.name!r} does not have"
        )
    return PublicEvidence(
        runs=tuple(run for _, run in runs),
        steps=tuple(table_evidence(table, model) for table in steps),
        deployments=tuple(deployment for deployment, _ in runs),
        files=_hashes(found),
        notes=tuple(notes),
    )


def table_evidence(table: StepTable, model: LatencyModel) -> StepEvidence:
    """Evidence of one table of step timings.

    Parameters
    ----------
    table : StepTable
        Timings with their batches.
    model : LatencyModel
        Whose bases are meant.

    Returns
    -------
    StepEvidence
        With basis values in seconds or counts.
    """
    rows = list(zip(table.features, table.seconds.tolist(), table.noise, strict=True))
    return step_evidence(table.name, model, table.deployment, rows, ingest=table.client_side)


def _hashes(found: PublicSet) -> dict[str, str]:
    return {
        f"{found.name}/{file.name}": hashlib.sha256(file.read_bytes()).hexdigest()
        for file in found.files
    }
