"""The KV memory of the paper's vLLM: a pool of counted blocks, block tables, copy-on-write, a swap pool on the host.

PagedAttention §5.4.2-5.4.4 and §5.5.2: fork shares every block, append writes in place, into a new block, or into a
copy of a shared one, free drops the shares.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from ....errors import InputError, RunError
from ..policy.request import Sequence, SequenceGroup, Status

__all__ = ["Allocation", "Block", "BlockManager", "BlockPool"]


class Block:
    """One block of key and value memory, shared by `shares` sequences; one more where it is `reserved` for a prefix."""

    __slots__ = ("number", "reserved", "shares")

    def __init__(self, number: int) -> None:
        self.number = number
        self.shares = 0
        self.reserved = False


class BlockPool:
    """Blocks of one memory. The block that was freed last is given out first, as in vLLM 0.2.

    Parameters
    ----------
    size : int
        Number of blocks.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._free = [Block(i) for i in range(size)]

    @property
    def free_blocks(self) -> int:
        """Blocks that nobody holds."""
        return len(self._free)

    def allocate(self) -> Block:
        """Take a block, with one share."""
        if not self._free:
            raise RunError("block pool: no block is free; the policy must check before it allocates")
        block = self._free.pop()
        block.shares = 1
        return block

    def free(self, block: Block) -> None:
        """Give back one share of a block."""
        if block.shares < 1:
            raise RunError(f"block pool: block {block.number} is freed twice")
        block.shares -= 1
        if not block.shares:
            self._free.append(block)


class Allocation(Enum):
    """Whether a prompt can have its blocks."""

    OK = "ok"
    LATER = "later"
    NEVER = "never"


class BlockManager:
    """Block tables of all sequences, on the device and swapped out.

    Parameters
    ----------
    block_size : int
        Tokens in a block.
    num_gpu_blocks, num_cpu_blocks : int
        Sizes of the two pools.
    watermark : float
        Share of the device's blocks that admission leaves free, so that new prompts do not cause preemptions at once.
    prefixes : tuple of int
        Tokens of each prefix that has blocks of its own for good, on the device.

    Raises
    ------
    InputError
        On a block size or pool below one block, a watermark outside [0, 1), or prefixes that leave no block.
    """

    def __init__(
        self,
        block_size: int,
        num_gpu_blocks: int,
        num_cpu_blocks: int = 0,
        watermark: float = 0.01,  # vLLM 0.2's
        prefixes: tuple[int, ...] = (),
    ) -> None:
        for name, value, least in (
            ("block_size", block_size, 1),
            ("num_gpu_blocks", num_gpu_blocks, 1),
            ("num_cpu_blocks", num_cpu_blocks, 0),
        ):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise InputError(f"{name}: expected an integer >= {least} (got {value!r})")
        share: Any = watermark
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
            raise InputError(f"watermark: expected a share of the blocks in [0, 1) (got {share!r})")
        self.block_size = block_size
        self.gpu = BlockPool(num_gpu_blocks)
        self.cpu = BlockPool(num_cpu_blocks)
        self.watermark_blocks = int(watermark * num_gpu_blocks)  # truncated, as vLLM does
        self.tables: dict[int, list[Block]] = {}
        need = sum(-(-tokens // block_size) for tokens in prefixes)
        if need >= num_gpu_blocks:
            raise InputError(f"prefixes: need {need} blocks, of num_gpu_blocks {num_gpu_blocks}; none would be left")
        self._prefix_tokens = prefixes
        self.prefixes = tuple([self.gpu.allocate() for _ in range(-(-n // block_size))] for n in prefixes)
        self.reserved = need
        for block in (b for table in self.prefixes for b in table):
            block.reserved = True

    @property
    def idle_reserved(self) -> int:
        """Reserved blocks that no sequence uses."""
        return sum(block.shares == 1 for table in self.prefixes for block in table)

    def _prefix(self, group: SequenceGroup) -> tuple[list[Block], Block | None]:
        """The full blocks of a prompt's reserved prefix, and the block that begins where these end."""
        place = group.request.shared_prefix
        if place is None or not self.prefixes:
            return [], None
        full = self._prefix_tokens[place] // self.block_size
        blocks = self.prefixes[place]
        return blocks[:full], blocks[full] if full < len(blocks) else None

    def can_allocate(self, group: SequenceGroup) -> Allocation:
        """Whether the prompt's blocks fit now, later, or never, beside the watermark."""
        need = group.having(Status.WAITING)[0].blocks(self.block_size)
        if self.prefixes:
            need -= len(self._prefix(group)[0])
        if self.gpu.size - self.reserved - need < self.watermark_blocks:
            return Allocation.NEVER
        return Allocation.OK if self.gpu.free_blocks - need >= self.watermark_blocks else Allocation.LATER

    def allocate(self, group: SequenceGroup) -> tuple[int, int] | None:
        """Give the prompt its blocks, one share for every sequence of the group.

        Returns
        -------
        (int, int) or None
            The block to copy from and to, if the prompt goes on in the last block of a reserved prefix (copy-on-write).
        """
        waiting = group.having(Status.WAITING)
        shared, partial = self._prefix(group)
        own = [self.gpu.allocate() for _ in range(waiting[0].blocks(self.block_size) - len(shared))]
        for block in own:
            block.shares = len(group.sequences)
        for block in shared:
            block.shares += len(group.sequences)
        for sequence in waiting:
            self.tables[sequence.number] = [*shared, *own]
        return None if partial is None else (partial.number, own[0].number)

    def can_append(self, group: SequenceGroup) -> bool:
        """Whether a block is free for every running sequence, needed or not (the paper's conservative test)."""
        free = self.gpu.free_blocks
        # The first test says less and costs less: it is asked for each group in each step, and is nearly always true.
        return len(group.sequences) <= free or len(group.having(Status.RUNNING)) <= free

    def append(self, sequence: Sequence) -> tuple[int, int] | None:
        """Make room for the sequence's newest token.

        Returns
        -------
        (int, int) or None
            The block to copy from and to, if the last block was shared (copy-on-write).
        """
        table = self.tables[sequence.number]
        if len(table) * self.block_size < sequence.length:
            table.append(self.gpu.allocate())
            return None
        last = table[-1]
        if last.shares == 1:
            return None
        table[-1] = self.gpu.allocate()
        self.gpu.free(last)
        return last.number, table[-1].number

    def fork(self, parent: Sequence, child: Sequence) -> None:
        """Let `child` share every block of `parent`; nothing is allocated."""
        table = self.tables[parent.number]
        self.tables[child.number] = list(table)
        for block in table:
            block.shares += 1

    def free(self, sequence: Sequence) -> None:
        """Drop a sequence's shares; one that holds none is left alone."""
        for block in self.tables.pop(sequence.number, ()):
            (self.cpu if sequence.status is Status.SWAPPED and not block.reserved else self.gpu).free(block)

    def held(self, group: SequenceGroup) -> list[Block]:
        """The distinct blocks of a group's unfinished sequences, in order of their first use; none that is reserved."""
        # By order of first use: which block gets which number must not depend on addresses.
        blocks = (b for s in group.sequences if not s.finished for b in self.tables[s.number])
        return list({id(b): b for b in blocks if not b.reserved}.values())

    def can_swap_in(self, group: SequenceGroup) -> bool:
        """Whether the group's blocks and one more for each sequence fit beside the watermark."""
        need = len(self.held(group)) + len(group.having(Status.SWAPPED))
        return self.gpu.free_blocks - need >= self.watermark_blocks

    def can_swap_out(self, group: SequenceGroup) -> bool:
        """Whether the host has room for the group's blocks."""
        return len(self.held(group)) <= self.cpu.free_blocks

    def swap_in(self, group: SequenceGroup) -> list[tuple[int, int]]:
        """Move a group's blocks to the device; pairs of host and device block."""
        return self._move(group.having(Status.SWAPPED), self.cpu, self.gpu)

    def swap_out(self, group: SequenceGroup) -> list[tuple[int, int]]:
        """Move a group's blocks to the host; pairs of device and host block."""
        return self._move(group.having(Status.RUNNING), self.gpu, self.cpu)

    def _move(self, sequences: list[Sequence], source: BlockPool, target: BlockPool) -> list[tuple[int, int]]:
        """Move block tables from pool to pool; what sequences share there, they share here; reserved blocks stay."""
        moved: dict[int, Block] = {}
        pairs: list[tuple[int, int]] = []
        for sequence in sequences:
            table: list[Block] = []
            for block in self.tables[sequence.number]:
                if block.reserved:
                    table.append(block)
                    continue
                if id(block) in moved:
                    moved[id(block)].shares += 1
                else:
                    moved[id(block)] = target.allocate()
                    pairs.append((block.number, moved[id(block)].number))
                table.append(moved[id(block)])
                source.free(block)
            self.tables[sequence.number] = table
        return pairs
