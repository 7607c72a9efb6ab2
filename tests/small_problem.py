"""A latency model with few coefficients and short runs: fits of it take seconds."""

from pathlib import Path

import numpy as np

from deployments import deployment
from tailcast.deployment import Deployment
from tailcast.inference.evidence import Output
from tailcast.inference.forward import RunInput
from tailcast.latency_model import LatencyModel, load_latency_model
from tailcast.request import RequestTable, request_table
from tailcast.streams import stream

MODEL = """
[model]
name = "small"
version = 1

[coefficients.prefill_compute]
floor = 1.0
centre = 1.667
sd = 0.4

[coefficients.weight_read]
floor = 1.0
centre = 1.25
sd = 0.5

[coefficients.per_request]
basis = "request_count"
unit = "s"
centre = 20e-6
sd = 0.6

[coefficients.per_step]
basis = "step_count"
unit = "s"
centre = 0.5e-3
sd = 0.6

[coefficients.ingest]
unit = "s"
centre = 5e-3
sd = 0.5

[discrepancy.run]
centre = 0.03
sd = 0.3
[discrepancy.ttft]
centre = 0.08
sd = 0.3

[noise]
nu = 8.0
"ttft.mean" = { centre = 0.03, sd = 0.15 }
"ttft.p90" = { centre = 0.05, sd = 0.15 }
"e2e.mean" = { centre = 0.01, sd = 0.15 }
"e2e.p90" = { centre = 0.02, sd = 0.15 }
"step.decode" = { centre = 0.02, sd = 0.15 }
"""

SUMMARIES = (("ttft", "mean"), ("ttft", "p90"), ("e2e", "mean"), ("e2e", "p90"))


def small_model(folder: Path) -> LatencyModel:
    """Five free coefficients, run and TTFT discrepancies."""
    return model_from(folder, MODEL)


def model_from(folder: Path, text: str) -> LatencyModel:
    """Latency model of a text."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.toml").write_text(text)
    return load_latency_model(str(folder))


def poisson_requests(
    seed: int, *, rate: float, prompt: int, output: int, n: int = 120
) -> RequestTable:
    """Poisson arrivals of equal, unshared requests."""
    gaps = stream(seed, "arrivals").exponential(1 / rate, n)
    return request_table(
        arrival=np.cumsum(gaps), input_tokens=np.full(n, prompt), output_tokens=np.full(n, output)
    )


def small_runs(n_request: int = 120) -> tuple[RunInput, ...]:
    """Three runs on two deployments, each of one recorded realisation; observed values unset."""
    plans = (
        ("a", deployment("llama-3.1-8b"), 6.0, 512, 60),
        ("b", deployment("llama-3.1-8b"), 20.0, 128, 60),
        ("c", deployment("qwen3-14b"), 5.0, 1024, 40),
    )
    return tuple(
        small_run(name, own, rate=rate, prompt=prompt, output=output, n=n_request)
        for name, own, rate, prompt, output in plans
    )


def small_run(
    name: str, own: Deployment, *, rate: float, prompt: int, output: int, n: int
) -> RunInput:
    """One run of one recorded realisation."""
    table = poisson_requests(5, rate=rate, prompt=prompt, output=output, n=n)
    return RunInput(
        name=name,
        deployment=own,
        requests=lambda _: table,
        outputs=tuple(
            Output(
                stage=0,
                metric=metric,
                stat=stat,
                log_observed=0.0,
                finish=float(metric == "e2e"),
                stream=float(output) if metric == "e2e" else 1.0,
            )
            for metric, stat in SUMMARIES
        ),
        content=f"small {name} {n}",
        n_seed=1,
    )
