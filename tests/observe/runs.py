"""Short observed runs against the fake server."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from observe.fake_server import Behaviour, FakeServer, running
from tailcast.observe.run import Observation, observe
from tailcast.observe.settings import ObserveSettings
from tailcast.request import RequestTable, request_table


def table(
    n: int, *, gap: float = 0.01, inputs: int = 40, outputs: int = 6, **more: Any
) -> RequestTable:
    """Requests at equal gaps."""
    columns = {"input_tokens": np.full(n, inputs), "output_tokens": np.full(n, outputs)}
    columns |= {key: np.asarray(value) for key, value in more.items()}
    lengths = columns.pop("input_tokens"), columns.pop("output_tokens")
    arrival: NDArray[np.float64] = np.arange(n, dtype=np.float64) * gap
    return request_table(arrival, *lengths, **columns)


def observed(
    requests: RequestTable, behaviour: Behaviour | None = None, **settings: Any
) -> tuple[Observation, FakeServer]:
    """Run against a server of its own, stopped afterwards."""
    with running(behaviour) as server:
        return observe(ObserveSettings(url=server.url, **settings), requests), server
