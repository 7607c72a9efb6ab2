"""Speed and memory of the engine, as tables and as benchmarks/latest.json.

    python benchmarks/run.py [--quick] [--blis PATH] [-o FILE]

Every time is the fastest of several repeats in one process, every memory figure a process of its
own. CPU seconds are what a run on one thread costs; wall seconds are longer on a busy machine. With
--blis, a BLIS binary of yours runs the identical TraceV2 workload beside; without it no figure of
BLIS's is given but the published one, named as such.
"""

import argparse
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from answer_times import HELP, PREDICT, answer_times
from blis_binary import PUBLISHED_CPU_S, blis_case, our_parity_run
from engine_times import batch_curve, draw_times, length_curve, size_curve, stress_times
from measure import HERE, best_of, memory_of

from tailcast.report.tables import render_rows

SECTIONS = {
    "one run": "One run of the chatbot case (Qwen3-14B, one H100, 27 requests/s)",
    "stress": "One run each of what stresses one part",
    "draws": "Draws x 10 000 requests of the chatbot case",
    "batch": "Cost against batch size (one run, 4 000 requests)",
    "lengths": "Cost against output length at the same occupancy (one run, 4 000 requests)",
    "memory": "Peak memory of a process with one run",
    "answers": "A whole process: imports and answers (wall s, CPU s)",
    "blis": "BLIS on the identical TraceV2 workload",
}


def measured(*, quick: bool, blis: Path | None) -> dict[str, Any]:
    """All figures; progress goes to stderr."""
    budget = 0.5 if quick else 2.0  # seconds of repeats for each figure
    rows: dict[str, list[dict[str, Any]]] = {}
    _say("one run")
    rows["one run"] = size_curve((1_000, 10_000, 100_000, 1_000_000), budget)
    _say("stresses")
    rows["stress"] = stress_times(2_000 if quick else 10_000, budget)
    _say("draws")
    rows["draws"] = draw_times((50, 200) if quick else (50, 200, 1_000), (1, 2), 4 * budget)
    _say("batch sizes and output lengths")
    rows["batch"] = batch_curve((3, 6, 12, 24), 4_000, budget)
    rows["lengths"] = length_curve((128, 256, 512, 1024, 2048), 4_000, budget)
    _say("memory")
    sizes = ((10_000, 1), (1_000_000, 1), (1_000_000, 2))
    rows["memory"] = [memory_of(n, longer=longer) for n, longer in sizes]
    _say("whole processes")
    rows["answers"] = answer_times(cold=not quick)
    parity = best_of(lambda: our_parity_run(10_000), budget=budget)
    figures = {**headline(rows), "blis_mode_10k_s": parity.cpu}
    if blis is not None:
        _say(f"BLIS at {blis}")
        rows["blis"] = [blis_case(blis, 10_000)]
        figures["blis_cpu_s"] = rows["blis"][0]["cpu_s"]
        figures["blis_over_single"] = figures["blis_cpu_s"] / figures["single_10k_s"]
    return {
        "schema": "tailcast/benchmarks/1",
        "quick": quick,
        "machine": machine(),
        **figures,
        "bars": bars(figures),
        "published_blis_cpu_s": PUBLISHED_CPU_S,
        "rows": rows,
    }


def headline(rows: dict[str, list[dict[str, Any]]]) -> dict[str, float]:
    """The figures that bars are set on."""
    by_size = {row["requests"]: row for row in rows["one run"]}
    draws = next(r for r in rows["draws"] if r["draws"] == 200 and r["threads"] == 2)
    memory = {(r["requests"], r["longer"]): r["peak_mb"] for r in rows["memory"]}
    lengths = {row["output_tokens"]: row["us_per_request"] for row in rows["lengths"]}
    doubled = [lengths[2 * n] / lengths[n] for n in lengths if 2 * n in lengths]
    processes = {row["process"]: row for row in rows["answers"]}
    answers = {"help_cpu_s": processes[HELP]["cpu_s"]}
    if PREDICT in processes:
        answers["predict_warm_s"] = processes[PREDICT]["wall_s"]
        answers["predict_warm_cpu_s"] = processes[PREDICT]["cpu_s"]
    return {
        "single_10k_s": by_size[10_000]["cpu_s"],
        "single_10k_wall_s": by_size[10_000]["wall_s"],
        "single_1e6_s": by_size[1_000_000]["cpu_s"],
        "draws200_10k_s": draws["wall_s"],
        "draws200_10k_cpu_s": draws["cpu_s"],
        "ratio_1e6_1e5": by_size[1_000_000]["cpu_s"] / by_size[100_000]["cpu_s"],
        "ratio_double_outputs": max(doubled),
        "rss_1e6_mb": memory[1_000_000, 1],
        "rss_1e6_double_outputs_mb": memory[1_000_000, 2],
        **answers,
    }


def bars(figures: dict[str, float]) -> list[dict[str, Any]]:
    """What was asked of the engine, and whether this run holds it."""
    growth = figures["rss_1e6_double_outputs_mb"] / figures["rss_1e6_mb"]
    wanted = [
        ("one run of 10 000 requests, CPU s", figures["single_10k_s"], 0.0, 0.015),
        ("200 draws x 10 000 requests on 2 threads, wall s", figures["draws200_10k_s"], 0.0, 0.75),
        ("the same, CPU s over 2 threads", figures["draws200_10k_cpu_s"] / 2, 0.0, 0.75),
        ("CPU time at 1 000 000 over 100 000 requests", figures["ratio_1e6_1e5"], 9.0, 12.0),
        ("CPU time per request, outputs doubled", figures["ratio_double_outputs"], 0.0, 1.3),
        ("memory of 1 000 000 requests, MB", figures["rss_1e6_mb"], 0.0, 500.0),
        ("memory, outputs doubled", growth, 0.0, 1.05),
        ("tailcast --help, CPU s", figures["help_cpu_s"], 0.0, 0.6),
    ]
    if "predict_warm_s" in figures:
        wanted.append(("tailcast predict, warm, wall s", figures["predict_warm_s"], 0.0, 3.0))
    return [
        {"bar": name, "value": value, "low": low, "high": high, "held": low <= value <= high}
        for name, value, low, high in wanted
    ]


def machine() -> dict[str, Any]:
    """Where it ran, and how busy that was: a loaded machine makes every figure worse."""
    return {
        "python": platform.python_version(),
        "processor": platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],
    }


def tables(found: dict[str, Any]) -> str:
    """All figures for people."""
    parts = []
    for name, title in SECTIONS.items():
        rows = found["rows"].get(name)
        if rows:
            header = list(rows[0])
            cells = [[_cell(row.get(key)) for key in header] for row in rows]
            parts.append(f"{title}\n\n{render_rows(header, cells, 'table')}")
    lines = [
        [bar["bar"], _cell(bar["value"]), f"{bar['low']:g} .. {bar['high']:g}", _cell(bar["held"])]
        for bar in found["bars"]
    ]
    parts.append("Bars\n\n" + render_rows(["bar", "value", "wanted", "held"], lines, "table"))
    ratio = found["published_blis_cpu_s"] / found["single_10k_s"]
    parts.append(
        f"Published figure of BLIS for 10 000 requests: {found['published_blis_cpu_s']} CPU s, "
        f"{ratio:.0f} times one run here; not measured on this machine."
    )
    load = found["machine"]["load_average"]
    if load > 1:
        parts.append(f"The machine was busy (load average {load:.1f}): read the times as too long.")
    return "\n\n".join(parts)


def _cell(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "yes", False: "no", None: ""}[value]
    if isinstance(value, float):
        return f"{value:.4g}" if abs(value) < 1000 else f"{value:.0f}"
    return str(value)


def _say(what: str) -> None:
    print(f"measuring {what} ...", file=sys.stderr, flush=True)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer repeats, no cold start")
    parser.add_argument("--blis", type=Path, help="BLIS binary to run on the same workload")
    parser.add_argument("-o", "--output", type=Path, default=HERE / "latest.json")
    arguments = parser.parse_args()
    if arguments.blis is not None and not arguments.blis.is_file():
        parser.error(f"--blis {arguments.blis}: no such file")
    found = measured(quick=arguments.quick, blis=arguments.blis)
    arguments.output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    print(tables(found))


if __name__ == "__main__":
    main()
