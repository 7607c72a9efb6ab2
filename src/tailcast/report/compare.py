"""The chain beside the engine, for people and for programs."""

from collections.abc import Sequence
from typing import Any

from tailcast.crosscheck.compare import STATS, Compared
from tailcast.crosscheck.control import pooled_variance_ratio
from tailcast.units import format_duration


def compare_rows(found: Sequence[Compared]) -> tuple[list[str], list[list[str]]]:
    """Every place as a row.

    Parameters
    ----------
    found : sequence of Compared
        Places.

    Returns
    -------
    tuple
        Header and rows of text.
    """
    header = ["in/out", "cap", "load", "ttft engine", "chain", "off", "p99", "wait engine"]
    header += ["chain", "itl engine", "chain", "off", "worth ttft", "itl", "p99"]
    rows = []
    for each in found:
        case, engine, chain = each.case, each.engine, each.chain
        rows.append(
            [
                f"{case.tokens_in:g}/{case.tokens_out:g}",
                str(case.max_batch),
                f"{case.load:g}",
                format_duration(engine["ttft"]),
                format_duration(chain["ttft"]),
                _off(each.log_error["ttft"]),
                format_duration(engine["ttft_p99"]),
                format_duration(engine["wait"]),
                format_duration(chain["wait"] if chain["wait"] >= 1e-9 else 0.0),
                format_duration(engine["itl"]),
                format_duration(chain["itl"]),
                _off(each.log_error["itl"]),
                *(_worth(each.control[name].variance_ratio) for name in STATS),
            ]
        )
    return header, rows


def _off(error: tuple[float, float]) -> str:
    return f"{100 * error[0]:+.0f}±{100 * error[1]:.1f} %"


def compare_notes(found: Sequence[Compared]) -> list[str]:
    """Where the chain is off and why, and what it is worth as a control variate.

    Parameters
    ----------
    found : sequence of Compared
        Places.

    Returns
    -------
    list of str
        One sentence a line.
    """
    places: dict[str, list[str]] = {}
    for each in found:
        case = each.case
        name = f"{case.tokens_in:g}/{case.tokens_out:g}/{case.max_batch} at {case.load:g}"
        for reason in each.reasons:
            places.setdefault(reason, []).append(name)
    lines = [
        f"{reason[:1].upper() + reason[1:]}: {', '.join(names)}."
        for reason, names in places.items()
    ]
    worth = {name: pooled_variance_ratio([each.control[name] for each in found]) for name in STATS}
    lines.append(
        "Off: ln(chain/engine). Worth: engine runs that one run with the chain as its control "
        f"variate stands for; on the whole ttft {_worth(worth['ttft'])}, "
        f"itl {_worth(worth['itl'])}, ttft p99 {_worth(worth['ttft_p99'])}."
    )
    return lines


def compare_json(found: Sequence[Compared], inputs: dict[str, Any]) -> dict[str, Any]:
    """Every place for programs, in SI units.

    Parameters
    ----------
    found : sequence of Compared
        Places.
    inputs : dict
        The question.

    Returns
    -------
    dict
        Schema ``tailcast/queue-compare/1``.
    """
    return {
        "schema": "tailcast/queue-compare/1",
        "inputs": inputs,
        "places": [
            {
                "input_tokens": each.case.tokens_in,
                "output_tokens": each.case.tokens_out,
                "max_num_seqs": each.case.max_batch,
                "load": each.case.load,
                "rate": each.rate,
                "engine": each.engine,
                "chain": each.chain,
                "log_error": {
                    name: {"mean": mean, "se": error}
                    for name, (mean, error) in each.log_error.items()
                },
                "control_variate": {
                    name: {
                        "plain": c.plain,
                        "plain_se": c.plain_se,
                        "mean": c.mean,
                        "se": c.se,
                        "correlation": c.correlation,
                        "variance_ratio": c.variance_ratio,
                    }
                    for name, c in each.control.items()
                },
                "reasons": list(each.reasons),
            }
            for each in found
        ],
        "variance_ratio": {
            name: pooled_variance_ratio([each.control[name] for each in found]) for name in STATS
        },
    }


def _worth(ratio: float) -> str:
    """Two figures, whole numbers from ten."""
    return f"{ratio:.2g}" if ratio < 9.95 else f"{ratio:.0f}"
