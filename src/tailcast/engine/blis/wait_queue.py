"""Waiting requests as a binary heap of distinct whole-number keys, smallest first.

A request's key is its place under the scheduler (or, first come first served, a running number;
negative ones put preempted requests in front). Departed requests leave stale entries behind, which
the reader drops when they reach the top.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailcast.engine.blis.compiled import compiled


class WaitQueue(NamedTuple):
    """Heap entries; `size` has shape (1,), the others (capacity,)."""

    key: NDArray[np.int64]
    row: NDArray[np.int64]
    size: NDArray[np.int64]


def new_wait_queue(capacity: int) -> WaitQueue:
    """Empty queue.

    Parameters
    ----------
    capacity : int
        Most entries at a time, stale ones included.

    Returns
    -------
    WaitQueue
        Ready for a run.
    """
    return WaitQueue(
        key=np.zeros(capacity, dtype=np.int64),
        row=np.zeros(capacity, dtype=np.int64),
        size=np.zeros(1, dtype=np.int64),
    )


@compiled
def push(queue: WaitQueue, key: int, row: int) -> None:
    """Add a request."""
    i = queue.size[0]
    queue.size[0] += 1
    while i > 0:
        parent = (i - 1) // 2
        if queue.key[parent] <= key:
            break
        queue.key[i] = queue.key[parent]
        queue.row[i] = queue.row[parent]
        i = parent
    queue.key[i] = key
    queue.row[i] = row


@compiled
def pop(queue: WaitQueue) -> None:
    """Drop the first entry of a queue that is not empty."""
    queue.size[0] -= 1
    n = queue.size[0]
    key = queue.key[n]
    row = queue.row[n]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and queue.key[child + 1] < queue.key[child]:
            child += 1
        if queue.key[child] >= key:
            break
        queue.key[i] = queue.key[child]
        queue.row[i] = queue.row[child]
        i = child
    queue.key[i] = key
    queue.row[i] = row
