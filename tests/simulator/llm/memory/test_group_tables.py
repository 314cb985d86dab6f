"""Prefix caching where some layers have a window: what is found, kept and given back, as vLLM's own tests count it."""

from __future__ import annotations

import pytest
from meshwright.profiles.llm import LinearCost
from meshwright.seeds import generator
from meshwright.simulator.llm import LLMTrace, simulate_llm
from meshwright.simulator.llm.policy.request import LLMRequest
from meshwright.simulator.llm.policy.vllm_v1 import V1Config, V1Request, V1Scheduler

SIZE = 16


def engine(usable: int, **more: object) -> V1Scheduler:
    """One group of layers that hold everything and two with a window of two blocks, densely kept, unless said."""
    options = {
        "sliding_window": 2 * SIZE, "full_groups": 1, "window_groups": 2, "prefix_cache_retention_interval": None,
        "max_num_batched_tokens": 8192, **more,
    }  # fmt: skip
    return V1Scheduler(V1Config(usable + 1, SIZE, **options))  # type: ignore[arg-type]


def common(blocks: int, *end: int) -> tuple[int, ...]:
    return (*(i for i in range(blocks) for _ in range(SIZE)), *end)


def numbers(tables: list) -> list[list[int]]:
    return [[0 if b is None else b.number for b in column] for column in tables]


def run(scheduler: V1Scheduler, name: str, tokens: tuple[int, ...], output: int = 2) -> tuple[V1Request, int]:
    """A request after the step of its prompt, and how many of its tokens were found."""
    request = scheduler.add(LLMRequest(name, len(tokens), output, tokens=tokens))
    step = scheduler.schedule()
    scheduler.complete(step)
    return request, step.cached[request]


def evict(scheduler: V1Scheduler, content: object, group: int) -> None:
    """Forget one block's content."""
    pool = scheduler.pool
    block = pool.find((content, group))
    assert block is not None
    pool._forget(block)


def test_a_prefix_is_found_by_all_groups_and_windows_need_their_end():
    """``test_prefill_hybrid_model``, block number by block number."""
    scheduler = engine(20)
    one, hit = run(scheduler, "0", common(3, *[3] * 7))
    assert hit == 0
    assert numbers(one.tables) == [[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12]]
    two = scheduler.add(LLMRequest("1", 53, 1, tokens=common(3, *[3] * 5)))
    found = scheduler._cached(two)
    assert numbers(found) == [[1, 2, 3], [0, 6, 7], [0, 10, 11]]
    scheduler.schedule()
    assert numbers(two.tables) == [[1, 2, 3, 13], [0, 6, 7, 14], [0, 10, 11, 15]]
    for column in found:
        assert {b.shares for b in column if b is not None} == {2}


@pytest.mark.parametrize(
    ("gone", "hit"),
    [
        ([(0, 1), (0, 2)], 3),  # outside of the window
        ([(0, 0)], 0),  # the first block of the group that needs all
        ([(2, 0), (2, 1), (2, 2)], 2),
        ([(2, 0)], 2),
        ([(2, 1)], 2),
        ([(2, 2)], 2),
        ([(2, 0), (0, 1), (0, 2)], 0),  # one group knows two blocks, the others the second and third
    ],
)
def test_what_is_left_of_a_hit_when_blocks_are_evicted(gone, hit):
    """``test_prefill_hybrid_model``: blocks (place, group) are forgotten; a hit is what all groups have then."""
    scheduler = engine(20)
    first, _ = run(scheduler, "0", common(3, *[3] * 7), output=1)
    for place, group in gone:
        evict(scheduler, first.contents[place], group)
    assert run(scheduler, "2", common(3, *[3] * 5), output=1)[1] == hit * SIZE


@pytest.mark.parametrize("groups", [(1, 1), (1, 2), (2, 1), (0, 1), (0, 2), (3, 0)])
def test_combinations_of_groups(groups):
    """``test_prefill_hybrid_model_combinations``: three common blocks are found whatever the groups are."""
    full, near = groups
    window = {"sliding_window": 2 * SIZE if near else 0, "full_groups": full, "window_groups": near}
    scheduler = engine(10 * (full + near), **window)
    assert run(scheduler, "0", common(3, *[3] * 7))[1] == 0
    assert run(scheduler, "1", common(3, *[4] * 5))[1] == 3 * SIZE


def cached(scheduler: V1Scheduler, request: V1Request, group: int) -> set[int]:
    """Places of a request's blocks that can be found in a group."""
    return {k for k, content in enumerate(request.contents) if scheduler.pool.find((content, group)) is not None}


def test_only_the_end_of_a_prompt_is_kept():
    """``test_pure_swa_retention_latest_only``: 16 blocks, a window of one: block 14, and 240 tokens are found again."""
    scheduler = engine(
        99, sliding_window=SIZE, full_groups=0, window_groups=1, prefix_cache_retention_interval=0
    )  # fmt: skip
    request, _ = run(scheduler, "0", common(16), output=1)
    assert cached(scheduler, request, 0) == {14}
    assert run(scheduler, "1", common(16))[1] == 240


def test_everything_is_kept():
    """``test_pure_swa_dense_retention_caches_all``."""
    scheduler = engine(99, sliding_window=SIZE, full_groups=0, window_groups=1)
    request, _ = run(scheduler, "0", common(16), output=1)
    assert cached(scheduler, request, 0) == set(range(16))


@pytest.mark.parametrize(
    ("every", "junction", "window", "kept"),
    [
        (0, 96, 1, {5, 14}),
        (0, 96, 3, {3, 4, 5, 12, 13, 14}),
        (64, 96, 1, {3, 5, 7, 11, 14, 15}),
        (None, 96, 1, set(range(16))),
        (0, 0, 1, {14}),
    ],
)
def test_windows_of_junctions_and_of_segments_are_kept(every, junction, window, kept):
    """``test_swa_reachable_block_mask_pins_shared_prefix``: a prompt of 256 tokens that parts from another at 96."""
    scheduler = engine(200, sliding_window=window * SIZE, window_groups=1, prefix_cache_retention_interval=every)
    request = V1Request(LLMRequest("a", 256, 1), 0, 256, junction=junction)
    assert set(scheduler._tables._kept(request, 0, 16)) == kept


@pytest.mark.parametrize(("every", "hits"), [(None, [0, 64, 64]), (0, [0, 0, 64])])
def test_a_shared_prefix_is_kept_when_it_was_seen_twice(every, hits):
    """``test_swa_shared_prefix_reuse_under_zero_retention``: the second request finds where it parts from the first."""
    scheduler = engine(200, window_groups=1, prefix_cache_retention_interval=every)
    found = [run(scheduler, str(k), (*[7] * 64, *[k] * 64))[1] for k in (50, 60, 70)]
    assert found == hits


def test_blocks_nobody_will_look_for_are_taken_first():
    """``test_swa_free_split_keeps_cached_tail_ahead_of_scratch``: of 16 blocks of the window's group 14 is kept."""
    scheduler = engine(40, sliding_window=SIZE, window_groups=1, prefix_cache_retention_interval=0)
    request = scheduler.add(LLMRequest("0", 256, 1, tokens=common(16)))
    step = scheduler.schedule()
    column = [b.number for b in request.tables[1]]
    scheduler.complete(step)
    order = [scheduler.pool.take(1)[0].number for _ in range(40)]
    assert set(order[:15]) == set(column) - {column[14]}
    assert order[0] == column[15]
    assert cached(scheduler, request, 1) == set()


def test_a_long_prompt_is_admitted_by_its_window():
    """``test_can_fit_full_sequence_swa_cap_admits_long_prompt``: it never holds more than the window and a chunk."""
    more = {"full_groups": 0, "window_groups": 1, "max_num_batched_tokens": 64, "max_model_len": 1024}
    scheduler = engine(8, **more)
    request = scheduler.add(LLMRequest("0", 640, 1, tokens=common(40)))
    for _ in range(10):
        assert scheduler.schedule().scheduled == {request: 64}
    assert engine(8, **{**more, "full_groups": 1}).config.whole(640) > 8


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("every", [None, 0, 32])
def test_every_block_is_free_or_in_tables_and_found_by_what_it_holds(seed, every):
    """Prompts with common beginnings come, run, are preempted and leave, in a pool that is too small for all."""
    draw = generator(seed, "group books")
    scheduler = engine(60, prefix_cache_retention_interval=every, max_num_seqs=6, max_num_batched_tokens=64)
    live, hits, lost = [], 0, 0
    for k in range(400):
        if k < 90 and draw.random() < 0.4 and len(live) < 8:
            n = int(draw.integers(1, 120))
            prompt = (*[1] * (n // 2), *[2 + int(draw.integers(0, 3))] * (n - n // 2))
            live.append(scheduler.add(LLMRequest(str(k), n, int(draw.integers(1, 60)), tokens=prompt)))
        step = scheduler.schedule()
        hits, lost = hits + sum(step.cached.values()), lost + len(step.preempted)
        tables = [b.number for r in scheduler.running for column in r.tables for b in column if b is not None]
        pool = scheduler.pool
        assert {b.number: b.shares for b in pool.blocks if b.shares} == {b: tables.count(b) for b in tables}
        assert pool.free_blocks + len(set(tables)) == 60
        for r in scheduler.running:
            assert scheduler.held_of(r) == sum(b is not None for column in r.tables for b in column)
            assert {len(column) for column in r.tables} == {-(-r.computed // SIZE)}
            seen = max(0, r.computed - step.scheduled.get(r, 0) - 2 * SIZE + 1) // SIZE
            for g, column in enumerate(r.tables):  # what the step reads is there
                assert None not in column[seen if g else 0 :]
        gone = set(scheduler.complete(step))
        live = [r for r in live if r not in gone]
    assert not live
    assert hits > 0
    assert lost > 0 or seed


def test_a_wide_window_finds_what_no_window_finds():
    """Windows beyond every prompt keep all: one group with a window gives what one without gives, to the last bit."""
    draw = generator(5, "wide windows")
    n = 60
    ids = [[int(draw.integers(0, 3)), int(draw.integers(0, 9)), k] for k in range(n)]
    trace = LLMTrace(
        [k / 200 for k in range(n)], [3 * SIZE] * n, draw.integers(2, 40, n), prefix_ids=ids, prefix_block=SIZE
    )
    cost = LinearCost(5e-3, 1e-4, 1e-6)
    base = {"num_blocks": 30, "block_size": SIZE, "max_model_len": 256}
    one = simulate_llm(trace, config=base, cost=cost, engine="simpy")
    wide = {"sliding_window": 256, "full_groups": 0, "window_groups": 1, "prefix_cache_retention_interval": None}
    other = simulate_llm(trace, config=base | wide, cost=cost, engine="simpy")
    assert one.finish.tolist() == other.finish.tolist()
    assert one.cached_tokens.tolist() == other.cached_tokens.tolist()
    assert one.cached_tokens.sum() > 0
    assert one.preemptions.sum() > 0
