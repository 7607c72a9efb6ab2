"""Numba compilation with one set of options, typed so that callers keep their signatures."""

from collections.abc import Callable
from typing import cast

import numba


def compiled[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Compile to machine code that releases the GIL and is cached on disk.

    Parameters
    ----------
    function : callable
        Function of numbers, arrays and named tuples of them.

    Returns
    -------
    callable
        Same signature; floating point stays IEEE (no reordering), which parity depends on.
    """
    return cast(Callable[P, R], numba.njit(cache=True, nogil=True)(function))
