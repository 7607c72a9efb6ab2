"""Saturation as a class: predicted probability against what was seen."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tailcast.deployment import Deployment
from tailcast.request import RequestTable
from tailcast.traces.experiment import Experiment


@dataclass(frozen=True, slots=True, kw_only=True)
class SaturationRecord:
    """One stage: was it predicted to saturate, and did it.

    Parameters
    ----------
    experiment : str
        Id of the run.
    stage : int
        Load stage.
    predicted : float
        Share of draws whose offered work exceeds the capacity.
    observed : bool
        Whether the stage was saturated.
    source : str
        ``"label"`` of the file, or ``"requests in flight"``.
    """

    experiment: str
    stage: int
    predicted: float
    observed: bool
    source: str

    @property
    def brier(self) -> float:
        """Squared error of the probability; Brier (1950)."""
        return (self.predicted - float(self.observed)) ** 2


@dataclass(frozen=True, slots=True, kw_only=True)
class SaturationScore:
    """Saturation over many stages.

    Parameters
    ----------
    n, n_saturated : int
        Stages, and how many of them were saturated.
    brier : float
        Mean Brier score; 0 is perfect.
    brier_base_rate : float
        Score of a forecast that always states the share of saturated stages.
    misses : tuple of SaturationRecord
        Stages on the wrong side of one half.
    """

    n: int
    n_saturated: int
    brier: float
    brier_base_rate: float
    misses: tuple[SaturationRecord, ...]


def saturation_score(records: Sequence[SaturationRecord]) -> SaturationScore | None:
    """Score probabilities of saturation.

    Parameters
    ----------
    records : sequence of SaturationRecord
        Any number.

    Returns
    -------
    SaturationScore or None
        None without a stage.
    """
    if not records:
        return None
    share = float(np.mean([r.observed for r in records]))
    return SaturationScore(
        n=len(records),
        n_saturated=sum(r.observed for r in records),
        brier=float(np.mean([r.brier for r in records])),
        brier_base_rate=share * (1 - share),
        misses=tuple(r for r in records if (r.predicted >= 0.5) != r.observed),
    )


def stage_rates(requests: RequestTable) -> dict[int, float]:
    """Rate of each load stage.

    Parameters
    ----------
    requests : RequestTable
        One realisation of the workload.

    Returns
    -------
    dict of int to float
        Requests/s by stage; empty for a closed loop, where the server sets the rate.
    """
    if np.any(requests.parent >= 0):
        return {}
    rates = {}
    for stage in np.unique(requests.group):
        arrival = requests.arrival[requests.group == stage]
        span = float(arrival[-1] - arrival[0]) if len(arrival) > 1 else 0.0
        if span > 0:
            rates[int(stage)] = (len(arrival) - 1) / span
    return rates


def slots(deployment: Deployment, requests: RequestTable) -> float:
    """Requests that the replica can run at once: sequence cap or KV cache.

    Parameters
    ----------
    deployment : Deployment
        With its caps.
    requests : RequestTable
        For the mean length.

    Returns
    -------
    float
        At least one.
    """
    engine = deployment.engine
    tokens = float(requests.input_tokens.mean() + requests.output_tokens.mean() / 2)
    held = deployment.kv_block_count * engine.block_size / tokens
    return max(1.0, min(float(engine.max_num_seqs), held)) * deployment.data_parallel


def observed_saturation(
    experiment: Experiment, requests: RequestTable
) -> dict[int, tuple[bool, str]]:
    r"""Which stages of a run were saturated.

    By the label of the file; else by Little's law: when more requests are in flight on average
    than the replica can run at once, some of them wait all the time.

    .. math:: \lambda \bar{E} > \text{slots}

    Parameters
    ----------
    experiment : Experiment
        With its observed mean e2e.
    requests : RequestTable
        One realisation of its workload.

    Returns
    -------
    dict of int to (bool, str)
        Class and where it comes from, by stage; a stage without either is left out. Little (1961),
        10.1287/opre.9.3.383.
    """
    rates, room = stage_rates(requests), slots(experiment.deployment, requests)
    found = {
        o.stage: (rates[o.stage] * o.value > room, "requests in flight")
        for o in experiment.observed
        if (o.metric, o.statistic) == ("e2e", "mean") and o.stage in rates
    }
    return found | {s: (label, "label") for s, label in experiment.saturated.items()}


def stage_load_factors(requests: RequestTable) -> dict[int, float]:
    """Offered load of each stage over that of the whole run: load is proportional to the rate.

    Parameters
    ----------
    requests : RequestTable
        One realisation of the workload.

    Returns
    -------
    dict of int to float
        By stage; NaN for a closed loop.
    """
    rates = stage_rates(requests)
    span = float(requests.arrival[-1] - requests.arrival[0]) if len(requests) > 1 else 0.0
    whole = (len(requests) - 1) / span if span > 0 else math.nan
    stages = {int(stage) for stage in np.unique(requests.group)}
    return {s: rates[s] / whole if s in rates else math.nan for s in stages}
