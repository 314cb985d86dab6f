"""The block tables of vLLM 0.6.6: lookahead slots, swapping that counts them, prefix caching on device and host.

Rules of its `SelfAttnBlockSpaceManager` for requests of one sequence, which are all that it has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....errors import RunError
from .blocks import Allocation
from .caching_pool import CachingPool

if TYPE_CHECKING:
    from ..policy.vllm06 import Vllm06Config, Vllm06Request

__all__ = ["CachingTables"]


class CachingTables:
    """Tables of all requests, on the device and on the host.

    Parameters
    ----------
    config : Vllm06Config
        Sizes of both memories, tokens in a block, watermark, whether full blocks are found again.
    """

    def __init__(self, config: Vllm06Config) -> None:
        self.size, caching = config.block_size, config.enable_prefix_caching
        self.gpu, self.cpu = CachingPool(config.num_gpu_blocks, caching), CachingPool(config.num_cpu_blocks, caching)
        self.watermark_blocks = int(config.watermark * config.num_gpu_blocks)

    def can_allocate(self, request: Vllm06Request) -> Allocation:
        """Whether the blocks of a whole prompt fit now, later, or never; cached ones count as others do."""
        need = -(-request.length // self.size)
        if self.gpu.size - need < self.watermark_blocks:
            return Allocation.NEVER
        return Allocation.OK if self.gpu.free_blocks - need >= self.watermark_blocks else Allocation.LATER

    def allocate(self, request: Vllm06Request) -> None:
        """Give a whole prompt its blocks; those that are held already it shares."""
        request.filled = request.length
        self._fill(request, self.gpu, -(-request.length // self.size))

    def _fill(self, request: Vllm06Request, pool: CachingPool, blocks: int) -> None:
        """A fresh table of so many blocks for the slots that are filled."""
        full, request.blocks = request.filled // self.size, []
        for k in range(blocks):
            content = request.contents[k] if pool.caching and k < full else None
            block = pool.share(content) if content is not None else None
            if block is None:
                block = pool.take()
                if content is not None:
                    block = pool.keep(block, content, (k + 1) * self.size)
            request.blocks.append(block)

    def touched(self, request: Vllm06Request, ahead: int) -> int:
        """Blocks that its newest tokens and so many slots ahead would write to, the last one that it has included."""
        new = request.length - request.filled + ahead
        return 1 + -(-(new - self.size + request.filled % self.size) // self.size)

    def can_append(self, request: Vllm06Request, ahead: int) -> bool:
        """Whether a block is free for each that would be written to, needed or not."""
        return self.touched(request, ahead) <= self.gpu.free_blocks

    def append(self, request: Vllm06Request, ahead: int) -> None:
        """Give its newest tokens slots, and so many further ones; blocks that become full can be found."""
        size, blocks = self.size, request.blocks
        while len(blocks) * size < request.length + ahead:
            blocks.append(self.gpu.take())
        for k in range(request.filled // size, request.length // size):
            if self.gpu.caching:
                blocks[k] = self.gpu.keep(blocks[k], request.contents[k], (k + 1) * size)
        request.filled = request.length

    def free(self, request: Vllm06Request) -> None:
        """Give back all blocks."""
        pool = self.cpu if request.swapped else self.gpu
        if request.seen is not None and not request.swapped:
            pool.use(request.blocks, request.seen)
        for block in request.blocks:
            pool.release(block)
        request.blocks, request.filled, request.found, request.seen = [], 0, None, None
        request.swapped = False

    def can_swap_in(self, request: Vllm06Request, ahead: int) -> Allocation:
        """Whether its blocks, its newest tokens and so many slots ahead fit on the device now, later, or never."""
        need = self._moving(request, self.gpu, ahead)
        if self.gpu.size < need:
            return Allocation.NEVER
        return Allocation.OK if self.gpu.free_blocks - need >= self.watermark_blocks else Allocation.LATER

    def can_swap_out(self, request: Vllm06Request) -> bool:
        """Whether the host has room for its blocks, and for its newest token."""
        return self._moving(request, self.cpu, 0) <= self.cpu.free_blocks

    def _moving(self, request: Vllm06Request, target: CachingPool, ahead: int) -> int:
        full = request.filled // self.size
        taken = sum(map(target.must_take, request.contents[:full])) if target.caching else full
        return taken + self.touched(request, ahead)

    def swap_in(self, request: Vllm06Request) -> list[tuple[int, int]]:
        """Move its blocks to the device; pairs of host and device block."""
        return self._move(request, self.cpu, self.gpu)

    def swap_out(self, request: Vllm06Request) -> list[tuple[int, int]]:
        """Move its blocks to the host; pairs of device and host block.

        Raises
        ------
        RunError
            Where the host has no room for slots ahead, which are moved and not counted.
        """
        return self._move(request, self.gpu, self.cpu)

    def _move(self, request: Vllm06Request, source: CachingPool, target: CachingPool) -> list[tuple[int, int]]:
        before = request.blocks
        for block in before:
            source.release(block)
        try:
            self._fill(request, target, len(before))
        except RunError:
            raise RunError(
                f"request {request.request.id!r}: swapped, but its {len(before)} blocks, slots ahead included, do not "
                "fit; raise num_cpu_blocks"
            ) from None
        request.swapped = target is self.cpu
        return [(a.number, b.number) for a, b in zip(before, request.blocks, strict=True)]
