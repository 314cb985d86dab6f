"""The buddy allocator: hand-worked splits and merges, and what must hold after any sequence of calls."""

from __future__ import annotations

from itertools import pairwise

import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError, RunError
from meshwright.simulator.llm.memory.buddy import BuddyAllocator, chunks_in


def test_a_pool_that_is_no_power_of_two_starts_as_its_binary_digits():
    pool = BuddyAllocator(15_728)
    assert [size for _, size in pool.free_chunks] == [8192, 4096, 2048, 1024, 256, 64, 32, 16]
    assert all(start % size == 0 for start, size in pool.free_chunks)
    assert pool.largest_free == 8192
    assert [chunks_in(15_728, size) for size in (2048, 1025, 1, 16_384)] == [7, 7, 15_728, 0]


def test_a_chunk_is_split_in_halves_and_joins_them_again():
    pool = BuddyAllocator(16)
    a = pool.allocate(3)
    assert (a.start, a.size, a.wanted, a.rounding) == (0, 4, 3, 1)
    assert pool.free_chunks == [(4, 4), (8, 8)]
    b = pool.allocate(4)
    assert (b.start, b.size) == (4, 4)
    pool.free(a)
    assert pool.free_chunks == [(0, 4), (8, 8)]  # its other half is taken: nothing to join
    pool.free(b)
    assert pool.free_chunks == [(0, 16)]


def test_free_slots_may_be_of_no_use():
    pool = BuddyAllocator(8)
    chunks = [pool.allocate(2) for _ in range(4)]
    pool.free(chunks[0])
    pool.free(chunks[2])
    assert pool.free_slots == 4
    assert pool.largest_free == 2
    assert pool.allocate(3) is None  # external fragmentation
    assert pool.free_slots == 4


@pytest.mark.parametrize("slots", [0, -1, 2.0, True])
def test_bad_sizes_are_refused(slots):
    with pytest.raises(InputError, match="slots: expected an integer >= 1"):
        BuddyAllocator(slots)
    with pytest.raises(InputError, match="slots: expected an integer >= 1"):
        BuddyAllocator(8).allocate(slots)


def test_a_chunk_is_given_back_once():
    pool = BuddyAllocator(8)
    chunk = pool.allocate(2)
    pool.free(chunk)
    with pytest.raises(RunError, match="not held"):
        pool.free(chunk)


@given(
    st.integers(1, 5000),
    st.lists(st.tuples(st.booleans(), st.integers(1, 600), st.integers(0, 10**6)), max_size=120),
)
@settings(max_examples=examples(50, anew=150), deadline=None)
def test_chunks_never_overlap_no_slot_is_lost_and_all_joins_again(slots, calls):
    pool = BuddyAllocator(slots)
    fresh = pool.free_chunks
    held = []
    for take, wanted, pick in calls:
        if take or not held:
            could = pool.largest_free
            chunk = pool.allocate(wanted)
            assert (chunk is None) == (could < wanted)  # fails only where no free chunk would do
            if chunk is not None:
                assert wanted <= chunk.size < 2 * wanted
                assert chunk.start % chunk.size == 0
                held.append(chunk)
        else:
            pool.free(held.pop(pick % len(held)))
        spans = sorted([(c.start, c.size) for c in held] + pool.free_chunks)
        # Held and free chunks tile the pool: nothing overlaps, nothing is lost.
        assert spans[0][0] == 0
        assert all(start + size == after for (start, size), (after, _) in pairwise(spans))
        assert sum(spans[-1]) == slots
        assert pool.free_slots == slots - sum(c.size for c in held)
        free = set(pool.free_chunks)
        assert not any((start ^ size, size) in free for start, size in free)  # two free halves never stay apart
        assert sorted(pool.held, key=lambda c: c.start) == sorted(held, key=lambda c: c.start)
    for chunk in held:
        pool.free(chunk)
    assert pool.free_chunks == fresh
