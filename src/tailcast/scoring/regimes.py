"""Where a posterior is biased: errors by family, parallelism, accelerator, experts and load."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tailcast.deployment import Deployment
from tailcast.scoring.record import BODY, EvaluationRecord
from tailcast.scoring.summary import ScoreSummary, summary_of

_LOAD_EDGES = (0.3, 0.7, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RegimeRow:
    """Scores of one metric in one regime.

    Parameters
    ----------
    kind, level : str
        For example ``"accelerator"`` and ``"a100-sxm-80gb"``.
    scores : ScoreSummary
        Over mean, P50 and P90 of the metric.
    """

    kind: str
    level: str
    scores: ScoreSummary


def deployment_regime(deployment: Deployment, load: float) -> dict[str, str]:
    """Regime of a stage.

    Parameters
    ----------
    deployment : Deployment
        What served.
    load : float
        Predicted offered load over capacity; NaN where the workload has none.

    Returns
    -------
    dict of str to str
        Level by kind.
    """
    return {
        "family": deployment.llm.family,
        "tensor_parallel": str(deployment.tensor_parallel),
        "accelerator": deployment.accelerator.name,
        "experts": "MoE" if deployment.llm.is_moe else "dense",
        "load": load_level(load),
    }


def load_level(load: float) -> str:
    """Name of a band of offered load.

    Parameters
    ----------
    load : float
        Over capacity; NaN for a closed loop.

    Returns
    -------
    str
        For example ``"0.3-0.7"``.

    Examples
    --------
    >>> load_level(0.5), load_level(1.2), load_level(float("nan"))
    ('0.3-0.7', '1.0 and more', 'closed loop')
    """
    if math.isnan(load):
        return "closed loop"
    low = 0.0
    for edge in _LOAD_EDGES:
        if load < edge:
            return f"{low:.1f}-{edge:.1f}"
        low = edge
    return f"{low:.1f} and more"


def regime_rows(records: Sequence[EvaluationRecord]) -> list[RegimeRow]:
    """Scores by regime and metric, over the statistics that replicates pin down.

    Parameters
    ----------
    records : sequence of EvaluationRecord
        With their regimes.

    Returns
    -------
    list of RegimeRow
        Kinds in the order they are named, levels sorted, metrics as they appear.
    """
    body = [r for r in records if r.score.statistic in BODY]
    rows = []
    for kind in dict.fromkeys(kind for r in body for kind in r.regime):
        for level in sorted({r.regime[kind] for r in body if kind in r.regime}):
            own = [r for r in body if r.regime.get(kind) == level]
            for metric in dict.fromkeys(r.score.metric for r in own):
                cell = [r for r in own if r.score.metric == metric]
                rows.append(
                    RegimeRow(kind=kind, level=level, scores=summary_of(cell, metric, "body"))
                )
    return rows
