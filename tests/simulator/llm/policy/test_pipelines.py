"""Batches in flight of one engine with pipeline stages: what vLLM's own tests expect, and times worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.profiles.llm import ConstantCost, LinearCost
from meshwright.simulator.llm import LLMTrace, drive, simulate_llm
from meshwright.simulator.llm.decoding.speculative import Speculative
from meshwright.simulator.llm.options import SimulateOptions
from meshwright.simulator.llm.policy.request import LLMRequest
from meshwright.simulator.llm.policy.vllm_v1 import V1Config, V1Scheduler

BASE = {"num_blocks": 200, "block_size": 16, "max_model_len": 1024}


def asked(name, prompt, output, at=0):
    return {"id": name, "arrive_step": at, "prompt": prompt, "output": output}


@pytest.mark.parametrize("caching", [False, True])
def test_two_batches_under_way(caching):
    """``test_schedule_concurrent_batches``: the second request goes while the first awaits its token, and so on."""
    steps = drive(
        "vllm-v1",
        {**BASE, "max_num_batched_tokens": 1024, "max_num_seqs": 2, "enable_prefix_caching": caching,
         "pipeline_parallel_size": 2},
        [asked("0", 512, 3), asked("1", 512, 3, at=1)],
    )  # fmt: skip
    assert [s["scheduled"] for s in steps] == [{"0": 512}, {"1": 512}, {"0": 1}, {"1": 1}, {"0": 1}, {"1": 1}, {}]
    assert [s["finished"] for s in steps] == [[], [], [], [], ["0"], ["1"], []]


def test_chunks_of_one_prompt_follow_each_other():
    """V1 counts tokens as computed when they are given out, so the next chunk need not wait for the one before it."""
    steps = drive(
        "vllm-v1", {**BASE, "max_num_batched_tokens": 100, "pipeline_parallel_size": 3}, [asked("0", 350, 2)]
    )  # fmt: skip
    chunks = [{"0": 100}, {"0": 100}, {"0": 100}, {"0": 50}]
    assert [s["scheduled"] for s in steps] == [*chunks, {}, {}, {"0": 1}, {}, {}]


def test_who_is_preempted_while_its_batch_runs_still_gets_its_token():
    """``test_preempt_during_execution``: ten blocks, two prompts of five; the first grows, the second is given up."""
    options = {**BASE, "num_blocks": 11, "max_num_batched_tokens": 100, "enable_prefix_caching": False}
    scheduler = V1Scheduler(V1Config(**options, pipeline_parallel_size=2))
    one = scheduler.add(LLMRequest("0", 80, 16))
    first = scheduler.schedule()
    two = scheduler.add(LLMRequest("1", 80, 16))
    second = scheduler.schedule()
    assert [len(one.blocks), len(two.blocks)] == [5, 5]
    scheduler.complete(first)
    third = scheduler.schedule()
    assert scheduler.running == [one]
    assert third.preempted == [two]
    scheduler.complete(second)
    assert two.output == 1
    scheduler.complete(third)
    assert two in scheduler.waiting


def test_who_was_preempted_waits_for_what_is_under_way():
    """``num_stale_output_tokens``: resumed sooner it could compute a position again whose token is still to come."""
    options = {**BASE, "num_blocks": 11, "max_num_batched_tokens": 100, "enable_prefix_caching": False}
    scheduler = V1Scheduler(V1Config(**options, pipeline_parallel_size=4))
    one, two = (scheduler.add(LLMRequest(name, n, 16)) for name, n in (("0", 80), ("1", 80)))
    first, second, _ = (scheduler.schedule() for _ in range(3))
    assert second.scheduled == {two: 80 - 20} or two in second.scheduled
    scheduler.complete(first)
    lost = scheduler.schedule()
    assert lost.preempted == [two]
    scheduler.abort(one)  # there is room now
    assert two not in scheduler.schedule().scheduled
    scheduler.complete(second)
    if two.flying:
        scheduler.complete(_)
    assert two in scheduler.schedule().scheduled


def test_asynchronous_pipelines_decode_a_request_every_other_step():
    """``test_async_scheduling_pp_allows_rescheduling_with_output_placeholders``, model runner V2."""
    scheduler = V1Scheduler(V1Config(**BASE, async_scheduling=True, pipeline_parallel_size=2))
    request = scheduler.add(LLMRequest("0", 8, 16))
    assert scheduler.schedule().scheduled == {request: 8}
    assert scheduler.schedule().scheduled == {}
    assert scheduler.schedule().scheduled == {request: 1}


def test_batches_in_flight():
    """`VllmConfig.max_concurrent_batches`."""
    for stages, ahead, most in ((1, False, 1), (1, True, 2), (2, False, 2), (4, False, 4), (4, True, 5)):
        assert V1Config(100, async_scheduling=ahead, pipeline_parallel_size=stages).batches == most


def test_times_of_two_stages_by_hand():
    """Steps of 1 s, half in each stage. b's prompt enters when a's has left the first stage; so do their decodes."""
    trace = LLMTrace([0.0, 0.0], [4, 4], [3, 3])
    config = {**BASE, "max_num_batched_tokens": 4, "pipeline_parallel_size": 2}
    found = simulate_llm(trace, config=config, cost=ConstantCost(1.0))
    assert found.first_token.tolist() == [1.0, 1.5]
    assert found.finish.tolist() == [3.0, 3.5]
    assert found.iterations.end.tolist() == [1.0, 1.5, 2.0, 2.5, 3.0, 3.5]
    assert found.iterations.start.tolist() == [0.0, 1.0, 1.5, 2.0, 2.5, 3.0]
    assert found.scheduled.tolist() == [0.0, 0.0]


def test_the_slowest_stage_sets_the_pace():
    """A cost with an `interval`: stages of 0.2, 0.2 and 0.6 s; a batch leaves every 0.6 s if enough are under way."""

    class Uneven(ConstantCost):
        def interval(self, iteration):
            return 0.6

    trace = LLMTrace(np.zeros(3), [4] * 3, [50] * 3)
    config = {**BASE, "max_num_batched_tokens": 4, "pipeline_parallel_size": 3}
    found = simulate_llm(trace, config=config, cost=Uneven(1.0))
    assert np.diff(found.iterations.end)[3:-3] == pytest.approx(0.6)
    alone = simulate_llm(trace.select([0]), config=config, cost=Uneven(1.0))
    assert np.diff(alone.iterations.end) == pytest.approx(1.0)


@settings(max_examples=examples(40, anew=120), deadline=None)
@given(
    st.integers(1, 4), st.booleans(), st.booleans(), st.sampled_from(["fcfs", "priority"]), st.integers(8, 60),
    st.integers(4, 64), st.integers(0, 2**32 - 1),
)  # fmt: skip
def test_every_token_once_and_no_request_in_two_batches(stages, ahead, caching, policy, blocks, budget, seed):
    rng = np.random.default_rng(seed)
    n = 25
    requests = [
        {"id": k, "arrive_step": k // 2, "prompt": int(rng.integers(1, 40)), "output": int(rng.integers(1, 20)),
         "priority": int(rng.integers(0, 3))}
        for k in range(n)
    ]  # fmt: skip
    config = {
        "num_blocks": max(blocks, 17), "block_size": 4, "max_model_len": 64, "max_num_batched_tokens": budget,
        "enable_prefix_caching": caching, "policy": policy, "pipeline_parallel_size": stages, "async_scheduling": ahead,
    }  # fmt: skip
    steps = drive("vllm-v1", config, requests)
    assert sorted(k for s in steps for k in s["finished"]) == list(range(n))
    trace = LLMTrace(
        [r["arrive_step"] * 0.1 for r in requests], [r["prompt"] for r in requests], [r["output"] for r in requests],
        priority=[r["priority"] for r in requests],
    )  # fmt: skip
    found = simulate_llm(trace, config=config, cost=LinearCost(0.05, 1e-3), engine="simpy")
    assert found.generated.tolist() == [r["output"] for r in requests]
    for row in range(n):
        times = found.token_times(row)
        assert len(times) == requests[row]["output"]
        assert (np.diff(times) > 0).all()
    assert (found.iterations.start[1:] >= found.iterations.end[:-1] - 1e-12).all()


@pytest.mark.parametrize("seed", range(4))
def test_one_stage_is_no_pipeline(seed):
    """The clockwork of stages with one stage gives what the engine without gives, with adapters and swaps as well."""
    rng = np.random.default_rng(seed)
    trace = LLMTrace(np.sort(rng.uniform(0, 2, 40)), rng.integers(4, 90, 40), rng.integers(2, 60, 40))
    config = {"num_blocks": 40, "block_size": 16, "max_model_len": 256, "async_scheduling": bool(seed % 2)}
    one = simulate_llm(trace, config=config, cost=LinearCost(5e-3, 1e-4), engine="simpy")
    fast = simulate_llm(trace, config=config, cost=LinearCost(5e-3, 1e-4), engine="compiled")
    assert one.finish.tolist() == fast.finish.tolist()


@pytest.mark.parametrize(
    ("config", "options", "says"),
    [
        ({"pipeline_parallel_size": 0}, {}, "pipeline_parallel_size: expected an integer >= 1"),
        ({"pipeline_parallel_size": 2}, {"speculative": Speculative(2, 0.5)}, "not modelled with speculative decoding"),
    ],
)
def test_bad_pipelines(config, options, says):
    with pytest.raises(InputError, match=says):
        simulate_llm(
            LLMTrace([0.0], [4], [2]), config={**BASE, **config}, cost=ConstantCost(1.0),
            options=SimulateOptions(**options),
        )  # fmt: skip


def test_the_compiled_engine_leaves_pipelines_to_the_reference():
    with pytest.raises(InputError, match="pipeline_parallel_size is not compiled"):
        simulate_llm(
            LLMTrace([0.0], [4], [2]), config={**BASE, "pipeline_parallel_size": 2}, cost=ConstantCost(1.0),
            engine="compiled",
        )  # fmt: skip
