"""KV blocks as BLIS keeps them: LRU free list, block keys set when a block is full, lazy eviction.

A block's key is symbolic: (stream, index) numbered in one range, in place of BLIS's token hash.
The map from key to block keeps BLIS's quirk: reusing a block deletes its key even if the key points
to a newer copy by then.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tailcast.engine.blis.columns import Block, Fact, KvCount, Slot
from tailcast.engine.blis.compiled import compiled_part

NO_KEY = -1
"""Key of a block that nobody can find."""


class KvBlocks(NamedTuple):
    """Blocks of one replica and who owns them.

    The free list is doubly linked with its sentinel at index ``n_block``. A slot is the place of
    one running request.
    """

    blocks: NDArray[np.int32]  # (n_block + 1, Block)
    key: NDArray[np.int64]  # (n_block,) what a full block caches
    block_by_key: NDArray[np.int32]  # (n_key,)
    owned: NDArray[np.int32]  # (n_slot, width) blocks of a request in order
    slots: NDArray[np.int64]  # (n_slot, Slot)
    counts: NDArray[np.int64]  # (KvCount,)


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
    blocks = np.zeros((n_block + 1, len(Block)), dtype=np.int32)
    blocks[:, Block.OLDER] = np.roll(order, 1)
    blocks[:, Block.YOUNGER] = np.roll(order, -1)
    counts = np.zeros(len(KvCount), dtype=np.int64)
    counts[KvCount.BLOCK_SIZE] = block_size
    counts[KvCount.BLOCKS] = counts[KvCount.FREE] = n_block
    return KvBlocks(
        blocks=blocks,
        key=np.full(n_block, NO_KEY, dtype=np.int64),
        block_by_key=np.full(n_key, -1, dtype=np.int32),
        owned=np.zeros((n_slot, width), dtype=np.int32),
        slots=np.zeros((n_slot, len(Slot)), dtype=np.int64),
        counts=counts,
    )


@compiled_part
def block_key(facts: NDArray[np.int64], row: int, index: int) -> int:
    """Key of a request's block by its index in the sequence."""
    if index < facts[row, Fact.PREFIX_BLOCKS]:
        return int(facts[row, Fact.PREFIX_KEY] + index)
    return int(facts[row, Fact.CONTENT_KEY] + index)


@compiled_part
def cached_prompt_blocks(kv: KvBlocks, facts: NDArray[np.int64], row: int) -> int:
    """Leading full prompt blocks that are cached; the whole prompt may be."""
    full = facts[row, Fact.INPUT_TOKENS] // kv.counts[KvCount.BLOCK_SIZE]
    n = 0
    while n < full and kv.block_by_key[block_key(facts, row, n)] >= 0:
        n += 1
    return n


@compiled_part
def _detach(kv: KvBlocks, block: int) -> None:
    older = kv.blocks[block, Block.OLDER]
    younger = kv.blocks[block, Block.YOUNGER]
    kv.blocks[older, Block.YOUNGER] = younger
    kv.blocks[younger, Block.OLDER] = older
    kv.counts[KvCount.FREE] -= 1


@compiled_part
def _take_oldest(kv: KvBlocks, slot: int) -> None:
    """Move the oldest free block to a request and forget what it cached."""
    block = kv.blocks[kv.counts[KvCount.BLOCKS], Block.YOUNGER]
    _detach(kv, block)
    if kv.key[block] != NO_KEY:
        kv.block_by_key[kv.key[block]] = -1
        kv.key[block] = NO_KEY
    kv.blocks[block, Block.REFERENCES] = 1
    kv.owned[slot, kv.slots[slot, Slot.N_OWNED]] = block
    kv.slots[slot, Slot.N_OWNED] += 1
    kv.slots[slot, Slot.LAST_FILL] = 0
    kv.counts[KvCount.MISSES] += 1


@compiled_part
def _publish_if_full(kv: KvBlocks, slot: int, key: int) -> None:
    """Let others find the last owned block if it is full and has a key."""
    full = kv.slots[slot, Slot.LAST_FILL] == kv.counts[KvCount.BLOCK_SIZE]
    if full and key != NO_KEY:
        block = kv.owned[slot, kv.slots[slot, Slot.N_OWNED] - 1]
        kv.key[block] = key
        kv.block_by_key[key] = block


@compiled_part
def allocate_prompt(
    kv: KvBlocks, facts: NDArray[np.int64], slot: int, row: int, start: int, tokens: int
) -> bool:
    """Make room for `tokens` prompt tokens from `start` on, or do nothing and say so.

    A request that owns nothing yet claims the cached blocks before `start`. Zero tokens (a fully
    cached prompt) claim nothing and succeed, as in BLIS.
    """
    if tokens == 0:
        return True
    size = kv.counts[KvCount.BLOCK_SIZE]
    hits = start // size
    spare = 0
    if kv.slots[slot, Slot.N_OWNED] > 0:
        hits = 0
        spare = size - kv.slots[slot, Slot.LAST_FILL]
    needed = (max(0, tokens - spare) + size - 1) // size
    for index in range(hits):
        block = kv.block_by_key[block_key(facts, row, index)]
        if kv.blocks[block, Block.REFERENCES] == 0:
            needed += 1
    if needed > kv.counts[KvCount.FREE]:
        return False
    for index in range(hits):
        block = kv.block_by_key[block_key(facts, row, index)]
        if kv.blocks[block, Block.REFERENCES] == 0:
            _detach(kv, block)
        kv.blocks[block, Block.REFERENCES] += 1
        kv.owned[slot, index] = block
    if hits > 0:
        kv.slots[slot, Slot.N_OWNED] = hits
        kv.slots[slot, Slot.LAST_FILL] = size
        kv.counts[KvCount.HITS] += hits
    while tokens > 0:
        if kv.slots[slot, Slot.N_OWNED] == 0 or kv.slots[slot, Slot.LAST_FILL] == size:
            _take_oldest(kv, slot)
        filled = min(tokens, size - kv.slots[slot, Slot.LAST_FILL])
        kv.slots[slot, Slot.LAST_FILL] += filled
        _publish_if_full(kv, slot, block_key(facts, row, kv.slots[slot, Slot.N_OWNED] - 1))
        tokens -= filled
    return True


@compiled_part
def allocate_decode(kv: KvBlocks, slot: int, key: int) -> bool:
    """Make room for one generated token; `key` is published if that fills the last block.

    A new block of one token is never published, whatever the block size, as in BLIS.
    """
    full = kv.slots[slot, Slot.LAST_FILL] == kv.counts[KvCount.BLOCK_SIZE]
    if full or kv.slots[slot, Slot.N_OWNED] == 0:
        if kv.counts[KvCount.FREE] == 0:
            return False
        _take_oldest(kv, slot)
        kv.slots[slot, Slot.LAST_FILL] = 1
        return True
    kv.slots[slot, Slot.LAST_FILL] += 1
    _publish_if_full(kv, slot, key)
    return True


@compiled_part
def release(kv: KvBlocks, slot: int) -> None:
    """Give a request's blocks back, last block first, at the young end of the free list."""
    sentinel = kv.counts[KvCount.BLOCKS]
    for index in range(kv.slots[slot, Slot.N_OWNED] - 1, -1, -1):
        block = kv.owned[slot, index]
        kv.blocks[block, Block.REFERENCES] -= 1
        if kv.blocks[block, Block.REFERENCES] == 0:
            youngest = kv.blocks[sentinel, Block.OLDER]
            kv.blocks[youngest, Block.YOUNGER] = block
            kv.blocks[block, Block.OLDER] = youngest
            kv.blocks[block, Block.YOUNGER] = sentinel
            kv.blocks[sentinel, Block.OLDER] = block
            kv.counts[KvCount.FREE] += 1
    kv.slots[slot, Slot.N_OWNED] = 0
    kv.slots[slot, Slot.LAST_FILL] = 0
