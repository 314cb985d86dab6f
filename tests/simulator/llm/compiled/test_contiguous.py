"""Orca and FasterTransformer compiled against the reference, and the compiled buddy allocator against the plain one."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np
import pytest
from flat_options import llm_asked
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.jit import kernel
from meshwright.profiles.llm import ConstantCost, LinearCost
from meshwright.simulator.llm import LLMTrace, draw, simulate_llm
from meshwright.simulator.llm.compiled.fleet.routing import KINDS
from meshwright.simulator.llm.memory.buddy import BuddyAllocator

TICK = 2.0**-20
POLICIES = ("orca-max", "orca-pow2", "orca-oracle", "fastertransformer")


def same(ours, theirs, tolerance=0.0):
    """Bit for bit, or times within a relative tolerance."""
    assert (theirs.made_by, ours.made_by) == ("reference", "compiled")
    for name in ("arrival", "scheduled", "first_token", "finish", "generated", "engine", "ignored"):
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=tolerance, atol=0, err_msg=name)
    for name, column in ours.iterations.columns().items():
        loose = tolerance if name in ("start", "end") else 0
        np.testing.assert_allclose(column, theirs.iterations.columns()[name], rtol=loose, atol=0, err_msg=name)
    assert ours.iterations.capacity_tokens == theirs.iterations.capacity_tokens
    for name in ("request", "first", "last"):
        np.testing.assert_array_equal(getattr(ours.runs, name), getattr(theirs.runs, name), err_msg=name)


@pytest.mark.parametrize("policy", POLICIES)
@settings(max_examples=examples(20, anew=60), deadline=None)
@given(data=st.data())
def test_bit_for_bit_on_a_grid_of_times(policy, data):
    n = data.draw(st.integers(1, 24))
    column = lambda each: data.draw(st.lists(each, min_size=n, max_size=n))  # noqa: E731
    arrival = np.cumsum(column(st.integers(0, data.draw(st.sampled_from([0, 3, 300]))))) * TICK
    back = column(st.integers(-8, 3))
    trace = LLMTrace(
        arrival, column(st.integers(1, 20)), column(st.integers(1, 20)),
        best_of=data.draw(st.none() | st.lists(st.integers(1, 3), min_size=n, max_size=n)),
        after=[row - k if 0 < k <= row else -1 for row, k in enumerate(back)],
    )  # fmt: skip
    config = {
        "num_slots": data.draw(st.integers(192, 500)),
        "max_model_len": data.draw(st.sampled_from([40, 64])),
        "max_num_seqs": data.draw(st.sampled_from([3, 5, 100])),
    }
    way = {"engines": data.draw(st.integers(1, 3)), "router": data.draw(st.sampled_from(sorted(KINDS)))}
    if data.draw(st.booleans()):
        way["concurrency"] = data.draw(st.integers(1, 8))
    if data.draw(st.integers(0, 4)) == 0:
        way["until"] = data.draw(st.integers(1, 3000)) * TICK
    if data.draw(st.integers(0, 4)) == 0:
        config["max_model_len"], way["too_long"] = 24, "ignore"
    cost = LinearCost(*(data.draw(st.integers(1, 200)) * TICK for _ in range(5)))
    theirs, ours = (
        simulate_llm(trace, policy=policy, config=config, cost=cost, engine=engine, **llm_asked(**way))
        for engine in ("simpy", "compiled")
    )
    same(ours, theirs)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_pool_of_no_power_of_two_over_minutes(policy):
    trace = draw([80, 15, 250, 40], [169, 50, 400, 10], 120, rate=40.0, seed=1)
    config = {"num_slots": 7_864, "max_model_len": 1024}
    cost = LinearCost(0.01, 2e-5, 1e-7, 1e-9, 1e-5)
    theirs, ours = (
        simulate_llm(trace, policy=policy, config=config, cost=cost, engine=engine, engines=2, router="least_kv")
        for engine in ("simpy", "compiled")
    )
    assert ours.iterations.waiting.max() > 0
    same(ours, theirs, tolerance=1e-9)


def test_more_samples_than_sequences_may_run_is_said():
    with pytest.raises(InputError, match="best_of 9 is above max_num_seqs 8"):
        simulate_llm(
            LLMTrace([0.0], [5], [5], best_of=[9]), policy="orca-max", config={"num_slots": 4096, "max_num_seqs": 8},
            cost=ConstantCost(1.0), engine="compiled",
        )  # fmt: skip


class Arrays(NamedTuple):
    """Those of `Tables` that the allocator looks at."""

    chunk: Any
    top: Any


@functools.cache
def buddies():
    """The compiled allocator's moves, to be called from Python."""
    from meshwright.simulator.llm.compiled.fleet.buddy import allocate, free_chunk, fresh_chunks, order_of

    return (
        fresh_chunks,
        kernel(lambda s, slots: allocate(s, 0, order_of(slots)), cache=False),
        kernel(lambda s, start, slots: free_chunk(s, 0, start, order_of(slots)), cache=False),
    )


@settings(max_examples=examples(20, anew=60), deadline=None)
@given(
    slots=st.integers(1, 700),
    moves=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 200)), max_size=40),
)
def test_the_buddy_allocator_gives_the_same_chunks(slots, moves):
    from meshwright.simulator.llm.compiled.fleet.tables import CHUNK

    fresh, allocate, free = buddies()
    arrays = Arrays(np.zeros((1, slots), dtype=CHUNK), np.zeros((1, slots.bit_length()), dtype=np.int32))
    fresh(arrays)
    plain, held = BuddyAllocator(slots), []
    for move, asked in moves:
        if move or not held:
            chunk, start = plain.allocate(asked), allocate(arrays, asked)
            assert start == (-1 if chunk is None else chunk.start)
            if chunk is not None:
                held.append(chunk)
        else:
            chunk = held.pop(asked % len(held))
            plain.free(chunk)
            free(arrays, chunk.start, chunk.size)
    order = arrays.chunk["order"][0]
    assert [(int(k), 1 << int(order[k])) for k in np.flatnonzero(order >= 0)] == plain.free_chunks
