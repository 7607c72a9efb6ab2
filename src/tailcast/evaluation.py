"""Predicted against observed: experiments are predicted blind, then compared."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import TailcastError
from tailcast.posteriors import Posterior
from tailcast.prediction import Prediction, predictive
from tailcast.scoring import Score, ScoreSummary, score, summarise
from tailcast.streams import stream
from tailcast.traces.experiment import (
    Experiment,
    UnusableExperiment,
    attempt_experiments,
    experiment_requests,
)

Array = NDArray[np.float64]

_NOISE_STAT = {"min": "p50", "max": "p99"}


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRecord:
    """One statistic of one stage of one experiment.

    Parameters
    ----------
    experiment : str
        Its id.
    stage : int
        Load stage.
    score : Score
        Prediction against observation.
    extrapolates : bool
        Whether the prediction leaves the range of the data behind the posterior.
    mode : str
        ``"transfer"`` or ``"cold"``.
    """

    experiment: str
    stage: int
    score: Score
    extrapolates: bool
    mode: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Evaluation:
    """Result of an evaluation.

    Parameters
    ----------
    posterior : Posterior
        Which was judged.
    records : tuple of EvaluationRecord
        One a statistic.
    errors : tuple of (str, str)
        Experiments that could not be simulated: id and reason.
    duplicates : tuple of tuple of str
        Runs that occur more than once; each set was counted once.
    """

    posterior: Posterior
    records: tuple[EvaluationRecord, ...]
    errors: tuple[tuple[str, str], ...]
    duplicates: tuple[tuple[str, ...], ...]

    @property
    def summary(self) -> list[ScoreSummary]:
        """Scores by metric and statistic."""
        return summarise([record.score for record in self.records])

    def as_json(self) -> dict[str, Any]:
        """The contract ``tailcast/evaluate/1``; latencies in seconds.

        Returns
        -------
        dict
            Ready for `json.dumps`.
        """
        records: list[dict[str, Any]] = [
            {
                "experiment": r.experiment,
                "stage": r.stage,
                "metric": r.score.metric,
                "statistic": r.score.statistic,
                "observed": r.score.observed,
                "mean": r.score.mean,
                **r.score.quantiles,
                "pit": r.score.pit,
                "crps": r.score.crps,
                "extrapolates": r.extrapolates,
                "mode": r.mode,
            }
            for r in self.records
        ]
        records += [{"experiment": name, "error": reason} for name, reason in self.errors]
        card = self.posterior.card
        return {
            "schema": "tailcast/evaluate/1",
            "posterior": {
                "name": self.posterior.name,
                "latency_model": card["latency_model"],
                "model_sha256": card["model_sha256"],
                "sha256": card.get("posterior_sha256"),
            },
            "records": records,
            "summary": [
                {name: getattr(row, name) for name in ScoreSummary.__slots__}
                for row in self.summary
            ],
            "duplicates": [list(names) for names in self.duplicates],
        }


def evaluate(
    paths: Iterable[Path | str],
    posterior: Posterior,
    *,
    n_draw: int = 200,
    seed: int = 0,
    threads: int = 2,
    report: Callable[[str], None] = lambda _: None,
) -> Evaluation:
    """Predict every experiment without looking at what was observed, then compare.

    Parameters
    ----------
    paths : iterable of path
        Experiment files and folders of them.
    posterior : Posterior
        To be judged.
    n_draw : int
        Posterior draws, one engine run each.
    seed : int
        Of workloads, discrepancies and measurement noise.
    threads : int
        Engine threads.
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
    records: list[EvaluationRecord] = []
    errors: list[tuple[str, str]] = []
    seen: dict[str, list[str]] = {}
    found = attempt_experiments(paths)
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
            records += evaluate_experiment(
                experiment, posterior, n_draw=n_draw, seed=seed, threads=threads
            )
        except TailcastError as error:
            errors.append((experiment.id, str(error)))
    return Evaluation(
        posterior=posterior,
        records=tuple(records),
        errors=tuple(errors),
        duplicates=tuple(tuple(same) for same in seen.values() if len(same) > 1),
    )


def evaluate_experiment(
    experiment: Experiment, posterior: Posterior, *, n_draw: int, seed: int, threads: int
) -> list[EvaluationRecord]:
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

    Raises
    ------
    TailcastError
        If the experiment cannot be simulated.
    """
    quantiles = {o.statistic: o.quantile for o in experiment.observed if o.quantile is not None}
    prediction = predictive(
        posterior,
        experiment.deployment,
        lambda s: experiment_requests(experiment, s),
        n_draw=n_draw,
        seed=seed,
        threads=threads,
        quantiles=quantiles,
        n_seed=min(n_draw, 20),
    )
    records = []
    for observed in experiment.observed:
        draws = measured_draws(
            prediction, posterior, observed.metric, observed.statistic, observed.stage, seed
        )
        draws = draws[np.isfinite(draws)]
        if not len(draws):
            continue
        records.append(
            EvaluationRecord(
                experiment=experiment.id,
                stage=observed.stage,
                score=score(observed.metric, observed.statistic, draws, observed.value),
                extrapolates=prediction.extrapolates,
                mode=prediction.mode,
            )
        )
    return records


def measured_draws(
    prediction: Prediction, posterior: Posterior, metric: str, stat: str, group: int, seed: int
) -> Array:
    """Predictive draws of a statistic as a measurement would show it.

    Parameters
    ----------
    prediction : Prediction
        Draws with discrepancy.
    posterior : Posterior
        Whose observation noise is added.
    metric, stat : str
        Which statistic.
    group : int
        Load stage.
    seed : int
        Of the noise stream.

    Returns
    -------
    ndarray, shape (n_draw,)
        Seconds.
    """
    draws = prediction.draws(metric, stat, group)
    scale = noise_scale(posterior, metric, stat, len(draws))
    if scale is None:
        return draws
    rng = stream(seed, "noise", metric, stat, group)
    noisy: Array = draws * np.exp(
        scale * rng.standard_t(posterior.latency_model.noise_nu, size=len(draws))
    )
    return noisy


def noise_scale(posterior: Posterior, metric: str, stat: str, n_draw: int) -> Array | None:
    """Observation scale of a statistic: its own, or that of the nearest statistic.

    Parameters
    ----------
    posterior : Posterior
        With fitted noise scales.
    metric, stat : str
        Which statistic; tpot and itl take those of e2e.
    n_draw : int
        Rows wanted.

    Returns
    -------
    ndarray, shape (n_draw,), or None
        Log scale; None where the posterior has none for the metric.
    """
    noise = posterior.population.noise
    base = {"tpot": "e2e", "itl": "e2e"}.get(metric, metric)
    known = [name.split(".", 1)[1] for name in noise if name.split(".", 1)[0] == base]
    if not known:
        return None
    nearest = stat if stat in known else _nearest(_NOISE_STAT.get(stat, stat), known)
    values = noise[f"{base}.{nearest}"]
    chosen: Array = values[np.linspace(0, len(values) - 1, n_draw).round().astype(int)]
    return chosen


def _nearest(stat: str, known: Sequence[str]) -> str:
    """Known statistic whose tail is nearest; the lower half counts as its mirror image."""

    def tail(name: str) -> float:
        if name == "mean":
            return 0.5
        return abs(float(name[1:]) / 100 - 0.5) + 0.5

    return min(known, key=lambda name: (abs(tail(name) - tail(stat)), name == "mean"))
