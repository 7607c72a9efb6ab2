"""Many scores in one row: errors, coverage counted by experiment, PIT, CRPS."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.scoring.binomial import clopper_pearson
from tailcast.scoring.record import BODY, EvaluationRecord
from tailcast.scoring.score import LEVELS, Score

Array = NDArray[np.float64]

N_PIT_BIN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How often a central interval held the observation, counted by experiment.

    An experiment counts once, in part where only some of its records are covered: its stages and
    statistics share one run of one server, so they are no trials of their own.

    Parameters
    ----------
    level : int
        Nominal percent.
    share : float
        Mean over experiments of the share of their records that is covered.
    low, high : float
        Exact 95 % binomial range of `share` with the experiments as trials.
    """

    level: int
    share: float
    low: float
    high: float

    @property
    def holds_nominal(self) -> bool:
        """Whether the nominal coverage lies in the binomial range."""
        return self.low <= self.level / 100 <= self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreSummary:
    """Scores of one metric and statistic over many runs and stages.

    Parameters
    ----------
    metric, statistic : str
        What was predicted; ``"all"`` for a pool.
    n, n_experiment : int
        Number of scores and of experiments.
    median_ape, mean_ape : float
        Absolute error of the predictive median as a share of the observation.
    coverage50, coverage80, coverage90 : float
        Share of records inside the central intervals.
    coverage : tuple of Coverage
        The same counted by experiment, with exact ranges.
    mean_log_width90 : float
        Mean log ratio of the ends of the 90 % interval.
    bias : float
        Median log ratio of prediction to observation.
    mean_crps : float
        Mean of CRPS over observation, a share.
    crps_seconds, crps_log : float
        Mean CRPS in seconds and on logs.
    pinball_log : float
        Mean pinball loss on logs over the quantiles.
    pit : tuple of float
        Histogram of the PIT in five equal bins; every experiment weighs one.
    """

    metric: str
    statistic: str
    n: int
    n_experiment: int
    median_ape: float
    mean_ape: float
    coverage50: float
    coverage80: float
    coverage90: float
    coverage: tuple[Coverage, ...]
    mean_log_width90: float
    bias: float
    mean_crps: float
    crps_seconds: float
    crps_log: float
    pinball_log: float
    pit: tuple[float, ...]

    @property
    def is_point(self) -> bool:
        """Whether what was scored are numbers without intervals."""
        return self.mean_log_width90 == 0.0

    def as_json(self) -> dict[str, Any]:
        """Flat mapping with the ranges of coverage spelt out.

        Returns
        -------
        dict
            Ready for `json.dumps`.
        """
        plain = {
            name: getattr(self, name) for name in self.__slots__ if name not in {"coverage", "pit"}
        }
        plain["pit5"] = list(self.pit)
        for each in self.coverage:
            plain[f"coverage{each.level}_by_experiment"] = each.share
            plain[f"coverage{each.level}_low"] = each.low
            plain[f"coverage{each.level}_high"] = each.high
        return plain


def summarise(records: Sequence[EvaluationRecord]) -> list[ScoreSummary]:
    """Scores by metric and statistic, in order of first appearance.

    Parameters
    ----------
    records : sequence of EvaluationRecord
        Any mixture.

    Returns
    -------
    list of ScoreSummary
        One row a (metric, statistic).
    """
    groups: dict[tuple[str, str], list[EvaluationRecord]] = {}
    for record in records:
        groups.setdefault((record.score.metric, record.score.statistic), []).append(record)
    return [summary_of(own, metric, statistic) for (metric, statistic), own in groups.items()]


def body_summary(records: Sequence[EvaluationRecord]) -> ScoreSummary | None:
    """All metrics pooled, over the statistics that replicates pin down.

    Parameters
    ----------
    records : sequence of EvaluationRecord
        Any mixture.

    Returns
    -------
    ScoreSummary or None
        Of mean, P50 and P90; None where there is none.
    """
    own = [r for r in records if r.score.statistic in BODY]
    return summary_of(own, "all", "body") if own else None


def summary_of(records: Sequence[EvaluationRecord], metric: str, statistic: str) -> ScoreSummary:
    """One row over given records.

    Parameters
    ----------
    records : sequence of EvaluationRecord
        At least one.
    metric, statistic : str
        Labels of the row.

    Returns
    -------
    ScoreSummary
        Means and medians over the records.
    """
    scores = [r.score for r in records]
    ape = np.array([s.ape for s in scores])
    weight = experiment_weights(records)
    pit = np.array([s.pit for s in scores])
    bins = np.minimum((pit * N_PIT_BIN).astype(int), N_PIT_BIN - 1)
    return ScoreSummary(
        metric=metric,
        statistic=statistic,
        n=len(scores),
        n_experiment=len({r.experiment for r in records}),
        median_ape=float(np.median(ape)),
        mean_ape=float(ape.mean()),
        coverage50=_share(scores, 50),
        coverage80=_share(scores, 80),
        coverage90=_share(scores, 90),
        coverage=tuple(coverage(records, level) for level in LEVELS),
        mean_log_width90=float(np.mean([s.log_width90 for s in scores])),
        bias=float(np.median([s.log_error for s in scores])),
        mean_crps=float(np.mean([s.crps / s.observed for s in scores])),
        crps_seconds=float(np.mean([s.crps for s in scores])),
        crps_log=float(np.mean([s.crps_log for s in scores])),
        pinball_log=float(np.mean([np.mean(list(s.pinball_log.values())) for s in scores])),
        pit=tuple(float(v) for v in np.bincount(bins, weight, N_PIT_BIN)),
    )


def coverage(records: Sequence[EvaluationRecord], level: int) -> Coverage:
    """Coverage of a central interval, counted by experiment.

    Parameters
    ----------
    records : sequence of EvaluationRecord
        At least one.
    level : {50, 80, 90}
        Nominal percent.

    Returns
    -------
    Coverage
        With its exact range.
    """
    hit = np.array([r.score.covered(level) for r in records], dtype=np.float64)
    weight = experiment_weights(records)
    n = len({r.experiment for r in records})
    hits = round(float(weight @ hit), 9)
    low, high = clopper_pearson(hits, n)
    return Coverage(level=level, share=hits / n, low=low, high=high)


def experiment_weights(records: Sequence[EvaluationRecord]) -> Array:
    """Weight of each record such that every experiment weighs one.

    Parameters
    ----------
    records : sequence of EvaluationRecord
        Any mixture.

    Returns
    -------
    ndarray, shape (n_record,)
        Sums to the number of experiments.
    """
    counts = Counter(r.experiment for r in records)
    return np.array([1.0 / counts[r.experiment] for r in records])


def _share(scores: Sequence[Score], level: int) -> float:
    return float(np.mean([s.covered(level) for s in scores]))
