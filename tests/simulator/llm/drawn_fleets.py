"""Drawn fleets of LLM engines for agreement tests: workloads, options, failures, costs; and what agreement is."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from flat_options import llm_asked
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.profiles.llm import ConstantCost, LinearCost
from meshwright.simulator.llm import Fault, Faults, LLMTrace, simulate_llm

TICK = 2.0**-20
NAMES = (
    "arrival", "scheduled", "first_token", "finish", "generated", "preemptions", "cached_tokens", "engine", "ignored",
)  # fmt: skip


def same(ours, theirs, tolerance=0.0):
    """Every column of the result, its iterations, its runs of tokens, and its report."""

    def equal(one, other, name):
        exact = np.asarray(one).dtype.kind != "f"
        np.testing.assert_allclose(one, other, rtol=0 if exact else tolerance, atol=0, err_msg=name)

    for name in NAMES:
        equal(getattr(ours, name), getattr(theirs, name), name)
    assert ours.iterations.columns().keys() == theirs.iterations.columns().keys()
    for name, column in ours.iterations.columns().items():
        equal(column, theirs.iterations.columns()[name], name)
    for name in ("capacity_tokens", "engines"):
        assert getattr(ours.iterations, name) == getattr(theirs.iterations, name), name
    for name in ("request", "first", "last"):
        np.testing.assert_array_equal(getattr(ours.runs, name), getattr(theirs.runs, name), err_msg=name)
    for field in dataclasses.fields(theirs.fleet):
        one, other = getattr(ours.fleet, field.name), getattr(theirs.fleet, field.name)
        if isinstance(other, np.ndarray) and other.dtype.kind != "U":
            equal(one, other, field.name)
        elif isinstance(other, float):
            assert one == pytest.approx(other, rel=tolerance, abs=0), field.name
        else:
            assert list(one) == list(other), field.name


def both(trace, config, cost, **way):
    """Both engines' results; both must refuse what one refuses."""
    told = {}
    for engine in ("simpy", "compiled"):
        try:
            told[engine] = simulate_llm(trace, config=config, cost=cost, engine=engine, **llm_asked(**way))
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
def options(draw_, trace, alone=True, size=0, windows=True):
    """Of engines that are alone, or of one half of pools, in blocks of some size."""
    size = size or draw_(st.integers(1, 6))
    least = -(-int((trace.prompt_tokens + trace.output_tokens).max()) // size)
    caching, near = draw_(st.booleans()), {}
    if alone and windows and draw_(st.integers(0, 3)) == 0:  # layers with a window beside others, or without
        near = {"sliding_window": draw_(st.integers(1, 30)), "full_groups": draw_(st.integers(0, 1))}
        near["window_groups"] = draw_(st.integers(1, 2))
        least *= near["full_groups"] + near["window_groups"]
    return {
        **near,
        "num_blocks": least + 1 + draw_(st.integers(0, 20)),
        "block_size": size,
        "max_model_len": 64,
        "max_num_batched_tokens": draw_(st.sampled_from([3, 8, 20, 40, 64])),
        "max_num_seqs": draw_(st.sampled_from([1, 3, 100])),
        "enable_prefix_caching": caching,
        "scheduler_reserve_full_isl": draw_(st.booleans()),
        "watermark": draw_(st.sampled_from([0.0, 0.1])),
        "policy": draw_(st.sampled_from(["fcfs", "priority"])),
        "async_scheduling": alone and draw_(st.booleans()),
    }


@st.composite
def faults(draw_, most):
    """Failures of engines up to some number: at known times on the grid of all times, at random, or both."""
    repair = st.one_of(ticks(0, 300), st.just(float("inf")))
    events = draw_(st.lists(st.builds(Fault, st.integers(0, most), ticks(1, 2000), repair), max_size=5))
    more = {}
    if not events or draw_(st.booleans()):
        more = {"mtbf_s": draw_(ticks(200, 3000)), "mttr_s": draw_(ticks(1, 300))}
    return Faults(
        tuple(events), load_s=draw_(ticks(0, 100)), tokens=draw_(st.sampled_from(["lose", "keep"])),
        max_retries=draw_(st.integers(0, 3)), retry_s=draw_(st.one_of(st.just(0.0), ticks(0, 50))), **more,
    )  # fmt: skip


def costs(number):
    return st.one_of(number.map(ConstantCost), st.tuples(*[number] * 5).map(lambda c: LinearCost(*c)))
