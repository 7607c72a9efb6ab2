"""Numbered blocks of common random numbers: a posterior draw, its discrepancies, its requests.

Block b is the same for every candidate: the same posterior row, the same discrepancy draws, the
same workload seeds. So differences between candidates are paired, and a candidate that joins late
faces what the others faced.
"""

import threading
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.coefficients import step_law
from tailcast.deployment import Deployment
from tailcast.errors import UsageError
from tailcast.inference.population import (
    DeploymentDraws,
    Population,
    deployment_draws,
    population_rows,
    prior_population,
)
from tailcast.latency_model import NEAR_SATURATION, LatencyModel
from tailcast.posteriors import Posterior
from tailcast.step_law import StepLaw
from tailcast.streams import stream

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

_PRIOR_DRAWS = 1000
_FRESH = 1_000_003
"""Between the workload seeds of blocks for different purposes; seeds of one purpose count up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Draws:
    """Law of one deployment in every draw of some blocks.

    Parameters
    ----------
    law : StepLaw
        One row a draw.
    ttft : ndarray, shape (n_draw,)
        Factor on TTFT.
    saturation : ndarray, shape (n_draw,)
        Further factor on TTFT near saturation, see `late`.
    new_levels : tuple of str
        Groups whose level the posterior has never seen.
    known_deployment : bool
        Whether the posterior knows this very deployment.
    """

    law: StepLaw
    ttft: Array
    saturation: Array
    new_levels: tuple[str, ...]
    known_deployment: bool

    def late(self, draw: Ints, load: Array) -> Array:
        """Factor on TTFT of runs at their load.

        Parameters
        ----------
        draw : ndarray of int, shape (n_run,)
            Draw of each run.
        load : ndarray, shape (n_run,)
            Offered work over capacity.

        Returns
        -------
        ndarray, shape (n_run,)
            As in `tailcast.prediction.predictive`.
        """
        near = load >= NEAR_SATURATION
        return np.asarray(self.ttft[draw] * np.where(near, self.saturation[draw], 1.0))


@dataclass(frozen=True, kw_only=True)
class Blocks:
    """Blocks of common random numbers for one posterior.

    Parameters
    ----------
    population : Population
        Draws that `rows` point into.
    rows : ndarray of int, shape (n_draw,)
        Posterior row of each draw.
    seed : int
        Of levels that the posterior does not know.
    discrepancy_seed : int
        Of the deployment, run and TTFT discrepancies.
    draw_of : ndarray of int, shape (n_block,)
        Draw of each block.
    workload_seeds : ndarray of int, shape (n_block, n_run)
        Seeds of the runs of each block; several are pooled into one long run.
    with_discrepancy : bool
        False trusts the law.
    regimes : tuple of str
        Discrepancies of these runs beside those of every run, see
        `tailcast.inference.regimes.workload_regimes`.
    """

    population: Population
    rows: Ints
    seed: int
    discrepancy_seed: int
    draw_of: Ints
    workload_seeds: Ints
    with_discrepancy: bool = True
    regimes: tuple[str, ...] = ()
    _laws: dict[Hashable, Draws] = field(init=False, compare=False, repr=False)
    _lock: Any = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_laws", {})
        object.__setattr__(self, "_lock", threading.Lock())

    @property
    def n_block(self) -> int:
        """Number of blocks."""
        return len(self.draw_of)

    @property
    def n_run(self) -> int:
        """Runs that are pooled in each block."""
        return int(self.workload_seeds.shape[1])

    def draws(self, deployment: Deployment) -> Draws:
        """Law of a deployment in every draw; remembered.

        Parameters
        ----------
        deployment : Deployment
            One replica.

        Returns
        -------
        Draws
            One row a draw.
        """
        key = law_key(deployment)
        with self._lock:
            known = self._laws.get(key)
        if known is not None:
            return known
        own = self._own(deployment)
        draws = Draws(
            law=step_law(own.coefficients, deployment),
            ttft=np.exp(own.ttft),
            saturation=np.exp(own.saturation),
            new_levels=own.new_levels,
            known_deployment=own.known_deployment,
        )
        with self._lock:
            return self._laws.setdefault(key, draws)

    def _own(self, deployment: Deployment) -> DeploymentDraws:
        chosen = population_rows(self.population, self.rows)
        own = deployment_draws(
            chosen,
            deployment,
            self.seed,
            with_discrepancy=self.with_discrepancy,
            regimes=self.regimes,
        )
        if self.discrepancy_seed == self.seed or not self.with_discrepancy:
            return own
        other = deployment_draws(chosen, deployment, self.discrepancy_seed, regimes=self.regimes)
        clock = replace(own.coefficients, speed=other.coefficients.speed)
        return replace(other, coefficients=clock)

    def but(self, **changes: Any) -> "Blocks":
        """The same blocks with some fields changed.

        Parameters
        ----------
        **changes : object
            Fields by name.

        Returns
        -------
        Blocks
            Nothing remembered is shared.
        """
        return replace(self, **changes)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state["_laws"] = {}
        state.pop("_lock")
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__dict__["_lock"] = threading.Lock()


def law_key(deployment: Deployment) -> Hashable:
    """What the step law of a deployment depends on.

    Parameters
    ----------
    deployment : Deployment
        One replica.

    Returns
    -------
    hashable
        Equal for deployments that differ only in what the scheduler alone looks at.
    """
    engine = deployment.engine
    return (
        deployment.llm.name,
        repr(deployment.accelerator),
        deployment.tensor_parallel,
        deployment.data_parallel,
        deployment.weights,
        deployment.kv_dtype,
        engine.name,
        engine.version,
        engine.schedules_ahead,
        engine.enforce_eager,
        engine.max_model_len,
        engine.max_num_batched_tokens if deployment.llm.is_moe else None,
    )


def population_of(posterior: Posterior | LatencyModel, seed: int) -> Population:
    """Draws to choose blocks from.

    Parameters
    ----------
    posterior : Posterior or LatencyModel
        A latency model alone is drawn from its prior.
    seed : int
        Of the prior's draws.

    Returns
    -------
    Population
        Stored draws, or draws of the prior.
    """
    if isinstance(posterior, LatencyModel):
        return prior_population(posterior, _PRIOR_DRAWS, seed)
    return posterior.population


def predictive_blocks(
    posterior: Posterior | LatencyModel, n_block: int, seed: int, *, n_run: int = 1
) -> Blocks:
    """The pairs that `tailcast.prediction.predictive` simulates, as blocks.

    Parameters
    ----------
    posterior : Posterior or LatencyModel
        What to draw from.
    n_block : int
        Posterior draws, spread evenly over the stored ones.
    seed : int
        Of levels, discrepancies and workloads.
    n_run : int
        Runs of one block.

    Returns
    -------
    Blocks
        With workload seeds `seed`, `seed` + 1 and so on.

    Raises
    ------
    UsageError
        If there is no block.
    """
    if n_block < 1 or n_run < 1:
        raise UsageError(f"draws must be at least 1, got {min(n_block, n_run)}")
    if isinstance(posterior, LatencyModel):
        population = prior_population(posterior, n_block, seed)
    else:
        population = posterior.population
    total = population.n_draw
    spread = np.linspace(0, total - 1, n_block).round().astype(np.int64)
    return Blocks(
        population=population,
        rows=spread if n_block <= total else np.arange(n_block) % total,
        seed=seed,
        discrepancy_seed=seed,
        draw_of=np.arange(n_block),
        workload_seeds=seed + np.arange(n_block * n_run).reshape(n_run, n_block).T,
    )


def shuffled_blocks(
    posterior: Posterior | LatencyModel,
    n_block: int,
    seed: int,
    purpose: str,
    *,
    n_run: int = 1,
    reverse: bool = False,
) -> Blocks:
    """Blocks in an order that any number of leading ones represents the posterior.

    Parameters
    ----------
    posterior : Posterior or LatencyModel
        What to draw from.
    n_block : int
        How many; the stored draws are used again, in another order, when there are fewer.
    seed : int
        Of order, levels, discrepancies and workloads.
    purpose : str
        Blocks for another purpose are fresh: other discrepancies and workloads.
    n_run : int
        Runs of one block.
    reverse : bool
        Take the stored draws from the other end of the same order, so that few are shared.

    Returns
    -------
    Blocks
        A longer request begins with the blocks of a shorter one.
    """
    population = population_of(posterior, seed)
    rng = stream(seed, "blocks")
    orders = [rng.permutation(population.n_draw) for _ in range(-(-n_block // population.n_draw))]
    rows = np.concatenate([order[::-1] if reverse else order for order in orders])[:n_block]
    own = int(stream(seed, "purpose", purpose).integers(2**30))
    first = own + _FRESH * np.arange(n_run)
    return Blocks(
        population=population,
        rows=rows,
        seed=own,
        discrepancy_seed=own,
        draw_of=np.arange(n_block),
        workload_seeds=np.arange(n_block)[:, None] + first[None, :],
    )
