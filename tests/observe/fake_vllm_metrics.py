"""A metrics page with vLLM's names whose counters advance as the chain says.

    python fake_vllm_metrics.py PORT ALPHA BETA GAMMA

Costs in seconds. The load changes every five seconds through several rates and shapes, so that a
follower sees all three numbers; counters are whole means times whole requests, without noise but
that of rounding to a request.
"""

import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

from tailcast.queueing.sensitivity import log_latencies, log_of_numbers
from tailcast.queueing.server import ServerLimits, ThreeNumbers
from tailcast.queueing.windows import Window, window_columns

PERIOD = 5.0
SHAPES = ((512.0, 128.0), (1024.0, 64.0), (128.0, 256.0))
LOADS = (0.2, 0.6, 0.4)
LABELS = '{engine="0",model_name="fake"}'


class FakeServer:
    """Totals of a replica with known numbers.

    Parameters
    ----------
    numbers : ThreeNumbers
        The truth, in seconds.
    """

    def __init__(self, numbers: ThreeNumbers) -> None:
        from tailcast.queueing.capacity import capacity_draws
        from tailcast.queueing.server import RequestShape
        from tailcast.queueing.sizing import Targets

        limits, logs = ServerLimits(), log_of_numbers(numbers)
        self.phases = []
        for load in LOADS:
            for tokens_in, tokens_out in SHAPES:
                shape = RequestShape(tokens_in=tokens_in, tokens_out=tokens_out)
                rate = load * float(capacity_draws(logs, shape, limits, Targets()).rate[0])
                window = Window(tokens_in=tokens_in, tokens_out=tokens_out, rate=rate)
                found = log_latencies(logs, window_columns([window]), limits)
                ttft, itl = float(np.exp(found.ttft[0, 0])), float(np.exp(found.itl[0, 0]))
                self.phases.append((rate, tokens_in, tokens_out, ttft, itl))

    def totals(self, seconds: float) -> dict[str, float]:
        """Counters after some time."""
        names = ("ttft_sum", "ttft_count", "gap_sum", "gap_count", "prompt", "generation")
        totals = dict.fromkeys(names, 0.0)
        whole, rest = divmod(seconds, PERIOD)
        for k in range(int(whole) + 1):
            rate, tokens_in, tokens_out, ttft, itl = self.phases[k % len(self.phases)]
            n = float(int(rate * (PERIOD if k < whole else rest)))
            gaps = n * (tokens_out - 1.0)
            for name, value in zip(
                names, (n * ttft, n, gaps * itl, gaps, n * tokens_in, n * tokens_out), strict=True
            ):
                totals[name] += value
        return totals

    def page(self, seconds: float) -> str:
        """The metrics page after some time."""
        t = self.totals(seconds)
        samples = {
            "time_to_first_token_seconds_sum": t["ttft_sum"],
            "time_to_first_token_seconds_count": t["ttft_count"],
            "inter_token_latency_seconds_sum": t["gap_sum"],
            "inter_token_latency_seconds_count": t["gap_count"],
            "prompt_tokens_total": t["prompt"],
            "generation_tokens_total": t["generation"],
            "request_generation_tokens_sum": t["generation"],
            "request_generation_tokens_count": t["ttft_count"],
            "num_requests_running": 3.0,
            "num_requests_waiting": 0.0,
        }
        lines = ["# HELP vllm:num_requests_running Running.", "python_info 1"]
        lines += [f"vllm:{name}{LABELS} {value:.12g}" for name, value in samples.items()]
        done = 'vllm:request_success_total{engine="0",model_name="fake",finished_reason="%s"} %g'
        lines += [done % ("stop", t["ttft_count"] // 2), done % ("length", t["ttft_count"] // 2)]
        return "\n".join(lines) + "\n"


def serve(numbers: ThreeNumbers, port: int = 0) -> ThreadingHTTPServer:
    """Start serving in a thread; `shutdown` ends it."""
    fake, began = FakeServer(numbers), time.monotonic()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = fake.page(time.monotonic() - began).encode()
            known = self.path == "/metrics"
            self.send_response(200 if known else 404)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body) if known else 0))
            self.end_headers()
            if known:
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            del format, args

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


if __name__ == "__main__":
    costs = [float(word) for word in sys.argv[2:5]]
    serve(ThreeNumbers(alpha=costs[0], beta=costs[1], gamma=costs[2]), int(sys.argv[1]))
    threading.Event().wait()
