"""From files to what a fit takes: experiments, traces, step logs and controlled sweeps."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import numpy as np

from tailcast.deployment import Deployment
from tailcast.errors import InputError, UsageError
from tailcast.inference.evidence import Output, StepEvidence
from tailcast.inference.forward import STAT_QUANTILES, RunInput
from tailcast.inference.public_input import public_evidence
from tailcast.inference.recorded import Recorded, Stated, is_recorded, read_recorded
from tailcast.inference.step_input import step_log_evidence
from tailcast.inference.sweep_input import SWEEP_FILES, sweep_evidence
from tailcast.inference.trace_input import trace_runs
from tailcast.inference.warm_up import warm_up_count
from tailcast.latency_model import LatencyModel, Scale
from tailcast.request import RequestTable
from tailcast.streams import stream
from tailcast.traces.experiment import Experiment, experiment_requests, load_experiments
from tailcast.traces.public_sets import is_public_set
from tailcast.workload.uncached import with_unique_prompts

PROVEN = "resolved client configuration"
"""Evidence of repetition that leaves nothing unknown."""

HELD_OUT = ("held-out", "validation")
"""Splits that an experiment may have which judges fits."""

FITTED = {
    ("ttft", "mean"),
    ("ttft", "p50"),
    ("ttft", "p90"),
    ("ttft", "p99"),
    ("e2e", "mean"),
    ("e2e", "p50"),
    ("e2e", "p90"),
    ("e2e", "p99"),
}
"""Summaries that enter a fit; tpot.mean follows from the means of ttft and e2e."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """What files hold for a fit.

    Parameters
    ----------
    runs : tuple of RunInput
        Experiments with summaries.
    steps : tuple of StepEvidence
        Sweeps of step timings.
    files : mapping of str to str
        SHA-256 by file name.
    notes : tuple of str
        What was left out, one sentence each.
    deployments : tuple of Deployment
        Of the runs and step logs, where they are known; for the card's settings.
    """

    runs: tuple[RunInput, ...]
    steps: tuple[StepEvidence, ...]
    files: dict[str, str]
    notes: tuple[str, ...]
    deployments: tuple[Deployment, ...] = ()


def load_sources(
    paths: Iterable[Path],
    model: LatencyModel,
    *,
    leave_out: Sequence[str] = (),
    stated: Stated | None = None,
) -> Sources:
    """Read experiments, traces, step logs and sweeps.

    Parameters
    ----------
    paths : iterable of pathlib.Path
        Experiment files, folders of them, and folders (or files) of step sweeps named
        ``prefill_ttft.csv``, ``mixed_step.csv`` and ``fits.yaml``; traces, step logs and results
        of other tools, whatever is recognised; folders of known public sets.
    model : LatencyModel
        Whose bases the sweeps are expressed in.
    leave_out : sequence of str
        Names of sweep files, or patterns of names of step sources, to skip: for a fit that shall be
        judged on them, or where another law made them.
    stated : Stated, optional
        What the user says of the deployment of traces and step logs.

    Returns
    -------
    Sources
        Runs, step timings, hashes.

    Raises
    ------
    InputError
        If a path holds nothing to fit or a file is malformed.
    UsageError
        If no sweep and no step source has a name that is to be left out.
    """
    experiments: list[Path] = []
    runs: list[RunInput] = []
    steps: list[StepEvidence] = []
    notes: list[str] = []
    files: dict[str, str] = {}
    deployments: list[Deployment] = []
    unused = set(leave_out)
    for path in paths:
        sweeps, rest = _split(path)
        unused -= {file.name for file in sweeps}
        if not sweeps and is_public_set(path):
            public = public_evidence(path, model, run_input)
            for found_run, deployment in zip(public.runs, public.deployments, strict=True):
                if _once(found_run, runs, steps, (), notes):
                    deployments.append(deployment)
            steps += public.steps
            notes += public.notes
            files |= public.files
            continue
        if not sweeps and is_recorded(path):
            for one in read_recorded(path, stated):
                found, own_notes = recorded_evidence(one, model)
                for item in found:
                    _once(item, runs, steps, (), notes)
                notes += own_notes
                files[_file_name(path, files)] = one.sha256
                deployments.append(one.deployment)
            continue
        experiments += rest
        for file in sweeps:
            if file.name in leave_out:
                notes.append(f"{file.name} was left out as asked")
                continue
            found_steps, sweep_notes = sweep_evidence(file, model)
            steps += found_steps
            notes += sweep_notes
            files[file.name] = _sha256(file)
    steps = _kept(steps, unused, notes)
    for experiment in load_experiments(experiments) if experiments else ():
        if experiment.split in HELD_OUT:
            raise InputError(
                f"{experiment.path}: split is {experiment.split}: it may judge a fit, "
                "never enter one"
            )
        run = run_input(experiment, model)
        if _once(run, runs, steps, (), notes):
            files[Path(experiment.path).name] = _sha256(Path(experiment.path))
            deployments.append(experiment.deployment)
    return Sources(
        runs=tuple(runs),
        steps=tuple(steps),
        files=files,
        notes=tuple(notes),
        deployments=tuple(deployments),
    )


def _kept(
    steps: Sequence[StepEvidence], patterns: Iterable[str], notes: list[str]
) -> list[StepEvidence]:
    """Step sources that no pattern names; every pattern must name one."""
    left = {p: [s.name for s in steps if fnmatchcase(s.name, p)] for p in sorted(patterns)}
    for pattern, names in left.items():
        if not names:
            raise UsageError(
                f"--leave-out {pattern}: no sweep file or step source of that name is in the data"
            )
        notes += [f"{name} was left out as asked" for name in names]
    out = {name for names in left.values() for name in names}
    return [source for source in steps if source.name not in out]


def _once(
    found: RunInput | StepEvidence,
    runs: list[RunInput],
    steps: list[StepEvidence],
    own_notes: Sequence[str],
    notes: list[str],
) -> bool:
    """Keep a source unless it is there already."""
    if isinstance(found, RunInput):
        fresh = not any(found.content == other.content for other in runs)
        if fresh:
            runs.append(found)
    else:
        fresh = not any(found.name == other.name for other in steps)
        if fresh:
            steps.append(found)
    notes += own_notes if fresh else [f"{found.name} repeats another run and was counted once"]
    return fresh


def _file_name(path: Path, taken: Mapping[str, str]) -> str:
    """Name of a trace in the card; with its folder where the bare name is taken."""
    own = path.resolve()
    return own.name if own.name not in taken else f"{own.parent.name}/{own.name}"


def recorded_evidence(
    one: Recorded, model: LatencyModel
) -> tuple[tuple[RunInput | StepEvidence, ...], tuple[str, ...]]:
    """What a recorded run is for a fit.

    Parameters
    ----------
    one : Recorded
        Trace, step log or statistics.
    model : LatencyModel
        Whose bases are meant.

    Returns
    -------
    evidence : tuple of RunInput or StepEvidence
        A run a load phase for its statistics, step timings for a log.
    notes : tuple of str
        What was converted, assumed or left out.
    """
    if one.log is not None:
        steps, notes = step_log_evidence(one.log, model, one.deployment, one.name)
        return (steps,), (*one.notes, *notes)
    if one.experiment is not None:
        return (run_input(one.experiment, model),), one.notes
    if one.staged is None:
        raise InputError(f"{one.path}: neither requests, steps nor statistics")
    runs = trace_runs(one.staged, one.deployment, one.name, model)
    return runs, (*one.notes, *_left_out(one))


def _left_out(one: Recorded) -> list[str]:
    staged = one.staged
    if staged is None:
        return []
    notes = []
    if staged.n_left_out:
        notes.append(f"{one.name}: {staged.n_left_out} requests never got a token and are left out")
    if staged.n_uncounted:
        notes.append(
            f"{one.name}: {staged.n_uncounted} failed, aborted or warm-up requests load the server "
            "and count in no statistic"
        )
    return notes


def _split(path: Path) -> tuple[list[Path], list[Path]]:
    names = SWEEP_FILES
    if path.is_dir():
        sweeps = [path / name for name in names if (path / name).is_file()]
        return (sweeps, []) if sweeps else ([], [path])
    return ([path], []) if path.name in names else ([], [path])


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def run_input(experiment: Experiment, model: LatencyModel) -> RunInput:
    """Run of an experiment, with the summaries that enter a fit.

    Parameters
    ----------
    experiment : Experiment
        Deployment, workload and observed statistics.
    model : LatencyModel
        For what it leaves unknown of a run.

    Returns
    -------
    RunInput
        Statistics that no emulator is made for are left to `evaluate`.
    """
    outputs = []
    requests = experiment_requests(experiment, 0)
    for o in experiment.observed:
        known = o.statistic == "mean" or o.statistic in STAT_QUANTILES
        if (o.metric, o.statistic) not in FITTED or not known:
            continue
        own = requests.output_tokens[requests.group == o.stage]
        tokens = float(own.mean()) if len(own) else 1.0
        outputs.append(
            Output(
                stage=o.stage,
                metric=o.metric,
                stat=o.statistic,
                log_observed=float(np.log(o.value)),
                finish=float(o.metric == "e2e"),
                stream=tokens if o.metric == "e2e" else 1.0,
                warm_up=warm_up_count(requests, o.stage, o.quantile),
            )
        )
    return RunInput(
        name=experiment.id,
        deployment=experiment.deployment,
        requests=lambda seed: experiment_requests(experiment, seed),
        outputs=tuple(outputs),
        content=experiment.content_hash,
        uncached=unknown_share(experiment, model),
    )


def plausible_requests(
    experiment: Experiment, model: LatencyModel
) -> Callable[[int], RequestTable]:
    """Realisations of what was sent, with what is unknown of it drawn from its prior.

    Parameters
    ----------
    experiment : Experiment
        With its workload and its evidence of repetition.
    model : LatencyModel
        With the prior of the share of prompts that do not repeat, if it has one.

    Returns
    -------
    callable
        Seed to requests.
    """
    prior = unknown_share(experiment, model)

    def requests(seed: int) -> RequestTable:
        table = experiment_requests(experiment, seed)
        if prior is None:
            return table
        z = stream(seed, "uncached share").standard_normal()
        odds = prior.centre * float(np.exp(prior.sd * z))
        return with_unique_prompts(table, odds / (1 + odds), seed)

    return requests


def unknown_share(experiment: Experiment, model: LatencyModel) -> Scale | None:
    """Prior of the odds that a prompt is unshared, where repetition was inferred, not seen.

    Parameters
    ----------
    experiment : Experiment
        With its evidence of repetition.
    model : LatencyModel
        With the prior, if it has one.

    Returns
    -------
    Scale or None
        None where the client's configuration is on record or no prompt repeats.
    """
    evidence = experiment.repetition_evidence
    if not evidence or evidence == PROVEN:
        return None
    return model.latent.get("uncached_share")
