"""One scored statistic with where it comes from."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tailcast.scoring.score import Score

BODY = ("mean", "p50", "p90")
"""Statistics that replicates pin down; tails beyond are decided by a few requests."""


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
    n_unserved : int
        Draws in which no request of the stage was served; they are in no quantile.
    regime : mapping of str to str
        Level by kind: family, tensor_parallel, accelerator, experts, load.
    """

    experiment: str
    stage: int
    score: Score
    extrapolates: bool
    mode: str
    n_unserved: int = 0
    regime: Mapping[str, str] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, int, str, str]:
        """Experiment, stage, metric and statistic."""
        return self.experiment, self.stage, self.score.metric, self.score.statistic
