"""A small latency model, a posterior that needs no fit, and runs simulated from a known truth."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from deployments import deployment
from tailcast.coefficients import Coefficients, step_law
from tailcast.deployment import Deployment
from tailcast.engine.deployment_limits import deployment_limits
from tailcast.engine.run import simulate
from tailcast.engine.run_export import simulated_trace
from tailcast.inference.population import Population, free_names
from tailcast.latency_model import GROUPS, LatencyModel, load_latency_model
from tailcast.posteriors import Posterior
from tailcast.request import RequestTable, request_table
from tailcast.streams import stream
from tailcast.traces.trace_header import TraceHeader
from tailcast.traces.trace_server import server_of
from tailcast.traces.tracev2 import Trace

MODEL = """
[model]
name = "small"
version = 1
[coefficients.prefill_compute]
basis = "prefill_compute"
floor = 1.0
centre = 1.6
sd = 0.4
[coefficients.weight_read]
basis = "weight_read"
floor = 1.0
centre = 1.25
sd = 0.4
[coefficients.per_step]
basis = "step_count"
unit = "s"
centre = 3e-3
sd = 0.5
[coefficients.per_request]
basis = "request_count"
unit = "s"
centre = 30e-6
sd = 0.5
[coefficients.ingest]
basis = "ingest"
unit = "s"
centre = 5e-3
sd = 0.4
[discrepancy.run]
centre = 0.02
sd = 0.3
[discrepancy.ttft]
centre = 0.04
sd = 0.3
[noise]
nu = 8.0
"ttft.mean" = { centre = 0.03, sd = 0.15 }
"ttft.p50" = { centre = 0.03, sd = 0.15 }
"ttft.p90" = { centre = 0.05, sd = 0.15 }
"ttft.p99" = { centre = 0.20, sd = 0.15 }
"e2e.mean" = { centre = 0.01, sd = 0.15 }
"e2e.p50" = { centre = 0.01, sd = 0.15 }
"e2e.p90" = { centre = 0.02, sd = 0.15 }
"e2e.p99" = { centre = 0.05, sd = 0.15 }
"step.decode" = { centre = 0.03, sd = 0.15 }
"step.mixed" = { centre = 0.05, sd = 0.15 }
"step.prefill" = { centre = 0.05, sd = 0.15 }
"""


def small_model(folder: Path) -> LatencyModel:
    """Five coefficients, run and TTFT discrepancies, no hierarchy."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.toml").write_text(MODEL)
    return load_latency_model(str(folder))


def served() -> Deployment:
    """What all runs here were served on."""
    return deployment("llama-3.1-8b", tensor_parallel=1, version="0.15.1")


def requests(n: int = 500, *, rate: float = 10.0, seed: int = 3) -> RequestTable:
    """Poisson arrivals with scattered lengths."""
    rng = stream(seed, "loop requests")
    return request_table(
        np.cumsum(rng.exponential(1 / rate, n)),
        rng.integers(50, 800, n),
        rng.integers(10, 120, n),
    )


def narrow_posterior(model: LatencyModel, *, sd: float = 0.1, n_draw: int = 400) -> Posterior:
    """Draws close to the prior's middle, as after many runs."""
    rng = stream(0, "narrow posterior")
    n_free = len(free_names(model))

    def scales(priors: object) -> dict[str, NDArray[np.float64]]:
        return {name: np.full(n_draw, own.centre) for name, own in dict(priors).items()}  # type: ignore[call-overload]

    population = Population(
        latency_model=model,
        location=sd * rng.standard_normal((n_draw, n_free)),
        offsets={group: np.zeros((n_draw, 0, 0)) for group in GROUPS},
        levels=dict.fromkeys(GROUPS, ()),
        deployment=np.zeros((n_draw, 0)),
        deployments=(),
        scale=scales(model.discrepancy),
        noise=scales(model.noise),
    )
    card = {"scope": {"engine_version": ["vllm-0.15"], "accelerator": ["h100-sxm-80gb"]}}
    return Posterior(
        name="narrow", latency_model=model, population=population, card=card, path=Path()
    )


def truth(model: LatencyModel, **factors: float) -> Coefficients:
    """Prior medians, times factors."""
    values = {c.name: np.array([c.centre * factors.get(c.name, 1.0)]) for c in model.coefficients}
    speed = np.array([factors.get("speed", 1.0)])
    return Coefficients(latency_model=model, values=values, speed=speed)


def recorded_trace(
    model: LatencyModel, table: RequestTable, on: Deployment | None = None, **factors: float
) -> Trace:
    """Trace of a run under the truth with some coefficients moved."""
    return traced(truth(model, **factors), table, on or served())


def traced(coefficients: Coefficients, table: RequestTable, own: Deployment) -> Trace:
    """Trace of a run with these coefficients."""
    law = step_law(coefficients, own)
    found = simulate(table, deployment_limits(own), law, records=True)
    assert found.records is not None
    return simulated_trace(
        table, found.records[0], law, TraceHeader(mode="generated", server=server_of(own))
    )
