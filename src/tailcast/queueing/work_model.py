"""Choice of the work model: the time a request needs of the engine, by batch occupancy."""

from typing import Protocol, Self

from tailcast.errors import UsageError, near_name
from tailcast.queueing.chunked_work import ChunkedWork, SingleStepWork
from tailcast.queueing.server import (
    VERSIONS,
    Floats,
    RequestShape,
    ServerLimits,
    ThreeNumbers,
    TwoLines,
    Version,
)
from tailcast.queueing.two_line_work import TwoLineWork


class WorkModel(Protocol):
    """What the chain asks of a work model; every method broadcasts over its fields."""

    @property
    def version(self) -> Version:
        """Which of the three published versions this is."""

    @property
    def rejects_overload(self) -> bool:
        """Whether this version refuses a rate above the stability boundary."""

    @property
    def shape(self) -> RequestShape:
        """Mean tokens of the requests."""

    def columns(self) -> Self:
        """Copy whose fields have one more trailing axis, to broadcast over occupancies."""

    def service_time(self, occupancy: Floats) -> Floats:
        """Seconds in service of a request that always sees this batch."""

    def prefill_time(self, occupancy: Floats) -> Floats:
        """Seconds from entering service to the end of prefill."""

    def decode_time(self, occupancy: Floats) -> Floats:
        """Seconds of one decode step."""

    def split_service(self, service: Floats, in_service: Floats) -> tuple[Floats, Floats, Floats]:
        """Seconds of prefill, per token, and to the first token, from means of the chain."""


def work_model(
    parameters: ThreeNumbers | TwoLines,
    shape: RequestShape,
    limits: ServerLimits,
    version: str = "V2",
) -> WorkModel:
    """Work model of one server for one request shape.

    Parameters
    ----------
    parameters : ThreeNumbers or TwoLines
        Costs; two lines for V0, three numbers for the others.
    shape : RequestShape
        Mean tokens.
    limits : ServerLimits
        Batch cap and token budget.
    version : {"V2", "V1", "V0"}
        Published version of the model.

    Returns
    -------
    WorkModel
        The selected version.

    Raises
    ------
    UsageError
        If the version is unknown or does not go with the parameters.
    """
    if version not in VERSIONS:
        hint = near_name(version, VERSIONS)
        raise UsageError(f"no version {version!r} of the work model; {hint}")
    shape.check_served()
    if version == "V0":
        if not isinstance(parameters, TwoLines):
            raise UsageError("work model V0 needs two lines (decode and prefill base and slope)")
        return TwoLineWork(lines=parameters, shape=shape, max_batch=limits.max_batch)
    if not isinstance(parameters, ThreeNumbers):
        raise UsageError(f"work model {version} needs the three numbers alpha, beta and gamma")
    if version == "V1":
        return SingleStepWork(numbers=parameters, shape=shape)
    return ChunkedWork(
        numbers=parameters,
        shape=shape,
        max_batched_tokens=limits.max_batched_tokens,
        max_batch=limits.max_batch,
    )
