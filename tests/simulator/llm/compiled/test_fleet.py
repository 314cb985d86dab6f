"""The compiled fleet against the reference: asynchronous steps, priorities, prefix caching, conversations, routers,
and Sarathi."""

from __future__ import annotations

import functools
import heapq

import numpy as np
import pytest
from flat_options import llm_asked
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.jit import kernel
from meshwright.profiles.llm import ConstantCost, FittedCost, LinearCost
from meshwright.simulator.llm import LLMTrace, conversations, draw, simulate_llm
from meshwright.simulator.llm.compiled.contents import contents
from meshwright.simulator.llm.compiled.fleet.routing import KINDS
from meshwright.simulator.llm.memory.prefix_blocks import block_hashes

TICK = 2.0**-20
NAMES = (
    "arrival", "scheduled", "first_token", "finish", "generated", "preemptions", "cached_tokens", "engine", "ignored",
)  # fmt: skip


def same(ours, theirs, tolerance=0.0):
    """Bit for bit, or times within a relative tolerance."""
    for name in NAMES:
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=tolerance, atol=0, err_msg=name)
    assert ours.iterations.columns().keys() == theirs.iterations.columns().keys()
    for name, column in ours.iterations.columns().items():
        loose = tolerance if name in ("start", "end") else 0
        np.testing.assert_allclose(column, theirs.iterations.columns()[name], rtol=loose, atol=0, err_msg=name)
    assert ours.iterations.capacity_tokens == theirs.iterations.capacity_tokens
    for name in ("request", "first", "last"):
        np.testing.assert_array_equal(getattr(ours.runs, name), getattr(theirs.runs, name), err_msg=name)


def both(trace, config, cost, policy="vllm-v1", **way):
    """Both engines' results; both must refuse what one refuses."""
    told = {}
    for engine in ("simpy", "compiled"):
        try:
            told[engine] = simulate_llm(
                trace, policy=policy, config=config, cost=cost, engine=engine, **llm_asked(**way)
            )
        except InputError as error:
            told[engine] = str(error)
    if isinstance(told["simpy"], str):
        assert isinstance(told["compiled"], str)
        return None
    assert not isinstance(told["compiled"], str), told["compiled"]
    assert (told["simpy"].made_by, told["compiled"].made_by) == ("reference", "compiled")
    return told["compiled"], told["simpy"]


def ticks(least, most):
    return st.integers(least, most).map(lambda k: k * TICK)


@st.composite
def traces(draw_):
    """Requests with priorities, turns that follow turns, prompts that begin alike."""
    n = draw_(st.integers(1, 24))
    longest = draw_(st.sampled_from([0, 3, 30, 300]))
    column = lambda each: draw_(st.lists(each, min_size=n, max_size=n))  # noqa: E731
    arrival = np.cumsum(column(ticks(0, longest)))
    prompt, output, more = column(st.integers(1, 20)), column(st.integers(1, 20)), {}
    if draw_(st.booleans()):
        more["priority"] = column(st.integers(0, 2))
    if draw_(st.booleans()):
        back = column(st.integers(0, 4))
        more["after"] = [row - k if 0 < k <= row else -1 for row, k in enumerate(back)]
        more["think_s"] = column(ticks(0, 50))
        for row, last in enumerate(more["after"]):
            if last >= 0 and draw_(st.booleans()):  # a prompt that begins with the history
                prompt[row] = min(prompt[last] + output[last] + draw_(st.integers(0, 4)), 30)
    if draw_(st.booleans()):
        size = draw_(st.sampled_from([1, 2, 3, 4, 8]))
        cuts = column(st.integers(0, 30))  # before: the text that most share; from there on, one of two others
        more["prefix_block"] = size
        more["prefix_ids"] = [
            [0 if k < cut else 1 + row % 2 for k in range(-(-tokens // size))]
            for row, (tokens, cut) in enumerate(zip(prompt, cuts, strict=True))
        ]
    return LLMTrace(arrival, prompt, output, **more)


@st.composite
def options(draw_, trace):
    size = draw_(st.integers(1, 6))
    least = -(-int((trace.prompt_tokens + trace.output_tokens).max()) // size)
    return {
        "num_blocks": least + 1 + draw_(st.integers(0, 20)),
        "block_size": size,
        "max_model_len": 64,
        "max_num_batched_tokens": draw_(st.sampled_from([3, 8, 20, 40, 64])),
        "max_num_seqs": draw_(st.sampled_from([1, 3, 100])),
        "enable_prefix_caching": draw_(st.booleans()),
        "enable_chunked_prefill": draw_(st.sampled_from([True, True, False])),
        "scheduler_reserve_full_isl": draw_(st.booleans()),
        "long_prefill_token_threshold": draw_(st.sampled_from([0, 0, 3, 7])),
        "limit_alone": draw_(st.booleans()),
        "watermark": draw_(st.sampled_from([0.0, 0.1])),
        "policy": draw_(st.sampled_from(["fcfs", "priority"])),
        "async_scheduling": draw_(st.booleans()),
    }


@st.composite
def ways(draw_):
    """Several engines, a router, a closed loop, a horizon."""
    way = {"engines": draw_(st.integers(1, 3)), "router": draw_(st.sampled_from(sorted(KINDS)))}
    if draw_(st.booleans()):
        way["concurrency"] = draw_(st.integers(1, 8))
    if draw_(st.integers(0, 4)) == 0:
        way["until"] = draw_(ticks(1, 3000))
    return way


def costs(number):
    three = st.tuples(number, number, number)
    return st.one_of(
        number.map(ConstantCost),
        st.tuples(*[number] * 5).map(lambda c: LinearCost(*c)),
        st.builds(FittedCost, three, three, three, st.integers(1, 6)),
    )


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
