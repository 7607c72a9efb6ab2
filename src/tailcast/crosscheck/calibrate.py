"""What lies between the chain and the engine near the capacity, measured by a few runs."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.engine.limits import Limits
from tailcast.engine.run import simulate
from tailcast.queueing.sensitivity import log_latencies
from tailcast.queueing.server import Floats, RequestShape, ServerLimits
from tailcast.queueing.windows import Window, window_columns
from tailcast.request import RequestTable, request_table
from tailcast.step_law import StepLaw
from tailcast.streams import stream

LENGTH_SPREAD = 0.5
_LIVES = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainError:
    """Logs of engine over chain, of means, by draw.

    Parameters
    ----------
    ttft, itl : ndarray, shape (n_draw,)
        Logs.
    """

    ttft: Floats
    itl: Floats


def poisson_requests(
    rate: float,
    shape: RequestShape,
    n_request: int,
    generator: np.random.Generator,
    *,
    spread: float = LENGTH_SPREAD,
) -> RequestTable:
    """Poisson arrivals with uniform lengths around their means.

    Parameters
    ----------
    rate : float
        Requests/s.
    shape : RequestShape
        Mean tokens, scalars.
    n_request : int
        How many.
    generator : numpy.random.Generator
        Source of randomness.
    spread : float
        Half width of the lengths over their mean, within 0 and 1.

    Returns
    -------
    RequestTable
        Unique prompts.
    """
    arrival = np.cumsum(generator.exponential(1.0 / rate, n_request))
    lengths = [
        uniform_lengths(float(mean), n_request, generator, spread)
        for mean in (shape.tokens_in, shape.tokens_out)
    ]
    return request_table(arrival, lengths[0], lengths[1])


def uniform_lengths(
    mean: float, n_request: int, generator: np.random.Generator, spread: float = LENGTH_SPREAD
) -> NDArray[np.int64]:
    """Whole lengths, uniform around a mean.

    Parameters
    ----------
    mean : float
        Tokens.
    n_request : int
        How many.
    generator : numpy.random.Generator
        Source of randomness.
    spread : float
        Half width over the mean.

    Returns
    -------
    ndarray of int, shape (n_request,)
        At least one.
    """
    low = max(1, round(mean * (1.0 - spread)))
    high = max(low, round(2.0 * mean - low))
    return generator.integers(low, high + 1, n_request)


def n_request_for(rate: float, life: float, *, least: int = 400, most: int = 6000) -> int:
    """Requests of a run that is long against the life of a request.

    Parameters
    ----------
    rate : float
        Requests/s.
    life : float
        Seconds that a request takes.
    least, most : int
        Bounds.

    Returns
    -------
    int
        Requests.
    """
    return int(min(max(least, _LIVES * rate * life), most))


def chain_error(
    law: StepLaw,
    log_numbers: Floats,
    overhead: Floats,
    shape: RequestShape,
    limits: ServerLimits,
    engine: Limits,
    rate: float,
    *,
    n_draw: int = 12,
    seed: int = 0,
) -> ChainError:
    """Run the engine under some draws at one rate and compare with the chain.

    Parameters
    ----------
    law : StepLaw
        One row a draw.
    log_numbers : ndarray, shape (n_draw, 3)
        Three numbers of these draws, logs of seconds.
    overhead : ndarray, shape (n_draw,)
        Seconds in TTFT outside the steps.
    shape : RequestShape
        Mean tokens, scalars.
    limits : ServerLimits
        Of the chain.
    engine : Limits
        Of the engine.
    rate : float
        Requests/s at one replica.
    n_draw : int
        Draws that are run, spread evenly.
    seed : int
        Of the arrivals; draw i has its own.

    Returns
    -------
    ChainError
        One entry a draw that was run.
    """
    rows = np.unique(np.linspace(0, law.n_draw - 1, min(n_draw, law.n_draw)).round().astype(int))
    plain = Window(tokens_in=float(shape.tokens_in), tokens_out=float(shape.tokens_out), rate=rate)
    found = log_latencies(log_numbers[rows], window_columns([plain]), limits)
    ttft, itl = np.empty(rows.size), np.empty(rows.size)
    for place, row in enumerate(rows):
        gap = float(np.exp(found.itl[place, 0]))
        n = n_request_for(rate, gap * float(shape.tokens_out))
        requests = poisson_requests(rate, shape, n, stream(seed, "chain error", int(row)))
        result = simulate(requests, engine, law.draw(int(row)), warmup=n // 5)
        mean = result.stat[0, -1, :, 0]
        chain = np.exp(found.ttft[place, 0]) + overhead[row]
        ttft[place] = np.log(mean[result.metrics.index("ttft")] / chain)
        itl[place] = np.log(mean[result.metrics.index("itl")] / gap)
    return ChainError(ttft=ttft, itl=itl)
