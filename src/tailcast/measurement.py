"""Predictive draws as a measurement would show them: with observation noise."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tailcast.posteriors import Posterior
from tailcast.prediction import Prediction
from tailcast.streams import stream

Array = NDArray[np.float64]

_NOISE_STAT = {"min": "p50", "max": "p99"}


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
        Which statistic; tpot and itl take those of e2e where they have none of their own.
    n_draw : int
        Rows wanted.

    Returns
    -------
    ndarray, shape (n_draw,), or None
        Log scale; draws from its prior where no data had the statistic; None where the latency
        model has none for the metric.
    """
    noise = posterior.population.noise
    prior = posterior.latency_model.noise.get(f"{metric}.{stat}")
    if prior is not None and f"{metric}.{stat}" not in noise:  # in no data so far
        z = stream(0, "noise scale", metric, stat).standard_normal(n_draw)
        scale: Array = prior.centre * np.exp(prior.sd * z)
        return scale
    bases = {name.split(".", 1)[0] for name in noise}
    base = metric if metric in bases else {"tpot": "e2e", "itl": "e2e"}.get(metric, metric)
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
