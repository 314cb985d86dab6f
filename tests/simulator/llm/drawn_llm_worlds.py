"""Drawn worlds of LLM serving for agreement tests: workloads, options, ways, costs; and what agreement is."""

from __future__ import annotations

import numpy as np
from flat_options import llm_asked
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.profiles.llm import ConstantCost, FittedCost, LinearCost
from meshwright.simulator.llm import LLMTrace, Speculative, simulate_llm
from meshwright.simulator.llm.compiled.fleet.routing import KINDS

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


@st.composite
def drafts(draw_):
    k = draw_(st.integers(1, 5))
    chance = st.sampled_from([0.0, 0.3, 0.7, 0.95, 1.0])
    return Speculative(
        k, tuple(draw_(st.lists(chance, min_size=k, max_size=k))), draw_(st.none() | costs(ticks(1, 50))),
        draw_(ticks(0, 20)), draw_(st.booleans()),
    )  # fmt: skip


@st.composite
def alike(draw_, n):
    """Requests of which turns begin with the history, or prompts have one beginning."""
    column = lambda low, high: draw_(st.lists(st.integers(low, high), min_size=n, max_size=n))  # noqa: E731
    prompt, output, cuts = column(4, 30), column(1, 12), column(0, 8)
    more = {
        "prefix_block": 4,
        "prefix_ids": [
            [0 if k < cut else 1 + row % 3 for k in range(-(-tokens // 4))]
            for row, (tokens, cut) in enumerate(zip(prompt, cuts, strict=True))
        ],
    }
    if draw_(st.booleans()):
        back = column(0, 3)
        more = {"after": [row - k if 0 < k <= row else -1 for row, k in enumerate(back)]}
        for row, last in enumerate(more["after"]):
            if last >= 0:
                prompt[row] = min(prompt[last] + output[last] + row % 3, 40)
    return LLMTrace(np.cumsum(column(0, 40)) * TICK, prompt, output, **more)
