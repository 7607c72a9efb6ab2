"""Statistics of other tools under this project's definitions; unlike ones are refused."""

import math
from collections.abc import Mapping
from itertools import pairwise

from tailcast.errors import InputError
from tailcast.traces.importers.findings import Findings
from tailcast.traces.observed import Observed, statistic_name
from tailcast.traces.run_summary import Lengths

_SAME = 0.03
_LIKE = 0.10
# A mean over requests and a ratio of means differ where lengths do.
_LIKE_OF_MEANS = 0.40


def statistic_records(
    metric: str,
    values: Mapping[str, float],
    *,
    scale: float,
    n_requests: int,
    findings: Findings,
    place: str,
) -> list[Observed]:
    """Records of one metric of one stage.

    Parameters
    ----------
    metric : str
        ``ttft``, ``itl``, ``tpot``, ``e2e`` or ``queue_delay``.
    values : mapping of str to float
        By name of the statistic, as in `observed.statistic_name`; NaN for none.
    scale : float
        Seconds per unit of the values.
    n_requests : int
        Requests of the stage.
    findings : Findings
        Takes quantiles out of order.
    place : str
        What the file calls the metric.

    Returns
    -------
    list of Observed
        In the order given; zeros are left out and noted, since no latency is zero.

    Raises
    ------
    InputError
        If a value is negative or infinite.
    """
    records = []
    for key, value in values.items():
        if math.isnan(value):
            continue
        if not (math.isfinite(value) and value >= 0):
            raise InputError(
                f"{findings.path}: {place} {key} must be finite and not negative, got {value}"
            )
        if value == 0:
            findings.note(f"zeros were left out, for example of {place} {key}: not measured")
            continue
        records.append(
            Observed(
                stage=0,
                metric=metric,
                statistic=statistic_name(key),
                value=value * scale,
                n_requests=n_requests or None,
            )
        )
    _check_order(records, findings, place)
    return records


def under_contract(
    records: list[Observed], output: Lengths, findings: Findings, place: str
) -> tuple[Observed, ...]:
    """Statistics that agree with each other under this project's definitions.

    TPOT is (mean E2E - mean TTFT)/(mean output - 1). A TPOT that is E2E by token (the first token
    included) is replaced by it; one that disagrees otherwise is refused with its percentiles, since
    it was counted in other tokens. Gaps of half that size are two events a token and are refused.

    Parameters
    ----------
    records : list of Observed
        Of one stage.
    output : Lengths
        Of the answers.
    findings : Findings
        Takes what is found.
    place : str
        What the stage is called in messages.

    Returns
    -------
    tuple of Observed
        What can be used.
    """
    mean = {r.metric: r.value for r in records if r.statistic == "mean"}
    if mean.get("ttft", 0.0) > mean.get("e2e", math.inf):
        findings.whole("order", "mean TTFT exceeds mean E2E", place)
    derived = math.nan
    if {"ttft", "e2e"} <= mean.keys() and output.mean > 1:
        derived = (mean["e2e"] - mean["ttft"]) / (output.mean - 1)
    if not derived > 0:
        return tuple(records)
    kept = list(records)
    if not _is_tpot(mean, derived, output, findings, place):
        kept = [record for record in kept if record.metric != "tpot"]
    itl = mean.get("itl")
    if itl is not None and 0.4 < itl / derived < 0.6:
        findings.whole(
            "doubled",
            f"mean gap {itl * 1e3:.4g} ms is half of (E2E - TTFT)/(output - 1): two events a token",
            f"{place} itl",
        )
        kept = [r for r in kept if r.metric != "itl"]
    if not any(r.metric == "tpot" for r in kept):
        first = next(r for r in records if r.metric == "e2e")
        kept.append(
            Observed(
                stage=0,
                metric="tpot",
                statistic="mean",
                value=derived,
                n_requests=first.n_requests,
            )
        )
        findings.note("TPOT is (mean E2E - mean TTFT)/(mean output - 1)")
    return tuple(kept)


def _is_tpot(
    mean: Mapping[str, float], derived: float, output: Lengths, findings: Findings, place: str
) -> bool:
    """Whether the mean TPOT, where there is one, is the contract's."""
    tpot = mean.get("tpot")
    if tpot is None or abs(tpot / derived - 1) <= _SAME:
        return True
    by_token = mean["e2e"] / output.mean
    if abs(tpot / by_token - 1) < _SAME and by_token > derived * (1 + _SAME):
        findings.note(f"{place}: its TPOT includes the first token; replaced by the gaps' mean")
        return False
    if abs(tpot / derived - 1) <= (_LIKE if _constant(output) else _LIKE_OF_MEANS):
        return True
    findings.whole(
        "count",
        f"TPOT {tpot * 1e3:.4g} ms, but (E2E - TTFT)/(output - 1) is {derived * 1e3:.4g} ms: other "
        "tokens were counted, or another definition",
        f"{place} tpot",
    )
    return False


def _constant(lengths: Lengths) -> bool:
    scatter = lengths.sd if math.isfinite(lengths.sd) else lengths.high - lengths.low
    return scatter <= 0.05 * lengths.mean  # False where neither is known


def _check_order(records: list[Observed], findings: Findings, place: str) -> None:
    ranked = sorted(
        ((r.quantile, r) for r in records if r.quantile is not None), key=lambda pair: pair[0]
    )
    for (_, low), (_, high) in pairwise(ranked):
        if high.value < low.value * (1 - 1e-6):
            findings.whole(
                "order",
                f"{high.statistic} ({high.value * 1e3:.4g} ms) is below {low.statistic} "
                f"({low.value * 1e3:.4g} ms)",
                place,
            )
