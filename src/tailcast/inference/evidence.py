"""What a fit is conditioned on: runs (through emulators) and step timings (exact and linear)."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.deployment import Deployment
from tailcast.errors import InferenceError
from tailcast.inference.emulator import Emulator
from tailcast.inference.population import deployment_key, deployment_regimes, group_levels
from tailcast.latency_model import LatencyModel

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """One observed summary of one load stage.

    Parameters
    ----------
    stage : int
        Load stage (group of the request table).
    metric, stat : str
        For example ``"ttft"`` and ``"p99"``.
    log_observed : float
        Log of the observed seconds.
    finish, stream, warm_up : float
        How often these overheads enter the observed value.
    """

    stage: int
    metric: str
    stat: str
    log_observed: float
    finish: float
    stream: float
    warm_up: float = 0.0

    @property
    def key(self) -> str:
        """``"metric.stat"``, the name of its noise scale."""
        return f"{self.metric}.{self.stat}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunEvidence:
    """Summaries of one run and their emulator.

    Parameters
    ----------
    name : str
        Identity of the run.
    levels : mapping of str to str
        Level by group.
    deployment : str
        Key of the deployment.
    matrix : ndarray, shape (n_effective, n_coefficient)
        Map from coefficients to effective numbers.
    in_clock : ndarray of bool, shape (n_effective,)
        Which effective numbers the step speed multiplies.
    emulator : Emulator
        From log effective numbers to log outputs.
    outputs : sequence of Output
        Observed summaries in the emulator's order.
    batch_range : ndarray, shape (n_coefficient, 2)
        Least and largest basis value of a step in the engine runs near the posterior.
    weight : float
        Power of its likelihood, between 0 and 1; below 1 where it was partly forgotten.
    regimes : tuple of str
        Names in `tailcast.latency_model.DISCREPANCIES` that apply beside those of every run.
    saturated : tuple of int
        Stages near saturation.
    latent : int
        Place among the effective numbers of what the run leaves unknown, -1 for nothing.
    """

    name: str
    levels: Mapping[str, str]
    deployment: str
    matrix: Array
    in_clock: NDArray[np.bool_]
    emulator: Emulator
    outputs: Sequence[Output]
    batch_range: Array
    weight: float = 1.0
    regimes: tuple[str, ...] = ()
    saturated: tuple[int, ...] = ()
    latent: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEvidence:
    """Timings of single steps, or of sums of steps, with known batches.

    Parameters
    ----------
    name : str
        Identity of the source.
    levels : mapping of str to str
        Level by group.
    deployment : str
        Key of the deployment.
    clock : ndarray, shape (n_row, n_coefficient)
        Basis values summed over the steps of the row.
    overhead : ndarray, shape (n_row, n_coefficient)
        How often each request overhead enters the timing.
    log_observed : ndarray, shape (n_row,)
        Log of the observed seconds.
    noise : sequence of str
        Name of each row's noise scale.
    weight : float
        Power of its likelihood, between 0 and 1; below 1 where it was partly forgotten.
    regimes : tuple of str
        Names in `tailcast.latency_model.DISCREPANCIES` that apply beside those of every deployment.
    """

    name: str
    levels: Mapping[str, str]
    deployment: str
    clock: Array
    overhead: Array
    log_observed: Array
    noise: Sequence[str]
    weight: float = 1.0
    regimes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """All that one fit is conditioned on.

    Parameters
    ----------
    runs : tuple of RunEvidence
        Runs with summaries.
    steps : tuple of StepEvidence
        Step timings.
    """

    runs: tuple[RunEvidence, ...]
    steps: tuple[StepEvidence, ...] = ()

    @property
    def items(self) -> tuple[RunEvidence | StepEvidence, ...]:
        """Runs, then step sources."""
        return (*self.runs, *self.steps)

    def __post_init__(self) -> None:
        names = [item.name for item in self.items]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise InferenceError(f"evidence {sorted(twice)[0]!r} was given twice; name it once")
        if not names:
            raise InferenceError("nothing to fit: no run and no step timing was given")

    def levels(self, group: str) -> tuple[str, ...]:
        """Levels of a group that the evidence holds, sorted.

        Parameters
        ----------
        group : str
            Name in `tailcast.latency_model.GROUPS`.

        Returns
        -------
        tuple of str
            Level names.
        """
        return tuple(sorted({item.levels[group] for item in self.items}))

    @property
    def deployments(self) -> tuple[str, ...]:
        """Keys of the deployments that the evidence holds, sorted."""
        return tuple(sorted({item.deployment for item in self.items}))


def step_evidence(
    name: str,
    model: LatencyModel,
    deployment: Deployment,
    rows: Sequence[tuple[Array, float, str]],
    *,
    ingest: bool = False,
) -> StepEvidence:
    """Evidence from timings with known batches.

    Parameters
    ----------
    name : str
        Identity of the source.
    model : LatencyModel
        Which coefficients there are.
    deployment : Deployment
        Where the steps ran.
    rows : sequence of (ndarray, float, str)
        Batch features in the order of `tailcast.basis.FEATURES` summed over the row's steps, shape
        (n_feature,); observed seconds; name of the noise scale.
    ingest : bool
        Whether the timings are client-side TTFTs that hold ingest and one stream overhead.

    Returns
    -------
    StepEvidence
        With basis values in seconds or counts.
    """
    from tailcast.basis import FEATURES, basis_term

    n_coefficient = len(model.names)
    clock = np.zeros((len(rows), n_coefficient))
    overhead = np.zeros((len(rows), n_coefficient))
    for k, coefficient in enumerate(model.coefficients):
        if coefficient.is_overhead:
            overhead[:, k] = float(ingest and coefficient.basis in {"ingest", "stream"})
            continue
        term = basis_term(coefficient.basis, deployment)
        for r, (features, _, _) in enumerate(rows):
            clock[r, k] = term.features @ features
            if term.table is not None:
                steps = max(features[FEATURES.index("step")], 1.0)
                tokens = (
                    features[FEATURES.index("prefill_token")] + features[FEATURES.index("decode")]
                ) / steps
                clock[r, k] += steps * np.interp(tokens, np.arange(len(term.table)), term.table)
    return StepEvidence(
        name=name,
        levels=group_levels(deployment),
        deployment=deployment_key(deployment),
        clock=clock,
        overhead=overhead,
        log_observed=np.log(np.array([seconds for _, seconds, _ in rows])),
        noise=tuple(noise for _, _, noise in rows),
        regimes=deployment_regimes(deployment),
    )


def content_hash(*parts: object) -> str:
    """Hash of arrays and texts, for cache keys and cards.

    Parameters
    ----------
    *parts : object
        Arrays are hashed by their bytes, everything else by its text.

    Returns
    -------
    str
        Hexadecimal SHA-256.
    """
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.tobytes() if isinstance(part, np.ndarray) else repr(part).encode())
        digest.update(b"\0")
    return digest.hexdigest()
