"""Page of a search: what to run, what it costs, what was tried."""

from collections.abc import Mapping, Sequence
from typing import Any

from tailcast.report.page.frame import answer, bullets, page, paragraph, section, table
from tailcast.report.page.risk import duration, percent


def candidates_page(content: Mapping[str, Any]) -> str:
    """Page of the contract ``tailcast/search/1``.

    Parameters
    ----------
    content : mapping
        As `tailcast search --format json` writes it.

    Returns
    -------
    str
        HTML.
    """
    race, counted = content["race"], content["candidates"]
    chosen = content["chosen"]
    shown = [c for c in content["evaluated"] if c]
    saved = f"{race['runs']} of {race['exhaustive_runs']} engine runs that trying all would take"
    sections = [
        answer(
            content["answer"],
            tone="good" if content["found"] else "bad",
            small=f"Decided with {saved}.",
        ),
        section("Chosen", _chosen(chosen, content)),
        section("Held at most", _sustained(content["sustained"])),
        section("Against the others", _comparisons(content["comparisons"])),
        section("Trade-off", _front(content["front"])),
        section("Candidates that were looked at closely", _evaluated(shown)),
        section("How the field shrank", _rungs(race["rungs"]), _statuses(counted)),
        section("What to measure next", _next(content["next_runs"])),
    ]
    title = "Search over deployments"
    return page(title, f"{counted['n']} candidates, common random numbers.", sections)


def _values(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


def _chosen(chosen: Mapping[str, Any] | None, content: Mapping[str, Any]) -> str:
    if chosen is None:
        return ""
    lines = [
        f"{chosen['title']}: {_values(chosen['values'])}",
        f"cost {chosen['cost']:.4g} with {chosen['accelerators']} accelerators",
        f"{chosen['statistic']}: median {duration(chosen['median'])}, "
        f"{100 * content['ci_prob']:.0f} % interval {duration(chosen['low'])} .. "
        f"{duration(chosen['high'])}",
        f"P(miss) {percent(chosen['p_miss'])}, at most {percent(chosen['p_miss_high'])} on "
        f"{chosen['fresh_blocks']} fresh blocks; prediction mode {chosen['mode']}",
        f"P(miss) by the law alone {percent(content['p_miss_law_only'])}",
    ]
    return bullets(lines)


def _sustained(sustained: Mapping[str, Any] | None) -> str:
    if not sustained:
        return ""
    return paragraph(
        f"The best of them holds {sustained['rate']:.3g} requests/s ({sustained['low']:.3g} .. "
        f"{sustained['high']:.3g}): {_values(sustained['values'])}."
    )


def _comparisons(rows: Sequence[Mapping[str, Any]]) -> str:
    cells = [
        [
            _values(row["other"]),
            percent(row["gain"]),
            f"{percent(row['low'])} .. {percent(row['high'])}",
            f"{row['p_better']:.2f}",
        ]
        for row in rows
    ]
    return table(["the chosen beats", "by", "interval", "P(better)"], cells)


def _front(rows: Sequence[Mapping[str, Any]]) -> str:
    cells = [
        [
            _values(row["values"]),
            f"{row['cost']:.4g}",
            percent(row["p_met"]),
            f"{row['capacity']:.3g}/s",
            "yes" if row["holds"] else "no",
        ]
        for row in rows
    ]
    return table(["candidate", "cost", "P(met)", "capacity", "holds"], cells)


def _evaluated(rows: Sequence[Mapping[str, Any]]) -> str:
    ordered = sorted(rows, key=lambda row: (row["cost"], row["p_miss"]))[:40]
    cells = [
        [
            _values(row["values"]),
            f"{row['cost']:.4g}",
            percent(row["p_miss"]),
            duration(row["median"]),
            f"{duration(row['low'])} .. {duration(row['high'])}",
        ]
        for row in ordered
    ]
    statistic = rows[0]["statistic"] if rows else "statistic"
    return table(["candidate", "cost", "P(miss)", statistic, "interval"], cells)


def _rungs(rows: Sequence[Mapping[str, Any]]) -> str:
    cells = [
        [str(k), str(r["blocks"]), str(r["before"]), str(r["after"]), str(r["runs"])]
        for k, r in enumerate(rows, start=1)
    ]
    return table(["rung", "blocks", "candidates before", "after", "runs"], cells)


def _statuses(counted: Mapping[str, Any]) -> str:
    lines = [f"{n} {reason}" for reason, n in counted["by_status"].items() if n]
    lines += [f"{n} impossible: {reason}" for reason, n in counted["invalid"].items()]
    return bullets(lines)


def _next(rows: Sequence[Mapping[str, Any]]) -> str:
    cells = [
        [
            row["run"],
            percent(row["p_settle"]),
            percent(row["p_flip"]),
            f"{row['expected_saving']:.3g}",
        ]
        for row in rows
    ]
    return table(["run to observe", "settles it", "changes it", "expected saving"], cells)
