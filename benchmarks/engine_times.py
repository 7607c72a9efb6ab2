"""How long the engine takes: by size, stress, draws and threads, batch size, output length."""

from collections.abc import Sequence
from typing import Any

from measure import Timing, best_of, best_of_each
from scenarios import STRESSES, chatbot, constant_shape, law, limits, stress

from tailcast.engine.limits import Limits
from tailcast.engine.run import simulate
from tailcast.request import RequestTable


def runs(cases: Sequence[tuple[RequestTable, Limits]], budget: float) -> list[dict[str, Any]]:
    """Time of one run of each case, and what it had to do."""
    one = law()
    actions = [lambda t=table, room=room: simulate(t, room, one) for table, room in cases]
    rows = []
    for (table, room), timing in zip(cases, best_of_each(actions, budget=budget), strict=True):
        counters = simulate(table, room, one).counters
        n, steps = len(table), int(counters["steps"][0])
        rows.append(
            {
                "requests": n,
                "steps": steps,
                **_seconds(timing),
                "requests_per_s": n / timing.cpu,
                "steps_per_s": steps / timing.cpu,
                "us_per_request": timing.cpu / n * 1e6,
                "mean_batch": float(counters["mean_batch"][0]),
                "preemptions": int(counters["preemptions"][0]),
                "cached_share": _cached_share(counters),
            }
        )
    return rows


def size_curve(sizes: Sequence[int], budget: float) -> list[dict[str, Any]]:
    """The chatbot case at several numbers of requests.

    The two largest are measured in turn, since their ratio is a bar; the others on their own, so
    that caches stay warm.
    """
    room = limits()
    alone = [runs([(chatbot(n), room)], budget)[0] for n in sizes[:-2]]
    return alone + runs([(chatbot(n), room) for n in sizes[-2:]], budget)


def stress_times(n: int, budget: float) -> list[dict[str, Any]]:
    """Each stress once."""
    cases = [stress(name, n) for name in STRESSES]
    rows = runs([(case.requests, case.limits) for case in cases], budget)
    return [{"case": case.name, **row} for case, row in zip(cases, rows, strict=True)]


def draw_times(draws: Sequence[int], threads: Sequence[int], budget: float) -> list[dict[str, Any]]:
    """Posterior draws of the chatbot case on several threads."""
    table, room = chatbot(10_000), limits()
    rows = []
    for n_draw in draws:
        spread = law(n_draw)
        for n_thread in threads:
            timing = best_of(
                lambda spread=spread, n_thread=n_thread: simulate(
                    table, room, spread, threads=n_thread
                ),
                budget=budget,
            )
            rows.append(
                {
                    "draws": n_draw,
                    "threads": n_thread,
                    **_seconds(timing),
                    "ms_per_draw": timing.wall / n_draw * 1e3,
                }
            )
    return rows


def batch_curve(rates: Sequence[float], n: int, budget: float) -> list[dict[str, Any]]:
    """Equal requests at several rates, so at several batch sizes."""
    room = limits()
    found = runs([(constant_shape(n, rate, 256, 256), room) for rate in rates], budget)
    return [
        {"rate": rate, **_short(row), "us_per_step": row["cpu_s"] / row["steps"] * 1e6}
        for rate, row in zip(rates, found, strict=True)
    ]


def length_curve(outputs: Sequence[int], n: int, budget: float) -> list[dict[str, Any]]:
    """Output lengths at the same occupancy: twice the length at half the rate."""
    room = limits()
    cases = [(constant_shape(n, 10.0 * 256 / tokens, 256, tokens), room) for tokens in outputs]
    rows = zip(outputs, runs(cases, budget), strict=True)
    return [{"output_tokens": tokens, **_short(row)} for tokens, row in rows]


def _short(found: dict[str, Any]) -> dict[str, Any]:
    names = ("steps", "mean_batch", "wall_s", "cpu_s", "us_per_request", "preemptions")
    return {name: found[name] for name in names}


def _seconds(timing: Timing) -> dict[str, float]:
    return {"wall_s": timing.wall, "cpu_s": timing.cpu}


def _cached_share(counters: dict[str, Any]) -> float:
    """Of the prompt tokens that were needed, recomputed ones included."""
    cached = float(counters["cached_tokens"][0])
    return cached / (cached + float(counters["prefill_tokens"][0]))
