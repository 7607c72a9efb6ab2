"""Workloads that BLIS makes up itself: constant arrivals and Gaussian lengths.

The arrival times are BLIS's to the microsecond. The lengths have its distribution but not its
values: BLIS draws them from Go's generator, so a run is compared through an exported trace.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from tailcast.engine.blis.requests import BlisRequests, blis_requests
from tailcast.errors import CatalogError, UsageError, near_name
from tailcast.streams import stream

DEFAULT_TIMEOUT_US = 300_000_000
"""BLIS's client leaves after five minutes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianLength:
    """Token lengths, clamped and then rounded.

    Parameters
    ----------
    mean, sd : float
        Tokens, before clamping.
    low, high : int
        Bounds in tokens.
    """

    mean: float
    sd: float
    low: int
    high: int

    def __post_init__(self) -> None:
        if not (self.sd >= 0 and 0 <= self.low <= self.high):
            raise UsageError(
                f"token length needs sd >= 0 and 0 <= low <= high, got sd {self.sd}, "
                f"low {self.low}, high {self.high}"
            )

    def draw(self, n: int, generator: np.random.Generator) -> NDArray[np.int64]:
        """Random lengths.

        Parameters
        ----------
        n : int
            How many.
        generator : numpy.random.Generator
            Source of randomness.

        Returns
        -------
        ndarray of int64, shape (n,)
            Tokens.
        """
        values = np.clip(generator.normal(self.mean, self.sd, n), self.low, self.high)
        return np.floor(values + 0.5).astype(np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlisPreset:
    """Prompt and output lengths of one named workload.

    Parameters
    ----------
    prompt, output : GaussianLength
        In tokens.
    """

    prompt: GaussianLength
    output: GaussianLength


def _preset(prompt: tuple[int, int, int, int], output: tuple[int, int, int, int]) -> BlisPreset:
    lengths = [
        GaussianLength(mean=mean, sd=sd, low=low, high=high)
        for mean, sd, low, high in (prompt, output)
    ]
    return BlisPreset(prompt=lengths[0], output=lengths[1])


BLIS_PRESETS: Mapping[str, BlisPreset] = MappingProxyType(
    {
        "chatbot": _preset((256, 100, 2, 800), (256, 100, 1, 1024)),
        "contentgen": _preset((1024, 150, 10, 2048), (1024, 200, 10, 2048)),
        "summarization": _preset((4096, 500, 100, 8192), (512, 150, 10, 2048)),
        "multidoc": _preset((10240, 1200, 500, 20480), (1536, 300, 50, 4096)),
    }
)
"""BLIS's named workloads: mean, sd, least and most tokens."""


def preset_requests(
    name: str,
    *,
    rate: float = 1.0,
    n_request: int = 100,
    seed: int = 42,
    timeout_us: int = DEFAULT_TIMEOUT_US,
) -> BlisRequests:
    """Requests of a named workload.

    Parameters
    ----------
    name : str
        One of `BLIS_PRESETS`.
    rate : float
        Requests per second, evenly spaced.
    n_request : int
        Requests.
    seed : int
        Seed of the lengths.
    timeout_us : int
        Microseconds after which a client leaves, 0 for never.

    Returns
    -------
    BlisRequests
        The first arrives one gap after the start.

    Raises
    ------
    CatalogError
        If BLIS has no such workload.
    UsageError
        If the rate or the number of requests is not positive.
    """
    if name not in BLIS_PRESETS:
        raise CatalogError(f"BLIS has no preset {name!r}; {near_name(name, BLIS_PRESETS)}")
    preset = BLIS_PRESETS[name]
    return gaussian_requests(
        preset.prompt,
        preset.output,
        rate=rate,
        n_request=n_request,
        seed=seed,
        timeout_us=timeout_us,
    )


def gaussian_requests(
    prompt: GaussianLength,
    output: GaussianLength,
    *,
    rate: float,
    n_request: int,
    seed: int = 42,
    prefix_tokens: int = 0,
    timeout_us: int = DEFAULT_TIMEOUT_US,
) -> BlisRequests:
    """What ``blis run`` makes of ``--rate`` and its length flags.

    Parameters
    ----------
    prompt, output : GaussianLength
        Lengths; the prompt without the shared prefix.
    rate : float
        Requests per second; arrivals are constant, not Poisson, in BLIS.
    n_request : int
        Requests.
    seed : int
        Seed of the lengths.
    prefix_tokens : int
        Prefix shared by all requests, added to the prompt.
    timeout_us : int
        Microseconds after which a client leaves, 0 for never.

    Returns
    -------
    BlisRequests
        The first arrives one gap after the start.

    Raises
    ------
    UsageError
        If the rate or the number of requests is not positive.
    """
    if not (rate > 0 and n_request > 0):
        raise UsageError(f"rate and requests must be positive, got {rate!r} and {n_request!r}")
    gap_us = max(1, int(1 / (rate / 1e6)))
    arrival_us = gap_us * np.arange(1, n_request + 1, dtype=np.int64)
    lengths = prompt.draw(n_request, stream(seed, "blis", "prompt"))
    return blis_requests(
        arrival_us,
        np.maximum(1, lengths) + prefix_tokens,
        output.draw(n_request, stream(seed, "blis", "output")),
        prefix_group=0 if prefix_tokens > 0 else -1,
        prefix_length=prefix_tokens,
        deadline_us=arrival_us + timeout_us if timeout_us > 0 else 0,
    )
