"""The compiled loop over engines that fail, come and go, against the reference, on drawn worlds."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from flat_options import llm_asked
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.jit import kernel
from meshwright.profiles import LinkSpec
from meshwright.profiles.llm import ConstantCost, LinearCost
from meshwright.profiles.spread import Spread
from meshwright.simulator.llm import Autoscaling, Fault, Faults, LLMTrace, Pools, conversations, draw, simulate_llm
from meshwright.simulator.llm.compiled.dynamic.growth import METRICS
from meshwright.simulator.llm.compiled.fleet.routing import KINDS
from meshwright.simulator.llm.fleet.scaling import METRICS as ALL_METRICS

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
def options(draw_, trace):
    size = draw_(st.integers(1, 6))
    least = -(-int((trace.prompt_tokens + trace.output_tokens).max()) // size)
    caching, windows = draw_(st.booleans()), {}
    if not caching and draw_(st.integers(0, 3)) == 0:  # layers with a window beside others, or without
        windows = {"sliding_window": draw_(st.integers(1, 30)), "full_groups": draw_(st.integers(0, 1))}
        windows["window_groups"] = draw_(st.integers(1, 2))
        least *= windows["full_groups"] + windows["window_groups"]
    return {
        **windows,
        "num_blocks": least + 1 + draw_(st.integers(0, 20)),
        "block_size": size,
        "max_model_len": 64,
        "max_num_batched_tokens": draw_(st.sampled_from([3, 8, 20, 40, 64])),
        "max_num_seqs": draw_(st.sampled_from([1, 3, 100])),
        "enable_prefix_caching": caching,
        "scheduler_reserve_full_isl": draw_(st.booleans()),
        "watermark": draw_(st.sampled_from([0.0, 0.1])),
        "policy": draw_(st.sampled_from(["fcfs", "priority"])),
        "async_scheduling": draw_(st.booleans()),
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


def costs(number):
    return st.one_of(number.map(ConstantCost), st.tuples(*[number] * 5).map(lambda c: LinearCost(*c)))


@settings(max_examples=examples(100, anew=400), deadline=None)
@given(data=st.data())
def test_bit_for_bit_on_a_grid_of_times(data):
    trace = data.draw(traces())
    config, way = data.draw(options(trace)), data.draw(ways())
    if data.draw(st.integers(0, 4)) == 0:  # some end at the model's longest sequence, some never begin
        config["max_model_len"], way["too_long"] = data.draw(st.sampled_from([16, 24])), "ignore"
    if found := both(trace, config, data.draw(costs(ticks(1, 200))), **way):
        same(*found)


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
    from meshwright.simulator.llm.compiled.dynamic.tables import TALLIES

    draws = kernel(lambda drawn, tally, n: below(drawn, tally, n), cache=False)
    theirs, ours = (np.random.default_rng(7) for _ in range(2))
    drawn, tally = ours.integers(2**32, size=400, dtype=np.uint32), np.zeros(TALLIES, dtype=np.int64)
    for n in [1, 2, 3, 1, 5, 8, 7, 3_000_000_000, 2, 1000] * 20:  # of the large one every fourth is drawn again
        assert draws(drawn, tally, n) == theirs.integers(n)


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
    pools = Pools(1, 1, LinkSpec(1e9, 0.0), kv_bytes_per_token=1)
    assert "pools are not compiled" in asked(pools=pools)
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
