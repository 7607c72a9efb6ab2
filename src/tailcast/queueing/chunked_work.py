"""Work models V2 and V1: what a request costs the engine, from three numbers.

V2 is llm-inferno/queue-analysis (v0.7 and later); V1 is what llm-d's workload-variant-autoscaler
ships. All times are seconds, all occupancies requests in the batch, the tagged one included.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from tailcast.queueing.server import (
    DEFAULT_MAX_BATCHED_TOKENS,
    Floats,
    Real,
    RequestShape,
    ThreeNumbers,
    Version,
)


def chunk_count(occupancy: Real, shape: RequestShape, max_batched_tokens: int) -> Floats:
    r"""Prefill steps of a request when `occupancy` requests share the token budget evenly.

    The smallest c with :math:`(c + m)(T - l/c) \ge n (l + m)`. The left side grows with c, so
    c is the ceiling of the positive root of a quadratic.

    Parameters
    ----------
    occupancy : float or ndarray
        Requests in the batch, whole numbers.
    shape : RequestShape
        Mean tokens; broadcasts with `occupancy`.
    max_batched_tokens : int
        Token budget of a step.

    Returns
    -------
    ndarray
        Chunks, at least one, as float64.

    Examples
    --------
    >>> chunk_count(200.0, RequestShape(tokens_in=4096, tokens_out=64), 8192)
    array(39.)
    """
    n, prompt = np.asarray(occupancy, np.float64), np.asarray(shape.tokens_in, np.float64)
    output = np.asarray(shape.tokens_out, np.float64)
    budget = float(max_batched_tokens)
    linear = output * budget - prompt - n * (prompt + output)
    root = (-linear + np.sqrt(linear * linear + 4.0 * budget * output * prompt)) / (2.0 * budget)
    chunks = np.maximum(1.0, np.ceil(root))

    def serves(count: Floats) -> Floats:
        safe = np.maximum(count, 1.0)
        batch = np.floor((safe + output) * (budget - prompt / safe) / (prompt + output))
        return np.asarray((batch >= n) & (count >= 1.0))

    # rounding of the root can be off by one where the bound is met exactly
    chunks = np.where(serves(chunks - 1.0), chunks - 1.0, chunks)
    return np.where(serves(chunks), chunks, chunks + 1.0)


def numbers_columns(numbers: ThreeNumbers) -> ThreeNumbers:
    """Three numbers with one more trailing axis, to broadcast over occupancies.

    Parameters
    ----------
    numbers : ThreeNumbers
        Fields of any shape.

    Returns
    -------
    ThreeNumbers
        Fields of shape (..., 1).
    """
    return ThreeNumbers(
        alpha=np.asarray(numbers.alpha)[..., None],
        beta=np.asarray(numbers.beta)[..., None],
        gamma=np.asarray(numbers.gamma)[..., None],
    )


def shape_columns(shape: RequestShape) -> RequestShape:
    """Request shape with one more trailing axis, to broadcast over occupancies.

    Parameters
    ----------
    shape : RequestShape
        Fields of any shape.

    Returns
    -------
    RequestShape
        Fields of shape (..., 1).
    """
    return RequestShape(
        tokens_in=np.asarray(shape.tokens_in)[..., None],
        tokens_out=np.asarray(shape.tokens_out)[..., None],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkedWork:
    """V2: chunked prefill, and the tagged request counted once.

    Parameters
    ----------
    numbers : ThreeNumbers
        Cost of a step.
    shape : RequestShape
        Mean tokens.
    max_batched_tokens : int
        Token budget of a step.
    max_batch : int or None
        Largest occupancy for which chunks are counted.
    """

    numbers: ThreeNumbers
    shape: RequestShape
    max_batched_tokens: int = DEFAULT_MAX_BATCHED_TOKENS
    max_batch: int | None = None

    version: ClassVar[Version] = "V2"
    rejects_overload: ClassVar[bool] = False

    def columns(self) -> Self:
        """Copy whose fields have one more trailing axis.

        Returns
        -------
        ChunkedWork
            Broadcasts over a last axis of occupancies.
        """
        numbers, shape = numbers_columns(self.numbers), shape_columns(self.shape)
        return replace(self, numbers=numbers, shape=shape)

    def chunks(self, occupancy: Real) -> Floats:
        """Prefill steps of a request.

        Parameters
        ----------
        occupancy : float or ndarray
            Requests; fractions are rounded half up, and held within 1 and the batch cap.

        Returns
        -------
        ndarray
            Chunks, at least one.
        """
        whole = np.maximum(1.0, np.floor(np.asarray(occupancy, np.float64) + 0.5))
        if self.max_batch is not None:
            whole = np.minimum(whole, float(self.max_batch))
        return chunk_count(whole, self.shape, self.max_batched_tokens)

    def prefill_work(self, chunks: Real) -> Floats:
        """Work of a request's whole prefill; chunk j re-reads the tokens so far.

        Parameters
        ----------
        chunks : float or ndarray
            Prefill steps.

        Returns
        -------
        ndarray
            Seconds.
        """
        reads = (np.asarray(chunks, np.float64) + 1.0) / 2.0
        return np.asarray(self.shape.tokens_in * (self.numbers.beta + self.numbers.gamma * reads))

    def decode_work(self) -> Floats:
        """Work of one mean decode step; decode k reads the prompt and k tokens.

        Returns
        -------
        ndarray
            Seconds.
        """
        context = self.shape.tokens_in + (self.shape.tokens_out + 1.0) / 2.0
        return np.asarray(self.numbers.beta + self.numbers.gamma * context)

    def mean_work(self, chunks: Floats) -> Floats:
        """Work a request adds to a step, averaged over its life.

        Parameters
        ----------
        chunks : ndarray
            Prefill steps.

        Returns
        -------
        ndarray
            Seconds.
        """
        total = self.prefill_work(chunks) + self.shape.tokens_out * self.decode_work()
        return np.asarray(total / (chunks + self.shape.tokens_out))

    def step_time(self, occupancy: Floats) -> Floats:
        """Duration of one step.

        Parameters
        ----------
        occupancy : ndarray
            Requests in the batch.

        Returns
        -------
        ndarray
            Seconds.
        """
        return np.asarray(self.numbers.alpha + occupancy * self.mean_work(self.chunks(occupancy)))

    def service_time(self, occupancy: Floats) -> Floats:
        """Time in service of a request that always sees this batch.

        Parameters
        ----------
        occupancy : ndarray
            Requests in the batch.

        Returns
        -------
        ndarray
            Seconds.
        """
        chunks = self.chunks(occupancy)
        step = self.numbers.alpha + occupancy * self.mean_work(chunks)
        return np.asarray((chunks + self.shape.tokens_out) * step)

    def prefill_time(self, occupancy: Floats) -> Floats:
        """Time from entering service to the end of prefill.

        Parameters
        ----------
        occupancy : ndarray
            Requests in the batch.

        Returns
        -------
        ndarray
            Seconds.
        """
        chunks = self.chunks(occupancy)
        return chunks * self._others(occupancy, chunks) + self.prefill_work(chunks)

    def decode_time(self, occupancy: Floats) -> Floats:
        """Duration of one decode step.

        Parameters
        ----------
        occupancy : ndarray
            Requests in the batch.

        Returns
        -------
        ndarray
            Seconds.
        """
        return self._others(occupancy, self.chunks(occupancy)) + self.decode_work()

    def split_service(self, service: Floats, in_service: Floats) -> tuple[Floats, Floats, Floats]:
        """Split the mean service time into prefill and tokens, at the mean occupancy.

        Parameters
        ----------
        service : ndarray
            Mean service time in seconds.
        in_service : ndarray
            Mean requests in service.

        Returns
        -------
        prefill, itl, first_token : ndarray
            Mean prefill time, inter-token latency, and time from entering service to the first
            token, in seconds.
        """
        prefill = self.prefill_time(in_service)
        itl = np.asarray((service - prefill) / self.shape.tokens_out)
        return prefill, itl, prefill + itl

    def _others(self, occupancy: Floats, chunks: Floats) -> Floats:
        step = self.numbers.alpha + (occupancy - 1.0) * self.mean_work(chunks)
        return np.maximum(0.0, step)


@dataclass(frozen=True, slots=True, kw_only=True)
class SingleStepWork:
    """V1: prefill in one step, and the tagged request counted twice, as llm-d ships it.

    Parameters
    ----------
    numbers : ThreeNumbers
        Cost of a step.
    shape : RequestShape
        Mean tokens.
    """

    numbers: ThreeNumbers
    shape: RequestShape

    version: ClassVar[Version] = "V1"
    rejects_overload: ClassVar[bool] = True

    def columns(self) -> Self:
        """Copy whose fields have one more trailing axis.

        Returns
        -------
        SingleStepWork
            Broadcasts over a last axis of occupancies.
        """
        numbers, shape = numbers_columns(self.numbers), shape_columns(self.shape)
        return replace(self, numbers=numbers, shape=shape)

    def step_time(self, occupancy: Floats) -> Floats:
        """Duration of one step.

        Parameters
        ----------
        occupancy : ndarray
            Requests in the batch.

        Returns
        -------
        ndarray
            Seconds.
        """
        number, prompt, output = self.numbers, self.shape.tokens_in, self.shape.tokens_out
        computed = (prompt + output) / (output + 1.0)
        work = number.beta * computed + number.gamma * (prompt + output / 2.0)
        return np.asarray(number.alpha + occupancy * work)

    def prefill_time(self, occupancy: Floats) -> Floats:
        """Time from entering service to the end of prefill; none without a prompt.

        Parameters
        ----------
        occupancy : ndarray
            Requests in the batch.

        Returns
        -------
        ndarray
            Seconds.
        """
        prompt = self.shape.tokens_in
        time = self.step_time(occupancy) + (self.numbers.beta + self.numbers.gamma) * prompt
        return np.where(np.asarray(prompt) == 0, 0.0, time)

    def decode_time(self, occupancy: Floats) -> Floats:
        """Duration of one decode step.

        Parameters
        ----------
        occupancy : ndarray
            Requests in the batch.

        Returns
        -------
        ndarray
            Seconds.
        """
        context = self.shape.tokens_in + self.shape.tokens_out / 2.0
        own = self.numbers.beta + self.numbers.gamma * context
        return np.asarray(self.step_time(occupancy) + own)

    def service_time(self, occupancy: Floats) -> Floats:
        """Time in service of a request that always sees this batch.

        Parameters
        ----------
        occupancy : ndarray
            Requests in the batch.

        Returns
        -------
        ndarray
            Seconds.
        """
        decodes = self.shape.tokens_out * self.decode_time(occupancy)
        return np.asarray(self.prefill_time(occupancy) + decodes)

    def split_service(self, service: Floats, in_service: Floats) -> tuple[Floats, Floats, Floats]:
        """Split the mean service time into prefill and tokens, at the mean occupancy.

        Parameters
        ----------
        service : ndarray
            Mean service time in seconds.
        in_service : ndarray
            Mean requests in service.

        Returns
        -------
        prefill, itl, first_token : ndarray
            Mean prefill time, inter-token latency, and time from entering service to the first
            token, in seconds.
        """
        prefill = self.prefill_time(in_service)
        itl = np.asarray((service - prefill) / self.shape.tokens_out)
        return prefill, itl, prefill + itl
