"""How the engine is compiled: typed, without the GIL, kept on disk for one version of its source.

Floating point stays IEEE (no reordering, no fused operations), which parity depends on. Compiled
functions must not allocate: reference counting of arrays is off, which makes them many times as
fast.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

import numba
from numba.core.caching import FunctionCache

_OPTIONS: Final[dict[str, Any]] = {"nogil": True, "_nrt": False}
_PART_OPTIONS: Final[dict[str, Any]] = {
    **_OPTIONS,
    "forceinline": True,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
}


def _source_digest() -> str:
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


_DIGEST: Final = _source_digest()


class _SourceCache(FunctionCache):  # type: ignore[misc]
    """Numba's cache, which would miss a change in a callee's file, with all sources in its key."""

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        return (*super()._index_key(sig, codegen), _DIGEST)


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
    dispatcher._cache = _SourceCache(function)
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
