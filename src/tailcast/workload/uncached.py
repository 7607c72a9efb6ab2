"""Requests of which some share does not repeat an earlier prompt after all."""

from dataclasses import replace

import numpy as np

from tailcast.errors import UsageError
from tailcast.request import RequestTable
from tailcast.streams import stream


def with_unique_prompts(requests: RequestTable, share: float, seed: int) -> RequestTable:
    """Requests with a random share of their prompts made unique, shared prefixes kept.

    Parameters
    ----------
    requests : RequestTable
        Any requests.
    share : float
        Expected share of requests whose prompt beyond the shared prefix is its own, in [0, 1].
    seed : int
        Of the random stream; a larger share makes the same requests unique and more.

    Returns
    -------
    RequestTable
        Equal but for `content_stream`.

    Raises
    ------
    UsageError
        If `share` is no share.
    """
    if not 0 <= share <= 1:
        raise UsageError(f"share of unique prompts must lie in 0..1, got {share:g}")
    own = stream(seed, "unique prompts").random(len(requests)) < share
    alone = own & (requests.parent < 0) & ~requests.session_output
    return replace(requests, content_stream=np.where(alone, -1, requests.content_stream))
