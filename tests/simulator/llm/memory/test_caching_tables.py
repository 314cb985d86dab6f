"""What vLLM 0.6.6's own unit tests of its block manager, block table and prefix cache expect, asked of ours.

Each test says which of vLLM's it is. Not asked: copies on write, forks and several sequences of a request, of which
0.6.6's scheduler makes no use; sliding windows, encoders, hit rates.
"""

from __future__ import annotations

from itertools import count
from typing import Any

import pytest
from meshwright.errors import RunError
from meshwright.simulator.llm.memory.blocks import Allocation
from meshwright.simulator.llm.memory.caching_pool import CachedBlock, CachingPool
from meshwright.simulator.llm.memory.caching_tables import CachingTables
from meshwright.simulator.llm.memory.prefix_blocks import block_hashes
from meshwright.simulator.llm.policy.request import LLMRequest
from meshwright.simulator.llm.policy.vllm06 import Vllm06Config, Vllm06Request

NAMES = count()


def tables(**config: Any) -> CachingTables:
    return CachingTables(Vllm06Config(**{"block_size": 8, "watermark": 0.0, **config}))


def waiting(prompt: int, start: int = 0, block_size: int = 8) -> Vllm06Request:
    """A request whose prompt counts on from some token."""
    tokens = tuple(range(start, start + prompt))
    request = Vllm06Request(LLMRequest(next(NAMES), prompt, 99, tokens=tokens), prompt, tokens=list(tokens))
    request.name_blocks(block_size)
    return request


def grown(request: Vllm06Request, tokens: int, block_size: int = 8) -> None:
    """Give it tokens that its table has not seen."""
    request.tokens += [-k for k in range(tokens)]
    request.length += tokens
    request.name_blocks(block_size)


# tests/core/block/test_block_manager.py


@pytest.mark.parametrize("blocks", [8, 40, 80])
@pytest.mark.parametrize("watermark", [0.0, 0.5])
def test_can_allocate_seq_group(blocks: int, watermark: float) -> None:
    memory = tables(block_size=16, num_gpu_blocks=blocks, watermark=watermark)
    for need in range(2, blocks + 1):
        fits = memory.can_allocate(waiting(16 * need, block_size=16))
        assert fits is (Allocation.NEVER if blocks - need < int(watermark * blocks) else Allocation.OK)
    memory.allocate(waiting(16 * (blocks // 4), block_size=16))
    room = blocks - blocks // 4 - int(watermark * blocks)
    assert memory.can_allocate(waiting(16 * room, 10**6, 16)) is Allocation.OK
    assert memory.can_allocate(waiting(16 * room + 1, 10**6, 16)) is Allocation.LATER


@pytest.mark.parametrize("block_size", [1, 8])
@pytest.mark.parametrize("prompt", [1, 7, 8])
@pytest.mark.parametrize("new", [1, 8, 129])
@pytest.mark.parametrize("ahead", [0, 10])
def test_append_slots(block_size: int, prompt: int, new: int, ahead: int) -> None:
    memory, request = tables(block_size=block_size, num_gpu_blocks=1024), waiting(prompt, block_size=block_size)
    memory.allocate(request)
    grown(request, new, block_size)
    before = memory.gpu.free_blocks
    memory.append(request, ahead)
    assert before - memory.gpu.free_blocks == -(-(prompt + new + ahead) // block_size) + -prompt // block_size
    assert request.filled == prompt + new


def running(memory: CachingTables, prompt: int, new: int = 0) -> Vllm06Request:
    request = waiting(prompt)
    memory.allocate(request)
    grown(request, new)
    return request


@pytest.mark.parametrize("ahead", [0, 2, 10])
@pytest.mark.parametrize("caching", [False, True])
def test_swap(ahead: int, caching: bool) -> None:
    memory = tables(num_gpu_blocks=4, num_cpu_blocks=4, enable_prefix_caching=caching)
    request = running(memory, 7, 1)
    here = [b.number for b in request.blocks]
    assert memory.can_swap_out(request)
    assert [a for a, _ in memory.swap_out(request)] == here
    assert (memory.gpu.free_blocks, memory.cpu.free_blocks) == (4, 3)
    assert memory.can_swap_in(request, ahead) is Allocation.OK
    there = [b.number for b in request.blocks]
    assert [a for a, _ in memory.swap_in(request)] == there
    assert (memory.gpu.free_blocks, memory.cpu.free_blocks) == (3, 4)


@pytest.mark.parametrize("ahead", [3, 8, 10])
@pytest.mark.parametrize("caching", [False, True])
def test_can_swap(ahead: int, caching: bool) -> None:
    """Of 4 blocks 3 go and come back with as many slots ahead as a block has; with more they never do."""
    memory = tables(num_gpu_blocks=4, num_cpu_blocks=4, enable_prefix_caching=caching)
    request = running(memory, 23)
    assert memory.can_swap_out(request)
    memory.swap_out(request)
    assert (memory.gpu.free_blocks, memory.cpu.free_blocks) == (4, 1)
    assert memory.can_swap_in(request, ahead) is (Allocation.OK if ahead <= 8 else Allocation.NEVER)
    memory.allocate(waiting(15, 10_000))  # takes two blocks, of what was held of the first one
    assert memory.can_swap_in(request, ahead) is (Allocation.LATER if ahead <= 8 else Allocation.NEVER)


@pytest.mark.parametrize("ahead", [0, 2, 10])
@pytest.mark.parametrize("caching", [False, True])
def test_swap_in_infeasible(ahead: int, caching: bool) -> None:
    memory = tables(num_gpu_blocks=1, num_cpu_blocks=1, enable_prefix_caching=caching)
    request = running(memory, 5, 1)
    assert memory.can_swap_out(request)
    memory.swap_out(request)
    assert memory.can_swap_in(request, ahead) is (Allocation.OK if 5 + 1 + ahead <= 8 else Allocation.NEVER)


def test_slots_ahead_are_moved_and_not_counted() -> None:
    """vLLM then runs out of blocks (``NoFreeBlocksError``); ours says for whom."""
    memory = tables(num_gpu_blocks=4, num_cpu_blocks=1)
    request = running(memory, 5, 1)
    memory.append(request, 16)
    assert len(request.blocks) == 3
    assert memory.can_swap_out(request)
    with pytest.raises(RunError, match="its 3 blocks, slots ahead included, do not fit; raise num_cpu_blocks"):
        memory.swap_out(request)


# tests/core/block/test_block_table.py


@pytest.mark.parametrize("length", [1, 16, 129])
@pytest.mark.parametrize("new", [1, 16, 129])
@pytest.mark.parametrize("ahead", [1, 7, 8])
def test_num_blocks_touched_by_append_slots(length: int, new: int, ahead: int) -> None:
    """The last block that it has, if that is not full, and all beyond it."""
    memory = tables(block_size=16, num_gpu_blocks=64)
    request = waiting(length, block_size=16)
    memory.allocate(request)
    grown(request, new, 16)
    written = {k // 16 for k in range(length, length + new + ahead)}
    assert memory.touched(request, ahead) == len(written)


# tests/core/block/test_prefix_caching_block.py


def chain(pool: CachingPool, contents: list[Any], depth: int = 0) -> list[CachedBlock]:
    """Blocks of these contents: found, or taken and filled."""
    blocks: list[CachedBlock] = []
    for k, content in enumerate(contents):
        block = pool.share(content)
        blocks.append(pool.keep(pool.take(), content, depth + 16 * (k + 1)) if block is None else block)
    return blocks


def test_eviction_order() -> None:
    """Who was used longest ago goes first; of one sequence the end goes before the beginning."""
    pool = CachingPool(5, True)
    first, second = chain(pool, list("abc")), chain(pool, list("xy"))
    assert pool.free_blocks == 0
    for blocks, time in ((first, 1.0), (second, 2.0)):
        pool.use(blocks, time)
        for block in blocks:
            pool.release(block)
    assert pool.free_blocks == 5
    evicted = [pool.take().number for _ in range(5)]
    assert evicted == [b.number for b in (*first[::-1], *second[::-1])]
    assert pool.free_blocks == 0
    with pytest.raises(RunError, match="no block is free"):
        pool.take()


def test_touch_block() -> None:
    """What the prompts of one step share is held once, and counts as computed from the next step on."""
    pool, contents = CachingPool(8, True), block_hashes(range(64), 16)
    for _ in range(3):
        blocks = chain(pool, contents)
        assert [b.number for b in blocks] == [0, 1, 2, 3]
        assert pool.known(contents) == 0
    pool.settle()
    assert pool.known(contents) == 4
    assert all(b.shares == 3 for b in blocks)


def test_find_cached_blocks_prefix() -> None:
    pool, contents = CachingPool(8, True), list(range(12))
    first = chain(pool, contents[:8])
    pool.settle()
    assert pool.known(contents[:8]) == 8
    for block in first:
        pool.release(block)
    assert pool.known(contents[:8]) == 8  # as long as nobody takes them
    chain(pool, contents[8:])
    pool.settle()
    assert pool.known(contents[8:]) == 4
    assert pool.known(contents[:8]) == 4


def test_a_block_that_fills_with_what_is_held_gives_its_own_back() -> None:
    """``promote_to_immutable_block``: equal blocks become one."""
    pool = CachingPool(4, True)
    (held,) = chain(pool, ["a"])
    own = pool.take()
    assert pool.keep(own, "a", 16) is held
    assert (held.shares, own.shares, pool.free_blocks) == (2, 0, 3)
    with pytest.raises(RunError, match="freed twice"):
        pool.release(own)


def test_without_caching_the_block_freed_last_is_given_out_first() -> None:
    pool = CachingPool(3, False)
    blocks = [pool.take() for _ in range(3)]
    assert pool.keep(blocks[0], "a", 16).content is None
    assert pool.known(["a"]) == 0
    for block in blocks[:2]:
        pool.release(block)
    assert [pool.take().number for _ in range(2)] == [1, 0]
