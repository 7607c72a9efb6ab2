"""How the engine is compiled: typed, without the GIL, kept on disk for one version of its source.

Floating point stays IEEE (no reordering, no fused operations), which parity depends on. Compiled
functions must not allocate: reference counting of arrays is off, which makes them many times as
fast.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

import numba

from tailcast.engine.source_cache import SourceCache
from tailcast.engine.source_digest import source_digest

_OPTIONS: Final[dict[str, Any]] = {"nogil": True, "_nrt": False}
_PART_OPTIONS: Final[dict[str, Any]] = {
    **_OPTIONS,
    "forceinline": True,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}


_DIGEST: Final = source_digest(Path(__file__).parent.glob("*.py"))


def compiled[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that Python calls and keep it on disk.

    Parameters
    ----------
    function : callable
        Function of numbers, arrays and named tuples of them.

    Returns
    -------
    callable
        Same signature.
    """
    dispatcher = numba.njit(**_OPTIONS)(function)
    dispatcher._cache = SourceCache(function, _DIGEST)
    return cast(Callable[P, R], dispatcher)


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
