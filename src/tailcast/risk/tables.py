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
        Requests kept at most, some 100 bytes each; the oldest tables are forgotten.
    """

    def __init__(self, requests: Callable[[int], RequestTable], keep: int = 2_000_000) -> None:
        self._requests = requests
        self._keep = keep
        self._made: dict[Hashable, tuple[int, Any]] = {}
        self._kept = 0
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

        def make() -> tuple[int, RequestTable]:
            table = self._requests(seed)
            return len(table), table

        made: RequestTable = self._once(seed, make)
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

        def make() -> tuple[int, tuple[Dealt, ...]]:
            table = self(seed)
            if share < 1.0:
                table = first_requests(table, max(1, round(share * len(table))))
            dealt = tuple(
                Dealt(
                    table=own,
                    group=table.group[rows],
                    shape=request_shape(own, prefix_caching=False),
                )
                for own, rows in deal_requests(table, n_rank)
            )
            return len(table), dealt

        made: tuple[Dealt, ...] = self._once((seed, n_rank, share), make)
        return made

    def _once(self, key: Hashable, make: Callable[[], tuple[int, Any]]) -> Any:
        with self._lock:
            known = self._made.get(key)
        if known is not None:
            return known[1]
        size, made = make()
        with self._lock:
            if key not in self._made:
                while self._made and self._kept + size > self._keep:
                    self._kept -= self._made.pop(next(iter(self._made)))[0]
                self._made[key] = size, made
                self._kept += size
            return self._made[key][1]

    def __getstate__(self) -> dict[str, Any]:
        return {"_requests": self._requests, "_keep": self._keep}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._requests, self._keep = state["_requests"], state["_keep"]
        self._made, self._kept, self._lock = {}, 0, threading.Lock()
