"""Page of an SLO assessment: the answer, the chances, the risk curve, what it leans on."""

from collections.abc import Mapping
from typing import Any

from tailcast.report.page.charts import Axis, figure, line
from tailcast.report.page.frame import answer, bullets, page, paragraph, section, table
from tailcast.units import format_duration

_TONE = {"yes": "good", "no": "bad"}
_NAMES = {
    "coefficients": "coefficients",
    "discrepancy": "discrepancy of the law",
    "workload": "which requests arrive",
    "finite_run": "length of the run",
}


def risk_page(content: Mapping[str, Any]) -> str:
    """Page of the contract ``tailcast/slo/1``.

    Parameters
    ----------
    content : mapping
        As `tailcast slo --format json` writes it.

    Returns
    -------
    str
        HTML.
    """
    verdict, inputs = content["verdict"], content["inputs"]
    title = f"{inputs['model']} on {inputs['tensor_parallel']} x {inputs['gpu']}" + (
        f", {inputs['replicas']} replicas" if inputs.get("replicas", 1) > 1 else ""
    )
    chance = f"P(miss) {percent(verdict['p_miss'])} +- {percent(verdict['mcse'])}"
    sections = [
        answer(
            f"{verdict['word'].upper()}: {verdict['reason']}",
            tone=_TONE.get(verdict["word"], "wait"),
            small=f"{chance}, accepted {percent(verdict['risk'])}. Do: {verdict['advice']}.",
        ),
        section("Objectives", _objectives(content)),
        *(_curve(curve, verdict["risk"]) for curve in content["curves"]),
        section("Where the spread comes from", _sources(content)),
        section("What it leans on", bullets(content["warnings"]) or paragraph("Nothing unusual.")),
        section("How it was made", *_made(content)),
    ]
    subtitle = f"Will it hold {', '.join(inputs['objectives'])}? Posterior {inputs['posterior']}."
    return page(title, subtitle, sections)


def percent(value: float | None) -> str:
    """A probability for people.

    Parameters
    ----------
    value : float or None
        Between 0 and 1.

    Returns
    -------
    str
        In per cent; a dash where there is none.
    """
    return "-" if value is None else f"{100 * value:.1f} %"


def duration(value: float | None) -> str:
    """A latency for people.

    Parameters
    ----------
    value : float or None
        Seconds.

    Returns
    -------
    str
        With its unit; a dash where there is none.
    """
    return "-" if value is None else format_duration(value)


def _objectives(content: Mapping[str, Any]) -> str:
    interval = f"{100 * content['ci_prob']:.0f} % interval"
    header = ["objective", "median", interval, "next run misses", "long run misses", "law alone"]
    rows = []
    for own in content["objectives"]:
        shown = duration if own["metric"] != "goodput" else _plain
        span = f"{shown(own['low'])} .. {shown(own['high'])}"
        rows.append(
            [
                own["objective"],
                shown(own["median"]),
                "-" if own["low"] is None else span,
                *(
                    percent(own[f"p_miss_{name}"]["p_miss"])
                    for name in ("window", "process", "window_law_only")
                ),
            ]
        )
    if len(rows) > 1:
        chances = [
            percent(content["joint"][f"p_miss_{name}"]["p_miss"])
            for name in ("window", "process", "window_law_only")
        ]
        rows.append(["any of them", "", "", *chances])
    return table(header, rows) + paragraph(
        f"Next run: the statistic that a run of {content['n_request']} requests will show. Long "
        "run: the share of requests beyond the target in the process itself. Law alone: without "
        "the discrepancy that real servers have shown.",
        soft=True,
    )


def _plain(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _curve(curve: Mapping[str, Any], risk: float) -> str:
    points = [(p["at"], p["p_miss"]) for p in curve["points"] if p["p_miss"] is not None]
    if len(points) < 2:
        return ""
    over = curve["over"]
    unit = {"rate": "rate, requests/s", "target": "target, times the stated one"}.get(over, over)
    x = Axis(label=unit, low=points[0][0], high=points[-1][0], show=lambda v: f"{v:.4g}")
    y = Axis(label="P(miss)", low=0.0, high=1.0, show=lambda v: f"{100 * v:.0f} %")
    band = [
        (p["at"], max(p["p_miss"] - 2 * p["mcse"], 0.0), min(p["p_miss"] + 2 * p["mcse"], 1.0))
        for p in curve["points"]
        if p["p_miss"] is not None
    ]
    caption = f"Chance to miss any objective; dashed: accepted {percent(risk)}. Band: Monte Carlo."
    edge = curve.get("largest")
    if edge and edge["value"] is not None:
        caption += f" Largest rate that holds: {edge['value']:.3g} requests/s"
        if edge["low"] is not None:
            caption += f" ({edge['low']:.3g} .. {edge['high']:.3g})"
        caption += "."
    if curve.get("fewest") is not None:
        caption += f" Fewest replicas that hold: {curve['fewest']}."
    drawn = figure(
        line(x, y, points, band=band, limit=risk), title=f"P(miss) over {over}", caption=caption
    )
    return section(f"Risk over {over}", drawn)


def _sources(content: Mapping[str, Any]) -> str:
    rows = []
    for own in content["objectives"]:
        total = sum(own["log_variance"].values())
        if total > 0:
            shares = [percent(own["log_variance"][name] / total) for name in _NAMES]
            rows.append([own["objective"], *shares])
    return table(["share of the log variance of", *_NAMES.values()], rows)


def _made(content: Mapping[str, Any]) -> list[str]:
    inputs = content["inputs"]
    engine = inputs["engine"]
    lines = [
        f"{content['draws']} posterior draws, each with its own workload of "
        f"{content['n_request']} requests; {100 * content['ci_prob']:.0f} % equal-tailed "
        "intervals.",
        f"Prediction mode: {content['mode']}; median load {content['load']:.2f} of capacity; "
        f"saturated in {percent(content['p_saturated'])} of the draws.",
        f"{engine['name']} {engine['version']}, max_num_seqs {engine['max_num_seqs']}, "
        f"max_num_batched_tokens {engine['max_num_batched_tokens']}, "
        f"{inputs['kv_blocks']} KV blocks.",
        *inputs.get("assumptions", []),
        f"Seed {inputs['seed']}: the same inputs give the same page.",
    ]
    return [bullets(lines)]
