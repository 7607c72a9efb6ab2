"""Tables of a comparison of latency models."""

from tailcast.inference.model_comparison import ModelComparison, residual_patterns, scores
from tailcast.report.tables import render_rows

_SHOWN = (("e2e", "mean"), ("e2e", "p90"), ("e2e", "p99"))
_TTFT = (("ttft", "mean"), ("ttft", "p90"), ("ttft", "p99"))


def compare_rows(found: ModelComparison) -> tuple[list[str], list[list[str]]]:
    """One row a latency model.

    Parameters
    ----------
    found : ModelComparison
        Best first.

    Returns
    -------
    list of str
        Header.
    list of list of str
        Cells.
    """
    header = ["latency model", "elpd", "against best", "CRPS ttft", "CRPS e2e", "covered 90 %"]
    rows = []
    for k, own in enumerate(found.judged):
        by_key = {(row["metric"], row["statistic"]): row for row in scores(own)}
        gap, error = found.difference(k)
        crps = [
            sum(by_key[key]["crps"] for key in keys if key in by_key) / max(len(keys), 1)
            for keys in (_TTFT, _SHOWN)
        ]
        covered = [row["coverage90"] for row in by_key.values()]
        rows.append(
            [
                own.model.name,
                f"{own.elpd.sum():.1f}",
                "best" if k == 0 else f"{gap:+.1f} +- {error:.1f}",
                *(f"{value:.4f}" for value in crps),
                f"{sum(covered) / len(covered):.2f}",
            ]
        )
    return header, rows


def compare_text(found: ModelComparison, style: str) -> str:
    """Residual patterns of every model, and how to read it all.

    Parameters
    ----------
    found : ModelComparison
        Best first.
    style : str
        ``table`` or ``markdown``.

    Returns
    -------
    str
        Several lines.
    """
    keys = [(row["group"], row["level"]) for row in residual_patterns(found.judged[0])]
    ordered = list(dict.fromkeys(keys))
    header = ["group", "level"]
    for own in found.judged:
        header += [f"{own.model.name} ttft", "e2e"]
    rows = []
    for group, level in ordered:
        cells = [group, level]
        for own in found.judged:
            pattern = {
                (r["group"], r["level"], r["metric"]): r["bias"] for r in residual_patterns(own)
            }
            for metric in ("ttft", "e2e"):
                bias = pattern.get((group, level, metric))
                cells.append("" if bias is None else f"{100 * bias:+.1f}%")
        rows.append(cells)
    n = len(found.judged[0].left_out)
    return "\n".join(
        [
            "Bias of predicted medians of means, by group:",
            "",
            render_rows(header, rows, style),
            "",
            f"elpd: log predictive density of {n} runs, each left out of an exact refit; the "
            "difference to the best with the standard error of the paired sum. A difference below "
            "two standard errors is no evidence. CRPS in log units, mean over mean, P90 and P99.",
        ]
    )
