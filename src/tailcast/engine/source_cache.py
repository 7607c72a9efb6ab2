"""Compiled code on disk, kept for one version of all the sources it was made from.

Numba's own cache notices a change in the file of an entry point but not in that of a callee, so a
digest of all sources is made a part of its key.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from numba.core.caching import FunctionCache


def source_digest(paths: Iterable[Path]) -> str:
    """Digest of source files.

    Parameters
    ----------
    paths : iterable of pathlib.Path
        Files in any order.

    Returns
    -------
    str
        Hexadecimal.
    """
    digest = hashlib.blake2b(digest_size=16)
    for path in sorted(paths):
        digest.update(path.read_bytes())
    return digest.hexdigest()


class SourceCache(FunctionCache):  # type: ignore[misc]
    """Numba's cache of one function with the digest of all its sources in the key.

    Parameters
    ----------
    function : callable
        Entry point.
    digest : str
        From `source_digest`.
    """

    def __init__(self, function: Any, digest: str) -> None:
        super().__init__(function)
        self._digest = digest

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        return (*super()._index_key(sig, codegen), self._digest)
