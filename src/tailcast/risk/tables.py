"""Requests by workload seed, dealt to schedulers; made once and shared by all candidates."""

import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailcast.request import RequestTable
from tailcast.risk.fleet import deal_requests, first_requests
from tailcast.risk.stability import Shape, request_shape


@dataclass(frozen=True, slots=True, kw_only=True)
class Dealt:
    """Requests of one scheduler.

    Parameters
    ----------
    table : RequestTable
        All in group 0.
    group : ndarray of int, shape (n_request,)
        Stage or class of each.
    shape : Shape
        With every prompt token computed.
    """

    table: RequestTable
    group: NDArray[np.int64]
    shape: Shape


class Tables:
    """Request tables by workload seed, made once.

    Parameters
    ----------
    requests : callable
        Workload seed to requests.
    keep : int
        Answers kept at most; the oldest are forgotten.
    """

    def __init__(self, requests: Callable[[int], RequestTable], keep: int = 4000) -> None:
        self._requests = requests
        self._keep = keep
        self._made: dict[Hashable, Any] = {}
        self._lock = threading.Lock()

    def __call__(self, seed: int) -> RequestTable:
        """Requests of a seed.

        Parameters
        ----------
        seed : int
            Of the workload.

        Returns
        -------
        RequestTable
            All that arrives.
        """
        made: RequestTable = self._once(seed, lambda: self._requests(seed))
        return made

    def dealt(self, seed: int, n_rank: int, share: float = 1.0) -> tuple[Dealt, ...]:
        """Requests of a seed, dealt to schedulers in turn.

        Parameters
        ----------
        seed : int
            Of the workload.
        n_rank : int
            Schedulers.
        share : float
            Share of the requests that is kept, from the first on.

        Returns
        -------
        tuple of Dealt
            One for each scheduler that gets any.
        """

        def make() -> tuple[Dealt, ...]:
            table = self(seed)
            if share < 1.0:
                table = first_requests(table, max(1, round(share * len(table))))
            return tuple(
                Dealt(
                    table=own,
                    group=table.group[rows],
                    shape=request_shape(own, prefix_caching=False),
                )
                for own, rows in deal_requests(table, n_rank)
            )

        made: tuple[Dealt, ...] = self._once((seed, n_rank, share), make)
        return made

    def _once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        with self._lock:
            known = self._made.get(key)
        if known is not None:
            return known
        made = make()
        with self._lock:
            while len(self._made) >= self._keep:
                self._made.pop(next(iter(self._made)))
            return self._made.setdefault(key, made)

    def __getstate__(self) -> dict[str, Any]:
        return {"_requests": self._requests, "_keep": self._keep}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._requests, self._keep = state["_requests"], state["_keep"]
        self._made, self._lock = {}, threading.Lock()
