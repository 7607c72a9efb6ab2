"""Small random workloads, limits and laws that together reach every rule of the engine."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.engine.limits import Limits
from tailcast.request import RequestTable, request_table
from tailcast.step_law import StepLaw
from tailcast.streams import stream

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
LAGS = (0.0, 0.3, 0.5, 1.0, 1.3, 2.0)
EXACT_LAGS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0)
TICK = 2.0**-10
KINDS = ("open", "prefix", "repeat", "session", "closed", "mixed", "pressed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One engine run to compare.

    In an exact case every time is a multiple of a power of two, so sums are free of rounding and
    ties (a request that is queued just when a batch is fixed) are met exactly.
    """

    seed: int
    kind: str
    exact: bool
    requests: RequestTable
    limits: Limits
    law: StepLaw


def random_case(seed: int) -> Case:
    """Case number `seed`; the same number always gives the same case."""
    rng = stream(seed, "engine case")
    exact = bool(rng.random() < 0.3)
    kind = KINDS[seed % len(KINDS)]
    law = _law(rng, exact)
    requests = _requests(rng, kind, exact, law)
    return Case(
        seed=seed,
        kind=kind,
        exact=exact,
        requests=requests,
        limits=_pressed(rng, requests) if kind == "pressed" else _limits(rng, requests),
        law=law,
    )


def busy_hour(seed: int) -> Case:
    """A case of realistic size: hundreds of requests, long answers, a full KV cache."""
    rng = stream(seed, "busy hour")
    n = 250
    prompt = rng.integers(-1, 12, size=n)
    lengths = rng.integers(64, 700, size=13)
    inputs = np.where(prompt >= 0, lengths[prompt], rng.integers(20, 700, size=n))
    table = request_table(
        np.cumsum(rng.exponential(float(rng.choice([0.02, 0.05, 0.15])), size=n)),
        inputs,
        rng.geometric(1 / 120, size=n),
        prefix_stream=np.zeros(n),
        prefix_tokens=np.full(n, 20),
        content_stream=prompt,
        session_output=rng.random(n) < 0.3,
        priority=rng.integers(0, 3, size=n),
        timeout=np.where(rng.random(n) < 0.1, rng.exponential(4.0, size=n) + 0.1, np.inf),
        group=np.arange(n) * 3 // n,
    )
    return Case(
        seed=seed,
        kind="busy hour",
        exact=False,
        requests=table,
        limits=Limits(
            max_num_seqs=int(rng.choice([16, 48, 256])),
            max_num_batched_tokens=int(rng.choice([256, 2048])),
            kv_blocks=int(rng.choice([200, 500, 4000])),
            long_prefill_token_threshold=int(rng.choice([0, 128])),
            priority=bool(rng.random() < 0.3),
        ),
        law=StepLaw.single(
            per_step=6e-3,
            per_prefill_token=2e-5,
            per_prefill_pair=1e-9,
            per_prefill_request=3e-4,
            per_decode=4e-5,
            per_context_token=3e-8,
            ingest=4e-3,
            finish=1e-3,
            stream=1e-5,
            schedule_lag=float(rng.choice(LAGS)),
            token_table=np.minimum(np.arange(300), 128) * 1e-5,
        ),
    )


def _law(rng: np.random.Generator, exact: bool) -> StepLaw:
    """Milliseconds a step, with some terms switched off; a coarse law knows whole ticks only."""
    coarse = exact and bool(rng.random() < 0.6)

    def term(scale: float, chance: float = 0.7) -> float:
        value = float(rng.uniform(0.2, 2.0)) * scale if rng.random() < chance else 0.0
        if coarse:
            return TICK * round(value / 2e-3) if scale >= 1e-3 else 0.0
        unit = TICK if scale >= TICK else 2.0**-20
        return round(value / unit) * unit if exact else value

    table = None
    if rng.random() < 0.4:
        table = rng.uniform(0, 4e-3, size=int(rng.integers(2, 40)))
        table = np.round(table / TICK) * TICK if exact else table
    return StepLaw.single(
        token_table=table,
        per_step=term(5e-3, 1.0) + (TICK if exact else 0.0),
        per_prefill_token=term(1e-4),
        per_prefill_pair=0.0 if exact else term(1e-7),
        per_prefill_request=term(2e-3, 0.5),
        per_decode=term(1e-3),
        per_context_token=term(2e-5),
        ingest=term(3e-3, 0.5 if exact else 1.0),
        finish=term(2e-3, 0.5),
        stream=term(1e-3, 0.5),
        schedule_lag=float(rng.choice(EXACT_LAGS if exact else LAGS)),
    )


def _lengths(rng: np.random.Generator, n: int) -> tuple[Ints, Ints]:
    """Prompt and output lengths; some outputs are a single token."""
    inputs = rng.integers(1, int(rng.choice([12, 60, 150])), size=n, endpoint=True)
    outputs = rng.integers(1, int(rng.choice([3, 12, 40, 40, 150])), size=n, endpoint=True)
    return inputs, np.where(rng.random(n) < 0.15, 1, outputs)


def _arrivals(rng: np.random.Generator, n: int, exact: bool) -> Floats:
    """Poisson bursts: gaps that are often zero or short and now and then long."""
    gaps = rng.exponential(float(rng.choice([1e-3, 8e-3, 4e-2])), size=n)
    gaps *= rng.choice([0.0, 0.3, 1.0, 10.0], p=[0.2, 0.3, 0.4, 0.1], size=n)
    times = np.cumsum(gaps)
    return np.round(times / TICK) * TICK if exact else times


def _requests(rng: np.random.Generator, kind: str, exact: bool, law: StepLaw) -> RequestTable:
    n = int(rng.integers(1, 28))
    inputs, outputs = _lengths(rng, n)
    arrival = _arrivals(rng, n, exact)
    columns: dict[str, NDArray[np.generic]] = {
        "group": np.unique(rng.integers(0, 3, size=n), return_inverse=True)[1],
        "priority": rng.integers(0, 3, size=n),
    }
    if kind == "pressed":
        arrival = arrival / 8
    if kind in ("prefix", "mixed"):
        inputs = _add_prefixes(rng, columns, inputs)
    if kind in ("repeat", "mixed"):
        inputs = _add_repeats(rng, columns, inputs)
    if kind == "session":
        inputs = _add_sessions(rng, columns, inputs, outputs)
    if kind in ("closed", "session", "mixed"):
        _add_parents(rng, columns, kind, n, exact)
    if rng.random() < 0.3:
        scale = float(law.per_step[0]) * float(rng.choice([3, 20, 60]))
        leave = rng.exponential(scale, size=n) + TICK
        leave = np.ceil(leave / TICK) * TICK if exact else leave
        columns["timeout"] = np.where(rng.random(n) < 0.6, leave, np.inf)
    return request_table(arrival, inputs, outputs, **columns)


def _add_prefixes(
    rng: np.random.Generator, columns: dict[str, NDArray[np.generic]], inputs: Ints
) -> Ints:
    """Some requests start with one of a few shared prefixes."""
    lengths = rng.integers(1, 70, size=3)
    owner = rng.integers(-1, 3, size=len(inputs))
    prefix = np.where(owner >= 0, lengths[owner], 0)
    columns["prefix_stream"] = owner
    columns["prefix_tokens"] = prefix
    return prefix + np.where(rng.random(len(inputs)) < 0.2, 1, inputs)


def _add_repeats(
    rng: np.random.Generator, columns: dict[str, NDArray[np.generic]], inputs: Ints
) -> Ints:
    """Few prompts many times, whole or cut short; a prompt keeps its prefix."""
    n = len(inputs)
    prompt = rng.integers(-1, 4, size=n)
    first = np.array([int(np.flatnonzero(prompt == k)[0]) for k in prompt])
    source = np.where(prompt >= 0, first, np.arange(n))
    for name in ("prefix_stream", "prefix_tokens"):
        if name in columns:
            columns[name] = columns[name][source]
    whole = inputs[source]
    least = np.maximum(1, columns.get("prefix_tokens", np.zeros(n, dtype=np.int64)))
    cut = np.maximum(least, (whole * rng.uniform(0.3, 1.0, size=n)).astype(np.int64))
    columns["content_stream"] = prompt
    columns["session_output"] = rng.random(n) < float(rng.choice([0.0, 0.5]))
    return np.where(rng.random(n) < 0.3, cut, whole)


def _add_sessions(
    rng: np.random.Generator, columns: dict[str, NDArray[np.generic]], inputs: Ints, outputs: Ints
) -> Ints:
    """Turns of a few conversations; a prompt holds all that was said before."""
    n = len(inputs)
    talk = rng.integers(0, max(1, n // 4), size=n)
    history: dict[int, int] = {}
    grown = inputs.copy()
    for row in range(n):
        grown[row] = history.get(int(talk[row]), 0) + 1 + inputs[row] % 40
        history[int(talk[row])] = int(grown[row] + outputs[row])
    columns["content_stream"] = talk + 100
    columns["session_output"] = np.ones(n, dtype=np.bool_)
    return grown


def _add_parents(
    rng: np.random.Generator,
    columns: dict[str, NDArray[np.generic]],
    kind: str,
    n: int,
    exact: bool,
) -> None:
    """Closed loop: each user sends the next request some time after the last answer."""
    user = columns["content_stream"] if kind == "session" else rng.integers(0, 4, size=n)
    parent = np.full(n, -1)
    for row in range(n):
        before = np.flatnonzero(user[:row] == user[row])
        if len(before) and (kind != "mixed" or rng.random() < 0.3):
            parent[row] = before[-1]
    think = rng.exponential(float(rng.choice([1e-3, 3e-2])), size=n)
    think = np.round(think / TICK) * TICK if exact else think
    columns["parent"] = parent
    columns["think_time"] = np.where(rng.random(n) < 0.3, 0.0, think)


def _limits(rng: np.random.Generator, requests: RequestTable) -> Limits:
    block_size = int(rng.choice([1, 2, 4, 16]))
    need = np.ceil((requests.input_tokens + requests.output_tokens - 1) / block_size)
    if rng.random() < 0.7:
        kv_blocks = int(max(1.0, np.ceil(need.max() * float(rng.choice([0.9, 1.0, 1.3, 2.0])))))
    else:
        kv_blocks = int(need.sum()) + 1
    longest = int((requests.input_tokens + requests.output_tokens).max())
    model_len = longest - int(rng.integers(0, 20)) if rng.random() < 0.15 else 2 * longest
    chunked = bool(rng.random() < 0.85)
    model_len = max(2, model_len if chunked else min(model_len, longest))
    budget = int(rng.choice([8, 16, 33, 64, 256, 2048]))
    return Limits(
        max_num_seqs=int(rng.choice([1, 2, 4, 8, 64])),
        max_num_batched_tokens=budget if chunked else max(budget, model_len),
        max_model_len=model_len,
        block_size=block_size,
        kv_blocks=kv_blocks,
        prefix_caching=bool(rng.random() < 0.8),
        chunked_prefill=chunked,
        long_prefill_token_threshold=int(rng.choice([0, 0, 5, 12, 40])),
        priority=bool(rng.random() < 0.3),
        horizon=float(requests.arrival.max() * 0.7 + 0.02) if rng.random() < 0.15 else np.inf,
    )


def _pressed(rng: np.random.Generator, requests: RequestTable) -> Limits:
    """Blocks for little more than the largest request, few tokens a step, mostly by priority."""
    block_size = int(rng.choice([1, 2, 4]))
    need = np.ceil((requests.input_tokens + requests.output_tokens - 1) / block_size)
    return Limits(
        max_num_seqs=int(rng.choice([4, 8, 64])),
        max_num_batched_tokens=int(rng.choice([8, 12, 16, 33])),
        block_size=block_size,
        kv_blocks=int(np.ceil(need.max() * float(rng.uniform(1.0, 1.5)))),
        prefix_caching=bool(rng.random() < 0.5),
        long_prefill_token_threshold=int(rng.choice([0, 3, 7])),
        priority=bool(rng.random() < 0.7),
    )
