"""A metrics page with vLLM's names whose counters advance as the chain says.

    python fake_vllm_metrics.py PORT ALPHA BETA GAMMA

Costs in seconds. Load and lengths swing slowly, so that a follower sees all three numbers and a
window of two seconds is nearly steady; counters are integrals of the chain's means, without noise.
"""

import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np

from tailcast.queueing.sensitivity import log_latencies, log_of_numbers
from tailcast.queueing.server import ServerLimits, ThreeNumbers
from tailcast.queueing.windows import Window, window_columns

STEP = 0.05
N_STEP = 4000
LABELS = '{engine="0",model_name="fake"}'


def swing(low: float, high: float, period: float) -> np.ndarray:
    """Values between two ends, geometrically, over the time of the run."""
    phase = 2.0 * np.pi * STEP * np.arange(N_STEP) / period
    return low * (high / low) ** (0.5 - 0.5 * np.cos(phase))


class FakeServer:
    """Totals of a replica with known numbers.

    Parameters
    ----------
    numbers : ThreeNumbers
        The truth, in seconds.
    """

    def __init__(self, numbers: ThreeNumbers) -> None:
        tokens_in, tokens_out = swing(128, 1024, 23.0), swing(64, 256, 37.0)
        alpha, beta, gamma = numbers.alpha, numbers.beta, numbers.gamma
        reads = tokens_in + tokens_out * (tokens_in + (tokens_out + 1.0) / 2.0)
        work = beta * (tokens_in + tokens_out) + gamma * reads
        # a share of what an endless batch would take
        rate = swing(0.15, 0.6, 31.0) / work
        windows = [
            Window(tokens_in=float(i), tokens_out=float(o), rate=float(r))
            for i, o, r in zip(tokens_in, tokens_out, rate, strict=True)
        ]
        logs = log_of_numbers(ThreeNumbers(alpha=alpha, beta=beta, gamma=gamma))
        found = log_latencies(logs, window_columns(windows), ServerLimits())
        n, gaps = STEP * rate, STEP * rate * (tokens_out - 1.0)
        flows = {
            "ttft_sum": n * np.exp(found.ttft[0]),
            "ttft_count": n,
            "gap_sum": gaps * np.exp(found.itl[0]),
            "gap_count": gaps,
            "prompt": n * tokens_in,
            "generation": n * tokens_out,
        }
        self._times = STEP * np.arange(N_STEP + 1)
        self._sums = {
            name: np.concatenate([[0.0], np.cumsum(flow)]) for name, flow in flows.items()
        }

    def totals(self, seconds: float) -> dict[str, float]:
        """Counters after some time."""
        return {
            name: float(np.interp(seconds, self._times, sums)) for name, sums in self._sums.items()
        }

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
