"""The hierarchy in numpy: from draws of the population to coefficients of one deployment.

The same arithmetic stands once in numpy (prior designs, predictions) and once in PyTensor
(`tailcast.inference.graph`); a test holds the two equal.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tailcast.coefficients import Coefficients
from tailcast.deployment import Deployment
from tailcast.latency_model import GROUPS, TTFT_NU, LatencyModel
from tailcast.streams import stream

Array = NDArray[np.float64]


def group_levels(deployment: Deployment) -> dict[str, str]:
    """Level of a deployment in each group that coefficients may vary by.

    Parameters
    ----------
    deployment : Deployment
        LLM, accelerator, parallelism, engine.

    Returns
    -------
    dict of str to str
        By name in `tailcast.latency_model.GROUPS`.
    """
    version = ".".join(deployment.engine.version.split(".")[:2])
    return {
        "accelerator": deployment.accelerator.name,
        "interconnect": f"{deployment.accelerator.name}-tp{deployment.tensor_parallel}",
        "engine_version": f"{deployment.engine.name}-{version}",
        "family": f"{deployment.llm.family}-{deployment.weight_dtype}",
        "llm": deployment.llm.name,
    }


def deployment_key(deployment: Deployment) -> str:
    """Name under which a deployment's own speed is remembered.

    Parameters
    ----------
    deployment : Deployment
        LLM, accelerator, parallelism, engine.

    Returns
    -------
    str
        LLM, weights, accelerator, TP and engine version.
    """
    levels = group_levels(deployment)
    return (
        f"{deployment.llm.name}/{deployment.weight_dtype}/{deployment.accelerator.name}"
        f"/tp{deployment.tensor_parallel}/{levels['engine_version']}"
    )


def deployment_regimes(deployment: Deployment) -> tuple[str, ...]:
    """Discrepancies that a deployment has beside that of every deployment.

    Parameters
    ----------
    deployment : Deployment
        LLM, accelerator, parallelism, engine.

    Returns
    -------
    tuple of str
        Names in `tailcast.latency_model.DISCREPANCIES`.
    """
    found = {"moe": deployment.llm.is_moe, "tensor_parallel": deployment.tensor_parallel > 1}
    return tuple(name for name, applies in found.items() if applies)


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """One server that the posterior has seen.

    Parameters
    ----------
    run : str
        Fitted run that was made on it.
    deployment : str
        Key of the deployment that it served.
    """

    run: str
    deployment: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Population:
    """Draws of everything that is not specific to one prediction.

    Parameters
    ----------
    latency_model : LatencyModel
        Whose hierarchy this is.
    location : ndarray, shape (n_draw, n_coefficient)
        Standardised population offsets of the free coefficients.
    offsets : mapping of str to ndarray, shape (n_draw, n_varying, n_level)
        Standardised level offsets by group; the varying coefficients are `varying(model, group)`.
    levels : mapping of str to sequence of str
        Level names by group.
    deployment : ndarray, shape (n_draw, n_deployment)
        Log speed of each known deployment.
    deployments : sequence of str
        Their keys.
    scale : mapping of str to ndarray, shape (n_draw,)
        Scale of each discrepancy of the latency model.
    noise : mapping of str to ndarray, shape (n_draw,)
        Observation scale by ``"metric.statistic"``.
    servers : mapping of str to (ndarray, ndarray), each of shape (n_draw,)
        Log speed and log TTFT discrepancy of the server behind each fitted run, by run.
    server : Server, optional
        The very server that predictions of its deployment are for; any server where None.
    """

    latency_model: LatencyModel
    location: Array
    offsets: Mapping[str, Array]
    levels: Mapping[str, Sequence[str]]
    deployment: Array
    deployments: Sequence[str]
    scale: Mapping[str, Array]
    noise: Mapping[str, Array]
    servers: Mapping[str, tuple[Array, Array]] = field(default_factory=dict)
    server: Server | None = None

    @property
    def n_draw(self) -> int:
        """Number of draws."""
        return len(self.location)


def population_rows(population: Population, rows: NDArray[np.int64]) -> Population:
    """Population of chosen draws.

    Parameters
    ----------
    population : Population
        Prior or posterior draws.
    rows : ndarray of int, shape (n,)
        Draws in the wanted order; a draw may be used more than once.

    Returns
    -------
    Population
        With n draws.
    """
    return Population(
        latency_model=population.latency_model,
        location=population.location[rows],
        offsets={k: v[rows] for k, v in population.offsets.items()},
        levels=population.levels,
        deployment=population.deployment[rows],
        deployments=population.deployments,
        scale={k: v[rows] for k, v in population.scale.items()},
        noise={k: v[rows] for k, v in population.noise.items()},
        servers={k: (v[rows], t[rows]) for k, (v, t) in population.servers.items()},
        server=population.server,
    )


def free_names(model: LatencyModel) -> tuple[str, ...]:
    """Coefficients with a prior, in the model's order.

    Parameters
    ----------
    model : LatencyModel
        Any latency model.

    Returns
    -------
    tuple of str
        Names.
    """
    return tuple(c.name for c in model.coefficients if not c.fixed)


def varying(model: LatencyModel, group: str) -> tuple[str, ...]:
    """Coefficients that vary by a group, in the model's order.

    Parameters
    ----------
    model : LatencyModel
        Any latency model.
    group : str
        Name in `tailcast.latency_model.GROUPS`.

    Returns
    -------
    tuple of str
        Names.
    """
    return tuple(c.name for c in model.coefficients if not c.fixed and group in c.effects)


def prior_population(model: LatencyModel, n_draw: int, seed: int) -> Population:
    """Draws of the population from its prior, with no known level.

    Parameters
    ----------
    model : LatencyModel
        With priors.
    n_draw : int
        Number of draws.
    seed : int
        Of the random stream.

    Returns
    -------
    Population
        Without levels and deployments, so every prediction draws new ones.
    """
    rng = stream(seed, "prior", model.name)
    scale = {
        k: s.centre * np.exp(s.sd * rng.standard_normal(n_draw))
        for k, s in model.discrepancy.items()
    }
    noise = {
        k: s.centre * np.exp(s.sd * rng.standard_normal(n_draw)) for k, s in model.noise.items()
    }
    return Population(
        latency_model=model,
        location=rng.standard_normal((n_draw, len(free_names(model)))),
        offsets={g: np.zeros((n_draw, len(varying(model, g)), 0)) for g in GROUPS},
        levels=dict.fromkeys(GROUPS, ()),
        deployment=np.zeros((n_draw, 0)),
        deployments=(),
        scale=scale,
        noise=noise,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentDraws:
    """Draws of one prediction: coefficients with their speed, and the TTFT discrepancy.

    Parameters
    ----------
    coefficients : Coefficients
        Of this deployment, speed included.
    ttft : ndarray, shape (n_draw,)
        Log discrepancy of TTFT.
    saturation : ndarray, shape (n_draw,)
        What is added to it near saturation.
    new_levels : tuple of str
        Groups whose level the posterior has never seen.
    known_deployment : bool
        Whether the posterior knows this very deployment.
    server : str, optional
        Run whose very server is meant, where its own speed is used.
    """

    coefficients: Coefficients
    ttft: Array
    saturation: Array
    new_levels: tuple[str, ...]
    known_deployment: bool
    server: str | None = None


def deployment_draws(
    population: Population,
    deployment: Deployment,
    seed: int,
    *,
    with_discrepancy: bool = True,
    regimes: Sequence[str] = (),
) -> DeploymentDraws:
    """Coefficients of a deployment, drawn from the population.

    A level that the population knows is used; a new one draws new offsets, and so does the speed
    of a new deployment. Every prediction draws its own run effect and TTFT discrepancy, but where
    the population is that of one known server and this is its deployment.

    Parameters
    ----------
    population : Population
        Prior or posterior draws.
    deployment : Deployment
        What to predict.
    seed : int
        Of the streams for new levels, new deployment, run and TTFT.
    with_discrepancy : bool
        Whether deployment, run and TTFT discrepancies are drawn; False trusts the law.
    regimes : sequence of str
        Discrepancies of this run beside those of every run: ``"long_decode"``.

    Returns
    -------
    DeploymentDraws
        One row a draw.
    """
    model, n = population.latency_model, population.n_draw
    wanted = group_levels(deployment)
    log_excess = {
        name: _log_centre(model, name) + model.coefficient(name).sd * population.location[:, k]
        for k, name in enumerate(free_names(model))
    }
    new: list[str] = []
    for group in GROUPS:
        names = varying(model, group)
        known = wanted[group] in population.levels[group]
        if names and not known and _matters(group, deployment):
            new.append(group)
        if known:
            column = population.offsets[group][
                :, :, list(population.levels[group]).index(wanted[group])
            ]
        else:
            rng = stream(seed, "level", group, wanted[group])
            column = rng.standard_normal((n, len(names)))
        for k, name in enumerate(names):
            log_excess[name] = (
                log_excess[name] + model.coefficient(name).effects[group] * column[:, k]
            )
    values = {
        c.name: np.full(n, c.centre) if c.fixed else c.floor + np.exp(log_excess[c.name])
        for c in model.coefficients
    }
    key = deployment_key(deployment)
    known_deployment = key in population.deployments
    server = population.server
    known_server = server.run if server and server.deployment == key and with_discrepancy else None
    speed, ttft, saturation = np.zeros(n), np.zeros(n), np.zeros(n)
    if with_discrepancy and population.scale:
        if known_deployment:
            speed = population.deployment[:, list(population.deployments).index(key)]
        else:
            fresh = stream(seed, "deployment", key).standard_normal(n)
            speed = _total(population, "deployment", *deployment_regimes(deployment)) * fresh
        own, ttft = _run_effect(population, seed, regimes, known_server)
        speed = speed + own
        saturation = _total(population, "saturation") * stream(seed, "saturation").standard_t(
            TTFT_NU, n
        )
    return DeploymentDraws(
        coefficients=Coefficients(latency_model=model, values=values, speed=np.exp(speed)),
        ttft=ttft,
        saturation=saturation,
        new_levels=tuple(new),
        known_deployment=known_deployment,
        server=known_server,
    )


def _run_effect(
    population: Population, seed: int, regimes: Sequence[str], server: str | None
) -> tuple[Array, Array]:
    """Log speed and log TTFT discrepancy of one run: a known server's, or fresh ones."""
    if server is not None:
        return population.servers[server]
    n = population.n_draw
    speed = _total(population, "run", *regimes) * stream(seed, "run").standard_normal(n)
    return speed, _total(population, "ttft") * stream(seed, "ttft").standard_t(TTFT_NU, n)


def _total(population: Population, *names: str) -> Array:
    """Scale of the sum of independent discrepancies; those that the model lacks add nothing."""
    parts = [population.scale[name] ** 2 for name in names if name in population.scale]
    total: Array = np.sqrt(sum(parts, np.zeros(population.n_draw)))
    return total


def _log_centre(model: LatencyModel, name: str) -> float:
    coefficient = model.coefficient(name)
    return float(np.log(coefficient.centre - coefficient.floor))


def _matters(group: str, deployment: Deployment) -> bool:
    if group == "interconnect":
        return deployment.tensor_parallel > 1
    if group == "family":
        return deployment.llm.is_moe
    return True
