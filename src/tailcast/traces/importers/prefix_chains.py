"""Shared beginnings of prompts, given block by block, as prefix and content streams."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

type Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixStreams:
    """Columns of a `RequestTable` that say which prompts begin alike; each of shape (n_request,).

    Parameters
    ----------
    prefix_stream : ndarray of int
        Identity of the shared beginning, -1 for none.
    prefix_blocks : ndarray of int
        Blocks of it.
    content_stream : ndarray of int
        Identity of what follows, -1 for nothing shared.
    hits : ndarray of int
        Blocks of each request that an earlier request had too.
    hits_kept : ndarray of int
        Those of them that the streams say.
    """

    prefix_stream: Ints
    prefix_blocks: Ints
    content_stream: Ints
    hits: Ints
    hits_kept: Ints


def prefix_streams(blocks: Sequence[Sequence[int]]) -> PrefixStreams:
    """Streams of prompts that are given as lists of full blocks.

    The prompts form a tree. It is cut into chains, each grown by the first prompt to go on from
    its end. A prompt that lies in one chain, or in one and then another, is told exactly; of one
    that changes chains more often the middle is given up, which `hits_kept` counts.

    Parameters
    ----------
    blocks : sequence of sequences of int
        Identities of the full blocks of each prompt, in the order of arrival; a block's identity
        holds for its place behind the blocks before it.

    Returns
    -------
    PrefixStreams
        Streams that only one prompt has are -1.
    """
    child: dict[tuple[int, int], int] = {}
    chain_of: list[int] = []
    end_of: list[int] = []
    n = len(blocks)
    first, first_blocks = np.full(n, -1), np.zeros(n, dtype=np.int64)
    then, hits = np.full(n, -1), np.zeros(n, dtype=np.int64)
    for row, path in enumerate(blocks):
        node, cuts = -1, []
        chain = -1
        for depth, block in enumerate(path):
            found = child.get((node, block))
            if found is None:
                found = len(chain_of)
                child[node, block] = found
                if node < 0 or end_of[chain_of[node]] != node:
                    end_of.append(found)
                    chain_of.append(len(end_of) - 1)
                else:
                    chain_of.append(chain_of[node])
                    end_of[chain_of[node]] = found
            else:
                hits[row] = depth + 1
            if chain_of[found] != chain:
                chain = chain_of[found]
                cuts.append((depth, chain))
            node = found
        if cuts:
            first[row] = cuts[0][1]
            first_blocks[row] = cuts[1][0] if len(cuts) > 1 else len(path)
            then[row] = cuts[-1][1] if len(cuts) > 1 else -1
    kept = _hits_told(first, first_blocks, then, [len(path) for path in blocks])
    shared, streams = _shared(first), _shared(then)
    return PrefixStreams(
        prefix_stream=np.where(shared, first, -1),
        prefix_blocks=np.where(shared, first_blocks, 0),
        content_stream=np.where(streams, then, -1),
        hits=hits,
        hits_kept=kept,
    )


def _shared(streams: Ints) -> NDArray[np.bool_]:
    """Rows whose stream another row has too."""
    _, inverse, counts = np.unique(streams, return_inverse=True, return_counts=True)
    return (counts[inverse] > 1) & (streams >= 0)


def _hits_told(first: Ints, first_blocks: Ints, then: Ints, lengths: list[int]) -> Ints:
    """Blocks of each request that the streams say an earlier one had, with an unlimited cache."""
    reach: dict[int, int] = {}
    further: dict[int, int] = {}
    hits = np.zeros(len(first), dtype=np.int64)
    for row, (stream, own, content) in enumerate(
        zip(first.tolist(), first_blocks.tolist(), then.tolist(), strict=True)
    ):
        hits[row] = min(own, reach.get(stream, 0))
        if hits[row] == own and content >= 0:
            hits[row] = max(own, min(lengths[row], further.get(content, 0)))
        reach[stream] = max(reach.get(stream, 0), own)
        if content >= 0:
            further[content] = max(further.get(content, 0), lengths[row])
    return hits
