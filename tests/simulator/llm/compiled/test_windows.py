"""Layers with sliding windows, with and without prefix caching: the compiled engine against the reference."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from drawn_llm_worlds import alike, both, costs, options, same, ticks, traces, ways
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.profiles.llm import ConstantCost, LinearCost
from meshwright.simulator.llm import LLMTrace, conversations
from meshwright.simulator.llm.compiled import known
from meshwright.simulator.llm.policy.vllm_v1.state import V1Config


@st.composite
def windows(draw_):
    return {
        "sliding_window": draw_(st.integers(1, 24)), "full_groups": draw_(st.integers(0, 2)),
        "window_groups": draw_(st.integers(1, 3)), "enable_prefix_caching": draw_(st.booleans()),
    }  # fmt: skip


@settings(max_examples=examples(60, anew=200), deadline=None)
@given(data=st.data())
def test_bit_for_bit_on_a_grid_of_times(data):
    trace = data.draw(traces())
    config, way, window = data.draw(options(trace)), data.draw(ways()), data.draw(windows())
    groups = window["full_groups"] + window["window_groups"]
    least = config["num_blocks"] * data.draw(st.sampled_from([1, groups, groups]))
    config |= window | {"num_blocks": least + data.draw(st.integers(0, 8))}
    if data.draw(st.integers(0, 4)) == 0:  # some end at the model's longest sequence, some never begin
        config["max_model_len"], way["too_long"] = data.draw(st.sampled_from([16, 24])), "ignore"
    if found := both(trace, config, data.draw(costs(ticks(1, 200))), **way):
        same(*found)


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
@pytest.mark.parametrize("ahead", [False, True])
@settings(max_examples=examples(15, anew=50), deadline=None)
@given(data=st.data())
def test_under_pressure(policy, ahead, data):
    """So few blocks that requests are preempted; what others gave back a moment before decides who."""
    n, size = data.draw(st.integers(8, 24)), data.draw(st.sampled_from([1, 2, 4]))
    lengths = st.lists(st.integers(1, 14), min_size=n, max_size=n)
    trace = LLMTrace(
        np.zeros(n), data.draw(lengths), data.draw(lengths),
        priority=data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)),
    )  # fmt: skip
    window = data.draw(windows()) | {"sliding_window": data.draw(st.integers(1, 9))}
    groups = window["full_groups"] + window["window_groups"]
    config = window | {
        "num_blocks": groups * (-(-28 // size)) + 1 + data.draw(st.integers(0, 10)), "block_size": size,
        "max_model_len": 64, "policy": policy, "async_scheduling": ahead, "scheduler_reserve_full_isl": False,
        "max_num_batched_tokens": data.draw(st.sampled_from([6, 40])),
        "long_prefill_token_threshold": data.draw(st.sampled_from([0, 3])),
    }  # fmt: skip
    found = both(trace, config, ConstantCost(1.0))
    assert found is not None
    same(*found)


@pytest.mark.parametrize("groups", [(1, 5), (0, 1), (2, 2)])
def test_conversations_under_pressure(groups):
    full, near = groups
    chat = conversations([200, 60, 900], [60, 20, 240], 80, rate=20.0, turns=3, think_s=0.5, seed=3)
    config = {
        "num_blocks": 200 * full + 90 * near, "max_model_len": 4096, "max_num_batched_tokens": 512,
        "async_scheduling": True, "sliding_window": 128, "full_groups": full, "window_groups": near,
        "enable_prefix_caching": False, "scheduler_reserve_full_isl": False,
    }  # fmt: skip
    ours, theirs = both(chat, config, LinearCost(0.01, 2e-5, 1e-7, 1e-9, 1e-5), engines=3, router="least_kv", seed=5)
    assert ours.preemptions.sum() > 0
    same(ours, theirs, tolerance=1e-9)


@settings(max_examples=examples(40, anew=150), deadline=None)
@given(data=st.data())
def test_prefix_caching_of_texts_that_begin_alike(data):
    """Turns that begin with the history, prompts with one beginning: their windows are found, or not."""
    n, size = data.draw(st.integers(6, 24)), data.draw(st.sampled_from([1, 2, 3]))
    trace = data.draw(alike(n))
    window = data.draw(windows()) | {"enable_prefix_caching": True}
    groups = window["full_groups"] + window["window_groups"]
    config = window | {
        "num_blocks": groups * -(-52 // size) + 1 + data.draw(st.integers(0, 60)), "block_size": size,
        "max_model_len": 64, "async_scheduling": data.draw(st.booleans()),
        "scheduler_reserve_full_isl": data.draw(st.booleans()),
        "max_num_batched_tokens": data.draw(st.sampled_from([6, 16, 40])),
        "max_num_seqs": data.draw(st.sampled_from([2, 100])),
    }  # fmt: skip
    way = {"engines": data.draw(st.integers(1, 2)), "router": data.draw(st.sampled_from(["prefix_aware", "least_kv"]))}
    found = both(trace, config, data.draw(costs(ticks(1, 60))), **way)
    assert found is not None
    same(*found)


@pytest.mark.parametrize(
    ("groups", "ahead"), [((1, 1), True), ((1, 5), False), ((0, 1), False), ((0, 1), True), ((2, 0), False)]
)
def test_conversations_that_find_their_windows(groups, ahead):
    """Preempted requests find their own blocks, turns those of the turn before; others take them meanwhile."""
    full, near = groups
    chat = conversations([200, 60, 900], [60, 20, 240], 80, rate=20.0, turns=3, think_s=0.5, seed=3)
    config = {
        "num_blocks": 230 * full + 120 * near, "max_model_len": 4096, "max_num_batched_tokens": 512,
        "async_scheduling": ahead, "sliding_window": 128 if near else 0, "full_groups": full, "window_groups": near,
        "scheduler_reserve_full_isl": False,
    }  # fmt: skip
    cost = LinearCost(0.01, 2e-5, 1e-7, 1e-9, 1e-5)
    ours, theirs = both(chat, config, cost, engines=2, router="prefix_aware", seed=5)
    assert ours.cached_tokens.sum() > 0
    assert ours.preemptions.sum() > 0
    same(ours, theirs, tolerance=1e-9)


def test_groups_without_a_window():
    trace = LLMTrace(np.zeros(12), np.arange(12) + 3, np.arange(12) + 5)
    config = {
        "num_blocks": 40, "block_size": 2, "max_model_len": 64, "full_groups": 2, "enable_prefix_caching": False,
    }  # fmt: skip
    ours, theirs = both(trace, config, ConstantCost(1.0))
    assert ours.preemptions.sum() > 0
    same(ours, theirs)


def test_an_option_that_nobody_taught_it_is_left_to_the_reference(monkeypatch):
    short = known.KNOWN[V1Config] - {"watermark"}
    monkeypatch.setitem(known.KNOWN, V1Config, short)
    plain = V1Config(100)
    assert known.unknown(plain) is None
    assert known.unknown(dataclasses.replace(plain, watermark=0.1)) == "watermark"
    assert known.unknown(LLMTrace([0.0], [1], [1], priority=[3])) is None
    monkeypatch.setitem(known.KNOWN, LLMTrace, known.KNOWN[LLMTrace] - {"priority"})
    assert known.unknown(LLMTrace([0.0], [1], [1])) is None
    assert known.unknown(LLMTrace([0.0], [1], [1], priority=[3])) == "priority"
