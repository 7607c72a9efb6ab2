"""Events of a streamed answer as tokens: doubled, merged and empty events undone."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

# An event this much closer to its neighbour than events usually are carries no token of its own.
_TINY = 0.1
_MERGED_SHARE = 0.05
HOWS = ("exact", "doubled", "role event", "final event", "merged", "unmatched")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEvents:
    """Events of one answer that carry its tokens.

    Parameters
    ----------
    time : ndarray, shape (n_event,)
        Seconds on the clock of the file.
    n_tokens : ndarray of int, shape (n_event,)
        Tokens that came with each; their sum is the length of the answer.
    how : str
        One of `HOWS`: what was done to match events and tokens; for ``unmatched`` the events are
        as they were, one token each.
    """

    time: Floats
    n_tokens: Ints
    how: str


def match_events(time: Floats, n_tokens: int) -> TokenEvents:
    """Match the events of an answer with the tokens that are known to be in it.

    Twice as many events that come in close pairs are one token each (a client that logs two events
    a token). One event too many is the role chunk at the start or the usage chunk at the end if it
    stands close to its neighbour. A few events too few carried two tokens, where the gaps were
    widest, since an engine step yields one token.

    Parameters
    ----------
    time : ndarray, shape (n_event,)
        Times of the events, in order.
    n_tokens : int
        Tokens of the answer, by a count that can be trusted.

    Returns
    -------
    TokenEvents
        ``unmatched`` where none of this explains the difference.
    """
    n = len(time)
    ones = np.ones(n, dtype=np.int64)
    if n == n_tokens:
        return TokenEvents(time=time, n_tokens=ones, how="exact")
    if n >= 4 and abs(n - 2 * n_tokens) <= max(1, 0.02 * n) and _paired(time):
        first = time[0::2][:n_tokens]
        if len(first) == n_tokens:
            return TokenEvents(time=first, n_tokens=ones[:n_tokens], how="doubled")
    if n == n_tokens + 1 and n >= 3:
        gaps = np.diff(time)
        typical = float(np.median(gaps))
        if gaps[0] <= _TINY * typical:
            return TokenEvents(time=time[1:], n_tokens=ones[1:], how="role event")
        if gaps[-1] <= _TINY * typical:
            return TokenEvents(time=time[:-1], n_tokens=ones[:-1], how="final event")
    if 2 <= n < n_tokens and n_tokens - n <= max(1, _MERGED_SHARE * n_tokens):
        return TokenEvents(time=time, n_tokens=_spread(time, n_tokens), how="merged")
    return TokenEvents(time=time, n_tokens=ones, how="unmatched")


def _paired(time: Floats) -> bool:
    """Whether every second gap is next to nothing beside the ones between."""
    gaps = np.diff(time)
    within, between = gaps[0::2], gaps[1::2]
    return bool(np.median(within) <= _TINY * np.median(between))


def _spread(time: Floats, n_tokens: int) -> Ints:
    """Tokens of each event where some carried several: the widest gaps get them."""
    counts = np.ones(len(time), dtype=np.int64)
    gaps = np.diff(time)
    for _ in range(n_tokens - len(time)):
        counts[1 + int(np.argmax(gaps / counts[1:]))] += 1
    return counts
