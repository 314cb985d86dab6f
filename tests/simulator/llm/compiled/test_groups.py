"""The paper's vLLM and 0.2, with samples, beams, swaps and reserved prefixes: compiled against the reference."""

from __future__ import annotations

import numpy as np
import pytest
from drawn_llm_worlds import both, costs, same, ticks
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.profiles.llm import ConstantCost, LinearCost
from meshwright.simulator.llm import LLMTrace, SimulateOptions, draw, simulate_llm
from meshwright.simulator.llm.decoding.genealogy import Genealogy
from meshwright.simulator.llm.memory.swapping import SwapCost

PREFIXES = (5, 8)
POLICIES = ("vllm-paper", "vllm-0.2")


def asked(policy, config):
    """The options that the policy has: the paper's vLLM pads nothing."""
    return {k: v for k, v in config.items() if k != "max_paddings" or policy == "vllm-0.2"}


@st.composite
def traces(draw_, beams):
    """Requests of one to four sequences, samples or beams, some of which begin with a prefix."""
    n = draw_(st.integers(1, 24))
    column = lambda each: draw_(st.lists(each, min_size=n, max_size=n))  # noqa: E731
    arrival = np.cumsum(column(ticks(0, draw_(st.sampled_from([0, 30, 300])))))
    place = np.array(column(st.integers(-1, len(PREFIXES) - 1)))
    begin = np.where(place < 0, 0, np.array(PREFIXES)[place])
    return LLMTrace(
        arrival, begin + np.array(column(st.integers(1, 12))), column(st.integers(1, 20)),
        best_of=column(st.integers(1, 4)), beam=column(beams), shared_prefix=place,
    )  # fmt: skip


@st.composite
def settings_02(draw_, trace, roomy=False):
    size = draw_(st.integers(1, 6))
    long = trace.prompt_tokens + trace.output_tokens
    reserved = sum(-(-tokens // size) for tokens in PREFIXES)
    blocks = trace.best_of * -(-long // size)
    return {
        "num_gpu_blocks": int(blocks.max()) + reserved + 3 + draw_(st.integers(0, 200 if roomy else 20)),
        "num_cpu_blocks": int(blocks.sum()),
        "block_size": size,
        "max_model_len": 44,
        "max_num_batched_tokens": draw_(st.sampled_from([44, 64, 100])),
        "max_num_seqs": draw_(st.sampled_from([4, 6, 100])),
        "max_paddings": draw_(st.sampled_from([0, 5, 256])),
        "watermark": draw_(st.sampled_from([0.0, 0.01, 0.05])),
        "preemption_mode": draw_(st.sampled_from([None, "recompute", "swap"])),
        "prefixes": draw_(st.sampled_from([(), PREFIXES])),
    }


@st.composite
def ways(draw_):
    way = {"padded": draw_(st.booleans()), "seed": draw_(st.integers(0, 99)), "swap": SwapCost(2, 1000, TICKS, 1e9)}
    if draw_(st.booleans()):
        way |= {"engines": draw_(st.integers(1, 3)), "router": draw_(st.sampled_from(["round_robin", "random"]))}
    elif draw_(st.booleans()):
        way["concurrency"] = draw_(st.integers(1, 8))
    if draw_(st.integers(0, 4)) == 0:
        way["until"] = draw_(ticks(1, 3000))
    return way


TICKS = 3 * 2.0**-20


@settings(max_examples=examples(80, anew=300), deadline=None)
@given(data=st.data())
def test_bit_for_bit_on_a_grid_of_times(data):
    trace = data.draw(traces(st.booleans()))
    config, way = data.draw(settings_02(trace)), data.draw(ways())
    if data.draw(st.integers(0, 4)) == 0:
        config["max_model_len"], way["too_long"] = data.draw(st.sampled_from([16, 24])), "ignore"
    policy = data.draw(st.sampled_from(POLICIES))
    if found := both(trace, asked(policy, config), data.draw(costs(ticks(1, 200))), policy=policy, **way):
        same(*found)


@settings(max_examples=examples(30, anew=100), deadline=None)
@given(data=st.data(), survival=st.sampled_from([0.0, 0.5, 0.8, 1.0]))
def test_beams_that_die_often(data, survival):
    trace = data.draw(traces(st.just(True)))
    config = data.draw(settings_02(trace, roomy=True))
    more = {"swap": SwapCost(2, 1000), "survivors": Genealogy(data.draw(st.integers(0, 9)), survival)}
    policy = data.draw(st.sampled_from(POLICIES))
    if found := both(trace, asked(policy, config), ConstantCost(1.0), policy=policy, **more):
        same(*found)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("beam", [False, True])
def test_long_outputs_under_pressure(beam, policy):
    """Hundreds of tokens: several chunks of draws, and swaps."""
    base = draw([80, 15, 250, 40], [169, 50, 400, 10], 100, rate=4.0, seed=1)
    trace = LLMTrace(
        base.arrival, base.prompt_tokens, base.output_tokens, best_of=np.arange(100) % 6 + 1,
        beam=np.full(100, beam),
    )  # fmt: skip
    config = {"num_gpu_blocks": 300, "num_cpu_blocks": 3000, "max_model_len": 2048}
    cost = LinearCost(0.01, 2e-5, 1e-7, 1e-9, 1e-5)
    ours, theirs = both(trace, config, cost, policy=policy, swap=SwapCost(40, 40960), seed=7)
    assert ours.iterations.swap_out.sum() > 100
    assert ours.iterations.shared_tokens.max() > 0
    same(ours, theirs, tolerance=1e-9)


def test_a_host_without_room_is_left_to_the_reference():
    trace = LLMTrace(np.zeros(8), [10] * 8, [20] * 8, best_of=[2] * 8)
    config = {"num_gpu_blocks": 30, "num_cpu_blocks": 1, "block_size": 2, "max_model_len": 64}
    rest = {"policy": "vllm-0.2", "config": config, "cost": ConstantCost(1.0)}
    options = SimulateOptions(swap=SwapCost(2, 1000))
    with pytest.raises(InputError, match="engine: compiled: "):
        simulate_llm(trace, engine="compiled", options=options, **rest)


def test_what_is_not_compiled_is_said():
    class Mine:
        def seconds(self, blocks):
            return 0.1 * blocks

        def parents(self, request, step):
            return range(request.best_of)

    rest = {"policy": "vllm-0.2", "cost": ConstantCost(1.0), "engine": "compiled"}
    config = {"num_gpu_blocks": 300, "num_cpu_blocks": 100, "max_model_len": 64}
    trace = LLMTrace([0.0], [10], [20], best_of=[2], beam=[True])
    for options, says in (
        (SimulateOptions(swap=Mine()), "a swap cost of type Mine is not compiled"),
        (SimulateOptions(swap=SwapCost(2, 1000), survivors=Mine()), "survivors of type Mine are not compiled"),
    ):
        with pytest.raises(InputError, match=says):
            simulate_llm(trace, config=config, options=options, **rest)
    many = LLMTrace([0.0], [10], [20], best_of=[63], beam=[True])
    with pytest.raises(InputError, match="more than 62 beams are not compiled"):
        simulate_llm(many, config=config, options=SimulateOptions(swap=SwapCost(2, 1000)), **rest)
