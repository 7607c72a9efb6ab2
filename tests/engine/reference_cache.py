"""KV cache of the plain engine: one object a block, one dict of cached keys, one LRU queue."""

from collections import OrderedDict
from dataclasses import dataclass, field

from tailcast.engine.limits import Limits
from tailcast.request import RequestTable

Key = tuple[str, int, int, int]


@dataclass(eq=False)
class Block:
    """One KV block; `key` says which tokens it caches, None for garbage."""

    key: Key | None = None
    users: int = 0


@dataclass
class Holding:
    """Blocks that one request holds, in the order of its tokens.

    `spoilt` names the streams (prefix, content) of which it holds a copy that is garbage: later
    blocks of that stream are garbage too. So whoever uses a cached block of a stream uses all
    cached blocks before it, and the pool always evicts the last cached block of a stream first.
    """

    row: int
    blocks: list[Block] = field(default_factory=list)
    spoilt: set[str] = field(default_factory=set)


class KvCache:
    """All KV blocks of a replica.

    The free pool is a queue: blocks are taken at its old end and come back at its young end.
    `untouched` counts blocks that were never used; they are the oldest of all.
    """

    def __init__(self, requests: RequestTable, limits: Limits) -> None:
        self.requests = requests
        self.limits = limits
        self.untouched = limits.kv_blocks
        self.pool: OrderedDict[int, Block] = OrderedDict()
        self.cached: dict[Key, Block] = {}

    def key(self, row: int, index: int) -> Key | None:
        """Name of the tokens in block `index` of a request, None where nobody could hit them."""
        table = self.requests
        end = (index + 1) * self.limits.block_size
        prefix = int(table.prefix_stream[row])
        content = int(table.content_stream[row])
        if prefix >= 0 and end <= table.prefix_tokens[row]:
            return ("prefix", prefix, -1, index)
        if content < 0:
            return ("own", row, -1, index)
        if end <= table.input_tokens[row] or table.session_output[row]:
            return ("content", content, prefix, index)
        return None

    @property
    def free(self) -> int:
        """Blocks that no running request uses."""
        return self.untouched + len(self.pool)

    def hits(self, row: int, target: int) -> list[Block]:
        """Cached leading blocks of a request that must compute at least one of `target` tokens."""
        found: list[Block] = []
        if not self.limits.prefix_caching:
            return found
        for index in range((target - 1) // self.limits.block_size):
            key = self.key(row, index)
            block = None if key is None else self.cached.get(key)
            if block is None:
                break
            found.append(block)
        return found

    def in_pool(self, blocks: list[Block]) -> int:
        """How many of `blocks` lie in the free pool."""
        return sum(id(block) in self.pool for block in blocks)

    def claim(self, holding: Holding, hits: list[Block]) -> None:
        """Start a holding with cached blocks."""
        for block in hits:
            self.pool.pop(id(block), None)
            block.users += 1
            holding.blocks.append(block)

    def take(self, holding: Holding) -> None:
        """Give the request the oldest free block and forget what that block cached."""
        if self.untouched > 0:
            self.untouched -= 1
            block = Block()
        else:
            _, block = self.pool.popitem(last=False)
            if block.key is not None:
                del self.cached[block.key]
                block.key = None
        block.users = 1
        holding.blocks.append(block)

    def fill(self, holding: Holding, before: int, after: int) -> None:
        """Make the blocks visible that become full when tokens `before`..`after` are granted."""
        size = self.limits.block_size
        for index in range(before // size, after // size):
            key = self.key(holding.row, index) if self.limits.prefix_caching else None
            if key is None:
                continue
            if key in self.cached or key[0] in holding.spoilt:
                holding.spoilt.add(key[0])
            else:
                holding.blocks[index].key = key
                self.cached[key] = holding.blocks[index]

    def release(self, holding: Holding) -> None:
        """Give everything back that nobody else uses: garbage, then what is cached, tail first."""
        tail_first = holding.blocks[::-1]
        for block in sorted(tail_first, key=lambda block: block.key is not None):
            block.users -= 1
            if block.users == 0:
                self.pool[id(block)] = block
        holding.blocks = []
        holding.spoilt = set()
