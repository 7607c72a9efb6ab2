"""Latency statistics that were measured, as flat records in seconds."""

import math
import re
from dataclasses import dataclass
from itertools import pairwise

from tailcast.errors import InputError, near_name
from tailcast.workload.fields import Fields

METRICS = ("ttft", "itl", "tpot", "e2e", "queue_delay")
_QUANTILE = re.compile(r"p(\d{1,2})(?:[._](\d+))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """One measured statistic of one load stage.

    Parameters
    ----------
    stage : int
        Index of the stage (or request class) it belongs to, from 0.
    metric : str
        ``ttft``, ``itl``, ``tpot``, ``e2e`` or ``queue_delay``.
    statistic : str
        ``mean``, ``min``, ``max`` or a percentile over requests such as ``p99`` or ``p99.9``.
    value : float
        Seconds.
    n_requests : int or None
        Requests of the stage, where the file says.
    """

    stage: int
    metric: str
    statistic: str
    value: float
    n_requests: int | None = None

    @property
    def quantile(self) -> float | None:
        """Probability of the statistic, 0 for min and 1 for max; None for the mean."""
        return statistic_quantile(self.statistic)


def statistic_name(text: str) -> str:
    """Canonical name of a statistic.

    Parameters
    ----------
    text : str
        As written: ``p99_9``, ``p99.9``, ``median``...

    Returns
    -------
    str
        ``mean``, ``min``, ``max`` or a percentile such as ``p99.9``.

    Raises
    ------
    InputError
        If it is none of these.

    Examples
    --------
    >>> statistic_name("p99_9"), statistic_name("median")
    ('p99.9', 'p50')
    """
    name = text.lower()
    if name in {"mean", "min", "max"}:
        return name
    if name == "median":
        return "p50"
    match = _QUANTILE.fullmatch(name)
    if match is None:
        raise InputError(f"no statistic {text!r}; use mean, min, max or a percentile such as p99")
    decimals = (match[2] or "").rstrip("0")
    return f"p{int(match[1])}" + (f".{decimals}" if decimals else "")


def statistic_quantile(name: str) -> float | None:
    """Probability that a statistic stands for.

    Parameters
    ----------
    name : str
        Canonical name.

    Returns
    -------
    float or None
        Between 0 and 1; None for the mean.

    Examples
    --------
    >>> statistic_quantile("p99.9")
    0.999
    """
    fixed = {"mean": None, "min": 0.0, "max": 1.0}
    return fixed[name] if name in fixed else round(float(name[1:]) / 100, 12)


def observed_records(entries: list[Fields], n_stage: int) -> tuple[Observed, ...]:
    """Records of the list ``observed`` of an experiment.

    Parameters
    ----------
    entries : list of Fields
        ``{stage, requests, latency_ms: {metric: {statistic: milliseconds}}}``.
    n_stage : int
        Number of stages that the workload has.

    Returns
    -------
    tuple of Observed
        In the order of the file, in seconds.

    Raises
    ------
    InputError
        If a stage, metric, statistic or value is impossible, or given twice.
    """
    records: list[Observed] = []
    seen: set[tuple[int, str, str]] = set()
    for entry in entries:
        stage = entry.whole("stage", 0)
        if not 0 <= stage < n_stage:
            raise InputError(f"{entry.where}: no stage {stage}; the workload has {n_stage}")
        n_requests = entry.whole("requests", None)
        if n_requests is not None and n_requests < 1:
            raise InputError(f"{entry.where}: requests must be at least 1, got {n_requests}")
        table = entry.table("latency_ms")
        if table is None and "saturated" not in entry:
            raise InputError(f"{entry.where}: latency_ms is missing")
        for record in _of_stage(table, stage, n_requests) if table is not None else ():
            key = (record.stage, record.metric, record.statistic)
            if key in seen:
                raise InputError(
                    f"{entry.where}: {record.metric} {record.statistic} of stage {stage} "
                    f"is given twice"
                )
            seen.add(key)
            records.append(record)
        entry.ignore_unused()
    return tuple(records)


def saturation_labels(entries: list[Fields]) -> dict[int, bool]:
    """Stages of which a file says whether they were saturated.

    Parameters
    ----------
    entries : list of Fields
        ``{stage, saturated}`` beside the latencies, or in place of them where they are no
        latencies to predict: most requests timed out.

    Returns
    -------
    dict of int to bool
        By stage; stages without a label are left out.

    Raises
    ------
    InputError
        If a label is not true or false.
    """
    labels = {}
    for entry in entries:
        if "saturated" in entry:
            labels[entry.whole("stage", 0)] = entry.flag("saturated")
    return labels


def _of_stage(table: Fields, stage: int, n_requests: int | None) -> list[Observed]:
    records = []
    for metric in table.unused():
        if metric not in METRICS:
            hint = near_name(metric, METRICS)
            raise InputError(f"{table.where}: no metric {metric!r}; {hint}")
        values = table.table(metric)
        for key in values.unused() if values is not None else ():
            value = values.number(key, None) if values is not None else None
            if value is None:  # null: not measured
                continue
            try:
                name = statistic_name(key)
            except InputError as error:
                raise InputError(f"{table.where} {metric}: {error}") from error
            if value <= 0:
                raise InputError(
                    f"{table.where} {metric}: {key} must be positive (ms), got {value!r}"
                )
            records.append(
                Observed(
                    stage=stage,
                    metric=metric,
                    statistic=name,
                    value=value * 1e-3,
                    n_requests=n_requests,
                )
            )
        _check_order(records, metric, table.where)
    return records


def _check_order(records: list[Observed], metric: str, where: str) -> None:
    ranked = [(r.quantile, r) for r in records if r.metric == metric and r.quantile is not None]
    ranked.sort(key=lambda pair: pair[0])
    for (_, low), (_, high) in pairwise(ranked):
        if high.value < low.value and not math.isclose(high.value, low.value, rel_tol=1e-6):
            raise InputError(
                f"{where} {metric}: {high.statistic} ({high.value * 1e3:g} ms) is below "
                f"{low.statistic} ({low.value * 1e3:g} ms)"
            )
