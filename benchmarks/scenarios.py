"""Workloads and laws that are timed: BLIS's chatbot case and what stresses one part each."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tailcast.catalog.accelerators import accelerator
from tailcast.catalog.llms import llm
from tailcast.deployment import Deployment
from tailcast.engine.blis.presets import preset_requests
from tailcast.engine.blis.requests import BlisRequests
from tailcast.engine.deployment_limits import deployment_limits
from tailcast.engine.fixed_law import fixed_law
from tailcast.engine.limits import Limits
from tailcast.latency_model import load_latency_model
from tailcast.request import RequestTable, request_table
from tailcast.step_law import StepLaw
from tailcast.streams import stream
from tailcast.workload.mapping import workload_from_mapping
from tailcast.workload.materialise import materialise

RATE = 27.0
"""Requests per second of the chatbot case: Qwen3-14B on one H100 runs about 150 at once."""

SPREAD = 0.05
"""Standard deviation of the log of every term over draws; a fitted posterior's is of that size."""

_TERMS = (
    "per_step",
    "per_prefill_token",
    "per_prefill_pair",
    "per_prefill_request",
    "per_decode",
    "per_context_token",
    "ingest",
    "finish",
    "stream",
)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One thing to time."""

    name: str
    requests: RequestTable
    limits: Limits


def deployment() -> Deployment:
    """Qwen3-14B on one H100 with vLLM's small defaults (256 sequences, 2048 tokens a step)."""
    return Deployment(llm=llm("qwen3-14b"), accelerator=accelerator("h100-sxm"))


def limits(**changes: int) -> Limits:
    """Its scheduler and KV blocks, prefix cache on."""
    return replace(deployment_limits(deployment()), **changes)


def law(n_draw: int = 1) -> StepLaw:
    """BLIS's coefficients on the corrected engine; several draws are spread around them."""
    one = fixed_law(load_latency_model("blis-trained-physics"), deployment()).law
    if n_draw == 1:
        return one
    rng = stream(0, "benchmark", "draws")
    columns = {
        name: getattr(one, name) * np.exp(SPREAD * rng.standard_normal(n_draw)) for name in _TERMS
    }
    return StepLaw(
        **columns,
        schedule_lag=np.repeat(one.schedule_lag, n_draw),
        token_table=np.repeat(one.token_table, n_draw, axis=0),
    )


def blis_chatbot(n: int) -> BlisRequests:
    """BLIS's chatbot preset: constant arrivals, Gaussian lengths, five minutes of patience."""
    return preset_requests("chatbot", rate=RATE, n_request=n, seed=42)


def chatbot(n: int) -> RequestTable:
    """The same requests for the default mode."""
    source = blis_chatbot(n)
    return request_table(
        source.arrival_us / 1e6,
        source.input_tokens,
        source.output_tokens,
        timeout=np.full(n, 300.0),
    )


def constant_shape(n: int, rate: float, input_tokens: int, output_tokens: int) -> RequestTable:
    """Poisson arrivals of equal requests."""
    gaps = stream(1, "benchmark", "arrivals").exponential(1 / rate, n)
    return request_table(np.cumsum(gaps), input_tokens, output_tokens)


def _of_study(n: int, **workload: object) -> RequestTable:
    return materialise(workload_from_mapping({**workload, "n_requests": n}, "benchmark"), 1)


def _sessions(n: int) -> RequestTable:
    return _of_study(n, preset="chatbot", rate=4, session={"turns": 5, "think_time": "5s"})


def _prefixes(n: int) -> RequestTable:
    return _of_study(
        n,
        rate=10,
        input_tokens=100,
        output_tokens=200,
        prefix={"tokens": 2048, "groups": 8},
    )


def _prompts(n: int) -> RequestTable:
    return _of_study(n, rate=20, input_tokens=560, output_tokens=250, repeat={"distinct": 100})


STRESSES: dict[str, tuple[Callable[[int], RequestTable], dict[str, int]]] = {
    "long decode": (lambda n: constant_shape(n, 0.6, 256, 4000), {}),
    "kv pressure": (chatbot, {"kv_blocks": 2400}),
    "prefix-heavy": (_prefixes, {}),
    "repeated prompts": (_prompts, {}),
    "sessions": (_sessions, {}),
    "chunked prompts": (lambda n: constant_shape(n, 2.5, 6000, 200), {}),
}
"""Requests by count, and changed limits."""


def stress(name: str, n: int) -> Scenario:
    """One of `STRESSES`."""
    requests, changes = STRESSES[name]
    return Scenario(name=name, requests=requests(n), limits=limits(**changes))
