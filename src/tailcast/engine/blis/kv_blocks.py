"""KV blocks as BLIS keeps them: LRU free list, block keys set when a block is full, lazy eviction.

A block's key is symbolic: (stream, index) numbered in one range, in place of BLIS's token hash.
The map from key to block keeps BLIS's quirk: reusing a block deletes its key even if the key points
to a newer copy by then.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailcast.engine.blis.compiled import compiled

NO_KEY = -1
_FREE, _HITS, _MISSES = 0, 1, 2


class KvBlocks(NamedTuple):
    """Blocks of one replica and who owns them.

    The free list is doubly linked with its sentinel at index ``n_block``. `counts` holds free blocks,
    cache hits and misses. A slot is the place of one running request.
    """

    block_size: int
    references: NDArray[np.int32]  # (n_block,) running requests that use a block
    key: NDArray[np.int64]  # (n_block,) what a full block caches, NO_KEY for nothing findable
    older: NDArray[np.int32]  # (n_block + 1,)
    younger: NDArray[np.int32]  # (n_block + 1,)
    block_by_key: NDArray[np.int32]  # (n_key,)
    owned: NDArray[np.int32]  # (n_slot, width) blocks of a request in order
    n_owned: NDArray[np.int64]  # (n_slot,)
    last_fill: NDArray[np.int64]  # (n_slot,) tokens in the last owned block
    counts: NDArray[np.int64]  # (3,)


class PromptKeys(NamedTuple):
    """Where the keys of each request's prompt blocks start, each of shape (n_request,).

    Block b is keyed ``prefix_key + b`` while it lies inside the shared prefix, else
    ``content_key + b``.
    """

    prefix_key: NDArray[np.int64]
    prefix_blocks: NDArray[np.int64]
    content_key: NDArray[np.int64]
    input_tokens: NDArray[np.int64]


def new_kv_blocks(n_block: int, block_size: int, n_key: int, n_slot: int, width: int) -> KvBlocks:
    """All blocks free, in index order.

    Parameters
    ----------
    n_block, block_size : int
        Blocks and tokens per block.
    n_key : int
        Block keys in use.
    n_slot : int
        Most requests that run at a time.
    width : int
        Most blocks that one request owns.

    Returns
    -------
    KvBlocks
        Ready for a run.
    """
    order = np.arange(n_block + 1, dtype=np.int32)
    return KvBlocks(
        block_size=block_size,
        references=np.zeros(n_block, dtype=np.int32),
        key=np.full(n_block, NO_KEY, dtype=np.int64),
        older=np.roll(order, 1),
        younger=np.roll(order, -1),
        block_by_key=np.full(n_key, -1, dtype=np.int32),
        owned=np.zeros((n_slot, width), dtype=np.int32),
        n_owned=np.zeros(n_slot, dtype=np.int64),
        last_fill=np.zeros(n_slot, dtype=np.int64),
        counts=np.array([n_block, 0, 0], dtype=np.int64),
    )


@compiled
def free_blocks(kv: KvBlocks) -> int:
    """Blocks that no running request uses."""
    return int(kv.counts[_FREE])


@compiled
def block_key(keys: PromptKeys, row: int, index: int) -> int:
    """Key of a request's block by its index in the sequence."""
    if index < keys.prefix_blocks[row]:
        return int(keys.prefix_key[row] + index)
    return int(keys.content_key[row] + index)


@compiled
def cached_prompt_blocks(kv: KvBlocks, keys: PromptKeys, row: int) -> int:
    """Leading full prompt blocks that are cached; the whole prompt may be."""
    full = keys.input_tokens[row] // kv.block_size
    n = 0
    while n < full and kv.block_by_key[block_key(keys, row, n)] >= 0:
        n += 1
    return n


@compiled
def _detach(kv: KvBlocks, block: int) -> None:
    kv.younger[kv.older[block]] = kv.younger[block]
    kv.older[kv.younger[block]] = kv.older[block]
    kv.counts[_FREE] -= 1


@compiled
def _take_oldest(kv: KvBlocks, slot: int) -> int:
    """Move the oldest free block to a request and forget what it cached."""
    block = kv.younger[len(kv.key)]
    _detach(kv, block)
    if kv.key[block] != NO_KEY:
        kv.block_by_key[kv.key[block]] = -1
        kv.key[block] = NO_KEY
    kv.references[block] = 1
    kv.owned[slot, kv.n_owned[slot]] = block
    kv.n_owned[slot] += 1
    kv.counts[_MISSES] += 1
    return int(block)


@compiled
def _publish(kv: KvBlocks, block: int, key: int) -> None:
    kv.key[block] = key
    kv.block_by_key[key] = block


@compiled
def allocate_prompt(
    kv: KvBlocks, keys: PromptKeys, slot: int, row: int, tokens: int, hits: int
) -> bool:
    """Claim `hits` cached blocks and make room for the next `tokens` prompt tokens, or do nothing.

    Zero tokens (a fully cached prompt) claim nothing and succeed, as in BLIS.
    """
    if tokens == 0:
        return True
    size = kv.block_size
    spare = 0
    if kv.n_owned[slot] > 0:
        spare = size - kv.last_fill[slot]
    needed = (max(0, tokens - spare) + size - 1) // size
    for index in range(hits):
        if kv.references[kv.block_by_key[block_key(keys, row, index)]] == 0:
            needed += 1
    if needed > kv.counts[_FREE]:
        return False
    for index in range(hits):
        block = kv.block_by_key[block_key(keys, row, index)]
        if kv.references[block] == 0:
            _detach(kv, block)
        kv.references[block] += 1
        kv.owned[slot, index] = block
    if hits > 0:
        kv.n_owned[slot] = hits
        kv.last_fill[slot] = size
        kv.counts[_HITS] += hits
    while tokens > 0:
        if kv.n_owned[slot] == 0 or kv.last_fill[slot] == size:
            _take_oldest(kv, slot)
            kv.last_fill[slot] = 0
        filled = min(tokens, size - kv.last_fill[slot])
        kv.last_fill[slot] += filled
        tokens -= filled
        if kv.last_fill[slot] == size:
            index = kv.n_owned[slot] - 1
            _publish(kv, kv.owned[slot, index], block_key(keys, row, index))
    return True


@compiled
def allocate_decode(kv: KvBlocks, slot: int, key: int) -> bool:
    """Make room for one generated token; `key` is published if that fills the last block.

    A new block of one token is never published, whatever the block size, as in BLIS.
    """
    size = kv.block_size
    if kv.n_owned[slot] == 0 or kv.last_fill[slot] == size:
        if kv.counts[_FREE] == 0:
            return False
        _take_oldest(kv, slot)
        kv.last_fill[slot] = 1
        return True
    kv.last_fill[slot] += 1
    if kv.last_fill[slot] == size and key != NO_KEY:
        _publish(kv, kv.owned[slot, kv.n_owned[slot] - 1], key)
    return True


@compiled
def release(kv: KvBlocks, slot: int) -> None:
    """Give a request's blocks back, last block first, at the young end of the free list."""
    sentinel = len(kv.key)
    for index in range(kv.n_owned[slot] - 1, -1, -1):
        block = kv.owned[slot, index]
        kv.references[block] -= 1
        if kv.references[block] == 0:
            youngest = kv.older[sentinel]
            kv.younger[youngest] = block
            kv.older[block] = youngest
            kv.younger[block] = sentinel
            kv.older[sentinel] = block
            kv.counts[_FREE] += 1
    kv.n_owned[slot] = 0
    kv.last_fill[slot] = 0
