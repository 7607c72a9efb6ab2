"""Waiting requests as a binary heap of (distinct key, row) pairs, smallest key first.

A request's key is its place under the scheduler (or, first come first served, a running number;
negative ones put preempted requests in front). Departed requests leave stale entries behind, which
the reader drops when they reach the top.
"""

import numpy as np
from numpy.typing import NDArray

from tailcast.engine.blis.compiled import compiled_part


@compiled_part
def push(heap: NDArray[np.int64], n: int, key: int, row: int) -> None:
    """Add a request to a heap of `n` entries, shape (capacity, 2)."""
    i = n
    while i > 0:
        parent = (i - 1) // 2
        if heap[parent, 0] <= key:
            break
        heap[i, 0] = heap[parent, 0]
        heap[i, 1] = heap[parent, 1]
        i = parent
    heap[i, 0] = key
    heap[i, 1] = row


@compiled_part
def pop(heap: NDArray[np.int64], n: int) -> None:
    """Drop the first of `n` entries, at least one."""
    n -= 1
    key = heap[n, 0]
    row = heap[n, 1]
    i = 0
    while True:
        child = 2 * i + 1
        if child >= n:
            break
        if child + 1 < n and heap[child + 1, 0] < heap[child, 0]:
            child += 1
        if heap[child, 0] >= key:
            break
        heap[i, 0] = heap[child, 0]
        heap[i, 1] = heap[child, 1]
        i = child
    heap[i, 0] = key
    heap[i, 1] = row
