"""The block tables of models whose layers need keys and values of unlike reach: vLLM's hybrid KV cache manager.

Layers form groups that have block tables of their own over one pool of blocks: groups that hold all tokens, and groups
with a sliding window, which give back what lies behind it. A prefix counts as cached where every group has what the
next token sees of it: all of its blocks, or those of its last window. Groups that hold all tokens stand first, which
decides nothing but which of equally old blocks is taken first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .prefix_blocks import HashedBlock, HashedPool

if TYPE_CHECKING:
    from ..policy.vllm_v1.state import V1Config, V1Request

__all__ = ["Found", "GroupTables"]

Found = list[list[HashedBlock | None]]
"""For each group, a block or None (not needed) for each block of a cached prefix; all of one length."""


class GroupTables:
    """Tables of all requests over one pool.

    Parameters
    ----------
    config : V1Config
        Its groups, windows and retention.
    pool : HashedPool
        The blocks.
    """

    def __init__(self, config: V1Config, pool: HashedPool) -> None:
        self.config, self.pool = config, pool
        self.full, self.groups, self.size = config.full_groups, config.groups, config.block_size
        # Blocks that a hit needs before the next token; a window of one token needs none, and is never hit.
        self.tail = -(-(config.sliding_window - 1) // self.size) if config.window_groups else 0

    def find(self, request: V1Request) -> Found:
        """Blocks of the longest prefix that all groups have and that leaves a token to compute.

        It also notes where a prefix ends that only the groups that hold everything have: its window is worth keeping.
        """
        request.junction = 0
        if not self.pool.caching:
            return [[] for _ in range(self.groups)]
        contents, most = request.contents, (request.length - 1) // self.size
        full: Found = [[] for _ in range(self.full)]
        if self.full:
            for k in range(most):
                row = [self.pool.find((contents[k], g)) for g in range(self.full)]
                if None in row:
                    break
                for column, block in zip(full, row, strict=True):
                    column.append(block)
            most = len(full[0])
        if self.full == self.groups:
            return full
        near = self._window(request, most)
        hit = len(near[0])
        if self.full and hit < most:
            request.junction = most * self.size
        return [column[:hit] for column in full] + near

    def _window(self, request: V1Request, most: int) -> Found:
        """Blocks of the last window of the longest prefix whose window is there: searched from its end."""
        near: Found = [[None] * most for _ in range(self.groups - self.full)]
        run = 0
        for k in range(most - 1, -1, -1):
            row = [self.pool.find((request.contents[k], g)) for g in range(self.full, self.groups)]
            if None in row:
                run = 0
                continue
            for column, block in zip(near, row, strict=True):
                column[k] = block
            run += 1
            if run >= self.tail:
                return [column[: k + run] for column in near]
        return [column[:run] for column in near]  # a beginning that is shorter than the window

    def hit(self, found: Found) -> int:
        """Tokens of a cached prefix."""
        return len(found[0]) * self.size

    def whole(self, request: V1Request, found: Found) -> int:
        """Blocks that must be free for a prompt that is admitted only where all of it fits."""
        c = self.config
        need = -(-min(request.length, c.max_model_len) // self.size)
        return self._fresh(need, min(need, c.window_most), found)

    def need(self, request: V1Request, tokens: int, found: Found) -> int:
        """Blocks that leave the free queue for the request to have room for so many tokens."""
        blocks = -(-min(tokens, self.config.max_model_len) // self.size)
        if request.tables:
            return max(0, blocks - request.slots) * self.groups
        return self._fresh(blocks, blocks, found)

    def _fresh(self, full: int, near: int, found: Found) -> int:
        """Blocks for a request that has none: new ones, and cached ones that nobody uses, which leave the queue too."""
        hit = len(found[0])
        skipped = min(self.config.behind(hit * self.size), hit)
        total = self.full * max(0, full - hit) + (self.groups - self.full) * max(0, near - hit)
        for g, column in enumerate(found):
            total += sum(b is not None and not b.shares for b in column[0 if g < self.full else skipped :])
        return total

    def adopt(self, request: V1Request, found: Found) -> None:
        """Make a cached prefix the beginning of a request's tables; what lies behind the window is not taken."""
        hit = len(found[0])
        skipped = min(self.config.behind(hit * self.size), hit)
        request.tables = []
        for g, column in enumerate(found):
            low = 0 if g < self.full else skipped
            kept = column[low:]
            self.pool.touch(b for b in kept if b is not None)
            request.tables.append([*[None] * low, *kept])
        request.slots = request.published = hit
        request.gone = skipped

    def grow(self, request: V1Request, tokens: int) -> bool:
        """Room for the next tokens, whose full blocks can be found from now on; False if too few blocks are free."""
        end = request.computed + tokens
        need = self.need(request, end, [])
        if need > self.pool.free_blocks:
            return False
        if need:
            for column in request.tables:
                column += self.pool.take(need // self.groups)
            request.slots += need // self.groups
        self.publish(request, min(end, request.length))
        return True

    def let_go(self, request: V1Request, computed: int) -> None:
        """Give back the blocks behind the window of the token after so many, the last of them to be taken first."""
        behind = min(self.config.behind(computed), request.slots)
        if behind <= request.gone:
            return
        for column in request.tables[self.full :]:
            freed = [b for b in reversed(column[request.gone : behind]) if b is not None]
            column[request.gone : behind] = [None] * (behind - request.gone)
            self.pool.release(freed)
        request.gone = behind

    def publish(self, request: V1Request, tokens: int) -> None:
        """Let the blocks that so many tokens fill be found; of groups with a window those that a hit could end on."""
        full = tokens // self.size
        if not self.pool.caching or full <= request.published:
            return
        kept = self._kept(request, request.published, full)
        for g, column in enumerate(request.tables):
            for k in range(request.published, full):
                block = column[k]
                if block is not None and (g < self.full or k in kept):
                    self.pool.publish(block, (request.contents[k], g))
        request.published = full

    def _kept(self, request: V1Request, first: int, last: int) -> range | set[int]:
        """Blocks of groups with a window that are kept for others (`prefix_cache_retention_interval`)."""
        every, tail = self.config.prefix_cache_retention_interval, self.tail
        segment = 1 if every is None else every // self.size
        if segment and tail >= segment:
            return range(first, last)
        kept = {k for k in range(first, last) if segment and k % segment >= segment - tail}
        if every is not None:
            # Who sends the same prompt again computes its last token; who shares a prefix of it comes to the junction.
            for boundary in (request.request.prompt - 1, request.junction):
                end = boundary // self.size
                kept |= set(range(max(first, end - tail), min(last, end)))
        return kept

    def free(self, request: V1Request) -> None:
        """Free the tables in reverse, group by group."""
        for column in request.tables:
            self.pool.release([b for b in reversed(column) if b is not None])
        request.tables = []

    def slots(self, request: V1Request) -> int:
        """Blocks that its tokens have had in each group."""
        return request.slots

    def held(self, request: V1Request) -> int:
        """Blocks that it has now, in all groups."""
        return self.groups * request.slots - (self.groups - self.full) * request.gone
