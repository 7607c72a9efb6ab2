"""A fit of the three numbers for people and for JSON."""

from typing import Any

import numpy as np

from tailcast.inference.queue_summary import QueueSummary
from tailcast.queueing.parameter_prior import NAMES
from tailcast.queueing.server import Floats
from tailcast.units import format_duration

_MEANING = {
    "alpha": "overhead of a step",
    "beta": "compute of a token",
    "gamma": "KV read of a token, a step",
}
_SHARES = {"compute": "of peak FLOP/s", "kv_read": "of memory bandwidth, KV"}
_METRICS = {"ttft": "TTFT", "itl": "ITL"}


def _three(values: Floats, ci_prob: float) -> tuple[float, float, float]:
    tails = [0.5, (1 - ci_prob) / 2, (1 + ci_prob) / 2]
    middle, low, high = (float(q) for q in np.quantile(values, tails))
    return middle, low, high


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def fit_rows(summary: QueueSummary, ci_prob: float) -> tuple[list[str], list[list[str]]]:
    """A fit as rows: unknowns, then what follows from them.

    Parameters
    ----------
    summary : QueueSummary
        Of the fit.
    ci_prob : float
        Mass of the equal-tailed interval.

    Returns
    -------
    tuple
        Header and rows of text; the last column says how much of the prior's spread is left.
    """
    draws, rows = summary.fit.draws, []
    for place, name in enumerate(NAMES):
        cells = [format_duration(v) for v in _three(np.exp(draws.log_numbers[:, place]), ci_prob)]
        left = summary.log_sd[place] / summary.prior_log_sd[place]
        rows.append([name, _MEANING[name], *cells, f"{left:.0%}"])
    cells = [format_duration(v) for v in _three(draws.overhead, ci_prob)]
    rows.append(["overhead", "of the client, in TTFT", *cells, ""])
    for place, label in enumerate(_METRICS.values()):
        total = np.hypot(draws.window_scale[:, place], draws.shape_scale[:, place])
        cells = [f"{v:.1%}" for v in _three(total, ci_prob)]
        rows.append([f"discrepancy {label}", "of the chain, sd of the log", *cells, ""])
    for name, values in summary.shares.items():
        cells = [f"{v:.0%}" for v in _three(values, ci_prob)]
        rows.append([f"share {name}", _SHARES[name], *cells, ""])
    prompt, output = float(summary.shape.tokens_in), float(summary.shape.tokens_out)
    cells = [f"{v:.4g} /s" for v in _three(summary.capacity.rate, ci_prob)]
    where = f"at {prompt:.0f}/{output:.0f} tokens, {summary.capacity.binding} binds"
    rows.append(["capacity of one", where, *cells, ""])
    return ["quantity", "what", "median", "low", "high", "of prior sd"], rows


def fit_notes(summary: QueueSummary, ci_prob: float) -> list[str]:
    """What stands below the table.

    Parameters
    ----------
    summary : QueueSummary
        Of the fit.
    ci_prob : float
        Mass of the intervals.

    Returns
    -------
    list of str
        One sentence each.
    """
    made = [
        f"{_count(summary.n_window, 'window')} of {_count(len(summary.shapes), 'shape')}; prior: "
        f"{summary.fit.prior.source}. Intervals: {ci_prob:.0%} equal-tailed.",
    ]
    for metric, fitted in summary.fitted.items():
        if fitted.n:
            made.append(
                f"{_METRICS[metric]}: error {fitted.error:.1%} of the mean over "
                f"{_count(fitted.n, 'window')}, {fitted.coverage90:.0%} of them inside their "
                "90 % interval (in sample)."
            )
    made.append(
        f"r-hat {summary.rhat:.3f}, least bulk ESS {summary.ess:.0f}, "
        f"{summary.divergences} divergences."
    )
    return [*made, *summary.remarks]


def fit_json(summary: QueueSummary, ci_prob: float) -> dict[str, Any]:
    """A fit as plain content in SI units.

    Parameters
    ----------
    summary : QueueSummary
        Of the fit.
    ci_prob : float
        Mass of the intervals.

    Returns
    -------
    dict
        For `emit_json`.
    """
    draws = summary.fit.draws

    def interval(values: Floats, unit: str) -> dict[str, Any]:
        middle, low, high = _three(values, ci_prob)
        return {"median": middle, "low": low, "high": high, "unit": unit}

    numbers = {
        name: {
            **interval(np.exp(draws.log_numbers[:, place]), "s" if place == 0 else "s/token"),
            "prior_log_sd": float(summary.prior_log_sd[place]),
            "log_sd": float(summary.log_sd[place]),
        }
        for place, name in enumerate(NAMES)
    }
    advice = summary.advice
    return {
        "schema": "tailcast/queue-fit-summary/1",
        "n_window": summary.n_window,
        "shapes": list(summary.shapes),
        "prior": summary.fit.prior.source,
        "ci_prob": ci_prob,
        "numbers": numbers,
        "overhead": interval(draws.overhead, "s"),
        "discrepancy": {
            metric: {
                "window": interval(draws.window_scale[:, place], "1"),
                "shape": interval(draws.shape_scale[:, place], "1"),
            }
            for place, metric in enumerate(_METRICS)
        },
        "datasheet_shares": {name: interval(v, "1") for name, v in summary.shares.items()},
        "fitted": {
            metric: {"n": f.n, "error": f.error, "coverage90": f.coverage90}
            for metric, f in summary.fitted.items()
        },
        "capacity": {
            **interval(summary.capacity.rate, "requests/s"),
            "tokens_in": float(summary.shape.tokens_in),
            "tokens_out": float(summary.shape.tokens_out),
            "binding": summary.capacity.binding,
            "p_infeasible": summary.capacity.p_infeasible,
        },
        "unseen": [{"name": d.name, "sd_ratio": d.sd_ratio} for d in summary.unseen],
        "next_measurement": None
        if advice is None
        else {
            "tokens_in": advice.tokens_in,
            "tokens_out": advice.tokens_out,
            "rate": advice.rate,
            "capacity_log_sd_before": advice.log_sd_before,
            "capacity_log_sd_after": advice.log_sd_after,
        },
        "diagnostics": {
            "rhat": summary.rhat,
            "ess_bulk": summary.ess,
            "divergences": summary.divergences,
        },
    }
