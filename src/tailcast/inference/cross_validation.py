"""Leave one experiment out: exact refits, log predictive density and CRPS of what was left out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tailcast.inference.evidence import Evidence
from tailcast.inference.nuts import Sampler
from tailcast.inference.pointwise import Pointwise, pointwise
from tailcast.inference.sampling import Sampled, sample
from tailcast.latency_model import LatencyModel

Array = NDArray[np.float64]

REFIT = Sampler(draws=250, tune=150, chains=2, target_accept=0.8)
"""Size of one refit: its metric is known, so little tuning is needed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """What a refit predicted for the run that it did not see.

    Parameters
    ----------
    name : str
        Run.
    levels : dict of str to str
        Its level by group.
    label : tuple of str
        Its observations.
    observed : ndarray, shape (n_observation,)
        Log seconds.
    predicted : ndarray, shape (n_draw, n_observation)
        Predictive draws of the logs, noise included.
    elpd : float
        Log of the joint predictive density of all its observations.
    """

    name: str
    levels: dict[str, str]
    label: tuple[str, ...]
    observed: Array
    predicted: Array
    elpd: float

    @property
    def median_error(self) -> Array:
        """Predicted median minus observed, log units, shape (n_observation,)."""
        error: Array = np.median(self.predicted, axis=0) - self.observed
        return error

    @property
    def pit(self) -> Array:
        """Share of predictive draws below the observation, shape (n_observation,)."""
        share: Array = (self.predicted < self.observed).mean(axis=0)
        return share

    @property
    def crps(self) -> Array:
        """Continuous ranked probability score of the logs, shape (n_observation,)."""
        x = np.sort(self.predicted, axis=0)
        n = len(x)
        rank = (2 * np.arange(1, n + 1) - n - 1)[:, None]
        spread = (rank * x).sum(axis=0) / n**2
        score: Array = np.abs(x - self.observed).mean(axis=0) - spread
        return score

    def width(self, prob: float) -> Array:
        """Width of the central predictive interval, log units, shape (n_observation,).

        Parameters
        ----------
        prob : float
            Its probability.

        Returns
        -------
        ndarray, shape (n_observation,)
            Upper minus lower.
        """
        low, high = np.quantile(self.predicted, [(1 - prob) / 2, (1 + prob) / 2], axis=0)
        width: Array = high - low
        return width


def leave_one_out(
    model: LatencyModel,
    evidence: Evidence,
    near: Sampled,
    *,
    seed: int,
    sampler: Sampler = REFIT,
    names: Sequence[str] | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> list[LeftOut]:
    """Refit without each run in turn and predict it.

    The refit keeps the left-out run's place: its likelihood has power 0, so its own effects are
    drawn from the hierarchy as for any run that is not yet measured.

    Parameters
    ----------
    model : LatencyModel
        To be judged.
    evidence : Evidence
        All runs with emulators, and step timings, which always stay in.
    near : Sampled
        The fit to all of it, for its metric.
    seed : int
        Of sampling and of predictive noise.
    sampler : Sampler
        Size of one refit.
    names : sequence of str, optional
        Runs to leave out; all by default.
    report : callable
        Receives a line a run.

    Returns
    -------
    list of LeftOut
        In the evidence's order.
    """
    found = []
    wanted = names if names is not None else [run.name for run in evidence.runs]
    for k, name in enumerate(wanted, start=1):
        refit = sample(model, evidence, sampler, seed, weight={name: 0.0}, near=near)
        predicted = pointwise(model, evidence, refit.tree["posterior"].to_dataset())
        found.append(_left_out(evidence, name, predicted, seed))
        report(f"left out {name} ({k} of {len(wanted)}): elpd {found[-1].elpd:.1f}")
    return found


def _left_out(evidence: Evidence, name: str, predicted: Pointwise, seed: int) -> LeftOut:
    own = np.array([item == name for item in predicted.item])
    part = replace(
        predicted,
        item=tuple(item for item in predicted.item if item == name),
        label=tuple(label for label, keep in zip(predicted.label, own, strict=True) if keep),
        observed=predicted.observed[own],
        location=predicted.location[:, own],
        scale=predicted.scale[:, own],
    )
    joint = part.log_likelihood().sum(axis=1)
    (run,) = [run for run in evidence.runs if run.name == name]
    return LeftOut(
        name=name,
        levels=dict(run.levels),
        label=part.label,
        observed=part.observed,
        predicted=part.replicated(seed),
        elpd=float(np.logaddexp.reduce(joint) - np.log(len(joint))),
    )
