"""The compiled loop over engines that share devices, against the reference."""

from __future__ import annotations

import numpy as np
import pytest
from drawn_llm_worlds import costs, options, same, ticks, traces
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.profiles import device
from meshwright.profiles.llm import ConstantCost, LinearCost, decoder, iteration_cost
from meshwright.profiles.llm.cost.in_service import Factors, InService
from meshwright.simulator.llm import LLMTrace, conversations, draw
from meshwright.simulator.llm.compiled.fleet.routing import KINDS
from meshwright.simulator.llm.shared import SharedEngine, simulate_shared

LINEAR = LinearCost(base_s=0.01, token_s=1e-4, context_s=1e-6)
OPTIONS = {"num_blocks": 120, "max_model_len": 512, "max_num_batched_tokens": 256, "max_num_seqs": 16}


def both(requests, engines, **way):
    """Both engines' results by model; both must refuse what one refuses."""
    told = {}
    for engine in ("simpy", "compiled"):
        try:
            told[engine] = simulate_shared(requests, engines, engine=engine, **way)
        except InputError as error:
            told[engine] = str(error)
    if isinstance(told["simpy"], str):
        assert isinstance(told["compiled"], str)
        return None
    assert not isinstance(told["compiled"], str), told["compiled"]
    assert {found.made_by for found in told["compiled"].values()} == {"compiled"}
    assert {found.made_by for found in told["simpy"].values()} == {"reference"}
    return told["compiled"], told["simpy"]


def equal(found, tolerance=0.0):
    ours, theirs = found
    assert list(ours) == list(theirs)
    for model in theirs:
        same(ours[model], theirs[model], tolerance)
        assert ours[model].iterations.engines == theirs[model].iterations.engines


@st.composite
def engines_of(draw_, model, trace, stages):
    """One or two engines of a model, with options and costs of their own, on groups of so many stages."""
    found, size = [], 0
    for _ in range(draw_(st.integers(1, 2))):
        group, cost = draw_(st.integers(0, len(stages) - 1)), draw_(costs(ticks(1, 200)))
        if draw_(st.integers(0, 3)) == 0:
            factor = st.tuples(ticks(1 << 19, 1 << 21), ticks(1 << 19, 1 << 21))
            cost = InService(cost, *(Factors((1, 3), draw_(factor), 4) for _ in range(3)))
        config, policy = draw_(options(trace)), "vllm-v1"
        config |= {"async_scheduling": False, "block_size": size or config["block_size"]}
        size = config["block_size"]  # of all engines of a model that cache
        least = -(-int((trace.prompt_tokens + trace.output_tokens).max()) // size) + 1
        if draw_(st.integers(0, 4)) == 0:
            policy = "sarathi"
            config = {
                "num_gpu_blocks": least + draw_(st.integers(0, 20)), "block_size": size,
                "max_model_len": 64, "chunk_size": draw_(st.sampled_from([3, 8, 20])),
                "max_num_seqs": draw_(st.sampled_from([1, 3, 100])), "watermark": 0.0,
            }  # fmt: skip
        else:
            if draw_(st.integers(0, 2)) == 0:
                config |= {"sliding_window": draw_(st.integers(1, 30)), "full_groups": draw_(st.integers(0, 1))}
                config["window_groups"] = draw_(st.integers(1, 2))
                least *= config["full_groups"] + config["window_groups"]
            config["num_blocks"] = least + draw_(st.integers(0, 20))
            config["max_model_len"] = draw_(st.sampled_from([64, 64, 24]))
        found.append(SharedEngine(model, group, policy, config, cost, stages[group]))
    return found


@settings(max_examples=examples(40, anew=300), deadline=None)
@given(data=st.data())
def test_bit_for_bit_on_a_grid_of_times(data):
    stages = data.draw(st.lists(st.sampled_from([1, 1, 1, 2, 3]), min_size=1, max_size=2))
    requests = {name: data.draw(traces()) for name in "abc"[: data.draw(st.integers(1, 3))]}
    engines = [e for name, trace in requests.items() for e in data.draw(engines_of(name, trace, stages))]
    way = {"router": data.draw(st.sampled_from(sorted(KINDS))), "seed": data.draw(st.integers(0, 9))}
    way["too_long"] = data.draw(st.sampled_from(["error", "ignore", "ignore"]))
    if data.draw(st.integers(0, 4)) == 0:
        way["until"] = data.draw(ticks(1, 3000))
    if found := both(requests, engines, **way):
        equal(found)


@pytest.mark.parametrize("router", sorted(KINDS))
def test_conversations_of_two_models_on_two_groups(router):
    """Unlike engines, one of them a pipeline, prefix caching in blocks of two sizes."""
    chats = {
        name: conversations([200, 60, 900], [60, 20, 40], 60, rate=10.0, turns=3, think_s=0.5, seed=seed)
        for seed, name in enumerate("ab")
    }
    config = {"num_blocks": 260, "max_model_len": 4096, "max_num_batched_tokens": 2048}
    engines = [
        SharedEngine(name, group, "vllm-v1", config | {"block_size": size}, cost, stages)
        for name, size in (("a", 16), ("b", 32))
        for group, stages, cost in ((0, 1, LINEAR), (1, 2, ConstantCost(0.03)))
    ]
    found = both(chats, engines, router=router, seed=5)
    assert found is not None
    assert all(len(set(one.engine.tolist())) > 1 and one.cached_tokens.sum() > 0 for one in found[0].values())
    equal(found, tolerance=1e-9)


def test_beginnings_that_several_models_share_in_blocks_of_their_own():
    """A node of one model's prompts is four blocks, of the other's six: both are cut to two."""
    traces_ = {
        name: LLMTrace(
            np.arange(12.0), [96] * 12, [5] * 12, prefix_ids=[[k % 2, k % 3] for k in range(12)], prefix_block=48
        )
        for name in "ab"
    }
    engines = [
        SharedEngine(name, 0, "vllm-v1", {"num_blocks": 60, "block_size": size, "max_model_len": 512}, LINEAR)
        for name, size in (("a", 12), ("b", 8))
    ]
    found = both(traces_, engines)
    assert found is not None
    assert [found[0][name].cached_tokens.sum() > 0 for name in "ab"] == [True, True]
    equal(found)


def test_pipelines_of_measured_costs_and_others_beside_them():
    """Costs of several kinds with tables of several sizes; the slowest stage has the output head."""
    spec, gpu = decoder("llama-3.1-8b"), device("h100-80gb")
    wide, narrow = iteration_cost(spec, gpu, pp=2), iteration_cost(spec, gpu, max_tokens=512, max_outputs=64)
    asked = {name: draw([20, 150, 60], [40, 10, 90], 60, rate=60.0, seed=seed) for seed, name in enumerate("abc")}
    few = OPTIONS | {"num_blocks": 34}
    engines = [
        SharedEngine("a", 0, "vllm-v1", few, wide, 2),
        SharedEngine("b", 0, "vllm-v1", few, narrow, 2),
        SharedEngine("c", 0, "vllm-v1", OPTIONS, LINEAR, 2),
        SharedEngine("c", 1, "sarathi", {"num_gpu_blocks": 60, "max_model_len": 512}, wide),
        SharedEngine("a", 1, "vllm-v1", few, narrow),
    ]
    found = both(asked, engines, router="least_kv")
    assert found is not None
    assert sum(one.preemptions.sum() for one in found[0].values()) > 0
    equal(found, tolerance=1e-9)


def test_auto_is_the_reference_for_few_tokens():
    few, many = (draw([20], [400], n, rate=8.0, seed=0) for n in (10, 300))
    for trace, name in ((few, "reference"), (many, "compiled")):
        assert simulate_shared({"a": trace}, [SharedEngine("a", 0, "vllm-v1", OPTIONS, LINEAR)])["a"].made_by == name


class Own:
    """A cost of one's own."""

    def seconds(self, iteration):
        return 0.01


@pytest.mark.parametrize(
    ("changed", "trace", "said"),
    [
        ({"cost": Own()}, {}, "a cost of type Own is not compiled"),
        ({"options": {"max_num_active_seqs": 2}}, {}, "max_num_active_seqs is not compiled"),
        ({"policy": "orca-max", "options": {"num_slots": 512, "max_model_len": 64}}, {}, "policy 'orca-max' is not"),
        ({"options": {"block_size": 32}}, {}, "blocks of several sizes"),
        ({}, {"prefix_ids": [[-1], [0]], "prefix_block": 16}, "prefix ids below 0"),
    ],
)
def test_what_the_reference_is_left(changed, trace, said):
    """It is said by whom it is asked of; others get the reference's answer."""
    asked = {"a": LLMTrace([0.0, 0.1], [16, 16], [2, 2], **trace)}
    policy, cost = changed.get("policy", "vllm-v1"), changed.get("cost", LINEAR)
    base = OPTIONS if policy == "vllm-v1" else {}
    engines = [
        SharedEngine("a", 0, "vllm-v1", OPTIONS, LINEAR),
        SharedEngine("a", 1, policy, base | changed.get("options", {}), cost),
    ]
    with pytest.raises(InputError, match=said):
        simulate_shared(asked, engines, engine="compiled")
    assert simulate_shared(asked, engines, engine="fast")["a"].made_by == "reference"


def test_unknown_engine():
    with pytest.raises(InputError, match="unknown engine 'quick'"):
        simulate_shared({"a": LLMTrace([0.0], [8], [2])}, [], engine="quick")
