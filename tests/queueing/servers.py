"""Servers that several tests use."""

import numpy as np

from tailcast.queueing.sensitivity import log_of_numbers
from tailcast.queueing.server import (
    Floats,
    RequestShape,
    ServerLimits,
    ThreeNumbers,
    three_numbers_ms,
)
from tailcast.queueing.steady_state import Replica
from tailcast.queueing.windows import Window, window_columns
from tailcast.queueing.work_model import work_model

LLAMA = three_numbers_ms(6.678, 2.008e-2, 5.516e-5)
LOG_LLAMA = log_of_numbers(LLAMA)
LIMITS = ServerLimits(max_batch=256, max_queue=256)


def replica(
    numbers: ThreeNumbers = LLAMA,
    tokens_in: float = 512,
    tokens_out: float = 256,
    limits: ServerLimits = LIMITS,
    version: str = "V2",
) -> Replica:
    shape = RequestShape(tokens_in=tokens_in, tokens_out=tokens_out)
    return Replica(work=work_model(numbers, shape, limits, version), limits=limits)


def measured(
    log_numbers: Floats,
    generator: np.random.Generator,
    *,
    rate: float,
    tokens_in: float = 512,
    tokens_out: float = 256,
    noise: tuple[float, float] = (0.08, 0.03),
) -> Window:
    """A window of a server with these numbers, with log-normal noise."""
    from tailcast.queueing.sensitivity import log_latencies

    plain = Window(tokens_in=tokens_in, tokens_out=tokens_out, rate=rate)
    found = log_latencies(log_numbers, window_columns([plain]), LIMITS)
    ttft, itl = np.exp(
        [
            found.ttft[0, 0] + noise[0] * generator.standard_normal(),
            found.itl[0, 0] + noise[1] * generator.standard_normal(),
        ]
    )
    return Window(
        tokens_in=tokens_in, tokens_out=tokens_out, rate=rate, ttft=float(ttft), itl=float(itl)
    )
