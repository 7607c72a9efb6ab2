"""What a public set of measurements gives: experiments, step timings, traces, and what it does not.

Nothing of a set is dropped silently: every row that is not used is counted under its reason.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.basis import FEATURES
from tailcast.catalog.accelerators import accelerator
from tailcast.catalog.llms import llm
from tailcast.deployment import Deployment, EngineSettings
from tailcast.errors import CapacityError, CatalogError, UsageError
from tailcast.traces.experiment import Experiment
from tailcast.traces.observed import Observed
from tailcast.traces.tracev2 import Trace
from tailcast.workload.spec import Workload

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTable:
    """Timings of one deployment with known batches.

    Parameters
    ----------
    name : str
        Identity of the source.
    deployment : Deployment
        Where the steps ran.
    features : ndarray, shape (n_row, n_feature)
        Batch features in the order of `tailcast.basis.FEATURES`, summed over the row's steps.
    seconds : ndarray, shape (n_row,)
        Duration of the row.
    noise : tuple of str
        Noise scale of each row: ``step.decode``, ``step.mixed`` or ``step.prefill``.
    client_side : bool
        Whether the timings hold what a request costs outside its steps.
    """

    name: str
    deployment: Deployment
    features: Array
    seconds: Array
    noise: tuple[str, ...]
    client_side: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicTrace:
    """One run on record, request by request.

    Parameters
    ----------
    name : str
        Identity of the run.
    deployment : Deployment
        What served.
    trace : Trace
        Its requests.
    path : str
        File it was read from.
    """

    name: str
    deployment: Deployment
    trace: Trace
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicSet:
    """What one public set gives.

    Parameters
    ----------
    name : str
        Of the set.
    files : tuple of pathlib.Path
        That were read.
    experiments : tuple of Experiment
        Runs with statistics.
    steps : tuple of StepTable
        Step timings.
    traces : tuple of PublicTrace
        Runs request by request.
    refused : mapping of str to int
        Rows that are not used, by reason.
    notes : tuple of str
        What was converted or assumed.
    """

    name: str
    files: tuple[Path, ...]
    experiments: tuple[Experiment, ...] = ()
    steps: tuple[StepTable, ...] = ()
    traces: tuple[PublicTrace, ...] = ()
    refused: Mapping[str, int]
    notes: tuple[str, ...] = ()

    @property
    def deployments(self) -> tuple[Deployment, ...]:
        """Deployments of everything usable, in order, each source once."""
        return (
            *(experiment.deployment for experiment in self.experiments),
            *(table.deployment for table in self.steps),
            *(own.deployment for own in self.traces),
        )

    @property
    def summary(self) -> str:
        """One line: how much is usable, on which accelerators and engines, what was refused."""
        parts = [
            f"{len(found)} {what}"
            for found, what in (
                (self.experiments, "experiments"),
                (self.steps, "step tables"),
                (self.traces, "traces"),
            )
            if found
        ]
        gpus = sorted({d.accelerator.name for d in self.deployments})
        engines = sorted({f"{d.engine.name} {d.engine.version}" for d in self.deployments})
        refused = "; ".join(f"{n} rows refused: {why}" for why, n in self.refused.items())
        found = f"{self.name}: {', '.join(parts) or 'nothing usable'}"
        where = f" on {', '.join(gpus)} ({', '.join(engines)})" if gpus else ""
        return f"{found}{where}" + (f"; {refused}" if refused else "")


class Refusals:
    """Counts of rows that are not used, by reason."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def count(self, reason: str, n: int = 1) -> None:
        """Count rows.

        Parameters
        ----------
        reason : str
            Why they are not used.
        n : int
            How many.
        """
        if n:
            self._counts[reason] += n

    @property
    def by_reason(self) -> dict[str, int]:
        """Most frequent first."""
        return dict(self._counts.most_common())


def features(**values: float) -> Array:
    """Batch features by name, the others zero.

    Parameters
    ----------
    **values : float
        By name in `tailcast.basis.FEATURES`.

    Returns
    -------
    ndarray, shape (n_feature,)
        In their order.
    """
    return np.array([values.get(name, 0.0) for name in FEATURES])


def public_deployment(
    model: str,
    gpu: str,
    tensor_parallel: int,
    settings: Mapping[str, Any],
    **own: Any,
) -> Deployment | str:
    """Deployment of a public row, or why there is none.

    Parameters
    ----------
    model, gpu : str
        As the set names them.
    tensor_parallel : int
        Accelerators per replica.
    settings : mapping of str to object
        Of `EngineSettings`.
    **own : object
        More of `Deployment`: weights, kv_dtype, kv_blocks.

    Returns
    -------
    Deployment or str
        The reason names what the catalogue lacks or what does not fit.
    """
    try:
        served, device = llm(model), accelerator(gpu)
    except CatalogError as error:
        return f"not in the catalogue: {model if 'LLM' in str(error) else gpu}"
    try:
        return Deployment(
            llm=served,
            accelerator=device,
            tensor_parallel=tensor_parallel,
            engine=EngineSettings(**settings),
            **own,
        )
    except (CapacityError, UsageError) as error:
        return f"cannot be served: {error}"


def public_experiment(
    name: str,
    deployment: Deployment,
    workload: Workload,
    observed: Sequence[Observed],
    path: Path,
) -> Experiment:
    """Experiment of a public row.

    Parameters
    ----------
    name : str
        Identity of the run.
    deployment : Deployment
        What served.
    workload : Workload
        What was sent.
    observed : sequence of Observed
        Statistics in seconds.
    path : pathlib.Path
        File it was read from.

    Returns
    -------
    Experiment
        Its split is ``public``.
    """
    content = repr((deployment, workload, tuple(observed)))
    return Experiment(
        id=name,
        split="public",
        deployment=deployment,
        workload=workload,
        observed=tuple(observed),
        repetition_evidence="",
        ignored=(),
        content_hash=hashlib.sha256(content.encode()).hexdigest(),
        path=str(path),
    )


def observed_stats(
    values: Mapping[tuple[str, str], float], n_requests: int | None = None
) -> tuple[Observed, ...]:
    """Statistics of a run with one stage.

    Parameters
    ----------
    values : mapping of (str, str) to float
        Seconds by metric and statistic.
    n_requests : int, optional
        Requests behind them.

    Returns
    -------
    tuple of Observed
        In the given order.
    """
    return tuple(
        Observed(stage=0, metric=metric, statistic=statistic, value=value, n_requests=n_requests)
        for (metric, statistic), value in values.items()
    )


def trimmed_mean(values: Array, share: float = 0.1) -> float:
    """Mean without the smallest and largest values.

    Unlike a median it does not snap to the clock's resolution, and it ignores the odd step that
    waited for something.

    Parameters
    ----------
    values : ndarray, shape (n,)
        At least one.
    share : float
        Share cut off at each end.

    Returns
    -------
    float
        Same unit.

    Examples
    --------
    >>> trimmed_mean(np.array([1.0, 2.0, 3.0, 4.0, 100.0]), 0.2)
    3.0
    """
    ordered = np.sort(values)
    cut = int(share * len(ordered))
    return float(ordered[cut : len(ordered) - cut].mean())


Loader = Callable[[Path], PublicSet]
