"""Predicted against observed: experiments are predicted blind, then compared."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np

from tailcast.errors import CapacityError, InputError, TailcastError
from tailcast.evaluation_result import Evaluation
from tailcast.inference.sources import plausible_requests
from tailcast.measurement import measured_draws
from tailcast.posteriors import Posterior
from tailcast.prediction import Prediction, predictive, refuse_unserved
from tailcast.request import RequestTable
from tailcast.scoring.peers import PeerPrediction, score_peers
from tailcast.scoring.record import EvaluationRecord
from tailcast.scoring.regimes import deployment_regime
from tailcast.scoring.rivals import residual_baseline, split_conformal
from tailcast.scoring.saturation import (
    SaturationRecord,
    observed_saturation,
    stage_load_factors,
)
from tailcast.scoring.score import score
from tailcast.traces.experiment import (
    Experiment,
    UnusableExperiment,
    attempt_experiments,
    experiment_requests,
)
from tailcast.traces.public_sets import is_public_set, load_public_set


def evaluate(
    paths: Iterable[Path | str],
    posterior: Posterior,
    *,
    n_draw: int = 200,
    seed: int = 0,
    threads: int = 2,
    peers: Sequence[PeerPrediction] = (),
    report: Callable[[str], None] = lambda _: None,
) -> Evaluation:
    """Predict every experiment without looking at what was observed, then compare.

    Parameters
    ----------
    paths : iterable of path
        Experiment files, folders of them, and folders of public sets that hold runs.
    posterior : Posterior
        To be judged.
    n_draw : int
        Posterior draws, one engine run each.
    seed : int
        Of workloads, discrepancies, measurement noise and the conformal split.
    threads : int
        Engine threads.
    peers : sequence of PeerPrediction
        Point predictions of other tools, scored on the same records.
    report : callable
        Receives a line of progress per experiment.

    Returns
    -------
    Evaluation
        Records, summary and the experiments that could not be simulated.

    Raises
    ------
    InputError
        If a path holds no experiment or a file is malformed.
    """
    listed = [Path(path) for path in paths]
    files = [path for path in listed if not is_public_set(path)]
    public = [e for p in listed if is_public_set(p) for e in _public_runs(p)]
    return evaluate_experiments(
        [*(attempt_experiments(files) if files or not public else ()), *public],
        posterior,
        n_draw=n_draw,
        seed=seed,
        threads=threads,
        peers=peers,
        report=report,
    )


def _public_runs(path: Path) -> tuple[Experiment, ...]:
    found = load_public_set(path)
    if not found.experiments:
        raise InputError(
            f"{path}: holds no runs with statistics, only step timings or traces; "
            "fit them, or tailcast replay a trace"
        )
    return found.experiments


def evaluate_experiments(
    found: Sequence[Experiment | UnusableExperiment],
    posterior: Posterior,
    *,
    n_draw: int = 200,
    seed: int = 0,
    threads: int = 2,
    peers: Sequence[PeerPrediction] = (),
    report: Callable[[str], None] = lambda _: None,
) -> Evaluation:
    """Predict experiments in memory blind, then compare.

    Parameters
    ----------
    found : sequence of Experiment or UnusableExperiment
        What was run; a run that occurs twice is predicted and counted once.
    posterior : Posterior
        To be judged.
    n_draw, seed, threads, peers, report
        As in `evaluate`.

    Returns
    -------
    Evaluation
        Records, rivals, and the experiments that could not be simulated.
    """
    records: list[EvaluationRecord] = []
    saturation: list[SaturationRecord] = []
    errors: list[tuple[str, str]] = []
    seen: dict[str, list[str]] = {}
    for k, experiment in enumerate(found, start=1):
        report(f"experiment {experiment.id} ({k} of {len(found)})")
        if isinstance(experiment, UnusableExperiment):
            errors.append((experiment.id, str(experiment.error)))
            continue
        same = seen.setdefault(experiment.content_hash, [])
        same.append(experiment.id)
        if len(same) > 1:
            continue
        try:
            scored, classes = evaluate_experiment(
                experiment, posterior, n_draw=n_draw, seed=seed, threads=threads
            )
        except TailcastError as error:
            errors.append((experiment.id, str(error)))
            continue
        records += scored
        saturation += classes
    return Evaluation(
        posterior=posterior,
        records=tuple(records),
        errors=tuple(errors),
        duplicates=tuple(tuple(same) for same in seen.values() if len(same) > 1),
        saturation=tuple(saturation),
        rivals=(
            residual_baseline(records),
            split_conformal(records, seed),
            *score_peers(peers, records),
        ),
    )


def evaluate_experiment(
    experiment: Experiment, posterior: Posterior, *, n_draw: int, seed: int, threads: int
) -> tuple[list[EvaluationRecord], list[SaturationRecord]]:
    """Predict one experiment and score each observed statistic.

    Parameters
    ----------
    experiment : Experiment
        What was run and what was observed.
    posterior : Posterior
        To be judged.
    n_draw, seed, threads : int
        As in `evaluate`.

    Returns
    -------
    list of EvaluationRecord
        One an observed statistic of ttft, tpot, itl, e2e and queue_delay.
    list of SaturationRecord
        One a stage of an open workload whose class is known.

    Raises
    ------
    TailcastError
        If the experiment cannot be simulated.
    """
    prediction = blind_prediction(experiment, posterior, n_draw=n_draw, seed=seed, threads=threads)
    requests = experiment_requests(experiment, seed)
    load = stage_load_factors(requests)
    typical = float(np.median(prediction.load))
    records = []
    for observed in experiment.observed:
        draws = measured_draws(
            prediction, posterior, observed.metric, observed.statistic, observed.stage, seed
        )
        served = np.isfinite(draws)
        if not served.any():
            raise CapacityError(
                f"stage {observed.stage}: no draw has a {observed.metric}, so there is nothing to "
                "compare with"
            )
        records.append(
            EvaluationRecord(
                experiment=experiment.id,
                stage=observed.stage,
                score=score(observed.metric, observed.statistic, draws[served], observed.value),
                extrapolates=prediction.extrapolates,
                mode=prediction.mode,
                n_unserved=int(np.sum(~served)),
                regime=deployment_regime(
                    experiment.deployment, typical * load.get(observed.stage, np.nan)
                ),
            )
        )
    return records, _saturation(experiment, prediction, requests, load)


def blind_prediction(
    experiment: Experiment, posterior: Posterior, *, n_draw: int, seed: int, threads: int
) -> Prediction:
    """Predict an experiment; of what was observed only the names of the statistics are used.

    Parameters
    ----------
    experiment : Experiment
        What was run.
    posterior : Posterior
        To be judged.
    n_draw, seed, threads : int
        As in `evaluate`.

    Returns
    -------
    Prediction
        With every statistic that was observed.

    Raises
    ------
    TailcastError
        If the experiment cannot be simulated.
    """
    quantiles = {o.statistic: o.quantile for o in experiment.observed if o.quantile is not None}
    prediction = predictive(
        posterior,
        experiment.deployment,
        plausible_requests(experiment, posterior.latency_model),
        n_draw=n_draw,
        seed=seed,
        threads=threads,
        quantiles=quantiles,
        n_seed=min(n_draw, 20),
        cold_start=True,
    )
    refuse_unserved(prediction, experiment.deployment)
    return prediction


def _saturation(
    experiment: Experiment,
    prediction: Prediction,
    requests: RequestTable,
    load: dict[int, float],
) -> list[SaturationRecord]:
    return [
        SaturationRecord(
            experiment=experiment.id,
            stage=stage,
            predicted=float(np.mean(prediction.load * load[stage] >= 1.0)),
            observed=observed,
            source=source,
        )
        for stage, (observed, source) in observed_saturation(experiment, requests).items()
        if np.isfinite(load.get(stage, np.nan))
    ]
