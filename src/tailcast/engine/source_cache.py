"""Compiled code on disk, kept for one version of all the sources it was made from.

Numba's own cache notices a change in the file of an entry point but not in that of a callee, so a
digest of all sources is made a part of its key.
"""

from typing import Any

from numba.core.caching import FunctionCache


class SourceCache(FunctionCache):  # type: ignore[misc]
    """Numba's cache of one function with the digest of all its sources in the key.

    Parameters
    ----------
    function : callable
        Entry point.
    digest : str
        From `tailcast.engine.source_digest.source_digest`.
    """

    def __init__(self, function: Any, digest: str) -> None:
        super().__init__(function)
        self._digest = digest

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        return (*super()._index_key(sig, codegen), self._digest)
