"""One seed, many named random streams, so that a new consumer shifts no other."""

import zlib

import numpy as np


def stream(seed: int, *name: str | int) -> np.random.Generator:
    """Random generator of one named consumer.

    Parameters
    ----------
    seed : int
        The run's seed, not negative.
    *name : str or int
        What the stream is for, for example ``"arrivals", 3``.

    Returns
    -------
    numpy.random.Generator
        Independent of every stream with another seed or name.

    Raises
    ------
    ValueError
        If `seed` is negative.

    Examples
    --------
    >>> stream(7, "arrivals").integers(10) == stream(7, "arrivals").integers(10)
    np.True_
    """
    if seed < 0:
        raise ValueError(f"seed must not be negative, got {seed!r}")
    key = tuple(zlib.crc32(str(part).encode()) for part in name)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
