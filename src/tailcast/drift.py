"""Whether a new run is one that a posterior holds possible, and what would have to move if not."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.coefficients import Coefficients, step_law
from tailcast.engine.deployment_limits import deployment_limits
from tailcast.engine.run import simulate
from tailcast.inference.evidence import Output
from tailcast.inference.forward import STAT_QUANTILES, RunInput
from tailcast.latency_model import LatencyModel
from tailcast.measurement import measured_draws
from tailcast.posteriors import Posterior
from tailcast.prediction import Prediction, predictive, predictive_law
from tailcast.request import RequestTable
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
        Mahalanobis distance of the run's log statistics.
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
    new run, observation noise) are one sample; each member's Mahalanobis distance is taken from
    the whole, and the run is ranked among them. Where the run comes from the posterior itself the
    members are exchangeable, so p at most 0.01 has probability at most 0.01 (conformal p value,
    Vovk, Gammerman and Shafer, 10.1007/978-3-031-06649-8).

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
    prediction = run_prediction(posterior, run, n_draw=n_draw, seed=seed, threads=threads)
    outputs, draws = _log_draws(posterior, prediction, run.outputs, seed)
    observed = np.array([output.log_observed for output in outputs])
    distances = joint_distances(np.vstack([draws, observed]))
    p = float(np.mean(distances >= distances[-1]))
    middle = np.median(draws, axis=0)
    low, high = np.quantile(draws, [0.16, 0.84], axis=0)
    z = (observed - middle) / np.maximum((high - low) / 2, 1e-9)
    worst = int(np.argmax(np.abs(z)))
    suspects: tuple[Suspect, ...] = ()
    if p <= LEVEL:
        suspects = _suspects(posterior, run, outputs, observed - middle, np.cov(draws.T), seed)
    return DriftCheck(
        name=run.name,
        p=p,
        distance=float(distances[-1]),
        usual=float(np.quantile(distances[:-1], 1 - LEVEL)),
        farthest=_label(outputs[worst], outputs),
        observed=float(np.exp(observed[worst])),
        predicted=float(np.exp(middle[worst])),
        z=float(z[worst]),
        suspects=suspects,
        n_statistic=len(outputs),
        mode=prediction.mode,
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


def joint_distances(values: Array) -> Array:
    """Mahalanobis distance of each row from all rows.

    Parameters
    ----------
    values : ndarray, shape (n_row, n_column)
        Log statistics; rows are exchangeable where they come from one distribution.

    Returns
    -------
    ndarray, shape (n_row,)
        Not negative.
    """
    centred = values - values.mean(axis=0)
    covariance = centred.T @ centred / (len(values) - 1)
    floor = 1e-10 * np.trace(covariance) / len(covariance) + 1e-300
    inverse = np.linalg.pinv(covariance + floor * np.eye(len(covariance)), hermitian=True)
    squared = np.einsum("ij,jk,ik->i", centred, inverse, centred)
    distance: Array = np.sqrt(np.maximum(squared, 0.0))
    return distance


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


def _suspects(
    posterior: Posterior,
    run: RunInput,
    outputs: Sequence[Output],
    residual: Array,
    covariance: Array,
    seed: int,
) -> tuple[Suspect, ...]:
    """Coefficients by how much of the distance their move alone would explain."""
    names = [c.name for c in posterior.latency_model.coefficients if not c.fixed]
    base = median_coefficients(posterior, run, seed)
    probes = [{}, *({name: _PROBE} for name in names)]
    logs = moved_logs(base, run, outputs, probes, seed)
    slopes = (logs[1:] - logs[0]) / np.log(_PROBE)
    inverse = np.linalg.pinv(covariance, hermitian=True)
    whole = float(residual @ inverse @ residual)
    pull = slopes @ inverse @ residual
    stiffness = np.einsum("ij,jk,ik->i", slopes, inverse, slopes)
    gain = pull**2 / (stiffness + _SURPRISE**-2)
    order = np.argsort(-gain)
    chosen = [k for k in order if gain[k] >= _ALIKE * gain[order[0]] and gain[k] > 0]
    found = []
    for k in chosen:
        tried = [{}, *({names[k]: float(f)} for f in _FACTORS)]
        moved = moved_logs(base, run, outputs, tried, seed)
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


def median_coefficients(posterior: Posterior, run: RunInput, seed: int) -> Coefficients:
    """Coefficients of a run's deployment at their posterior medians.

    Parameters
    ----------
    posterior : Posterior
        Whose medians are meant.
    run : RunInput
        With the deployment.
    seed : int
        Of levels that the posterior does not know.

    Returns
    -------
    Coefficients
        One draw.
    """
    own, _ = predictive_law(
        posterior, run.deployment, n_draw=posterior.population.n_draw, seed=seed
    )
    values = {
        name: np.array([float(np.median(column))])
        for name, column in own.coefficients.values.items()
    }
    speed = np.array([float(np.median(own.coefficients.speed))])
    return Coefficients(latency_model=own.coefficients.latency_model, values=values, speed=speed)


def moved_logs(
    base: Coefficients,
    run: RunInput,
    outputs: Sequence[Output],
    moves: Sequence[dict[str, float]],
    seed: int,
) -> Array:
    """Log statistics of the same requests with coefficients moved by factors.

    Parameters
    ----------
    base : Coefficients
        One draw.
    run : RunInput
        Deployment and requests.
    outputs : sequence of Output
        Which statistics.
    moves : sequence of dict of str to float
        Factor by coefficient; an empty one is the base.
    seed : int
        Workload seed, the same for all.

    Returns
    -------
    ndarray, shape (n_move, n_output)
        Log seconds; a factor that would go below a floor stops at it.
    """
    model: LatencyModel = base.latency_model
    values = {
        c.name: np.maximum([base.values[c.name][0] * m.get(c.name, 1.0) for m in moves], c.floor)
        for c in model.coefficients
    }
    law = step_law(
        Coefficients(latency_model=model, values=values, speed=np.repeat(base.speed, len(moves))),
        run.deployment,
    )
    result = simulate(
        run.requests(seed),
        deployment_limits(run.deployment),
        law,
        quantiles=tuple(STAT_QUANTILES.values()),
    )
    columns = []
    for output in outputs:
        stat = 0 if output.stat == "mean" else 1 + list(STAT_QUANTILES).index(output.stat)
        columns.append(result.stat[:, output.stage, result.metrics.index(output.metric), stat])
    logs: Array = np.log(np.maximum(np.array(columns).T, 1e-9))
    return logs
