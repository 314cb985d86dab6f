"""Times that vary: the compiled engines against the reference, draw for draw; and what must hold of any variation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.profiles.llm import ConstantCost, LinearCost
from meshwright.profiles.llm.cost.in_service import Factors, InService
from meshwright.profiles.llm.times import StepTimes
from meshwright.profiles.spread import Spread
from meshwright.simulator.llm import Fault, Faults, LLMTrace, SimulateOptions, draw, simulate_llm
from meshwright.simulator.llm.times import draw_steps

TIMES = ("arrival", "scheduled", "first_token", "finish")
COUNTS = ("generated", "preemptions", "cached_tokens", "engine", "ignored")
ROOMY = {"num_blocks": 1001, "max_model_len": 512, "max_num_batched_tokens": 512, "enable_prefix_caching": False}
BUSY = Spread(visits=(0.9, 1.0, 1.3), runs=(0.8, 1.0, 1.4), correlation_s=0.5)


def same(one, other):
    """To the last bit."""
    for name in (*TIMES, *COUNTS):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for name, column in one.iterations.columns().items():
        np.testing.assert_array_equal(column, other.iterations.columns()[name], err_msg=name)


def factors(least, most):
    return st.lists(st.floats(0.5, 2.0), min_size=least, max_size=most).map(lambda xs: tuple(sorted(xs)))


@st.composite
def variations(draw_):
    """Quantiles, a path of runs or a recording, prompts apart or not, several ranks."""
    spread = Spread(visits=draw_(factors(1, 5)))
    kind = draw_(st.integers(0, 2))
    if kind == 1:
        spread = replace(spread, runs=draw_(factors(2, 4)), correlation_s=draw_(st.floats(0.01, 5.0)))
    elif kind == 2:
        spread = replace(spread, paths=(draw_(factors(3, 9)),), window_s=0.05)
    return StepTimes(spread, draw_(st.one_of(st.just(()), factors(1, 4))), draw_(st.integers(1, 3)))


@st.composite
def traces(draw_):
    n = draw_(st.integers(1, 24))
    lengths = st.lists(st.integers(1, 20), min_size=n, max_size=n)
    return LLMTrace(
        np.cumsum(draw_(st.lists(st.floats(0, 0.1), min_size=n, max_size=n))), draw_(lengths), draw_(lengths)
    )


@pytest.mark.parametrize("policy", ["vllm-v1", "vllm-0.2", "sarathi", "orca-max"])
@settings(max_examples=examples(25, anew=100), deadline=None)
@given(data=st.data())
def test_both_engines_draw_alike(policy, data):
    """One engine and several, prompts in chunks and whole, steps scheduled ahead, pools that preempt."""
    trace, engines = data.draw(traces()), data.draw(st.integers(1, 3))
    blocks = data.draw(st.sampled_from([24, 60]))
    config = {
        "vllm-v1": {
            "num_blocks": blocks, "block_size": 2, "max_model_len": 40, "max_num_batched_tokens": 16,
            "enable_prefix_caching": False, "async_scheduling": data.draw(st.booleans()),
        },
        "vllm-0.2": {
            "num_gpu_blocks": blocks, "block_size": 2, "max_model_len": 40, "max_num_batched_tokens": 40,
        },
        "sarathi": {"num_gpu_blocks": blocks, "block_size": 2, "max_model_len": 40, "chunk_size": 16},
        "orca-max": {"num_slots": 128, "max_model_len": 40, "max_num_seqs": 8},
    }[policy]  # fmt: skip
    cost = data.draw(st.sampled_from([ConstantCost(0.01), LinearCost(0.004, 1e-4, 1e-6, 0.0, 1e-4)]))
    if data.draw(st.booleans()):
        cost = InService(cost, Factors((1, 4), (0.9, 1.2), 9), Factors((0,), (1.1,), 9), Factors((0,), (0.8,), 9))
    ours, theirs = (
        simulate_llm(
            trace, policy=policy, config=config, cost=cost, engine=engine, engines=engines, seed=3,
            options=SimulateOptions(times=times),
        )
        for times in [data.draw(variations())]
        for engine in ("compiled", "simpy")
    )  # fmt: skip
    assert (ours.made_by, theirs.made_by) == ("compiled", "reference")
    same(ours, theirs)


def varying(times, *, seed=0, **also):
    trace = draw([60], [40], 80, rate=8.0, seed=5)
    return simulate_llm(
        trace, config=ROOMY, cost=LinearCost(0.01, 1e-4), seed=seed, options=SimulateOptions(times=times), **also
    )


def test_factors_of_one_change_no_bit_and_one_factor_for_all_is_that_much_cost():
    plain, path = varying(None), Spread(paths=((1.0, 1.0),), window_s=0.1)
    for engine in ("compiled", "simpy"):
        same(varying(path, engine=engine), plain)
    burst = LLMTrace(np.zeros(20), [30] * 20, [10] * 20)
    twice, once = (
        simulate_llm(burst, config=ROOMY, cost=ConstantCost(0.01), options=SimulateOptions(times=times))
        for times in (Spread(visits=(2.0,)), None)
    )
    np.testing.assert_allclose(twice.finish, 2 * once.finish, rtol=1e-12)


def test_a_step_takes_its_cost_times_the_factor_that_was_drawn_for_it():
    times = StepTimes(BUSY, prompts=(1.0, 3.0), ranks=2)
    steps = varying(draw_steps(times, 1, 30.0, 4)).iterations
    known = draw_steps(times, 1, 30.0, 4)
    cost = LinearCost(0.01, 1e-4)
    for k in range(len(steps)):
        said = cost.base_s + cost.token_s * (steps.prefill[k] + steps.decodes[k])
        factor = known.ratio(0, float(steps.start[k]), k, bool(steps.prefill[k]))
        own = [
            (known.prompts if steps.prefill[k] else known.decodes).ratio(rank, float(steps.start[k]), k)
            for rank in (0, 1)
        ]
        assert factor == max(own)
        assert steps.end[k] - steps.start[k] == pytest.approx(said * factor, rel=1e-9)


def test_the_slowest_rank_counts_so_that_more_of_them_are_slower():
    """Quantiles 1 and 2 at 1/4 and 3/4: F(x) = 1/4 + (x - 1)/2 between. The mean of the largest of two is
    1 + the integral of 1 - F^2 over 1 to 2 = 2 - (2/3) (27/64 - 1/64) = 2 - 13/48.
    """
    flat = Spread(visits=(1.0, 2.0))
    expected = {1: 1.5, 2: 2 - 13 / 48}
    for ranks, mean in expected.items():
        drawn = draw_steps(StepTimes(flat, ranks=ranks), 1, 1.0, 0)
        ratios = [drawn.ratio(0, 0.0, k, False) for k in range(20_000)]
        assert np.mean(ratios) == pytest.approx(mean, abs=4 * 0.36 / np.sqrt(20_000))


def test_an_engine_more_changes_nothing_for_the_others_and_each_has_its_own():
    few, more = (draw_steps(StepTimes(BUSY, ranks=2), n, 10.0, 1) for n in (2, 5))
    told = [few.ratio(e, 0.5, 7, True) for e in (0, 1)]
    assert told == [more.ratio(e, 0.5, 7, True) for e in (0, 1)]
    assert len({more.ratio(e, 0.5, 7, True) for e in range(5)}) > 1
    assert more.ratio(6, 0.5, 7, True) == more.ratio(1, 0.5, 7, True)  # a fleet that grew: in turn


def test_engines_that_fail_and_come_back_vary_too():
    faults = Faults(events=(Fault(0, 1.0, 0.5),))
    trace = draw([60], [40], 40, rate=8.0, seed=5)
    plain, drawn = (
        simulate_llm(
            trace, config=ROOMY, cost=LinearCost(0.01, 1e-4), engines=2,
            options=SimulateOptions(faults=faults, times=times),
        )
        for times in (None, BUSY)
    )  # fmt: skip
    assert drawn.finished.all()
    assert (drawn.finish != plain.finish).all()


def test_what_is_no_variation_is_refused():
    with pytest.raises(InputError, match="times: expected StepTimes, Spread or StepDraws"):
        SimulateOptions(times=1.5)
    with pytest.raises(InputError, match=r"prompts: .*positive finite factors \(got -1"):
        StepTimes(prompts=(-1.0, 1.0))
    with pytest.raises(InputError, match="ranks: expected an integer >= 1"):
        StepTimes(ranks=0)
