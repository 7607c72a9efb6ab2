"""How the kernel is compiled: no GIL, no reference counts, one cache entry a version of its source.

Numba's on-disk cache notices a changed entry point but not a changed callee; the digest of all
kernel sources, held in the entry point's closure, makes it notice.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

import numba

_PLAIN: Final[dict[str, Any]] = {"nogil": True, "error_model": "numpy"}


def source_digest() -> str:
    """Digest of every kernel module, in hexadecimal."""
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(Path(__file__).parent.glob("_*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def compiled[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel function that allocates nothing (so that no reference is counted)."""
    return cast(Callable[P, R], numba.njit(_nrt=False, **_PLAIN)(function))


def inlined[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel function into its callers: for what runs every step."""
    return cast(Callable[P, R], numba.njit(_nrt=False, forceinline=True, **_PLAIN)(function))


def entry[**P, R](function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function that Python calls, and keep it on disk."""
    return cast(Callable[P, R], numba.njit(cache=True, _nrt=False, **_PLAIN)(function))
