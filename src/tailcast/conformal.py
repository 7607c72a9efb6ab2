"""Conformal intervals: the posterior's own, stretched to hold on runs that it was judged on.

The fallback where the posterior's calibration is in doubt: split conformal prediction with scores
weighted by the posterior's own width (Lei et al. 2018, 10.1080/01621459.2017.1307116). It promises
coverage for runs that are exchangeable with those of the evaluation, and nothing for others.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tailcast.diagnostics.stored_evaluation import evaluation_records
from tailcast.errors import InputError, UsageError
from tailcast.measurement import measured_draws
from tailcast.posteriors import Posterior
from tailcast.prediction import Prediction
from tailcast.scoring.rivals import LEAST_OTHERS, conformal_quantile, weighted_errors

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conformal:
    """Errors of a posterior on runs that it was judged on, in units of its own 90 % log widths.

    Parameters
    ----------
    posterior : Posterior
        That was judged.
    errors : mapping of str to ndarray, shape (n,)
        Sorted absolute errors by metric.
    source : pathlib.Path
        The evaluation.
    """

    posterior: Posterior
    errors: Mapping[str, Array]
    source: Path

    def interval(
        self, prediction: Prediction, metric: str, stat: str, prob: float, seed: int = 0
    ) -> tuple[float, float]:
        """Conformal interval of a statistic as a measurement would show it.

        Parameters
        ----------
        prediction : Prediction
            By the posterior that was judged.
        metric, stat : str
            Which statistic.
        prob : float
            Wanted coverage.
        seed : int
            Of the measurement noise.

        Returns
        -------
        tuple of float
            Seconds; not finite where the evaluation is too small for this coverage, has no such
            metric, or the prediction states no latency.
        """
        shown = measured_draws(prediction, self.posterior, metric, stat, -1, seed)
        shown = shown[prediction.stable & np.isfinite(shown) & (shown > 0)]
        errors = self.errors.get(metric)
        if errors is None or not len(shown):
            return float("nan"), float("nan")
        low, middle, high = np.quantile(shown, [0.05, 0.5, 0.95])
        reach = conformal_quantile(errors, prob) * np.log(high / low)
        return float(middle * np.exp(-reach)), float(middle * np.exp(reach))


def load_conformal(path: Path, posterior: Posterior) -> Conformal:
    """Conformal scores from the JSON of ``tailcast evaluate``.

    Parameters
    ----------
    path : pathlib.Path
        Evaluation on runs that the posterior was not fitted to.
    posterior : Posterior
        That makes the predictions.

    Returns
    -------
    Conformal
        For its predictions.

    Raises
    ------
    InputError
        If the file is no evaluation, or holds too few experiments.
    UsageError
        If it judged another posterior.
    """
    sha256, records = evaluation_records(path)
    own = str(posterior.card.get("posterior_sha256", ""))
    if sha256 != own:
        raise UsageError(
            f"{path}: judged another posterior (hash {sha256[:12] or 'not given'}) than "
            f"{posterior.name} ({own[:12]}); evaluate this one"
        )
    n = len({record.experiment for record in records})
    if n < LEAST_OTHERS:
        raise InputError(
            f"{path}: {n} experiments are too few for conformal intervals; at least {LEAST_OTHERS}"
        )
    metrics = sorted({record.score.metric for record in records})
    errors = {m: weighted_errors([r for r in records if r.score.metric == m]) for m in metrics}
    return Conformal(posterior=posterior, errors=errors, source=path)
