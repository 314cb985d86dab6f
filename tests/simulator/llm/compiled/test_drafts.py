"""Speculative decoding compiled against the reference: the same drafts are accepted, draw for draw."""

from __future__ import annotations

import numpy as np
import pytest
from drawn_llm_worlds import both, costs, drafts, options, same, ticks, traces, ways
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.profiles import device
from meshwright.profiles.llm import ConstantCost, LinearCost, decoder, iteration_cost
from meshwright.profiles.llm.cost.in_service import Factors, InService
from meshwright.simulator.llm import LLMTrace, SimulateOptions, Speculative, conversations, draw, simulate_llm
from meshwright.simulator.llm.compiled.fleet.emitted import runs_of
from meshwright.simulator.llm.result.iterations import TokenRuns


@settings(max_examples=examples(80, anew=300), deadline=None)
@given(data=st.data())
def test_bit_for_bit_on_a_grid_of_times(data):
    trace = data.draw(traces())
    config, way, speculative = data.draw(options(trace)), data.draw(ways()), data.draw(drafts())
    config["async_scheduling"] = False
    config["num_blocks"] += -(-2 * speculative.tokens // config["block_size"])
    if data.draw(st.integers(0, 4)) == 0:
        config["max_model_len"], way["too_long"] = data.draw(st.sampled_from([16, 24])), "ignore"
    way |= {"speculative": speculative, "seed": data.draw(st.integers(0, 99))}
    if found := both(trace, config, data.draw(costs(ticks(1, 200))), **way):
        same(*found)


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
@settings(max_examples=examples(20, anew=80), deadline=None)
@given(data=st.data())
def test_under_pressure(policy, data):
    n, size, k = data.draw(st.integers(8, 24)), data.draw(st.sampled_from([1, 2, 4])), data.draw(st.integers(1, 4))
    lengths = st.lists(st.integers(1, 12), min_size=n, max_size=n)
    trace = LLMTrace(
        np.zeros(n), data.draw(lengths), data.draw(lengths),
        priority=data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)),
    )  # fmt: skip
    config = {
        "num_blocks": -(-(24 + 2 * k) // size) + 1 + data.draw(st.integers(0, 8)), "block_size": size,
        "max_model_len": 64, "policy": policy, "enable_prefix_caching": data.draw(st.booleans()),
        "scheduler_reserve_full_isl": False, "max_num_batched_tokens": data.draw(st.sampled_from([6, 40])),
    }  # fmt: skip
    found = both(trace, config, ConstantCost(1.0), speculative=Speculative(k, 0.6), seed=data.draw(st.integers(0, 9)))
    assert found is not None
    same(*found)


def test_conversations_by_rooflines_with_a_draft_model():
    chat = conversations([200, 60, 900], [60, 20, 140], 80, rate=20.0, turns=3, think_s=0.5, seed=3)
    config = {"num_blocks": 300, "max_model_len": 4096, "max_num_batched_tokens": 1024}
    cost = iteration_cost(decoder("opt-13b"), device("a100-80gb"), max_tokens=2048, max_outputs=2048)
    draft = iteration_cost(decoder("opt-1.3b"), device("a100-80gb"), max_tokens=2048, max_outputs=2048)
    ours, theirs = both(
        chat, config, cost, engines=3, router="least_kv", seed=5, speculative=Speculative(4, 0.7, draft, 1e-4)
    )
    assert ours.preemptions.sum() > 0
    assert ours.cached_tokens.sum() > 0
    same(ours, theirs, tolerance=1e-9)


def test_models_in_service():
    trace = draw([30, 5], [40, 90], 60, rate=20.0, seed=1)
    factors = [Factors((1, 8), (1.5, 2.5), 9), Factors((0,), (3.0,), 9), Factors((0,), (1.25,), 9)]
    target, draft = (InService(LinearCost(*c), *factors) for c in ((0.02, 1e-4), (0.002, 1e-5, 1e-7)))
    config = {"num_blocks": 500, "max_model_len": 512}
    ours, theirs = both(trace, config, target, speculative=Speculative(3, 0.8, draft))
    same(ours, theirs, tolerance=1e-9)


def test_what_is_not_compiled_is_said():
    class Mine:
        def seconds(self, iteration):
            return 0.1

    trace, config = LLMTrace([0.0], [10], [20]), {"num_blocks": 100, "max_model_len": 64}
    with pytest.raises(Exception, match="a cost of type Mine is not compiled"):
        simulate_llm(
            trace, config=config, cost=ConstantCost(1.0), engine="compiled",
            options=SimulateOptions(speculative=Speculative(2, 0.5, Mine())),
        )  # fmt: skip


@settings(max_examples=examples(40, anew=200), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 4)), max_size=30))
def test_runs_are_those_of_the_tokens(steps):
    """Each step gives one request some tokens, or two requests where the next one does not move on."""
    emitted, at, seen = [], 0, set()
    for request, tokens in steps:
        if request in seen or tokens == 4:
            at, seen = at + 1, set()
        seen.add(request)
        emitted.append((request, at, tokens))
    columns = np.array(emitted, dtype=np.int64).reshape(-1, 3).T.copy()
    request, first, last = runs_of(columns, 3)
    theirs = TokenRuns.of_tokens(np.repeat(columns[0], columns[2]), np.repeat(columns[1], columns[2]))
    for ours, name in ((request, "request"), (first, "first"), (last, "last")):
        np.testing.assert_array_equal(ours, getattr(theirs, name))
