"""What can be said without a simulation: the stability boundary, and the latency of a lone request.

Both are bounds: a scheduler that wastes nothing cannot serve more, and no request is served faster
in company than alone.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tailcast.deployment import Deployment
from tailcast.request import RequestTable
from tailcast.step_law import StepLaw

Array = NDArray[np.float64]
Real = float | Array


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """What the stability boundary needs to know of the requests of one scheduler.

    Parameters
    ----------
    rate : float or ndarray, shape (n_draw,)
        Requests/s; 0 for a closed loop, which cannot saturate.
    output : float or ndarray, shape (n_draw,)
        Mean output tokens.
    context : float or ndarray, shape (n_draw,)
        Tokens in the cache of a running request, averaged over its decode steps and over requests
        by their length.
    computed, pairs : float or ndarray, shape (n_draw,)
        Mean prompt tokens that must be computed, and their (query, key) pairs.
    """

    rate: Real
    output: Real
    context: Real
    computed: Real
    pairs: Real


def request_shape(requests: RequestTable, *, prefix_caching: bool) -> Shape:
    """Shape of the requests of one scheduler, with a cache that never forgets.

    Parameters
    ----------
    requests : RequestTable
        Of one scheduler.
    prefix_caching : bool
        Whether tokens seen before need no computation.

    Returns
    -------
    Shape
        Its `computed` is the least that any cache size allows.
    """
    n = len(requests)
    span = float(requests.arrival[-1] - requests.arrival[0]) if n else 0.0
    open_loop = n > 1 and span > 0 and not np.any(requests.parent >= 0)
    output = requests.output_tokens.astype(np.float64)
    new = new_tokens(requests, prefix_caching=prefix_caching)
    seen = requests.input_tokens - new
    return Shape(
        rate=(n - 1) / span if open_loop else 0.0,
        output=float(output.mean()),
        context=float((output * (requests.input_tokens + output / 2)).sum() / output.sum()),
        computed=float(new.mean()),
        pairs=float((new * (seen + new / 2)).mean()),
    )


def new_tokens(requests: RequestTable, *, prefix_caching: bool) -> Array:
    """Prompt tokens of each request that no cache can hold yet.

    Parameters
    ----------
    requests : RequestTable
        In order of arrival.
    prefix_caching : bool
        Whether anything is cached at all.

    Returns
    -------
    ndarray, shape (n_request,)
        At least 1 each.
    """
    new = requests.input_tokens.astype(np.float64)
    if not prefix_caching:
        return new
    known_prefix = _seen_before(requests.prefix_stream)
    new = np.where(known_prefix, new - requests.prefix_tokens, new)
    return np.maximum(np.where(_seen_before(requests.content_stream), 1.0, new), 1.0)


def _seen_before(stream: NDArray[np.int64]) -> NDArray[np.bool_]:
    seen = stream >= 0
    _, first = np.unique(stream, return_index=True)
    seen[first] = False
    return seen


def offered_load(law: StepLaw, deployment: Deployment, shape: Shape) -> Array:
    r"""Offered work over capacity of one scheduler, by draw.

    Each second needs at least as many steps as its outputs need at the largest batch, and as many
    as its tokens need at the token budget:

    .. math:: s = \lambda \max\left(\frac{m}{B}, \frac{l + m}{b}\right)

    and the work of the tokens themselves does not depend on how they are batched. The load is the
    time that all of it takes, for a step law that is linear up to its token table.

    Parameters
    ----------
    law : StepLaw
        One row a draw.
    deployment : Deployment
        For sequence cap B, token budget b and KV blocks.
    shape : Shape
        Of the scheduler's requests, the same for all draws or one by draw.

    Returns
    -------
    ndarray, shape (n_draw,)
        1 is the stability boundary; 0 for closed loops.
    """
    engine = deployment.engine
    kv_tokens = deployment.kv_block_count * engine.block_size
    batch = np.clip(kv_tokens / np.asarray(shape.context), 1.0, engine.max_num_seqs)
    fresh = np.asarray(shape.computed + shape.output)
    steps = np.maximum(shape.output / batch, fresh / engine.max_num_batched_tokens)
    column = np.minimum((fresh / steps).astype(int), law.token_table.shape[1] - 1)
    seconds = (
        steps * (law.per_step + law.token_table[np.arange(law.n_draw), column])
        + law.per_prefill_request
        + law.per_prefill_token * shape.computed
        + law.per_prefill_pair * shape.pairs
        + shape.output * (law.per_decode + law.per_context_token * shape.context)
    )
    return np.asarray(shape.rate * seconds)


def lone_ttft(
    law: StepLaw, deployment: Deployment, computed: Array, *, is_mean: bool = False
) -> Array:
    """TTFT of a request that is alone on an idle scheduler.

    Parameters
    ----------
    law : StepLaw
        One row a draw.
    deployment : Deployment
        For the token budget.
    computed : ndarray, shape (n_draw,)
        Prompt tokens to compute.
    is_mean : bool
        Whether `computed` is a mean over requests; chunks are then not counted whole, so that the
        bound holds for the mean TTFT.

    Returns
    -------
    ndarray, shape (n_draw,)
        Seconds; a lower bound of TTFT in company.
    """
    budget = deployment.engine.max_num_batched_tokens
    width = law.token_table.shape[1] - 1
    if is_mean:
        chunks = np.maximum(computed / budget, 1.0)
        table = law.token_table[:, min(1, width)]
    else:
        chunks = np.ceil(computed / budget)
        last = np.clip(computed - (chunks - 1) * budget, 0, budget).astype(int)
        table = law.token_table[np.arange(law.n_draw), np.minimum(last, width)]
        table = table + (chunks - 1) * law.token_table[:, min(budget, width)]
    return np.asarray(
        law.ingest
        + law.stream
        + chunks * (law.per_step + law.per_prefill_request)
        + law.per_prefill_token * computed
        + law.per_prefill_pair * computed * computed / 2
        + table
    )


def lone_gap(law: StepLaw, context: Array) -> Array:
    """Time between two tokens of a request that is alone.

    Parameters
    ----------
    law : StepLaw
        One row a draw.
    context : ndarray, shape (n_draw,)
        Tokens in its cache.

    Returns
    -------
    ndarray, shape (n_draw,)
        Seconds; a lower bound of TPOT in company.
    """
    table = law.token_table[:, min(1, law.token_table.shape[1] - 1)]
    return np.asarray(
        law.per_step + law.per_decode + law.per_context_token * context + table + law.stream
    )


def order_statistic(values: Array, probability: float) -> float:
    """Largest observed value that is not above the quantile numpy would interpolate.

    Parameters
    ----------
    values : ndarray
        Not empty.
    probability : float
        Between 0 and 1.

    Returns
    -------
    float
        A value of `values`.
    """
    place = math.floor(probability * (len(values) - 1))
    return float(np.partition(values, place)[place])
