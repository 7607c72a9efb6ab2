"""Observed against replayed: how calibrated a posterior is on recorded runs; changes nothing."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tailcast.deployment import Deployment
from tailcast.drift import DriftCheck, drift_check
from tailcast.errors import InputError, TailcastError
from tailcast.evaluation import evaluate_experiment
from tailcast.inference.forward import RunInput
from tailcast.inference.population import deployment_key
from tailcast.inference.recorded import Recorded, Stated, is_recorded, read_recorded
from tailcast.inference.scope import Mismatch, mismatches
from tailcast.inference.sources import run_input
from tailcast.inference.trace_input import StagedTrace, staged_trace, trace_runs
from tailcast.measurement import measured_draws
from tailcast.posteriors import Posterior
from tailcast.prediction import Prediction, predictive
from tailcast.scoring.record import BODY, EvaluationRecord
from tailcast.scoring.regimes import RegimeRow, regime_rows
from tailcast.scoring.score import score
from tailcast.scoring.summary import ScoreSummary, body_summary, summarise
from tailcast.traces.experiment import experiment_files
from tailcast.traces.tracev2 import Trace

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Report = Callable[[str], None]

GATED = 90
"""Nominal percent of the intervals whose coverage a gate looks at."""

_QUANTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}
_N_BAND = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibratedRun:
    """One recorded run and what was found of it.

    Parameters
    ----------
    name, path, format : str
        Which.
    deployment : str
        Key of what served.
    mode : str
        Of the prediction: ``"transfer"`` or ``"cold"``.
    n_request : int
        Requests that were replayed; 0 where only statistics are on record.
    n_left_out, n_uncounted : int
        Requests that never got a token; those that load the server and count in no statistic.
    drift : tuple of DriftCheck
        All statistics at once, one check a load phase; empty where none enters a fit.
    mismatches : tuple of Mismatch
        What of the deployment the posterior's data do not cover.
    warnings : tuple of str
        What the prediction leans on or extrapolates from.
    notes : tuple of str
        What was converted or assumed of the file.
    """

    name: str
    path: str
    format: str
    deployment: str
    mode: str
    n_request: int
    n_left_out: int
    n_uncounted: int
    drift: tuple[DriftCheck, ...]
    mismatches: tuple[Mismatch, ...]
    warnings: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Observed against replayed over recorded runs.

    Parameters
    ----------
    posterior : str
        Which was judged.
    runs : tuple of CalibratedRun
        One a trace or experiment.
    records : tuple of EvaluationRecord
        One a stage, metric and statistic.
    regime_records : tuple of EvaluationRecord
        One a regime (load phase, prompt length, concurrency), metric and statistic.
    errors : tuple of (str, str)
        Runs that could not be simulated: name and reason.
    """

    posterior: str
    runs: tuple[CalibratedRun, ...]
    records: tuple[EvaluationRecord, ...]
    regime_records: tuple[EvaluationRecord, ...]
    errors: tuple[tuple[str, str], ...]

    @property
    def summary(self) -> list[ScoreSummary]:
        """Scores by metric and statistic."""
        return summarise(self.records)

    @property
    def body(self) -> ScoreSummary | None:
        """Scores of mean, P50 and P90 of all metrics together."""
        return body_summary(self.records)

    @property
    def regimes(self) -> list[RegimeRow]:
        """Scores by regime."""
        return regime_rows(self.regime_records)

    def coverage(self, level: int = GATED) -> float:
        """Share of observed statistics within their central interval.

        Parameters
        ----------
        level : {50, 80, 90}
            Nominal percent.

        Returns
        -------
        float
            NaN where nothing was compared.
        """
        held = [record.score.covered(level) for record in self.records]
        return float(np.mean(held)) if held else float("nan")


def calibrate(
    paths: Iterable[Path],
    posterior: Posterior,
    *,
    stated: Stated | None = None,
    n_draw: int = 200,
    seed: int = 0,
    threads: int = 2,
    report: Report = lambda _: None,
) -> Calibration:
    """Replay recorded runs under a posterior and compare.

    Parameters
    ----------
    paths : iterable of pathlib.Path
        Traces of any known format, experiment files and folders of them.
    posterior : Posterior
        To be judged; it is not changed.
    stated : Stated, optional
        What the user says of the traces' deployment.
    n_draw : int
        Posterior draws, one engine run each.
    seed : int
        Of workloads, discrepancies and noise.
    threads : int
        Engine threads.
    report : callable
        Receives lines of progress.

    Returns
    -------
    Calibration
        Runs that cannot be simulated are in its errors.

    Raises
    ------
    InputError, UsageError, CatalogError, CapacityError
        If a file cannot be read or its deployment is not known.
    """
    runs: list[CalibratedRun] = []
    records: list[EvaluationRecord] = []
    regimes: list[EvaluationRecord] = []
    errors: list[tuple[str, str]] = []
    for one in _all_recorded(paths, stated):
        report(f"replaying {one.name}")
        try:
            found = _calibrated(one, posterior, n_draw, seed, threads)
        except TailcastError as error:
            errors.append((one.name, str(error)))
            continue
        runs.append(found[0])
        records += found[1]
        regimes += found[2]
    return Calibration(
        posterior=posterior.name,
        runs=tuple(runs),
        records=tuple(records),
        regime_records=tuple(regimes),
        errors=tuple(errors),
    )


def _all_recorded(paths: Iterable[Path], stated: Stated | None) -> list[Recorded]:
    found: list[Recorded] = []
    for path in paths:
        if is_recorded(path):
            found += read_recorded(path, stated)
        else:
            for file in experiment_files(path):
                found += read_recorded(file, stated)
    names = [one.name for one in found]
    return [replace(one, name=one.path) if names.count(one.name) > 1 else one for one in found]


def _calibrated(
    one: Recorded, posterior: Posterior, n_draw: int, seed: int, threads: int
) -> tuple[CalibratedRun, list[EvaluationRecord], list[EvaluationRecord]]:
    if one.log is not None:
        raise InputError(
            f"{one.path}: a log of engine steps; calibrate compares requests and statistics"
        )
    if one.experiment is not None:
        return _calibrated_experiment(one, posterior, n_draw, seed, threads)
    trace, staged = one.trace, one.staged
    if trace is None or staged is None:
        raise InputError(f"{one.path}: no requests and no statistics")
    prediction = _replayed(posterior, one.deployment, staged, n_draw, seed, threads)
    records = scored(posterior, prediction, staged, one.name, seed)
    runs = trace_runs(staged, one.deployment, one.name, posterior.latency_model)
    summary = CalibratedRun(
        name=one.name,
        path=one.path,
        format=one.format,
        deployment=deployment_key(one.deployment),
        mode=prediction.mode,
        n_request=len(staged.requests),
        n_left_out=staged.n_left_out,
        n_uncounted=staged.n_uncounted,
        drift=_checked(posterior, runs, seed, threads),
        mismatches=mismatches(posterior.card, one.deployment),
        warnings=prediction.warnings,
        notes=one.notes,
    )
    regimes = []
    for kind, (labels, groups) in trace_regimes(trace).items():
        part = staged_trace(trace, groups=groups)
        again = _replayed(posterior, one.deployment, part, n_draw, seed, threads)
        regimes += scored(posterior, again, part, one.name, seed, regime=(kind, labels), only=BODY)
    return summary, records, regimes


def _calibrated_experiment(
    one: Recorded, posterior: Posterior, n_draw: int, seed: int, threads: int
) -> tuple[CalibratedRun, list[EvaluationRecord], list[EvaluationRecord]]:
    experiment = one.experiment
    if experiment is None:
        raise InputError(f"{one.path}: no statistics")
    records, _ = evaluate_experiment(
        experiment, posterior, n_draw=n_draw, seed=seed, threads=threads
    )
    if not records:
        raise InputError(f"{one.path}: nothing was observed that can be predicted")
    runs = (run_input(experiment, posterior.latency_model),)
    summary = CalibratedRun(
        name=one.name,
        path=one.path,
        format=one.format,
        deployment=deployment_key(one.deployment),
        mode=records[0].mode,
        n_request=0,
        n_left_out=0,
        n_uncounted=0,
        drift=_checked(posterior, runs, seed, threads),
        mismatches=mismatches(posterior.card, one.deployment),
        warnings=("leaves the range of the data",) if records[0].extrapolates else (),
        notes=one.notes,
    )
    several = len({record.stage for record in records}) > 1
    phases = [
        replace(record, regime={"load phase": f"stage {record.stage}"})
        for record in records
        if several
    ]
    return summary, records, phases


def _checked(
    posterior: Posterior, runs: Sequence[RunInput], seed: int, threads: int
) -> tuple[DriftCheck, ...]:
    return tuple(
        drift_check(posterior, run, seed=seed, threads=threads) for run in runs if run.outputs
    )


def _replayed(
    posterior: Posterior,
    deployment: Deployment,
    staged: StagedTrace,
    n_draw: int,
    seed: int,
    threads: int,
) -> Prediction:
    return predictive(
        posterior,
        deployment,
        lambda _: staged.requests,
        n_draw=n_draw,
        seed=seed,
        threads=threads,
        n_seed=1,
        quantiles=_QUANTILES,
    )


def scored(
    posterior: Posterior,
    prediction: Prediction,
    staged: StagedTrace,
    name: str,
    seed: int,
    *,
    regime: tuple[str, Mapping[int, str]] | None = None,
    only: Sequence[str] | None = None,
) -> list[EvaluationRecord]:
    """Scores of a trace's statistics by stage.

    Parameters
    ----------
    posterior : Posterior
        Whose noise is added.
    prediction : Prediction
        Replay of the staged requests.
    staged : StagedTrace
        With what was observed.
    name : str
        Of the run.
    seed : int
        Of the noise.
    regime : tuple of (str, mapping of int to str), optional
        Kind, and label by the trace's own group.
    only : sequence of str, optional
        Statistics to score; all by default.

    Returns
    -------
    list of EvaluationRecord
        Statistics that no draw has are left out.
    """
    found = []
    for o in staged.observed:
        if only is not None and o.statistic not in only:
            continue
        draws = measured_draws(prediction, posterior, o.metric, o.statistic, o.stage, seed)
        draws = draws[np.isfinite(draws)]
        if not len(draws):
            continue
        label = {} if regime is None else {regime[0]: regime[1][staged.labels[o.stage]]}
        found.append(
            EvaluationRecord(
                experiment=name,
                stage=staged.labels[o.stage],
                score=score(o.metric, o.statistic, draws, o.value),
                extrapolates=prediction.extrapolates,
                mode=prediction.mode,
                regime=label,
            )
        )
    return found


def trace_regimes(trace: Trace) -> dict[str, tuple[dict[int, str], Ints]]:
    """Ways to part a trace's requests.

    Parameters
    ----------
    trace : Trace
        Recorded run.

    Returns
    -------
    dict of str to (dict of int to str, ndarray of int)
        By kind: label of each part, and part of each row. Kinds with one part are left out.
    """
    found: dict[str, tuple[dict[int, str], Ints]] = {}
    if "group" in trace.columns:
        found["load phase"] = _phases(trace)
    prompt = np.where(
        trace["server_input_tokens"] > 0,
        trace["server_input_tokens"],
        trace["input_tokens"] + trace["prefix_length"],
    )
    found["prompt"] = _bands(prompt, "tokens")
    found["concurrency"] = _bands(in_flight(trace), "in flight")
    return {kind: value for kind, value in found.items() if len(value[0]) > 1}


def _phases(trace: Trace) -> tuple[dict[int, str], Ints]:
    groups, sent = trace["group"], trace.injection
    labels = {}
    for group in np.unique(groups).tolist():
        own = sent[groups == group]
        span = float(own.max() - own.min())
        rate = f", {(len(own) - 1) / span:.3g} requests/s" if span > 0 and len(own) > 2 else ""
        labels[group] = f"{group}{rate}"
    return labels, groups


def _bands(values: Ints, unit: str) -> tuple[dict[int, str], Ints]:
    """Three parts of about as many rows; fewer where values are few."""
    edges = np.unique(np.quantile(values, np.arange(1, _N_BAND) / _N_BAND))
    part = np.searchsorted(edges, values, side="left").astype(np.int64)
    labels = {}
    for k in np.unique(part).tolist():
        own = values[part == k]
        low, high = int(own.min()), int(own.max())
        labels[k] = f"{low} {unit}" if low == high else f"{low}-{high} {unit}"
    return labels, part


def in_flight(trace: Trace) -> Ints:
    """Requests under way when each one was sent, itself included.

    Parameters
    ----------
    trace : Trace
        Recorded run.

    Returns
    -------
    ndarray of int, shape (n_row,)
        A request without an end counts as gone at once.
    """
    sent = trace.injection
    last = trace["last_chunk_time"]
    ends = np.sort(np.where(np.isfinite(last), last, sent))
    begun = np.searchsorted(np.sort(sent), sent, side="right")
    gone = np.searchsorted(ends, sent, side="left")
    count: Ints = np.maximum(begun - gone, 1).astype(np.int64)
    return count
