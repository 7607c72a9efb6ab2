"""How the kernel is compiled: no GIL, no reference counts, one cache entry a version of its source.

Numba's on-disk cache notices a change in the file of an entry point but not in that of a callee, so
the digest of all kernel sources is made a part of the key.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

import numba
from numba.core.caching import FunctionCache

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
