"""How the statistics of one run answer to its coefficients: the engine at posterior medians."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from tailcast.coefficients import Coefficients, step_law
from tailcast.engine.deployment_limits import deployment_limits
from tailcast.engine.run import simulate
from tailcast.inference.evidence import Output
from tailcast.inference.forward import STAT_QUANTILES, RunInput
from tailcast.latency_model import LatencyModel
from tailcast.posteriors import Posterior
from tailcast.prediction import predictive_law

Array = NDArray[np.float64]


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
    moves: Sequence[Mapping[str, float]],
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
    moves : sequence of mapping of str to float
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
