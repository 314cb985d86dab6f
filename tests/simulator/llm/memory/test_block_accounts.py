"""Block pools by their books: whatever happens, every block is free or in a table, with a share for each table."""

from __future__ import annotations

from collections import Counter

import pytest
from meshwright.profiles.llm import ConstantCost
from meshwright.seeds import generator
from meshwright.simulator.llm import LLMTrace, simulate_llm
from meshwright.simulator.llm.memory.blocks import Allocation, BlockManager
from meshwright.simulator.llm.policy.request import LLMRequest, Sequence, SequenceGroup, Status

SIZE, ONE = 4, ConstantCost(1.0)


def balance(memory: BlockManager, groups: list[SequenceGroup]) -> None:
    """Shares are tables; what no table holds is free; nothing is in both pools."""
    on_host = {s.number for g in groups for s in g.sequences if s.status is Status.SWAPPED}
    for pool, mine in ((memory.gpu, False), (memory.cpu, True)):
        held: Counter[int] = Counter()
        shares: dict[int, int] = {}
        for number, table in memory.tables.items():
            for block in table:
                if (number in on_host and not block.reserved) == mine:
                    held[block.number] += 1
                    shares[block.number] = block.shares
        if not mine:
            for table in memory.prefixes:
                for block in table:
                    held[block.number] += 1
                    shares[block.number] = block.shares
        assert dict(held) == shares
        assert pool.free_blocks + len(held) == pool.size
        assert len({b.number for b in pool._free}) == pool.free_blocks
        assert not held.keys() & {b.number for b in pool._free}
        assert all(b.shares == 0 for b in pool._free)


@pytest.mark.parametrize("prefixes", [(), (10,), (8, 5)])
@pytest.mark.parametrize("seed", range(12))
def test_every_block_is_free_or_held_after_any_step(seed: int, prefixes: tuple[int, ...]) -> None:
    """Prompts, children, tokens, copies of shared blocks, swapping there and back, ends: drawn, 150 of them."""
    draw = generator(seed, "block accounts")
    memory = BlockManager(SIZE, 60, 40, 0.05, prefixes)
    groups: list[SequenceGroup] = []
    number = 0
    for _ in range(150):
        what = int(draw.integers(0, 6))
        group = groups[int(draw.integers(0, len(groups)))] if groups else None
        if what == 0 or group is None:
            place = int(draw.integers(0, len(prefixes))) if prefixes and draw.random() < 0.6 else None
            prompt = int(draw.integers(1, 20)) + (prefixes[place] if place is not None else 0)
            one = Sequence(number, prompt)
            new = SequenceGroup(LLMRequest(str(number), prompt, 9, shared_prefix=place), number, [one])
            number += 1
            if memory.can_allocate(new) is Allocation.OK:
                memory.allocate(new)
                one.status = Status.RUNNING
                groups.append(new)
        elif what == 1 and (running := group.having(Status.RUNNING)) and memory.gpu.free_blocks:
            child = Sequence(number, running[0].length, 0, Status.RUNNING)
            number += 1
            memory.fork(running[0], child)
            group.sequences.append(child)
        elif what in (2, 3):
            for sequence in group.having(Status.RUNNING):
                if memory.gpu.free_blocks:
                    sequence.length += 1
                    memory.append(sequence)
        elif what == 4:
            if group.having(Status.RUNNING) and memory.can_swap_out(group):
                memory.swap_out(group)
                for sequence in group.having(Status.RUNNING):
                    sequence.status = Status.SWAPPED
            elif group.having(Status.SWAPPED) and memory.can_swap_in(group):
                memory.swap_in(group)
                for sequence in group.having(Status.SWAPPED):
                    sequence.status = Status.RUNNING
        else:
            sequence = group.sequences[int(draw.integers(0, len(group.sequences)))]
            memory.free(sequence)
            sequence.status = Status.FINISHED
            if group.finished:
                groups.remove(group)
        balance(memory, groups)
    for group in groups:
        for sequence in group.sequences:
            memory.free(sequence)
    assert memory.gpu.free_blocks == 60 - memory.reserved
    assert memory.cpu.free_blocks == 40


@pytest.mark.parametrize("engine", ["simpy", "compiled"])
def test_a_prompt_may_leave_exactly_the_watermark(engine: str) -> None:
    """100 blocks of which 10 % stay free: two prompts of 45 start at once; with a token more the second waits."""
    config = {"block_size": SIZE, "num_gpu_blocks": 100, "num_cpu_blocks": 0, "watermark": 0.1}
    started = []
    for more in (0, 1):
        trace = LLMTrace([0.0, 0.0], [45 * SIZE, 45 * SIZE + more], [1, 1])
        result = simulate_llm(trace, policy="vllm-0.2", config=config, cost=ONE, engine=engine)
        started.append(result.scheduled.tolist())
    assert started[0] == [0.0, 0.0]
    assert started[1][1] > 0.0
