"""The compiled loop over engines that fail, come and go, against the reference, on drawn worlds."""

from __future__ import annotations

import numpy as np
import pytest
from drawn_fleets import both, costs, faults, options, same, ticks, traces
from drawn_llm_worlds import alike, drafts
from flat_options import llm_asked
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.jit import kernel
from meshwright.profiles.llm import ConstantCost, LinearCost
from meshwright.profiles.spread import Spread
from meshwright.simulator.llm import (
    Autoscaling,
    Fault,
    Faults,
    LLMTrace,
    Speculative,
    conversations,
    draw,
    simulate_llm,
)
from meshwright.simulator.llm.compiled.dynamic.growth import METRICS
from meshwright.simulator.llm.compiled.fleet.routing import KINDS
from meshwright.simulator.llm.fleet.scaling import METRICS as ALL_METRICS


@st.composite
def ways(draw_):
    """Engines, a router, failures or a rule or both, a closed loop, a horizon."""
    engines = draw_(st.integers(1, 3))
    way = {"engines": engines, "router": draw_(st.sampled_from(sorted(KINDS))), "seed": draw_(st.integers(0, 9))}
    kind = draw_(st.sampled_from(["faults", "scaling", "both"]))
    if kind != "faults":
        way["scaling"] = Autoscaling(
            draw_(st.integers(1, engines)), draw_(st.integers(engines, 5)),
            draw_(st.sampled_from([0.3, 1.0, 2.5, 20.0])), metric=draw_(st.sampled_from(METRICS)),
            interval_s=draw_(ticks(20, 400)), start_s=draw_(ticks(0, 300)),
            tolerance=draw_(st.sampled_from([0.0, 0.1, 0.5])), patience=draw_(st.integers(1, 3)),
        )  # fmt: skip
    if kind != "scaling":
        way["faults"] = draw_(faults(engines - 1 if kind == "faults" else 4))
    if draw_(st.booleans()):
        way["concurrency"] = draw_(st.integers(1, 8))
    if draw_(st.integers(0, 4)) == 0:
        way["until"] = draw_(ticks(1, 3000))
    return way


@settings(max_examples=examples(100, anew=400), deadline=None)
@given(data=st.data())
def test_bit_for_bit_on_a_grid_of_times(data):
    trace = data.draw(traces())
    config, way = data.draw(options(trace)), data.draw(ways())
    if data.draw(st.integers(0, 4)) == 0:  # some end at the model's longest sequence, some never begin
        config["max_model_len"], way["too_long"] = data.draw(st.sampled_from([16, 24])), "ignore"
    if found := both(trace, config, data.draw(costs(ticks(1, 200))), **way):
        same(*found)


@settings(max_examples=examples(60, anew=400), deadline=None)
@given(data=st.data())
def test_drafts_bit_for_bit(data):
    """What is drawn for a request begins anew with each try."""
    trace, speculative = data.draw(traces()), data.draw(drafts())
    config, way = data.draw(options(trace, windows=False)), data.draw(ways())
    config["async_scheduling"] = False
    config["num_blocks"] += -(-2 * speculative.tokens // config["block_size"])
    if data.draw(st.integers(0, 4)) == 0:
        config["max_model_len"], way["too_long"] = data.draw(st.sampled_from([16, 24])), "ignore"
    if found := both(trace, config, data.draw(costs(ticks(1, 200))), speculative=speculative, **way):
        same(*found)


@settings(max_examples=examples(40, anew=400), deadline=None)
@given(data=st.data())
def test_windows_that_the_prefix_cache_finds_bit_for_bit(data):
    """Turns that begin with the history, prompts with one beginning, on layers in groups, with windows or without."""
    n, size = data.draw(st.integers(6, 24)), data.draw(st.sampled_from([1, 2, 3]))
    trace = data.draw(alike(n))
    near = data.draw(st.integers(0, 3))
    full = data.draw(st.integers(0 if near else 2, 2))
    config = {
        "num_blocks": (full + near) * -(-52 // size) + 1 + data.draw(st.integers(0, 60)), "block_size": size,
        "max_model_len": 64, "async_scheduling": data.draw(st.booleans()), "full_groups": full, "window_groups": near,
        "sliding_window": data.draw(st.integers(1, 24)) if near else 0,
        "scheduler_reserve_full_isl": data.draw(st.booleans()),
        "max_num_batched_tokens": data.draw(st.sampled_from([6, 16, 40])),
    }  # fmt: skip
    found = both(trace, config, data.draw(costs(ticks(1, 60))), **data.draw(ways()))
    if found is not None:
        same(*found)


@pytest.mark.parametrize("groups", [(1, 1), (0, 2)])
@pytest.mark.parametrize("tokens", ["lose", "keep"])
def test_conversations_that_find_their_windows_on_engines_that_fail(groups, tokens):
    full, near = groups
    chat = conversations([200, 60, 900], [60, 20, 240], 80, rate=20.0, turns=3, think_s=0.5, seed=3)
    config = {
        "num_blocks": 230 * full + 120 * near, "max_model_len": 4096, "max_num_batched_tokens": 512,
        "sliding_window": 128, "full_groups": full, "window_groups": near, "scheduler_reserve_full_isl": False,
    }  # fmt: skip
    way = {
        "engines": 4, "router": "prefix_aware", "seed": 5,
        "faults": Faults(mtbf_s=8.0, mttr_s=2.0, load_s=0.5, tokens=tokens, max_retries=9),
        "scaling": Autoscaling(3, 8, 4.0, interval_s=1.0, start_s=2.0, patience=2),
    }  # fmt: skip
    ours, theirs = both(chat, config, LinearCost(0.01, 2e-5, 1e-7, 1e-9, 1e-5), **way)
    assert ours.cached_tokens.sum() > 1000
    assert ours.fleet.retries.sum() > 10
    assert ours.preemptions.sum() > 0
    same(ours, theirs, tolerance=1e-9)


@pytest.mark.parametrize("tokens", ["lose", "keep"])
def test_conversations_with_a_draft_model_on_engines_that_fail(tokens):
    chat = conversations([200, 60, 900], [60, 20, 140], 80, rate=20.0, turns=3, think_s=0.5, seed=3)
    config = {"num_blocks": 300, "max_model_len": 4096, "max_num_batched_tokens": 1024}
    way = {
        "engines": 4, "router": "least_kv", "seed": 5, "times": Spread(visits=(0.9, 1.0, 1.2)),
        "faults": Faults((Fault(2, 3.0, 1.0),), mtbf_s=6.0, mttr_s=2.0, load_s=0.5, tokens=tokens, max_retries=9),
        "speculative": Speculative(4, 0.7, LinearCost(1e-3, 2e-6, 1e-8), 1e-4),
    }  # fmt: skip
    ours, theirs = both(chat, config, LinearCost(0.01, 2e-5, 1e-7, 1e-9, 1e-5), **way)
    assert ours.fleet.retries.sum() > 10
    assert ours.preemptions.sum() > 0
    assert (ours.fleet.lost_tokens.sum() > 0) == (tokens == "lose")
    same(ours, theirs, tolerance=1e-9)


@pytest.mark.parametrize("router", sorted(KINDS))
def test_conversations_on_engines_that_fail(router):
    chat = conversations([200, 60, 900], [60, 20, 40], 80, rate=20.0, turns=3, think_s=0.5, seed=3)
    config = {"num_blocks": 260, "max_model_len": 4096, "max_num_batched_tokens": 2048, "async_scheduling": True}
    way = {
        "engines": 8, "router": router, "seed": 5, "times": Spread(visits=(0.9, 1.0, 1.2)),
        "faults": Faults((Fault(2, 3.0, 1.0),), mtbf_s=6.0, mttr_s=2.0, load_s=0.5, retry_s=0.1),
        "scaling": Autoscaling(4, 12, 2.0, interval_s=1.0, start_s=2.0, patience=2),
    }  # fmt: skip
    ours, theirs = both(chat, config, LinearCost(0.01, 2e-5, 1e-7, 1e-9, 1e-5), **way)
    assert ours.fleet.deaths.sum() > 3
    assert len(ours.fleet.roles) > 8
    assert ours.fleet.retries.sum() > 10
    same(ours, theirs, tolerance=1e-9)


def test_tables_that_grow_change_nothing():
    """Hundreds of engines one after the other, dozens of failures: rows are used again, tables are widened."""
    trace = draw([30, 10], [40, 20], 6000, rate=40.0, seed=0)
    way = {
        "engines": 2, "router": "power_of_two",
        "faults": Faults(mtbf_s=4.0, mttr_s=1.0, load_s=0.5, tokens="keep", max_retries=50),
        "scaling": Autoscaling(1, 9, 4.0, interval_s=0.3, start_s=1.0, patience=1),
    }  # fmt: skip
    config = {"num_blocks": 200, "max_model_len": 256}
    ours, theirs = both(trace, config, LinearCost(0.01, 2e-5, 1e-7), **way)
    assert len(ours.fleet.roles) > 64
    assert ours.fleet.deaths.sum() > 50
    assert len(ours.iterations) > 4096
    same(ours, theirs, tolerance=1e-9)


def test_random_routers_draw_as_numpy_does():
    from meshwright.simulator.llm.compiled.dynamic.routers import below

    draws = kernel(lambda drawn, routed, n: below(drawn, routed, n), cache=False)
    theirs, ours = (np.random.default_rng(7) for _ in range(2))
    drawn, routed = ours.integers(2**32, size=400, dtype=np.uint32), np.zeros(2, dtype=np.int64)
    for n in [1, 2, 3, 1, 5, 8, 7, 3_000_000_000, 2, 1000] * 20:  # of the large one every fourth is drawn again
        assert draws(drawn, routed, n) == theirs.integers(n)


def test_what_is_not_compiled_says_why():
    trace, config = LLMTrace([0.0], [8], [4]), {"num_blocks": 100}

    def asked(policy="vllm-v1", config=config, **way):
        with pytest.raises(InputError, match="engine: compiled") as error:
            simulate_llm(
                trace, policy=policy, config=config, cost=ConstantCost(1.0), engine="compiled", **llm_asked(**way)
            )
        return str(error.value)

    mine = Autoscaling(1, 2, 1.0, scaler=lambda: lambda serving, starting: 1)
    assert "a scaler of your own is not compiled" in asked(scaling=mine)
    slots = {"num_gpu_blocks": 100}
    assert "policy 'vllm-v1' only" in asked("vllm-0.2", slots, faults=Faults((Fault(0, 1.0),)))
    assert "policy 'vllm-v1' only" in asked("sarathi", slots, faults=Faults((Fault(0, 1.0),)))


def test_every_metric_is_compiled():
    assert set(METRICS) == set(ALL_METRICS)


def test_a_fleet_is_compiled_by_itself():
    trace = draw([100], [500], 300, rate=20.0, seed=0)
    rule = Autoscaling(1, 4, 20.0, interval_s=5.0, start_s=5.0)
    result = simulate_llm(
        trace, config={"num_blocks": 4000}, cost=LinearCost(0.01), router="least_outstanding", **llm_asked(scaling=rule)
    )
    assert result.made_by == "compiled"
