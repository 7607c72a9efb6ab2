"""Peak memory of one run: a process of its own, since memory once taken is not given back.

python benchmarks/memory.py REQUESTS [LONGER]
"""

import json
import resource
import sys
import time
from dataclasses import replace

from scenarios import chatbot, law, limits

from tailcast.engine.run import simulate


def peak_mb() -> float:
    """Most memory this process has held so far, in MB (1e6 bytes)."""
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            line = next(text for text in file if text.startswith("VmHWM"))
        return int(line.split()[1]) * 1024 / 1e6
    except (OSError, StopIteration):  # not Linux: this one counts the parent's too
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6


def main() -> None:
    """Print what was run and what it took as JSON."""
    n, longer = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    one, room = law(), limits()
    simulate(chatbot(100), room, one)
    ready = peak_mb()
    table = chatbot(n)
    if longer > 1:  # the same occupancy: fewer arrivals a second
        table = replace(
            table, output_tokens=table.output_tokens * longer, arrival=table.arrival * longer
        )
    with_requests = peak_mb()
    begun = time.perf_counter()
    result = simulate(table, room, one)
    taken = time.perf_counter() - begun
    print(
        json.dumps(
            {
                "requests": n,
                "longer": longer,
                "steps": int(result.counters["steps"][0]),
                "output_tokens": int(table.output_tokens.sum()),
                "wall_s": taken,
                "ready_mb": ready,
                "with_requests_mb": with_requests,
                "peak_mb": peak_mb(),
            }
        )
    )


if __name__ == "__main__":
    main()
