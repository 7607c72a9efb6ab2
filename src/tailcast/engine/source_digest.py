"""One digest of several source files, by which what was made from them is known to be stale."""

import hashlib
from collections.abc import Iterable
from pathlib import Path


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
