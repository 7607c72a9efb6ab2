"""Objectives such as ``ttft.p99=300ms`` and the probability that a deployment misses them."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import UsageError, near_name
from tailcast.prediction import METRICS, Prediction
from tailcast.units import format_duration, parse_duration

Array = NDArray[np.float64]

MAX_SATURATED = 0.5
"""Share of saturated draws from which no latency is stated at all."""

GOODPUT = "goodput"
PER_REQUEST = ("ttft", "tpot", "e2e", "queue_delay")
"""Metrics that a request has one value of; the gaps of ``itl`` are many."""

_FORM = re.compile(
    r"(?P<metric>\w+)\s*(\((?P<each>[^)]*)\))?\s*(\.\s*(?P<stat>[\w.]+?))?\s*"
    r"(\[(?P<group>[^\]]+)\])?\s*(?P<sign><=|>=|=)\s*(?P<target>.+)"
)
_RATE = re.compile(r"([0-9]*\.?[0-9]+)\s*(?:req)?/s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    """One service level objective.

    Parameters
    ----------
    metric : str
        For example ``"ttft"``, or ``"goodput"``.
    stat : str
        Over requests, for example ``"p99"``; for goodput ``"share"`` (of the requests) or
        ``"rate"`` (requests a second).
    target : float
        Seconds that must not be exceeded; for goodput the least share or rate.
    group : str, optional
        Request class or load stage that is meant; all requests where absent.
    per_request : tuple of (str, float)
        Metrics and seconds that a request must hold to count as good; goodput only.
    """

    metric: str
    stat: str
    target: float
    group: str | None = None
    per_request: tuple[tuple[str, float], ...] = ()

    @property
    def is_goodput(self) -> bool:
        """Whether more is better."""
        return self.metric == GOODPUT

    @property
    def name(self) -> str:
        """What is measured, without the target."""
        group = f"[{self.group}]" if self.group else ""
        if not self.is_goodput:
            return f"{self.metric}.{self.stat}{group}"
        each = ", ".join(f"{m} <= {format_duration(s)}" for m, s in self.per_request)
        return f"goodput({each}){group}"

    def margin(self, value: Array) -> Array:
        """How far a value misses the objective, on the log scale.

        Parameters
        ----------
        value : ndarray
            Seconds, share or rate.

        Returns
        -------
        ndarray
            Positive where missed, infinite where there is no value.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.log(value / self.target)
        margin = -ratio if self.is_goodput else ratio
        return np.asarray(np.where(np.isnan(margin), np.inf, margin), dtype=np.float64)

    def show(self, value: float) -> str:
        """A value of this objective for people.

        Parameters
        ----------
        value : float
            Seconds, share or rate.

        Returns
        -------
        str
            With its unit.
        """
        if not self.is_goodput:
            return format_duration(value)
        if not math.isfinite(value):
            return "n/a"
        return f"{value:.1%}" if self.stat == "share" else f"{value:.3g}/s"

    def __str__(self) -> str:
        return f"{self.name} {'>=' if self.is_goodput else '<='} {self.show(self.target)}"


def parse_objective(text: str) -> Objective:
    """Objective of a text such as ``ttft.p99=300ms``.

    Parameters
    ----------
    text : str
        ``metric.stat=duration``, with ``[class]`` before the sign for one request class; or
        ``goodput(ttft=300ms,tpot=50ms)=0.95`` for a share, ``=12/s`` for a rate of good requests.
        A bare ``goodput=0.95`` takes its targets from the other objectives, see
        `complete_objectives`.

    Returns
    -------
    Objective
        In seconds.

    Raises
    ------
    UsageError
        If the form, metric, statistic or target is unknown.

    Examples
    --------
    >>> parse_objective("ttft.p99=300ms").target
    0.3
    >>> print(parse_objective("goodput(ttft=300ms)[chat]=0.95"))
    goodput(ttft <= 300 ms)[chat] >= 95.0%
    """
    found = _FORM.fullmatch(text.strip())
    metric = found["metric"].lower() if found else ""
    if found is None or (metric != GOODPUT and found["stat"] is None):
        raise UsageError(f"objective {text!r} is not metric.stat=duration; write ttft.p99=300ms")
    if metric != GOODPUT and metric not in METRICS:
        known = (*METRICS, GOODPUT)
        raise UsageError(f"objective {text!r}: no metric {metric!r}; {near_name(metric, known)}")
    if found["sign"] == ("<=" if metric == GOODPUT else ">="):
        raise UsageError(f"objective {text!r} is the wrong way round; turn {found['sign']} about")
    if metric == GOODPUT:
        return _goodput(text, found)
    if found["each"] is not None:
        raise UsageError(f"objective {text!r}: targets in parentheses belong to goodput")
    stat = found["stat"].lower()
    stat_quantile(stat)
    return Objective(
        metric=metric,
        stat=stat,
        target=parse_duration(found["target"]),
        group=found["group"] and found["group"].strip(),
    )


def _goodput(text: str, found: re.Match[str]) -> Objective:
    if found["stat"] is not None:
        raise UsageError(f"objective {text!r}: goodput has no statistic; write goodput=0.95")
    each = []
    for part in filter(None, (found["each"] or "").split(",")):
        metric, sign, seconds = part.strip().partition("=")
        metric = metric.strip().removesuffix("<").strip().lower()
        if not sign or metric not in PER_REQUEST:
            hint = near_name(metric, PER_REQUEST)
            raise UsageError(
                f"objective {text!r}: {part.strip()!r} is no target of a request; {hint}"
            )
        each.append((metric, parse_duration(seconds)))
    stat, target = _share_or_rate(found["target"].strip(), text)
    return Objective(
        metric=GOODPUT,
        stat=stat,
        target=target,
        group=found["group"] and found["group"].strip(),
        per_request=tuple(each),
    )


def _share_or_rate(target: str, text: str) -> tuple[str, float]:
    rate = _RATE.fullmatch(target)
    try:
        value = float(rate[1] if rate else target.removesuffix("%"))
    except ValueError:
        value = math.nan
    if rate and value > 0:
        return "rate", value
    share = value / 100 if target.endswith("%") else value
    if not 0 < share <= 1:
        raise UsageError(
            f"objective {text!r}: goodput is a share such as 0.95 or a rate such as 12/s, "
            f"got {target!r}"
        )
    return "share", share


def complete_objectives(objectives: Sequence[Objective]) -> tuple[Objective, ...]:
    """Give a goodput without targets those of the other objectives.

    Each latency objective of the same class then also says what a good request holds, whatever its
    statistic.

    Parameters
    ----------
    objectives : sequence of Objective
        As asked.

    Returns
    -------
    tuple of Objective
        In the same order.

    Raises
    ------
    UsageError
        If a goodput finds no target.
    """
    done = []
    for objective in objectives:
        if not objective.is_goodput or objective.per_request:
            done.append(objective)
            continue
        each = {
            other.metric: other.target
            for other in objectives
            if other.metric in PER_REQUEST and other.group in {None, objective.group}
        }
        if not each:
            raise UsageError(
                "goodput needs to know what a good request holds; write for example "
                "goodput(ttft=300ms,tpot=50ms)=0.95"
            )
        done.append(replace(objective, per_request=tuple(each.items())))
    return tuple(done)


def plain_objectives(objectives: Sequence[Objective]) -> tuple[Objective, ...]:
    """Objectives that statistics over all requests of one replica can answer.

    Parameters
    ----------
    objectives : sequence of Objective
        As asked.

    Returns
    -------
    tuple of Objective
        Without goodput and without those of one class; `tailcast.risk` answers all of them.
    """
    return tuple(o for o in objectives if not o.is_goodput and o.group is None)


def stat_quantile(stat: str) -> float | None:
    """Probability that a statistic over requests stands for.

    Parameters
    ----------
    stat : str
        ``mean`` or a percentile such as ``p99`` or ``p99.9``.

    Returns
    -------
    float or None
        Between 0 and 1; None for the mean.

    Raises
    ------
    UsageError
        If it is neither.

    Examples
    --------
    >>> stat_quantile("p99.9")
    0.999
    """
    if stat == "mean":
        return None
    try:
        value = float(stat.removeprefix("p")) / 100 if stat.startswith("p") else math.nan
    except ValueError:
        value = math.nan
    if not 0 < value < 1:
        raise UsageError(f"no statistic {stat!r}; use mean or a percentile such as p99 or p99.9")
    return round(value, 9)


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """Probability of missing one or several objectives.

    Parameters
    ----------
    label : str
        The objective, or ``"all"``.
    p_miss : float
        Share of draws that miss; a saturated draw misses.
    mcse : float
        Monte Carlo standard error of `p_miss`.
    """

    label: str
    p_miss: float
    mcse: float


def misses(prediction: Prediction, objective: Objective, group: int = -1) -> NDArray[np.bool_]:
    """Which draws miss an objective.

    Parameters
    ----------
    prediction : Prediction
        Predictive draws.
    objective : Objective
        Statistic and target.
    group : int
        Load stage or request class, -1 for all requests.

    Returns
    -------
    ndarray of bool, shape (n_draw,)
        True where saturated, where nothing finished, or above target.

    Raises
    ------
    UsageError
        If the objective is a goodput or names a class; `tailcast.risk` answers those.
    """
    if objective not in plain_objectives([objective]):
        raise UsageError(f"{objective}: ask tailcast slo, which looks at every request")
    draws = prediction.draws(objective.metric, objective.stat, group)
    missed: NDArray[np.bool_] = ~prediction.stable | ~(draws <= objective.target)
    return missed


def miss_probabilities(
    prediction: Prediction, objectives: Sequence[Objective], group: int = -1
) -> list[Miss]:
    """P(miss) of each objective and, for several, of missing any.

    Parameters
    ----------
    prediction : Prediction
        Predictive draws.
    objectives : sequence of Objective
        At least one.
    group : int
        Load stage or request class, -1 for all requests.

    Returns
    -------
    list of Miss
        In order; the joint one last, labelled ``"all"``.
    """
    columns = [misses(prediction, objective, group) for objective in objectives]
    rows = [miss_of(str(o), column) for o, column in zip(objectives, columns, strict=True)]
    if len(columns) > 1:
        rows.append(miss_of("all", np.any(columns, axis=0)))
    return rows


def miss_of(label: str, column: NDArray[np.bool_]) -> Miss:
    """P(miss) of which draws miss, with its Monte Carlo error.

    Parameters
    ----------
    label : str
        What is missed.
    column : ndarray of bool, shape (n_draw,)
        Independent draws.

    Returns
    -------
    Miss
        Its `mcse` never is zero: one more miss and one more hit are reckoned with.
    """
    n, hit = len(column), int(column.sum())
    smooth = (hit + 1) / (n + 2)
    return Miss(label=label, p_miss=hit / n, mcse=math.sqrt(smooth * (1 - smooth) / n))


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Answer to "does it hold?".

    Parameters
    ----------
    word : str
        ``"yes"``, ``"no"`` or ``"unsure"``.
    reason : str
        One sentence.
    advice : str
        What to do next, one sentence.
    """

    word: str
    reason: str
    advice: str


def verdict(prediction: Prediction, objectives: Sequence[Objective], risk: float = 0.05) -> Verdict:
    """Verdict on objectives at an accepted risk.

    ``yes`` where P(miss) is at most the risk, ``no`` where more draws miss than meet, ``unsure``
    between: there the spread decides, and a trace would settle it.

    Parameters
    ----------
    prediction : Prediction
        Predictive draws.
    objectives : sequence of Objective
        At least one.
    risk : float
        Accepted P(miss), between 0 and 1.

    Returns
    -------
    Verdict
        Word, reason, advice.

    Raises
    ------
    UsageError
        If `risk` is no probability or there is no objective.
    """
    if not 0 < risk < 1:
        raise UsageError(f"risk must lie between 0 and 1, got {risk:g}")
    if not objectives:
        raise UsageError("no objective given; add for example --slo ttft.p99=300ms")
    learn = (
        "observe this deployment and update the posterior"
        if prediction.mode == "cold"
        else "observe a longer run, or lower the rate a little"
    )
    rows = miss_probabilities(prediction, objectives)
    return verdict_of(rows, len(objectives), prediction.p_saturated, risk, learn)


def verdict_of(
    rows: Sequence[Miss], n_objective: int, p_saturated: float, risk: float, learn: str
) -> Verdict:
    """Verdict on P(miss) of objectives.

    Parameters
    ----------
    rows : sequence of Miss
        One an objective; for several, the joint one last.
    n_objective : int
        How many are objectives.
    p_saturated : float
        Share of draws beyond the stability boundary.
    risk : float
        Accepted P(miss).
    learn : str
        Advice where the spread decides.

    Returns
    -------
    Verdict
        Word, reason, advice.
    """
    joint = rows[-1].p_miss
    worst = max(rows[:n_objective], key=lambda row: row.p_miss)
    if p_saturated > MAX_SATURATED:
        return Verdict(
            word="no",
            reason=f"saturated in {p_saturated:.0%} of the draws: the queue never ends",
            advice="lower the rate, add replicas or TP, or shorten prompts and outputs",
        )
    if joint <= risk:
        return Verdict(
            word="yes",
            reason=f"P(miss) {joint:.1%} is within the accepted {risk:.0%}",
            advice="record the first traffic with tailcast observe",
        )
    if joint > 0.5:
        return Verdict(
            word="no",
            reason=f"{worst.label} is missed in {worst.p_miss:.0%} of the draws",
            advice="more TP or replicas, a faster accelerator, or a looser objective",
        )
    return Verdict(
        word="unsure",
        reason=f"P(miss) {joint:.0%} is above the accepted {risk:.0%}; most of it is {worst.label}",
        advice=learn,
    )
