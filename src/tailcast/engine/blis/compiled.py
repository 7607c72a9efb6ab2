"""Numba compilation with one set of options, typed so that callers keep their signatures.

Floating point stays IEEE (no reordering, no fused operations), which parity depends on. Compiled
functions must not allocate: reference counting of arrays is off, which makes them many times as
fast. Numba's disk cache looks at the file of the called function alone: after a change to a part,
delete ``__pycache__``.
"""

from collections.abc import Callable
from typing import Any, cast

import numba

_OPTIONS: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False}
_PART_OPTIONS = {
    **_OPTIONS,
    "forceinline": True,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}


def compiled[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Compile to machine code that releases the GIL and is cached on disk.

    Parameters
    ----------
    function : callable
        Function of numbers, arrays and named tuples of them.

    Returns
    -------
    callable
        Same signature.
    """
    return cast(Callable[P, R], numba.njit(**_OPTIONS)(function))


def compiled_part[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Compile a part that only other compiled functions call, into its caller.

    Parameters
    ----------
    function : callable
        Function of numbers, arrays and named tuples of them.

    Returns
    -------
    callable
        Same signature; not callable from Python.
    """
    return cast(Callable[P, R], numba.njit(**_PART_OPTIONS)(function))
