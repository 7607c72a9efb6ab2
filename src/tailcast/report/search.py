"""The answer of a search for people and for programs."""

import math
from typing import Any

import numpy as np

from tailcast.report.prediction import interval
from tailcast.search.gate import Confirmed
from tailcast.search.measure import Worth
from tailcast.search.race import DEARER, HALVED, INFEASIBLE, LIVE, TIED, UNPROVEN, WORSE
from tailcast.search.search import SearchResult

SCHEMA = "tailcast/search/1"

_REASONS = {
    INFEASIBLE: "miss too often",
    WORSE: "beaten at no higher cost",
    TIED: "no better than the leader by more than the zone",
    HALVED: "left out by the budget",
    UNPROVEN: "not shown to hold the risk on fresh blocks",
    DEARER: "dearer than the chosen one",
    LIVE: "still in the race",
}
_MOST_REASONS = 5
_MOST_RUNS = 4


def search_rows(found: SearchResult, ci_prob: float) -> tuple[list[str], list[list[str]]]:
    """Table of whoever was evaluated on fresh blocks.

    Parameters
    ----------
    found : SearchResult
        Answer.
    ci_prob : float
        Mass of the interval of the ranking statistic.

    Returns
    -------
    tuple
        Header and rows of text; P(miss) and the statistic are of fresh blocks alone.
    """
    header = ["", "candidate", f"cost, {found.study.settings.currency}", "P(miss)", "P(miss) <="]
    header += [found.question.ranked.name, f"{100 * ci_prob:g} % interval", "capacity, req/s"]
    rows = []
    confirmed = _confirmed(found)
    chosen = _chosen(found)
    for k, outcomes in found.outcomes.items():
        candidate = found.space.candidates[k]
        own = confirmed.get(k)
        missed = outcomes.missed(found.question).any(axis=1)
        p_miss = own.p_miss if own else float(missed.mean())
        ranked = found.question.ranked
        middle, low, high = _statistic(found, k, ci_prob)
        rows.append(
            [
                "*" if k == chosen else "",
                _short_label(found, k),
                f"{candidate.cost:.4g}",
                f"{p_miss:.1%}",
                f"{own.p_miss_high:.1%}" if own else "",
                ranked.show(middle),
                f"{ranked.show(low)} .. {ranked.show(high)}",
                f"{found.capacity[k]:.3g}" if math.isfinite(found.capacity[k]) else "any",
            ]
        )
    return header, rows


def _short_label(found: SearchResult, k: int) -> str:
    """Values of the axes that have more than one."""
    space = found.study.settings.space
    values = found.space.candidates[k].values
    parts = [f"{axis} {value}" for axis, value in values.items() if len(space[axis]) > 1]
    return ", ".join(parts) or found.space.candidates[k].label


def _confirmed(found: SearchResult) -> dict[int, Confirmed]:
    confirmed = found.decision.confirmed if found.decision else ()
    confirmed += tuple(member.confirmed for member in found.front)
    return {c.candidate: c for c in confirmed}


def _chosen(found: SearchResult) -> int | None:
    winner = found.decision.winner if found.decision else None
    return winner.candidate if winner else None


def _statistic(found: SearchResult, k: int, ci_prob: float) -> tuple[float, float, float]:
    """Ranking statistic over stable fresh blocks; none where most are saturated."""
    outcomes = found.outcomes[k]
    if np.mean(~outcomes.stable) > 0.5:
        return interval(np.full(1, np.nan), ci_prob)
    return interval(outcomes.value[outcomes.stable, -1], ci_prob)


def search_text(found: SearchResult, ci_prob: float) -> list[str]:
    """Lines around the table: the answer, comparisons, how the field was narrowed, invalid ones.

    Parameters
    ----------
    found : SearchResult
        Answer.
    ci_prob : float
        Mass of intervals.

    Returns
    -------
    list of str
        One sentence each.
    """
    lines = _answer_lines(found)
    if found.decision is not None and found.decision.winner is not None:
        lines += _comparison_lines(found, ci_prob)
    lines += run_lines(found.next_runs)
    lines.append(_field_line(found))
    if found.space.n_invalid:
        lines.append(f"{found.space.n_invalid} combinations cannot exist:")
        reasons = list(found.space.invalid.items())
        lines += [f"  {n} x {reason}" for reason, n in reasons[:_MOST_REASONS]]
        if len(reasons) > _MOST_REASONS:
            rest = sum(n for _, n in reasons[_MOST_REASONS:])
            lines.append(f"  {rest} x {len(reasons) - _MOST_REASONS} other reasons (in the JSON)")
    modes = sorted({_mode(known) for known in found.known_deployment.values()})
    names = sorted({candidate.posterior for candidate in found.space.candidates})
    lines.append(
        f"{' and '.join(modes) or 'cold'} predictions by posterior {', '.join(names)}; P(miss) is "
        "of fresh blocks, its bound covers Monte Carlo error alone."
    )
    return lines


def _mode(known: bool) -> str:
    return "transfer" if known else "cold"


def _answer_lines(found: SearchResult) -> list[str]:
    risk = found.study.terms.risk
    if found.study.settings.goal == "pareto":
        held = sum(member.holds for member in found.front)
        return [
            f"FRONT: {len(found.front)} candidates that none beats on cost, P(met) and capacity at "
            f"once; {held} of them are shown to hold the risk of {risk:.0%}."
            if found.front
            else "nothing met the objectives: no candidate meets them more often than not.",
            *_sustained_lines(found),
        ]
    winner = found.decision.winner if found.decision else None
    if winner is None:
        return [_nothing_line(found), *_sustained_lines(found)]
    candidate = found.space.candidates[winner.candidate]
    law = found.law_p_miss
    lines = [
        f"CHOSEN: {candidate.fleet.title}: {candidate.label}; {candidate.cost:.4g} "
        f"{found.study.settings.currency}.",
        f"P(miss) {winner.p_miss:.1%} +- {winner.mcse:.1%} on {winner.n_block} fresh blocks, at "
        f"most {winner.p_miss_high:.1%} (one-sided bound over all finalists; accepted {risk:.0%}); "
        f"by the latency law alone {law:.1%}.",
    ]
    if law <= risk < winner.p_miss:
        lines.append("It holds the risk only if the latency law is exactly right.")
    return lines


def _nothing_line(found: SearchResult) -> str:
    sustained = found.sustained
    if sustained is not None and sustained.p_saturated > 0.5:
        return (
            "nothing met the objectives: at the requested rate every candidate is beyond its "
            "stability boundary; no latency is stated."
        )
    open_ = [c for c in _confirmed(found).values() if c.p_miss <= found.study.terms.risk]
    if open_:
        n = max(c.n_block for c in open_)
        return (
            f"nothing met the objectives: the best candidate misses {open_[0].p_miss:.1%}, too "
            f"close to the accepted {found.study.terms.risk:.0%} to be shown with {n} blocks; "
            "raise confirm, or leave more headroom."
        )
    risk = found.study.terms.risk
    least = min(
        (float(o.missed(found.question).any(axis=1).mean()) for o in found.outcomes.values()),
        default=1.0,
    )
    why = (
        "its median meets them, so the spread decides"
        if risk < least <= 0.5
        else "its median misses them"
        if least > 0.5
        else "too close to be shown"
    )
    return (
        f"nothing met the objectives: the best candidate misses in {least:.0%} of fresh blocks, "
        f"accepted are {risk:.0%}; {why}."
    )


def _sustained_lines(found: SearchResult) -> list[str]:
    sustained = found.sustained
    if sustained is None:
        return []
    title = found.space.candidates[sustained.candidate]
    risk = found.study.terms.risk
    if sustained.held.value > 0:
        line = (
            f"Largest sustainable rate: {sustained.held.value:.3g} req/s "
            f"[{sustained.held.low:.3g}, {sustained.held.high:.3g}] at P(miss) <= {risk:.0%}"
        )
    else:
        line = f"No rate holds P(miss) <= {risk:.0%}: a lone request is too slow already"
    return [
        f"{line}, by {title.fleet.title} ({title.label}); its stability boundary lies at "
        f"{sustained.boundary:.3g} req/s."
    ]


def _comparison_lines(found: SearchResult, ci_prob: float) -> list[str]:
    decision = found.decision
    if decision is None or decision.winner is None:
        return []
    lines = []
    own = found.space.candidates[decision.winner.candidate]
    for k, comparison in decision.comparisons.items():
        other = found.space.candidates[k]
        names = [_apart(own.values, other.values), _apart(other.values, own.values)]
        lines.append(
            f"{found.question.ranked.name}: "
            + comparison.sentence(names[0], names[1], ci_prob=ci_prob)
            + ("." if other.cost == own.cost else f"; cost {other.cost:.4g}.")
        )
    if math.isfinite(decision.p_best):
        lines.append(
            f"P(best of its cost within {found.study.settings.zone:.0%}) {decision.p_best:.2f}, "
            f"expected regret {decision.regret:.1%} of {found.question.ranked.name}."
        )
    return lines


def _apart(own: Any, other: Any) -> str:
    """Values in which a candidate differs from another."""
    parts = [f"{axis} {value}" for axis, value in own.items() if other.get(axis) != value]
    return ", ".join(parts) or "itself"


def _field_line(found: SearchResult) -> str:
    counts = {reason: found.race.status.count(reason) for reason in _REASONS}
    parts = ", ".join(f"{n} {_REASONS[reason]}" for reason, n in counts.items() if n)
    share = found.race.runs / found.n_exhaustive
    return (
        f"{len(found.space.candidates)} candidates: {parts}. The race took "
        f"{found.race.runs:.0f} runs, {share:.1%} of {found.n_exhaustive}."
    )


def run_lines(worth: tuple[Worth, ...]) -> list[str]:
    """What to observe next.

    Parameters
    ----------
    worth : tuple of Worth
        The best first.

    Returns
    -------
    list of str
        One sentence each; empty where there is nothing to say.
    """
    if not worth:
        return []
    lines = [f"Observe next: {worth[0].option.label}."]
    for one in worth[:_MOST_RUNS]:
        lines.append(
            f"  {one.option.label}: settles the decision with P = {one.p_settle:.2f} "
            f"+- {one.mcse:.2f}, changes it with P = {one.p_flip:.2f}."
        )
    return lines


def _comparisons_json(found: SearchResult) -> list[dict[str, Any]]:
    return [
        {
            "other": found.space.candidates[k].values,
            "gain": c.gain,
            "low": c.low,
            "high": c.high,
            "p_better": c.p_better,
            "mean_log_ratio": c.mean_log_ratio,
            "half_width": c.half_width,
            "blocks": c.n_block,
        }
        for k, c in (found.decision.comparisons if found.decision else {}).items()
    ]


def search_json(found: SearchResult, ci_prob: float, inputs: dict[str, Any]) -> dict[str, Any]:
    """The contract ``tailcast/search/1``; seconds, requests/s, shares.

    Parameters
    ----------
    found : SearchResult
        Answer.
    ci_prob : float
        Mass of intervals.
    inputs : dict
        What was asked.

    Returns
    -------
    dict
        Ready for `json.dumps`.
    """
    decision = found.decision
    return {
        "schema": SCHEMA,
        "inputs": inputs,
        "found": found.is_found,
        "answer": search_text(found, ci_prob)[0],
        "chosen": _candidate_json(found, _chosen(found), ci_prob),
        "evaluated": [_candidate_json(found, k, ci_prob) for k in found.outcomes],
        "comparisons": _comparisons_json(found),
        "p_best": decision.p_best if decision else math.nan,
        "expected_regret": decision.regret if decision else math.nan,
        "p_miss_law_only": found.law_p_miss,
        "front": [
            {
                "values": found.space.candidates[m.candidate].values,
                "cost": m.cost,
                "capacity": m.capacity,
                "p_met": m.p_met,
                "p_met_low": m.p_met_low,
                "p_met_high": m.p_met_high,
                "holds": m.holds,
            }
            for m in found.front
        ],
        "sustained": _sustained_json(found),
        "next_runs": worth_json(found.next_runs),
        "candidates": {
            "n": len(found.space.candidates),
            "by_status": {
                reason: found.race.status.count(reason) for reason in dict.fromkeys(_REASONS)
            },
            "invalid": dict(found.space.invalid),
        },
        "race": {
            "runs": found.race.runs,
            "exhaustive_runs": found.n_exhaustive,
            "rungs": [
                {
                    "cost": r.cost,
                    "blocks": r.n_block,
                    "before": r.n_before,
                    "after": r.n_after,
                    "runs": r.runs,
                }
                for r in found.race.rungs
            ],
        },
        "ci_prob": ci_prob,
        "ci_kind": "eti",
    }


def _candidate_json(found: SearchResult, k: int | None, ci_prob: float) -> dict[str, Any] | None:
    if k is None:
        return None
    candidate, outcomes = found.space.candidates[k], found.outcomes[k]
    own = _confirmed(found).get(k)
    middle, low, high = _statistic(found, k, ci_prob)
    missed = outcomes.missed(found.question)
    return {
        "values": dict(candidate.values),
        "title": candidate.fleet.title,
        "cost": candidate.cost,
        "accelerators": candidate.fleet.n_accelerators,
        "posterior": candidate.posterior,
        "mode": _mode(found.known_deployment[k]),
        "p_miss": own.p_miss if own else float(missed.any(axis=1).mean()),
        "p_miss_high": own.p_miss_high if own else math.nan,
        "p_miss_by_objective": {
            str(o): float(missed[:, j].mean()) for j, o in enumerate(found.question.objectives)
        },
        "passed": own.passed if own else None,
        "fresh_blocks": own.n_block if own else len(outcomes),
        "p_saturated": float(np.mean(~outcomes.stable)),
        "statistic": found.question.ranked.name,
        "median": middle,
        "low": low,
        "high": high,
        "capacity": found.capacity[k],
    }


def _sustained_json(found: SearchResult) -> dict[str, Any] | None:
    sustained = found.sustained
    if sustained is None:
        return None
    return {
        "values": dict(found.space.candidates[sustained.candidate].values),
        "rate": sustained.held.value,
        "low": sustained.held.low,
        "high": sustained.held.high,
        "stability_boundary": sustained.boundary,
        "p_saturated": sustained.p_saturated,
    }


def worth_json(worth: tuple[Worth, ...]) -> list[dict[str, Any]]:
    """Runs that could be observed, the best first.

    Parameters
    ----------
    worth : tuple of Worth
        As ranked.

    Returns
    -------
    list of dict
        Ready for `json.dumps`.
    """
    return [
        {
            "run": one.option.label,
            "p_settle": one.p_settle,
            "mcse": one.mcse,
            "p_flip": one.p_flip,
            "p_none": one.p_none,
            "expected_saving": one.saving,
            "effective_draws": one.ess,
            "noise_widening": one.widening,
        }
        for one in worth
    ]


def worth_rows(worth: tuple[Worth, ...]) -> tuple[list[str], list[list[str]]]:
    """Table of runs that could be observed.

    Parameters
    ----------
    worth : tuple of Worth
        The best first.

    Returns
    -------
    tuple
        Header and rows of text.
    """
    header = ["observe", "P(settles)", "P(changes)", "P(none holds)", "saves", "draws left"]
    rows = [
        [
            one.option.label,
            f"{one.p_settle:.2f} +- {one.mcse:.2f}",
            f"{one.p_flip:.2f}",
            f"{one.p_none:.2f}",
            f"{one.saving:.3g}" if math.isfinite(one.saving) else "n/a",
            f"{one.ess:.0f}",
        ]
        for one in worth
    ]
    return header, rows
