"""The block tables of today's vLLM where all layers hold all tokens: one table for each request, one pool of blocks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from .prefix_blocks import HashedBlock, HashedPool

if TYPE_CHECKING:
    from ..policy.vllm_v1.state import V1Config, V1Request

__all__ = ["BlockTables"]


class BlockTables:
    """Tables of all requests over one pool; see `group_tables.GroupTables` for layers that form groups.

    Parameters
    ----------
    config : V1Config
        Block size and longest sequence.
    pool : HashedPool
        The blocks.
    """

    def __init__(self, config: V1Config, pool: HashedPool) -> None:
        self.size, self.longest, self.pool = config.block_size, config.max_model_len, pool

    def find(self, request: V1Request) -> list[HashedBlock]:
        """Blocks of the longest cached prefix that leaves at least one token to compute.

        Without a computed token there would be no logits to sample from, so a prompt that is cached whole recomputes
        its last block.
        """
        found: list[HashedBlock] = []
        if self.pool.caching:
            for k in range((request.length - 1) // self.size):
                block = self.pool.find(request.contents[k])
                if block is None:
                    break
                found.append(block)
        return found

    def hit(self, found: Sequence[HashedBlock]) -> int:
        """Tokens of a cached prefix."""
        return len(found) * self.size

    def whole(self, request: V1Request, found: Sequence[HashedBlock]) -> int:
        """Blocks that must be free for a prompt that is admitted only where all of it fits."""
        return self.need(request, request.length, found)

    def need(self, request: V1Request, tokens: int, found: Sequence[HashedBlock]) -> int:
        """Blocks that leave the free queue for the request to have room for so many tokens."""
        blocks = -(-min(tokens, self.longest) // self.size)
        own = max(0, blocks - len(found) - len(request.blocks))
        # A cached block that nobody uses stands in the free queue and leaves it too.
        return own + sum(not block.shares for block in found) if found else own

    def adopt(self, request: V1Request, found: Sequence[HashedBlock]) -> None:
        """Make a cached prefix the beginning of a request's table."""
        self.pool.touch(found)
        request.blocks = list(found)
        request.published = len(found)

    def grow(self, request: V1Request, tokens: int) -> bool:
        """Room for the next tokens, whose full blocks can be found from now on; False if too few blocks are free."""
        end = request.computed + tokens
        if end > len(request.blocks) * self.size:
            need = self.need(request, end, ())
            if need > self.pool.free_blocks:
                return False
            request.blocks += self.pool.take(need)
        self.publish(request, min(end, request.length))
        return True

    def publish(self, request: V1Request, tokens: int) -> None:
        """Let the blocks that so many tokens fill be found."""
        full = tokens // self.size
        if self.pool.caching and full > request.published:
            for k in range(request.published, full):
                self.pool.publish(request.blocks[k], request.contents[k])
            request.published = full

    def let_go(self, request: V1Request, computed: int) -> None:
        """Give back what no later token sees: nothing."""

    def free(self, request: V1Request) -> None:
        """Free the blocks in reverse: the end of a sequence is evicted before its beginning, which others may share."""
        self.pool.release(request.blocks[::-1])
        request.blocks = []

    def slots(self, request: V1Request) -> int:
        """Blocks that its tokens have had."""
        return len(request.blocks)

    def held(self, request: V1Request) -> int:
        """Blocks that it has now."""
        return len(request.blocks)
