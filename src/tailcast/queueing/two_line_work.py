"""Work model V0: prefill and decode as two lines in the occupancy, as llm-d shipped it in 2025."""

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from tailcast.queueing.chunked_work import ChunkedWork, shape_columns
from tailcast.queueing.server import Floats, RequestShape, TwoLines, Version


@dataclass(frozen=True, slots=True, kw_only=True)
class TwoLineWork:
    """V0: two lines, good for one request shape only.

    Parameters
    ----------
    lines : TwoLines
        Bases and slopes.
    shape : RequestShape
        Mean tokens.
    max_batch : int or None
        Largest effective concurrency.
    """

    lines: TwoLines
    shape: RequestShape
    max_batch: int | None = None

    version: ClassVar[Version] = "V0"
    rejects_overload: ClassVar[bool] = True

    def columns(self) -> Self:
        """Copy whose fields have one more trailing axis.

        Returns
        -------
        TwoLineWork
            Broadcasts over a last axis of occupancies.
        """
        lines = TwoLines(
            decode_base=np.asarray(self.lines.decode_base)[..., None],
            decode_slope=np.asarray(self.lines.decode_slope)[..., None],
            prefill_base=np.asarray(self.lines.prefill_base)[..., None],
            prefill_slope=np.asarray(self.lines.prefill_slope)[..., None],
        )
        return replace(self, lines=lines, shape=shape_columns(self.shape))

    def prefill_time(self, occupancy: Floats) -> Floats:
        """Time from entering service to the first token; none without a prompt.

        Parameters
        ----------
        occupancy : ndarray
            Requests in the batch.

        Returns
        -------
        ndarray
            Seconds.
        """
        lines, prompt = self.lines, self.shape.tokens_in
        time = lines.prefill_base + lines.prefill_slope * prompt * occupancy
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
        return np.asarray(self.lines.decode_base + self.lines.decode_slope * occupancy)

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
        prompt, output = np.asarray(self.shape.tokens_in), np.asarray(self.shape.tokens_out)
        decodes = np.where((prompt == 0) & (output == 1), 1.0, output - 1.0)
        return np.asarray(self.prefill_time(occupancy) + decodes * self.decode_time(occupancy))

    def effective_concurrency(self, service: Floats) -> Floats:
        """Occupancy at which the two lines add up to the mean service time.

        Parameters
        ----------
        service : ndarray
            Mean service time in seconds.

        Returns
        -------
        ndarray
            Requests, within 0 and the batch cap.
        """
        lines, prompt = self.lines, self.shape.tokens_in
        decodes = self.shape.tokens_out - 1.0
        fixed = lines.prefill_base + lines.decode_base * decodes
        slope = np.asarray(lines.prefill_slope * prompt + lines.decode_slope * decodes)
        with np.errstate(divide="ignore", invalid="ignore"):
            concurrency = np.where(slope > 0, (service - fixed) / slope, 0.0)
        cap = np.inf if self.max_batch is None else float(self.max_batch)
        return np.clip(concurrency, 0.0, cap)

    def split_service(self, service: Floats, in_service: Floats) -> tuple[Floats, Floats, Floats]:
        """Split the mean service time into prefill and tokens, at the effective concurrency.

        Parameters
        ----------
        service : ndarray
            Mean service time in seconds.
        in_service : ndarray
            Mean requests in service; not used by this version.

        Returns
        -------
        prefill, itl, first_token : ndarray
            Mean prefill time, inter-token latency, and time from entering service to the first
            token, in seconds.
        """
        del in_service
        concurrency = self.effective_concurrency(service)
        prefill = self.prefill_time(concurrency)
        return prefill, self.decode_time(concurrency), prefill


def two_lines_of(work: ChunkedWork) -> TwoLines:
    """The two lines that agree with V2 at one shape while prefill takes one step.

    Parameters
    ----------
    work : ChunkedWork
        V2 with its request shape.

    Returns
    -------
    TwoLines
        Good for this shape only; the way back does not exist.
    """
    one = np.asarray(1.0)
    slope, alpha = work.mean_work(one), work.numbers.alpha
    prompt = np.asarray(work.shape.tokens_in)
    with np.errstate(divide="ignore", invalid="ignore"):
        prefill_slope = np.where(prompt > 0, slope / prompt, 0.0)
    return TwoLines(
        decode_base=alpha + work.decode_work() - slope,
        decode_slope=slope,
        prefill_base=alpha + work.prefill_work(one) - slope,
        prefill_slope=prefill_slope,
    )
