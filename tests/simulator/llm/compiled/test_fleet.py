"""The compiled fleet against the reference: asynchronous steps, priorities, prefix caching, conversations, routers,
and Sarathi."""

from __future__ import annotations

import functools
import heapq

import numpy as np
import pytest
from drawn_llm_worlds import both, costs, options, same, ticks, traces, ways
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.jit import kernel
from meshwright.profiles.llm import ConstantCost, LinearCost
from meshwright.simulator.llm import LLMTrace, conversations, draw
from meshwright.simulator.llm.compiled.contents import contents
from meshwright.simulator.llm.compiled.fleet.routing import KINDS
from meshwright.simulator.llm.memory.prefix_blocks import block_hashes


@settings(max_examples=examples(60, anew=200), deadline=None)
@given(data=st.data())
def test_bit_for_bit_on_a_grid_of_times(data):
    trace = data.draw(traces())
    config, way = data.draw(options(trace)), data.draw(ways())
    if data.draw(st.integers(0, 4)) == 0:  # some end at the model's longest sequence, some never begin
        config["max_model_len"], way["too_long"] = data.draw(st.sampled_from([16, 24])), "ignore"
    if found := both(trace, config, data.draw(costs(ticks(1, 200))), **way):
        same(*found)


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
@pytest.mark.parametrize("size", [1, 4])
@settings(max_examples=examples(12, anew=40), deadline=None)
@given(data=st.data())
def test_asynchronous_under_pressure(size, policy, data):
    """So few blocks that requests are preempted while their tokens, even their last ones, are under way."""
    n = data.draw(st.integers(8, 24))
    lengths = st.lists(st.integers(1, 12), min_size=n, max_size=n)
    trace = LLMTrace(
        np.zeros(n), data.draw(lengths), data.draw(lengths),
        priority=data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)),
    )  # fmt: skip
    config = {
        "num_blocks": -(-24 // size) + 1 + data.draw(st.integers(0, 8)), "block_size": size, "max_model_len": 64,
        "policy": policy, "async_scheduling": True, "enable_prefix_caching": data.draw(st.booleans()),
        "scheduler_reserve_full_isl": False, "max_num_batched_tokens": data.draw(st.sampled_from([6, 40])),
    }  # fmt: skip
    found = both(trace, config, ConstantCost(1.0))
    assert found is not None
    same(*found)


@settings(max_examples=examples(25, anew=80), deadline=None)
@given(data=st.data())
def test_sarathi_bit_for_bit(data):
    trace, way = data.draw(traces()), data.draw(ways())
    size = data.draw(st.integers(1, 6))
    least = -(-int((trace.prompt_tokens + trace.output_tokens).max()) // size)
    config = {
        "num_gpu_blocks": least + 1 + data.draw(st.integers(0, 20)), "block_size": size, "max_model_len": 64,
        "chunk_size": data.draw(st.sampled_from([3, 8, 20, 40])),
        "max_num_seqs": data.draw(st.sampled_from([1, 3, 100])),
        "watermark": data.draw(st.sampled_from([0.0, 0.01, 0.1])),
    }  # fmt: skip
    if found := both(trace, config, data.draw(costs(ticks(1, 200))), policy="sarathi", **way):
        same(*found)


@pytest.mark.parametrize("router", sorted(KINDS))
def test_conversations_on_eight_engines(router):
    chat = conversations([200, 60, 900], [60, 20, 40], 80, rate=20.0, turns=3, think_s=0.5, seed=3)
    config = {"num_blocks": 260, "max_model_len": 4096, "max_num_batched_tokens": 2048, "async_scheduling": True}
    ours, theirs = both(chat, config, LinearCost(0.01, 2e-5, 1e-7, 1e-9, 1e-5), engines=8, router=router, seed=5)
    assert ours.cached_tokens.sum() > 0
    assert len(set(ours.engine.tolist())) > 1
    same(ours, theirs, tolerance=1e-9)


def test_batches_of_hundreds():
    trace = draw([3, 6, 9], [60, 80, 100], 320, rate=2000.0, seed=2)
    for more in ({"num_blocks": 2400}, {"num_blocks": 1300}, {"num_blocks": 2400, "max_num_batched_tokens": 250}):
        config = {"max_model_len": 1024, "async_scheduling": True, **more}
        ours, theirs = both(trace, config, LinearCost(0.01, 2e-5, 1e-7, 1e-9, 1e-5))
        assert ours.iterations.running.max() > 240
        same(ours, theirs, tolerance=1e-9)


@settings(max_examples=examples(25, anew=60), deadline=None)
@given(
    ids=st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), min_size=1, max_size=8),
    block=st.integers(1, 9),
    size=st.integers(1, 9),
)
def test_contents_are_equal_where_all_tokens_up_to_them_are(ids, block, size):
    prompts = [len(some) * block - row % block for row, some in enumerate(ids)]
    trace = LLMTrace(np.zeros(len(ids)), prompts, [size] * len(ids), prefix_ids=ids, prefix_block=block)
    found = contents(trace, size)
    ours, theirs, own = [], [], []
    for row in range(len(ids)):
        hashes = block_hashes(trace.tokens(row), size)
        assert found.shared[row] == len(hashes)
        for k, content in enumerate(hashes):
            ours.append(int(found.nodes[found.begin[row] + k // found.per] * found.per + k % found.per))
            theirs.append(content)
        own += [int(found.own[row]) + k for k in range(len(hashes), (prompts[row] + size) // size)]
    assert len(set(zip(ours, theirs, strict=True))) == len(set(ours)) == len(set(theirs))
    assert len(set(own)) == len(own)
    assert not set(own) & set(ours)


@functools.cache
def heap_moves():
    """The heap's two moves, to be called from Python."""
    from meshwright.simulator.llm.compiled.fleet.waiting import dequeue, enqueue

    put = kernel(lambda request, engine, r: enqueue(request, engine, 0, r), cache=False)
    return put, kernel(lambda request, engine, r: dequeue(request, engine, 0, r), cache=False)


@settings(max_examples=examples(25, anew=60), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), max_size=60))
def test_who_waits_comes_in_order(moves):
    from meshwright.simulator.llm.compiled.fleet.tables import ENGINE, REQUEST

    put, take = heap_moves()
    request, engine = np.zeros(len(moves), dtype=REQUEST), np.zeros(1, dtype=ENGINE)
    engine["root"], waits = -1, []
    for r, (priority, move) in enumerate(moves):
        request[r]["priority"], request[r]["order"] = priority, r
        if move < 6:
            put(request, engine, r)
            heapq.heappush(waits, (priority, r))
        elif waits:
            gone = waits[0] if move < 8 else waits[len(waits) // 2]
            take(request, engine, gone[1])
            waits.remove(gone)
            heapq.heapify(waits)
        assert engine[0]["root"] == (waits[0][1] if waits else -1)
        assert engine[0]["waiting"] == len(waits)
