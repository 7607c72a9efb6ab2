"""An evaluation for people."""

from tailcast.evaluation import Evaluation


def evaluation_rows(evaluation: Evaluation) -> tuple[list[str], list[list[str]]]:
    """Scores by metric and statistic.

    Parameters
    ----------
    evaluation : Evaluation
        Scored predictions.

    Returns
    -------
    tuple
        Header and rows of text.
    """
    header = [
        "metric",
        "stat",
        "n",
        "median error",
        "mean error",
        "bias",
        "in 50 %",
        "in 80 %",
        "in 90 %",
        "90 % width",
        "CRPS",
    ]
    rows = [
        [
            s.metric,
            s.statistic,
            str(s.n),
            f"{s.median_ape:.1%}",
            f"{s.mean_ape:.1%}",
            f"{s.bias:+.1%}",
            f"{s.coverage50:.2f}",
            f"{s.coverage80:.2f}",
            f"{s.coverage90:.2f}",
            f"x{2.718281828**s.mean_log_width90:.2f}",
            f"{s.mean_crps:.1%}",
        ]
        for s in evaluation.summary
    ]
    return header, rows


def evaluation_text(evaluation: Evaluation) -> str:
    """Lines under the table.

    Parameters
    ----------
    evaluation : Evaluation
        Scored predictions.

    Returns
    -------
    str
        What was counted and what the columns mean.
    """
    runs = {r.experiment for r in evaluation.records}
    outside = {r.experiment for r in evaluation.records if r.extrapolates}
    lines = [
        f"{len(evaluation.records)} statistics of {len(runs)} experiments, posterior "
        f"{evaluation.posterior.name}. Error: |predictive median - observed| / observed; "
        "bias: median log ratio; width: ratio of the ends of the 90 % interval; CRPS as a share "
        "of the observation.",
    ]
    if outside:
        lines.append(f"Outside the fitted range: {', '.join(sorted(outside))}.")
    for same in evaluation.duplicates:
        lines.append(f"Counted once: {', '.join(same)} are the same run.")
    return "\n".join(lines)
