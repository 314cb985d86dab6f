"""Today's vLLM finds, shares and evicts blocks: what is found of a prompt, counted by hand, block by block."""

from __future__ import annotations

import pytest
from meshwright.seeds import generator
from meshwright.simulator.llm.policy.request import LLMRequest
from meshwright.simulator.llm.policy.vllm_v1 import V1Config, V1Scheduler

SIZE = 4


def tokens(text: str, n: int) -> tuple[str, ...]:
    return tuple(f"{text}{i}" for i in range(n))


def engine(usable: int, **more: object) -> V1Scheduler:
    """So many blocks beside the null block."""
    return V1Scheduler(V1Config(usable + 1, SIZE, 400, 400, **more))  # type: ignore[arg-type]


def served(scheduler: V1Scheduler, name: str, prompt: tuple[str, ...], output: int = 1) -> int:
    """Tokens of a prompt that were found, when it is served to its end, alone."""
    request = scheduler.add(LLMRequest(name, len(prompt), output, tokens=prompt))
    hit = -1
    while request in scheduler.waiting or request in scheduler.running:
        step = scheduler.schedule()
        hit = step.cached.get(request, hit)
        scheduler.complete(step)
    return hit


@pytest.mark.parametrize("n", range(1, 14))
def test_all_full_blocks_are_found_but_that_of_the_last_token(n: int) -> None:
    """One token must be computed, or there is no first one: ⌊(n − 1)/4⌋ blocks of the same prompt again."""
    scheduler = engine(20)
    assert served(scheduler, "first", tokens("x", n)) == 0
    assert served(scheduler, "again", tokens("x", n)) == (n - 1) // SIZE * SIZE
    longer = (*tokens("x", n), *tokens("y", SIZE))
    assert served(scheduler, "longer", longer) == n // SIZE * SIZE
    assert scheduler.pool.free_blocks == 20


@pytest.mark.parametrize("taken", range(9))
def test_the_end_of_a_prompt_is_evicted_before_its_beginning(taken: int) -> None:
    """Of ten blocks eight hold a prompt that is done. Another takes some: the two that never held anything first, then
    the prompt's last block, the one before it, … What is left from the beginning is found."""
    scheduler = engine(10)
    served(scheduler, "first", tokens("x", 8 * SIZE))
    other = scheduler.add(LLMRequest("other", SIZE * (taken + 1), 9, tokens=tokens("y", SIZE * (taken + 1))))
    scheduler.complete(scheduler.schedule())
    scheduler.abort(other)
    blocks = taken + 1  # the prompt's; its first new token has none yet
    kept = 8 - max(0, blocks - 2)
    assert served(scheduler, "again", (*tokens("x", 8 * SIZE), "end")) == kept * SIZE


def test_found_blocks_that_nobody_uses_are_taken_from_the_free_ones() -> None:
    """Six blocks, four of them a finished prompt's. One that runs holds one, so that five are free: to go on from the
    four needs these and two new ones, six; with one new block it fits."""
    for more, fits in ((SIZE, True), (SIZE + 1, False)):
        scheduler = engine(6)
        served(scheduler, "first", tokens("x", 4 * SIZE))
        scheduler.add(LLMRequest("runs", 2, 3, tokens=tokens("r", 2)))
        scheduler.complete(scheduler.schedule())
        assert scheduler.pool.free_blocks == 5
        again = scheduler.add(
            LLMRequest("again", 4 * SIZE + more, 1, tokens=(*tokens("x", 4 * SIZE), *tokens("z", more)))
        )
        step = scheduler.schedule()
        assert (again in step.scheduled) == fits
        assert again not in step.scheduled or step.cached[again] == 4 * SIZE


@pytest.mark.parametrize("seed", range(8))
def test_every_block_is_free_or_in_tables_and_found_by_what_it_holds(seed: int) -> None:
    """Prompts with common beginnings come, run, are preempted and leave: shares are tables, contents are found."""
    draw = generator(seed, "prefix books")
    scheduler = engine(24, max_num_seqs=6)
    live = []
    for k in range(60):
        if draw.random() < 0.5 and len(live) < 8:
            n = int(draw.integers(1, 40))
            prompt = (*tokens("s", n // 2), *tokens(f"r{int(draw.integers(0, 4))}-", n - n // 2))
            live.append(scheduler.add(LLMRequest(str(k), n, int(draw.integers(1, 20)), tokens=prompt)))
        step = scheduler.schedule()
        gone = set(scheduler.complete(step))
        live = [r for r in live if r not in gone]
        if live and draw.random() < 0.1:
            scheduler.abort(live.pop(int(draw.integers(0, len(live)))))
        pool = scheduler.pool
        tables = [b.number for r in live for b in r.blocks]
        assert {b.number: b.shares for b in pool.blocks if b.shares} == {b: tables.count(b) for b in tables}
        assert pool.free_blocks + len(set(tables)) == 24
        for block in pool.blocks[1:]:
            if block.content is not None:
                assert pool.find(block.content).content == block.content  # type: ignore[union-attr]
        for r in live:
            assert len(r.blocks) == -(-r.computed // SIZE) or r not in scheduler.running
            assert r.computed <= len(r.blocks) * SIZE
