"""Whether a new run is one that a posterior holds possible, and what would have to move if not."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.coefficients import Coefficients
from tailcast.errors import InputError
from tailcast.inference.evidence import Output
from tailcast.inference.forward import STAT_QUANTILES, RunInput
from tailcast.measurement import measured_draws
from tailcast.posteriors import Posterior
from tailcast.prediction import Prediction, predictive
from tailcast.request import RequestTable
from tailcast.sensitivity import median_coefficients, moved_logs
from tailcast.streams import stream
from tailcast.workload.uncached import with_unique_prompts

Array = NDArray[np.float64]

N_DRAW = 400
"""Predictive draws; they set how small a p value can be told: 1 in 401."""

LEVEL = 0.01
"""p value from which a run counts as drift: the false-alarm rate on the posterior's own runs."""

_PROBE = 1.25
"""Factor on each coefficient from which sensitivities are taken."""

_SURPRISE = 0.7
"""Log factor of a coefficient that costs as much as one standard deviation of the data."""

_ALIKE = 0.9
"""Coefficients that explain this share of what the best one does cannot be told from it."""

_CUT = 3.0
"""Median absolute deviations beyond which a draw is cut for the covariance."""

_FACTORS = np.exp(np.linspace(-2.0, 2.0, 41))


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspect:
    """A coefficient whose move would explain a run.

    Parameters
    ----------
    name : str
        Coefficient.
    factor : float
        On its posterior median.
    explained : float
        Share of the squared distance that goes away, 0 to 1.
    """

    name: str
    factor: float
    explained: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftCheck:
    """One run against the predictive distribution of a posterior.

    Parameters
    ----------
    name : str
        Of the run.
    p : float
        Share of the predictive draws, the run among them, that lie at least as far from the rest.
    distance : float
        Of the run's log statistics from the predictive draws, see `joint_scores`.
    usual : float
        Distance that one predictive draw in a hundred exceeds.
    farthest : str
        Statistic farthest out on its own, ``"metric.statistic"`` with its stage.
    observed, predicted : float
        Its observed value and predictive median, seconds.
    z : float
        Its distance from the median in half widths of the central 68 %.
    suspects : tuple of Suspect
        The coefficient whose move explains most, then those that cannot be told from it; empty
        where the run is no drift.
    n_statistic : int
        Log statistics that were compared.
    mode : str
        Of the prediction: ``"transfer"`` or ``"cold"``.
    """

    name: str
    p: float
    distance: float
    usual: float
    farthest: str
    observed: float
    predicted: float
    z: float
    suspects: tuple[Suspect, ...]
    n_statistic: int
    mode: str

    @property
    def drifted(self) -> bool:
        """Whether the posterior finds the run impossible at the level `LEVEL`."""
        return self.p <= LEVEL


@dataclass(frozen=True, slots=True, kw_only=True)
class DriftReference:
    """What a posterior predicts for one run, to compare what was observed with.

    Parameters
    ----------
    run : RunInput
        Deployment and requests.
    outputs : tuple of Output
        Statistics that every draw has.
    draws : ndarray, shape (n_draw, n_output)
        Logs of predictive draws, observation noise included.
    base : Coefficients
        Posterior medians on the run's deployment.
    names : tuple of str
        Coefficients that are free.
    slopes : ndarray, shape (n_name, n_output)
        Change of the log statistics with the log of each coefficient, at the medians.
    mode : str
        Of the prediction.
    """

    run: RunInput
    outputs: tuple[Output, ...]
    draws: Array
    base: Coefficients
    names: tuple[str, ...]
    slopes: Array
    mode: str

    def p_value(self, observed: Array) -> tuple[float, Array]:
        """Rank of an observation among the draws.

        Parameters
        ----------
        observed : ndarray, shape (n_output,)
            Log seconds.

        Returns
        -------
        p : float
            Share of all members of the sample that lie at least as far out.
        scores : ndarray, shape (n_draw + 1,)
            Of the draws, then of the observation.
        """
        scores = joint_scores(np.vstack([self.draws, observed]), self.slopes)
        return float(np.mean(scores >= scores[-1])), scores


def drift_reference(
    posterior: Posterior, run: RunInput, *, n_draw: int = N_DRAW, seed: int = 0, threads: int = 2
) -> DriftReference:
    """Predict a run's statistics blind.

    Parameters
    ----------
    posterior : Posterior
        Before the update.
    run : RunInput
        New run; of what was observed only the kind is used.
    n_draw, seed, threads : int
        As in `drift_check`.

    Returns
    -------
    DriftReference
        Without the statistics that some draw does not have.

    Raises
    ------
    TailcastError
        If the run cannot be simulated.
    """
    prediction = run_prediction(posterior, run, n_draw=n_draw, seed=seed, threads=threads)
    outputs, draws = _log_draws(posterior, prediction, run.outputs, seed)
    if not outputs:
        raise InputError(f"{run.name}: no statistic that every posterior draw predicts")
    names = tuple(c.name for c in posterior.latency_model.coefficients if not c.fixed)
    base = median_coefficients(posterior, run, seed)
    logs = moved_logs(base, run, outputs, [{}, *({name: _PROBE} for name in names)], seed)
    return DriftReference(
        run=run,
        outputs=tuple(outputs),
        draws=draws,
        base=base,
        names=names,
        slopes=(logs[1:] - logs[0]) / np.log(_PROBE),
        mode=prediction.mode,
    )


def drift_check(
    posterior: Posterior,
    run: RunInput,
    *,
    n_draw: int = N_DRAW,
    seed: int = 0,
    threads: int = 2,
) -> DriftCheck:
    """Predict a run before it is used and say how far out it is.

    The run's log statistics and those of the predictive draws (coefficients, discrepancies of a
    new run, observation noise) are one sample; each member's distance is taken from the whole, and
    the run is ranked among them. Where the run comes from the posterior itself the members are
    exchangeable, so p at most 0.01 has probability at most 0.01 (conformal p value, Vovk,
    Gammerman and Shafer, 10.1007/978-3-031-06649-8).

    Parameters
    ----------
    posterior : Posterior
        Before the update.
    run : RunInput
        New run with its observed statistics.
    n_draw : int
        Predictive draws, one engine run each.
    seed : int
        Of discrepancies and noise.
    threads : int
        Engine threads.

    Returns
    -------
    DriftCheck
        With the coefficients that would have to move, where it drifted.

    Raises
    ------
    TailcastError
        If the run cannot be simulated.
    """
    reference = drift_reference(posterior, run, n_draw=n_draw, seed=seed, threads=threads)
    outputs, draws = reference.outputs, reference.draws
    observed = np.array([output.log_observed for output in outputs])
    p, scores = reference.p_value(observed)
    middle = np.median(draws, axis=0)
    low, high = np.quantile(draws, [0.16, 0.84], axis=0)
    z = (observed - middle) / np.maximum((high - low) / 2, 1e-9)
    worst = int(np.argmax(np.abs(z)))
    suspects: tuple[Suspect, ...] = ()
    if p <= LEVEL:
        suspects = _suspects(reference, observed - middle, seed)
    return DriftCheck(
        name=run.name,
        p=p,
        distance=float(scores[-1]),
        usual=float(np.quantile(scores[:-1], 1 - LEVEL)),
        farthest=_label(outputs[worst], outputs),
        observed=float(np.exp(observed[worst])),
        predicted=float(np.exp(middle[worst])),
        z=float(z[worst]),
        suspects=suspects,
        n_statistic=len(outputs),
        mode=reference.mode,
    )


def run_prediction(
    posterior: Posterior, run: RunInput, *, n_draw: int, seed: int, threads: int = 2
) -> Prediction:
    """Predict a run blind.

    Parameters
    ----------
    posterior : Posterior
        Before it has seen the run.
    run : RunInput
        Deployment and requests; of what was observed only the kind is used.
    n_draw, seed, threads : int
        As in `drift_check`.

    Returns
    -------
    Prediction
        With the statistics that enter a fit.

    Raises
    ------
    TailcastError
        If the run cannot be simulated.
    """
    unknown = run.uncached

    def requests(seed: int) -> RequestTable:
        table = run.requests(seed)
        if unknown is None:
            return table
        z = stream(seed, "uncached share").standard_normal()
        odds = unknown.centre * float(np.exp(unknown.sd * z))
        return with_unique_prompts(table, odds / (1 + odds), seed)

    return predictive(
        posterior,
        run.deployment,
        requests,
        n_draw=n_draw,
        seed=seed,
        threads=threads,
        n_seed=min(run.n_seed, n_draw) if unknown is None else None,
        quantiles=STAT_QUANTILES,
        cold_start=any(output.warm_up for output in run.outputs),
    )


def _label(output: Output, outputs: Sequence[Output]) -> str:
    several = len({o.stage for o in outputs}) > 1
    return f"{output.key} of stage {output.stage}" if several else output.key


def joint_scores(values: Array, slopes: Array) -> Array:
    """How far out each row lies, in whichever way it is farthest.

    The ways are the Mahalanobis distance, and for each direction the matched filter along it: a
    shift in one direction is seen sooner by its filter than by the distance in all. Each way is
    measured in its own 99 % quantile, so that heavy tails in one drown no other. The centre is the
    median, the covariance that of rows cut at three median absolute deviations. All of it is a
    symmetric function of the rows.

    Parameters
    ----------
    values : ndarray, shape (n_row, n_column)
        Log statistics; rows are exchangeable where they come from one distribution.
    slopes : ndarray, shape (n_direction, n_column)
        Directions, chosen without looking at the rows.

    Returns
    -------
    ndarray, shape (n_row,)
        Not negative; about one row in a hundred exceeds 1 in each single way.
    """
    centred = values - np.median(values, axis=0)
    inverse = _robust_inverse(centred)
    filters = slopes @ inverse
    ways = np.column_stack(
        [
            np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", centred, inverse, centred), 0.0)),
            np.abs(centred @ filters.T),
        ]
    )
    unit = np.quantile(ways, 1 - LEVEL, axis=0)
    score: Array = (ways / np.maximum(unit, 1e-300)).max(axis=1)
    return score


def _robust_inverse(centred: Array) -> Array:
    scale = 1.4826 * np.median(np.abs(centred), axis=0)
    cut = np.clip(centred, -_CUT * scale, _CUT * scale)
    covariance = cut.T @ cut / len(cut)
    floor = 1e-9 * np.trace(covariance) / len(covariance) + 1e-300
    inverse: Array = np.linalg.pinv(covariance + floor * np.eye(len(covariance)), hermitian=True)
    return inverse


def _log_draws(
    posterior: Posterior, prediction: Prediction, outputs: Sequence[Output], seed: int
) -> tuple[list[Output], Array]:
    """Log predictive draws of the statistics that every draw has."""
    kept, columns = [], []
    for output in outputs:
        draws = measured_draws(
            prediction, posterior, output.metric, output.stat, output.stage, seed
        )
        if np.isfinite(draws).all() and (draws > 0).all():
            kept.append(output)
            columns.append(np.log(draws))
    return kept, np.array(columns).T


def _suspects(reference: DriftReference, residual: Array, seed: int) -> tuple[Suspect, ...]:
    """Coefficients by how much of the distance their move alone would explain."""
    names, slopes = reference.names, reference.slopes
    inverse = _robust_inverse(reference.draws - np.median(reference.draws, axis=0))
    whole = float(residual @ inverse @ residual)
    pull = slopes @ inverse @ residual
    stiffness = np.einsum("ij,jk,ik->i", slopes, inverse, slopes)
    gain = pull**2 / (stiffness + _SURPRISE**-2)
    order = np.argsort(-gain)
    chosen = [k for k in order if gain[k] >= _ALIKE * gain[order[0]] and gain[k] > 0]
    found = []
    for k in chosen:
        tried = [{}, *({names[k]: float(f)} for f in _FACTORS)]
        moved = moved_logs(reference.base, reference.run, reference.outputs, tried, seed)
        left = residual - (moved[1:] - moved[0])
        misfit = np.einsum("ij,jk,ik->i", left, inverse, left)
        best = int(np.argmin(misfit))
        found.append(
            Suspect(
                name=names[k],
                factor=_vertex(np.log(_FACTORS), misfit, best),
                explained=max(0.0, 1.0 - float(misfit[best]) / max(whole, 1e-12)),
            )
        )
    return tuple(found)


def _vertex(log_factor: Array, misfit: Array, best: int) -> float:
    """Factor at the minimum of a parabola through the best value and its neighbours."""
    if not 0 < best < len(misfit) - 1:
        return float(np.exp(log_factor[best]))
    left, middle, right = misfit[best - 1 : best + 2]
    bend = left - 2 * middle + right
    shift = 0.5 * (left - right) / bend if bend > 0 else 0.0
    return float(np.exp(log_factor[best] + shift * (log_factor[1] - log_factor[0])))
