"""How late is the client of `tailcast observe` at many streams?

A fake server in a process of its own makes one token a stream every step, all streams in step.
That is the hardest case for one client: every step all its sockets are ready at once. Run it on a
quiet machine: on a busy one the figures are the scheduler's.

    python benchmarks/client_lateness.py [--streams 50 200 500] [--per-step 0.03]
"""

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np

from tailcast.observe.run import Observation, observe
from tailcast.observe.settings import ObserveSettings
from tailcast.report.tables import render_rows
from tailcast.request import request_table

TESTS = Path(__file__).resolve().parents[1] / "tests"
OUTPUT_TOKENS = 100


def run(streams: int, per_step: float) -> Observation:
    """One run in which so many streams are open at once for most of the time."""
    command = [sys.executable, "-m", "observe.fake_server", "--per-step", str(per_step)]
    with subprocess.Popen(command, cwd=TESTS, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            arrival = np.linspace(0.0, per_step * OUTPUT_TOKENS * 0.9, streams)
            requests = request_table(arrival, 50, OUTPUT_TOKENS)
            return observe(ObserveSettings(url=f"http://127.0.0.1:{port}"), requests)
        finally:
            server.kill()


def main() -> None:
    """Print one line for each number of streams."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--streams", type=int, nargs="+", default=[50, 200, 500])
    parser.add_argument("--per-step", type=float, default=0.03)
    arguments = parser.parse_args()
    rows = []
    for streams in arguments.streams:
        seen = run(streams, arguments.per_step)
        tokens = sum(record.n_tokens for record in seen.records)
        late = seen.lateness
        figures = (late.send_p50, late.send_p99, late.send_max, late.read_p50, late.read_p99)
        rows.append(
            [
                str(streams),
                f"{seen.scrapes.peaks()['running']:.0f}",
                str(streams * OUTPUT_TOKENS - tokens),
                *(f"{figure * 1e3:.2f}" for figure in figures),
                f"{late.cpu_share:.2f}",
            ]
        )
    header = ["streams", "open at once", "tokens lost", "send p50 ms", "p99", "max"]
    print(render_rows([*header, "read p50 ms", "p99", "CPU share"], rows, "table"))


if __name__ == "__main__":
    main()
