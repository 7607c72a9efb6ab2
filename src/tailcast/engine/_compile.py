"""How the kernel is compiled: no GIL, no reference counts, one cache entry a version of its source.

Numba's on-disk cache notices a change in the file of an entry point but not in that of a callee, so
the digest of all kernel sources is made a part of the key.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import types
from numba.core.caching import FunctionCache
from numba.extending import intrinsic

_PLAIN: Final[dict[str, Any]] = {"nogil": True, "error_model": "numpy"}


def _source_digest() -> str:
    """Digest of every kernel module, in hexadecimal."""
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(Path(__file__).parent.glob("_*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


_DIGEST: Final = _source_digest()


class _SourceCache(FunctionCache):  # type: ignore[misc]
    """Numba's cache on disk, with the sources of all kernel modules in its key."""

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        return (*super()._index_key(sig, codegen), _DIGEST)


def compiled[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel function that allocates nothing (so that no reference is counted)."""
    return cast(Callable[P, R], numba.njit(_nrt=False, **_PLAIN)(function))


def inlined[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel function into its callers: for what runs every step."""
    return cast(Callable[P, R], numba.njit(_nrt=False, forceinline=True, **_PLAIN)(function))


def entry[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that Python calls, and keep it on disk."""
    dispatcher = numba.njit(_nrt=False, **_PLAIN)(function)
    dispatcher._cache = _SourceCache(function)
    return cast(Callable[P, R], dispatcher)


@inlined
def wide(value: int) -> int:
    """An integer of 64 bits, so that a callee is compiled for one width only."""
    return np.int64(value)  # type: ignore[return-value]


def record_at(layout: "np.dtype[Any]") -> Callable[[int, int], Any]:
    """Accessor for kernel code: the i-th record with this layout of the array at an address."""
    record = numba.from_dtype(layout)
    size = layout.itemsize

    def at(_typing: Any, address: Any, index: Any) -> Any:
        """Type of the record, and code that computes its place."""

        def place(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            start, i = arguments
            offset = builder.mul(i, ir.Constant(ir.IntType(64), size))
            return builder.inttoptr(builder.add(start, offset), context.get_value_type(record))

        return record(types.int64, types.int64), place

    return cast(Callable[[int, int], Any], intrinsic(at))


def record_of(layout: "np.dtype[Any]") -> Callable[[int], Any]:
    """Accessor for kernel code: the record with this layout at an address."""
    record = numba.from_dtype(layout)

    def of(_typing: Any, address: Any) -> Any:
        """Type of the record, and code that makes the address a pointer."""

        def place(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(record))

        return record(types.int64), place

    return cast(Callable[[int], Any], intrinsic(of))
