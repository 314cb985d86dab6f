"""The compiled engine against the reference: the same answer for every request, iteration and run of tokens."""

from __future__ import annotations

import numpy as np
import pytest
from flat_options import llm_asked
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.profiles import device
from meshwright.profiles.llm import NO_OVERHEADS, ConstantCost, FittedCost, LinearCost, decoder, iteration_cost
from meshwright.simulator.llm import LLMTrace, conversations, draw, simulate_llm

TICK = 2.0**-20
TIMES = ("arrival", "scheduled", "first_token", "finish")
COUNTS = ("generated", "preemptions", "cached_tokens", "engine", "ignored")


def ticks(least, most):
    return st.integers(least, most).map(lambda k: k * TICK)


def same(ours, theirs, tolerance=0.0):
    """Bit for bit, or times within a relative tolerance."""
    for name in TIMES:
        np.testing.assert_allclose(getattr(ours, name), getattr(theirs, name), rtol=tolerance, atol=0, err_msg=name)
    for name in COUNTS:
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name), err_msg=name)
    for name, column in ours.iterations.columns().items():
        loose = tolerance if name in ("start", "end") else 0
        np.testing.assert_allclose(column, theirs.iterations.columns()[name], rtol=loose, atol=0, err_msg=name)
    assert ours.iterations.capacity_tokens == theirs.iterations.capacity_tokens
    for name in ("request", "first", "last"):
        np.testing.assert_array_equal(getattr(ours.runs, name), getattr(theirs.runs, name), err_msg=name)


@st.composite
def traces(draw_, gap):
    n = draw_(st.integers(1, 24))
    gaps = draw_(st.lists(gap, min_size=n, max_size=n))
    lengths = st.lists(st.integers(1, 20), min_size=n, max_size=n)
    return LLMTrace(np.cumsum(gaps), draw_(lengths), draw_(lengths))


def coefficients(number, n):
    return st.tuples(*[number] * n)


def costs(number):
    three = coefficients(number, 3)
    return st.one_of(
        number.map(ConstantCost),
        coefficients(number, 5).map(lambda c: LinearCost(*c)),
        st.builds(FittedCost, three, three, three, st.integers(1, 6)),
    )


@st.composite
def settings_v1(draw_, trace):
    size = draw_(st.integers(1, 6))
    least = -(-int((trace.prompt_tokens + trace.output_tokens).max()) // size)
    return {
        "num_blocks": least + 1 + draw_(st.integers(0, 20)),
        "block_size": size,
        "max_model_len": draw_(st.sampled_from([40, 64])),
        "max_num_batched_tokens": draw_(st.sampled_from([3, 8, 20, 40, 64])),
        "max_num_seqs": draw_(st.sampled_from([1, 3, 100])),
        "enable_prefix_caching": False,
        "scheduler_reserve_full_isl": draw_(st.booleans()),
        "long_prefill_token_threshold": draw_(st.sampled_from([0, 0, 3, 7])),
        "limit_alone": draw_(st.booleans()),
        "watermark": draw_(st.sampled_from([0.0, 0.1])),
    }


@st.composite
def settings_02(draw_, trace):
    size = draw_(st.integers(1, 6))
    least = -(-int((trace.prompt_tokens + trace.output_tokens).max()) // size)
    return {
        "num_gpu_blocks": least + 3 + draw_(st.integers(0, 20)),
        "block_size": size,
        "max_model_len": 40,
        "max_num_batched_tokens": draw_(st.sampled_from([20, 40, 64])),
        "max_num_seqs": draw_(st.sampled_from([1, 3, 100])),
        "max_paddings": draw_(st.sampled_from([0, 5, 256])),
        "watermark": draw_(st.sampled_from([0.0, 0.01, 0.05])),
    }


@st.composite
def ways(draw_):
    """Several engines, a closed loop, a horizon."""
    way = {}
    if draw_(st.booleans()):
        way = {"engines": draw_(st.integers(1, 3)), "router": draw_(st.sampled_from(["round_robin", "random"]))}
    elif draw_(st.booleans()):
        way = {"concurrency": draw_(st.integers(1, 8))}
    if draw_(st.integers(0, 4)) == 0:
        way["until"] = draw_(ticks(1, 3000))
    return way


def both(trace, policy, config, cost, **way):
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


@pytest.mark.parametrize("policy", ["vllm-v1", "vllm-0.2"])
@settings(max_examples=examples(40, anew=150), deadline=None)
@given(data=st.data())
def test_bit_for_bit_on_a_grid_of_times(policy, data):
    trace = data.draw(traces(ticks(0, 300)))
    config = data.draw((settings_v1 if policy == "vllm-v1" else settings_02)(trace))
    way = data.draw(ways())
    if policy == "vllm-0.2":
        way["padded"] = data.draw(st.booleans())
    if found := both(trace, policy, config, data.draw(costs(ticks(1, 200))), **way):
        same(*found)
        held(found[0], policy)


@pytest.mark.parametrize("policy", ["vllm-v1", "vllm-0.2"])
@settings(max_examples=examples(20, anew=50), deadline=None)
@given(data=st.data())
def test_any_numbers(policy, data):
    trace = data.draw(traces(st.floats(0, 0.1)))
    config = data.draw((settings_v1 if policy == "vllm-v1" else settings_02)(trace))
    if found := both(trace, policy, config, data.draw(costs(st.floats(1e-4, 0.1)))):
        same(*found, tolerance=1e-9)


def held(result, policy):
    """What holds of any outcome."""
    runs, iterations = result.runs, result.iterations
    assert np.all(iterations.used_tokens <= iterations.capacity_tokens)
    assert np.all((iterations.wasted_tokens >= 0) & (iterations.wasted_tokens <= iterations.used_tokens))
    assert np.all(iterations.end > iterations.start)
    done = result.finished
    if policy == "vllm-v1":
        np.testing.assert_array_equal(result.generated[done], result.trace.output_tokens[done])
    tokens = np.bincount(runs.request, weights=runs.last - runs.first + 1, minlength=len(result))
    np.testing.assert_array_equal(tokens, result.generated)
    assert result.iterations.preempted.sum() <= result.preemptions.sum()  # a horizon may cut the last step off


@pytest.mark.parametrize("policy", ["vllm-v1", "vllm-0.2"])
def test_under_pressure_with_a_cost_by_rooflines(policy):
    cost = iteration_cost(
        decoder("opt-13b"), device("a100-80gb"), overheads=NO_OVERHEADS, max_tokens=2048, max_outputs=256
    )
    trace = draw([80, 15, 250, 40], [169, 50, 400, 10], 150, rate=16.0, seed=1)
    config = {"max_model_len": 2048, "max_num_batched_tokens": 2048}
    blocks = {"num_blocks": 101, "enable_prefix_caching": False} if policy == "vllm-v1" else {"num_gpu_blocks": 100}
    ours, theirs = both(trace, policy, config | blocks, cost)
    assert ours.preemptions.sum() > 50
    same(ours, theirs, tolerance=1e-9)


def test_an_ignored_request_and_a_dropped_one():
    trace = LLMTrace([0.0, 0.0, 1.0], [10, 100, 10], [5, 5, 60])
    v1 = {"num_blocks": 50, "max_model_len": 64, "enable_prefix_caching": False}
    same(*both(trace, "vllm-v1", v1, ConstantCost(1.0), too_long="ignore"))
    ours, theirs = both(
        trace, "vllm-0.2", {"num_gpu_blocks": 50, "max_model_len": 64}, ConstantCost(1.0), too_long="ignore"
    )
    same(ours, theirs)
    assert ours.ignored.tolist() == [False, True, False]


CACHED = {"num_blocks": 1001, "max_model_len": 512, "max_num_batched_tokens": 512}


def test_what_is_not_compiled_is_said():
    chat = conversations([20], [5], 4, rate=1.0, turns=2, think_s=1.0)
    old = {"num_gpu_blocks": 100, "max_model_len": 512}
    with pytest.raises(
        InputError,
        match=r"conversations are not compiled under vllm-paper and vllm-0\.2; pass engine='auto'",
    ):
        simulate_llm(chat, policy="vllm-0.2", config=old, cost=ConstantCost(1.0), engine="compiled")
    with pytest.raises(InputError, match="router 'least_tokens' over several engines is not compiled under"):
        simulate_llm(
            LLMTrace([0.0], [1], [1]), policy="vllm-0.2", config=old, cost=ConstantCost(1.0), engine="compiled",
            engines=2, router="least_tokens",
        )  # fmt: skip
    with pytest.raises(InputError, match="engine: unknown engine 'quick'; expected one of auto, "):
        simulate_llm(LLMTrace([0.0], [1], [1]), config=CACHED, cost=ConstantCost(1.0), engine="quick")


def test_prefix_caching_without_shared_prompts_is_compiled_even_if_requests_find_their_blocks_again():
    trace = draw([50], [100], 1200, rate=20.0, seed=0)
    roomy = simulate_llm(trace, config=CACHED, cost=ConstantCost(0.02))
    assert roomy.made_by == "compiled"
    assert roomy.preemptions.sum() == 0
    tight, slow = both(trace.select(range(120)), "vllm-v1", CACHED | {"num_blocks": 90}, ConstantCost(0.02))
    assert tight.preemptions.sum() > 0
    same(tight, slow)
