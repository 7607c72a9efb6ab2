"""What the chain needs to know of a server and of its requests: three numbers, limits, shape."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tailcast.errors import UsageError

Floats = NDArray[np.float64]
Real = float | Floats
Version = Literal["V0", "V1", "V2"]
VERSIONS: tuple[Version, ...] = get_args(Version)

MOST_BATCH = 65536
DEFAULT_MAX_BATCHED_TOKENS = 8192  # vLLM on H100, and the value of every published fit
MS = 1e-3


def _as_numbers(owner: str, field: str, value: object) -> Floats:
    if value is None:
        raise UsageError(f"{owner}: {field} is missing")
    try:
        numbers = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise UsageError(f"{owner}: {field} must be a number, got {value!r}") from None
    if not np.all(np.isfinite(numbers)):
        raise UsageError(f"{owner}: {field} must be finite, got {value!r}")
    return numbers


def _check_at_least(owner: str, field: str, value: object, least: float) -> None:
    if np.any(_as_numbers(owner, field, value) < least):
        raise UsageError(f"{owner}: {field} must be at least {least:g}, got {value!r}")


def _check_whole(owner: str, field: str, value: object, least: int) -> None:
    number = _as_numbers(owner, field, value)
    if number.ndim or not float(number).is_integer():
        raise UsageError(f"{owner}: {field} must be a whole number, got {value!r}")
    _check_at_least(owner, field, value, least)


@dataclass(frozen=True, slots=True, kw_only=True)
class ThreeNumbers:
    """Cost of one engine step of an LLM server; scalars, or arrays that broadcast.

    Parameters
    ----------
    alpha : float or ndarray
        Overhead of a step in seconds, mostly the reading of the weights.
    beta : float or ndarray
        Seconds per token computed.
    gamma : float or ndarray
        Seconds per token of KV cache read.
    """

    alpha: Real
    beta: Real
    gamma: Real

    def __post_init__(self) -> None:
        for field in ("alpha", "beta", "gamma"):
            _check_at_least("three numbers", field, getattr(self, field), 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoLines:
    """The older, workload-specific cost model: one line for decode, one for prefill.

    Parameters
    ----------
    decode_base, prefill_base : float or ndarray
        Seconds at no load, greater than zero.
    decode_slope : float or ndarray
        Seconds per request in the batch.
    prefill_slope : float or ndarray
        Seconds per prompt token and request in the batch.
    """

    decode_base: Real
    decode_slope: Real
    prefill_base: Real
    prefill_slope: Real

    def __post_init__(self) -> None:
        for field in ("decode_base", "prefill_base"):
            value = getattr(self, field)
            if np.any(_as_numbers("two lines", field, value) <= 0):
                raise UsageError(f"two lines: {field} must be positive, got {value!r}")
        for field in ("decode_slope", "prefill_slope"):
            _check_at_least("two lines", field, getattr(self, field), 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestShape:
    """Mean size of the requests.

    Parameters
    ----------
    tokens_in : float or ndarray
        Mean prompt tokens, zero allowed.
    tokens_out : float or ndarray
        Mean output tokens; at least one for a request that is served to its end.
    """

    tokens_in: Real
    tokens_out: Real

    def __post_init__(self) -> None:
        _check_at_least("request shape", "tokens_in", self.tokens_in, 0.0)
        _check_at_least("request shape", "tokens_out", self.tokens_out, 0.0)

    def check_served(self) -> None:
        """Refuse requests without output.

        Raises
        ------
        UsageError
            If there is less than one output token.
        """
        _check_at_least("request shape", "tokens_out", self.tokens_out, 1.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """Limits of one replica.

    Parameters
    ----------
    max_batch : int
        Requests served at once (vLLM's ``max_num_seqs``), from one to `MOST_BATCH`.
    max_queue : int
        Places in the waiting room; arrivals beyond are lost.
    max_batched_tokens : int
        Tokens computed in one step (vLLM's ``max_num_batched_tokens``); 0 means 8192.
    """

    max_batch: int = 256
    max_queue: int = 256
    max_batched_tokens: int = DEFAULT_MAX_BATCHED_TOKENS

    def __post_init__(self) -> None:
        _check_whole("server limits", "max_batch", self.max_batch, 1)
        if self.max_batch > MOST_BATCH:
            raise UsageError(
                f"server limits: max_batch must be at most {MOST_BATCH}, a state of the chain "
                f"each, got {self.max_batch!r}"
            )
        _check_whole("server limits", "max_queue", self.max_queue, 0)
        _check_whole("server limits", "max_batched_tokens", self.max_batched_tokens, 0)
        for field in ("max_batch", "max_queue"):
            object.__setattr__(self, field, int(getattr(self, field)))
        budget = int(self.max_batched_tokens) or DEFAULT_MAX_BATCHED_TOKENS
        object.__setattr__(self, "max_batched_tokens", budget)

    @property
    def capacity(self) -> int:
        """Requests in the system at most, in service and waiting."""
        return self.max_batch + self.max_queue


def three_numbers_ms(alpha: Real, beta: Real, gamma: Real) -> ThreeNumbers:
    """Three numbers given in the field's unit.

    Parameters
    ----------
    alpha : float or ndarray
        Milliseconds per step.
    beta, gamma : float or ndarray
        Milliseconds per token computed, and per token of KV cache read.

    Returns
    -------
    ThreeNumbers
        The same in seconds.

    Examples
    --------
    >>> three_numbers_ms(8.0, 0.033, 0.000333).alpha
    0.008
    """
    for field, value in (("alpha", alpha), ("beta", beta), ("gamma", gamma)):
        _as_numbers("three numbers", field, value)
    return ThreeNumbers(alpha=alpha * MS, beta=beta * MS, gamma=gamma * MS)


def check_rate(rate: object) -> Floats:
    """Arrival rates checked to be usable.

    Parameters
    ----------
    rate : float or ndarray
        Requests per second.

    Returns
    -------
    ndarray
        The rates as float64.

    Raises
    ------
    UsageError
        If a rate is missing, not finite, or not positive.
    """
    rates = _as_numbers("arrival", "rate", rate)
    if np.any(rates <= 0):
        raise UsageError(f"arrival: rate must be positive, got {rate!r}")
    return rates


def is_round(value: float) -> bool:
    """Whether a number stands for a count.

    Parameters
    ----------
    value : float
        Any number.

    Returns
    -------
    bool
        True for finite whole numbers.
    """
    return math.isfinite(value) and float(value).is_integer()
