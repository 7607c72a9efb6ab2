"""Page of an evaluation: coverage, errors, predicted against observed."""

from collections.abc import Mapping, Sequence
from typing import Any

from tailcast.report.page.charts import Axis, against, bars, figure, line
from tailcast.report.page.frame import answer, bullets, page, section, table
from tailcast.report.page.risk import duration, percent

_LEVELS = (("q25", "q75", 0.5), ("q10", "q90", 0.8), ("q05", "q95", 0.9))
_STATISTICS = ("mean", "p50", "p90")


def scores_page(content: Mapping[str, Any]) -> str:
    """Page of the contract ``tailcast/evaluate/1``.

    Parameters
    ----------
    content : mapping
        As `tailcast evaluate --format json` writes it.

    Returns
    -------
    str
        HTML.
    """
    records = [r for r in content["records"] if "error" not in r]
    failed = [r for r in content["records"] if "error" in r]
    body = [r for r in records if r["statistic"] in _STATISTICS]
    experiments = {r["experiment"] for r in records}
    held = [r for r in body if r["q05"] <= r["observed"] <= r["q95"]]
    error = _median([abs(r["q50"] / r["observed"] - 1) for r in body])
    share = len(held) / len(body) if body else float("nan")
    tone = "good" if 0.8 <= share <= 0.98 else "wait"
    sections = [
        answer(
            f"90 % intervals hold {len(held)} of {len(body)} means, medians and P90s "
            f"({percent(share)}); the median error is {percent(error)}.",
            tone=tone,
            small=f"{len(experiments)} runs that were predicted blind"
            + (f"; {len(failed)} could not be simulated." if failed else "."),
        ),
        section("Predicted against observed", *_clouds(body)),
        section("Calibration", _coverage(body), _pit(body)),
        section("By statistic", _summary(content["summary"])),
        section("Runs", _runs(records)),
        section("Not simulated", bullets([f"{r['experiment']}: {r['error']}" for r in failed])),
    ]
    name = content["posterior"]["name"]
    return page("Evaluation", f"Posterior {name} against runs it was not fitted to.", sections)


def _median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    n = len(ordered)
    return (ordered[(n - 1) // 2] + ordered[n // 2]) / 2 if n else float("nan")


def _clouds(records: Sequence[Mapping[str, Any]]) -> list[str]:
    parts = []
    for metric in dict.fromkeys(r["metric"] for r in records):
        own = [r for r in records if r["metric"] == metric]
        values = [v for r in own for v in (r["observed"], r["q05"], r["q95"]) if v > 0]
        low, high = min(values) / 1.15, max(values) * 1.15
        x = Axis(label=f"observed {metric}", low=low, high=high, log=True, show=duration)
        y = Axis(label=f"predicted {metric}", low=low, high=high, log=True, show=duration)
        rows = [(r["observed"], r["q05"], r["q50"], r["q95"]) for r in own]
        parts.append(
            figure(
                against(x, y, rows),
                title=f"{metric}: predicted against observed",
                caption=f"{metric}: medians with 90 % intervals; on the dotted line a prediction "
                "is right.",
            )
        )
    return parts


def _coverage(records: Sequence[Mapping[str, Any]]) -> str:
    points = [(0.0, 0.0)]
    for low, high, level in _LEVELS:
        inside = [r[low] <= r["observed"] <= r[high] for r in records]
        points.append((level, sum(inside) / max(len(inside), 1)))
    points.append((1.0, 1.0))
    axis = {"low": 0.0, "high": 1.0, "show": lambda v: f"{100 * v:.0f} %"}
    x, y = Axis(label="nominal", **axis), Axis(label="held", **axis)  # type: ignore[arg-type]
    ideal = [(0.0, 0.0), (1.0, 1.0)]
    drawn = line(x, y, points) + line(x, y, ideal).replace('class="ink"', 'class="ideal"')
    return figure(
        drawn,
        title="Coverage of central intervals",
        caption="Share of observations inside 50, 80 and 90 % intervals; dotted: nominal. Above it "
        "intervals are wider than they need to be, below it they are too narrow.",
    )


def _pit(records: Sequence[Mapping[str, Any]]) -> str:
    counts = [0] * 5
    for r in records:
        counts[min(int(r["pit"] * 5), 4)] += 1
    top = max(*counts, 1)
    x = Axis(label="PIT", low=0.0, high=1.0)
    y = Axis(label="records", low=0.0, high=1.15 * top)
    return figure(
        bars(x, y, counts, ideal=len(records) / 5),
        title="Probability integral transform",
        caption="Where observations lie in their predictive distributions; flat is calibrated.",
    )


def _summary(rows: Sequence[Mapping[str, Any]]) -> str:
    header = ["metric", "statistic", "n", "median error", "50 %", "80 %", "90 %", "90 % width"]
    cells = [
        [
            row["metric"],
            row["statistic"],
            str(row["n"]),
            percent(row["median_ape"]),
            *(f"{row[f'coverage{p}']:.2f}" for p in (50, 80, 90)),
            f"x{2.718281828 ** row['mean_log_width90']:.2f}",
        ]
        for row in rows
    ]
    return table(header, cells)


def _runs(records: Sequence[Mapping[str, Any]]) -> str:
    header = ["run", "stage", "metric", "statistic", "observed", "median", "90 % interval", "error"]
    cells = [
        [
            str(r["experiment"]),
            str(r["stage"]),
            r["metric"],
            r["statistic"],
            duration(r["observed"]),
            duration(r["q50"]),
            f"{duration(r['q05'])} .. {duration(r['q95'])}",
            f"{100 * (r['q50'] / r['observed'] - 1):+.1f} %",
        ]
        for r in records
        if r["statistic"] == "mean"
    ]
    return table(header, cells)
