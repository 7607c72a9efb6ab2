"""Several equal replicas, and the dealing of requests to them in turn."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from tailcast.deployment import Deployment
from tailcast.errors import UsageError
from tailcast.request import RequestTable


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Equal replicas of one deployment.

    Parameters
    ----------
    deployment : Deployment
        One replica.
    replicas : int
        How many; at least 1.
    """

    deployment: Deployment
    replicas: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.replicas, bool) or not self.replicas >= 1:
            raise UsageError(f"replicas must be at least 1, got {self.replicas!r}")

    @property
    def n_accelerators(self) -> int:
        """Accelerators of all replicas."""
        return self.replicas * self.deployment.n_accelerators

    @property
    def n_rank(self) -> int:
        """Schedulers that requests are dealt to: replicas times data-parallel ranks."""
        return self.replicas * self.deployment.data_parallel

    @property
    def title(self) -> str:
        """What it is, in a few words."""
        d = self.deployment
        parts = [f"TP {d.tensor_parallel}"]
        if d.data_parallel > 1:
            parts.append(f"DP {d.data_parallel}")
        if self.replicas > 1:
            parts.append(f"{self.replicas} replicas")
        return (
            f"{d.llm.name} ({d.weight_dtype}) on {self.n_accelerators} x {d.accelerator.name}, "
            f"{', '.join(parts)}"
        )


def deal_requests(
    requests: RequestTable, n_rank: int
) -> list[tuple[RequestTable, NDArray[np.int64]]]:
    """Deal requests to schedulers in turn, as a round-robin gateway does.

    A session or a user of a closed loop stays with the scheduler that served its first request.
    Nothing is drawn: the same requests arrive whatever the number of schedulers.

    Parameters
    ----------
    requests : RequestTable
        All that arrives.
    n_rank : int
        Schedulers.

    Returns
    -------
    list of tuple
        For each scheduler that gets any: its requests, all in group 0, and their rows in
        `requests`, shape (n_own,).
    """
    root = _roots(requests.parent)
    turn = np.cumsum(requests.parent < 0) - 1
    rank = turn[root] % n_rank
    dealt = []
    for k in range(n_rank):
        rows = np.flatnonzero(rank == k)
        if len(rows):
            dealt.append((_rows_of(requests, rows), rows))
    return dealt


def first_requests(requests: RequestTable, n: int) -> RequestTable:
    """The first requests of a table.

    Parameters
    ----------
    requests : RequestTable
        All that arrives.
    n : int
        How many are kept, at most all.

    Returns
    -------
    RequestTable
        A shorter run.
    """
    if n >= len(requests):
        return requests
    return RequestTable(**{f.name: getattr(requests, f.name)[:n] for f in fields(RequestTable)})


def _roots(parent: NDArray[np.int64]) -> NDArray[np.int64]:
    """Row of the first request of each row's chain."""
    root = np.arange(len(parent))
    if np.any(parent >= 0):
        for row in np.flatnonzero(parent >= 0):
            root[row] = root[parent[row]]
    return root


def _rows_of(requests: RequestTable, rows: NDArray[np.int64]) -> RequestTable:
    columns = {f.name: getattr(requests, f.name)[rows] for f in fields(RequestTable)}
    columns["group"] = np.zeros(len(rows), dtype=np.int64)
    if np.any(columns["parent"] >= 0):
        place = np.full(len(requests), -1)
        place[rows] = np.arange(len(rows))
        columns["parent"] = np.where(columns["parent"] < 0, -1, place[columns["parent"]])
    return RequestTable(**columns)
