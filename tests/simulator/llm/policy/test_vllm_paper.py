"""The paper's vLLM: prompts and decodes in one step, told step by step; where nothing is scarce, the same as V1."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.profiles.llm import LinearCost
from meshwright.simulator.llm import LLMTrace, SimulateOptions, drive, simulate_llm
from meshwright.simulator.llm.policy.catalogue import POLICIES
from meshwright.simulator.llm.policy.request import LLMRequest

SMALL = {"block_size": 4, "max_model_len": 64}


def steps(config, *asked):
    return drive("vllm-paper", {**SMALL, **config}, [LLMRequest(*one) for one in asked])


def test_prompts_join_those_who_decode():
    told = steps({"num_gpu_blocks": 20}, ("a", 6, 3, 0.0), ("b", 9, 2, 1.0))
    assert [(s["kind"], s["scheduled"], s["num_batched_tokens"]) for s in told] == [
        ("prompt", ["a"], 6), ("mixed", ["a", "b"], 1 + 9), ("decode", ["a", "b"], 2),
    ]  # fmt: skip
    assert [s["finished"] for s in told] == [[], [], ["a", "b"]]
    later = drive("vllm-0.2", {**SMALL, "num_gpu_blocks": 20}, [LLMRequest("a", 6, 3), LLMRequest("b", 9, 2, 1.0)])
    assert [s["kind"] for s in later] == ["prompt", "prompt", "decode", "decode"]


def test_a_step_computes_one_sequence_without_padding():
    policy = POLICIES["vllm-paper"]
    scheduler = policy.scheduler(policy.config(num_gpu_blocks=40, **SMALL))
    scheduler.add(LLMRequest("a", 6, 9))
    scheduler.complete(scheduler.schedule())
    for one in (LLMRequest("b", 3, 9), LLMRequest("c", 8, 9)):
        scheduler.add(one)
    step = scheduler.schedule()
    iteration = policy.work(scheduler, step, True).iteration
    assert (iteration.prefill, iteration.decodes, iteration.context, iteration.outputs) == (((3, 0), (8, 0)), 1, 7, 3)
    assert policy.work(scheduler, step, True).admitted == ["b", "c"]


def test_the_budget_counts_prompts_and_decodes():
    told = steps({"num_gpu_blocks": 40, "max_num_batched_tokens": 10}, ("a", 2, 5), ("b", 8, 2, 1.0), ("c", 2, 2, 1.0))
    assert [s["scheduled"] for s in told[:3]] == [["a"], ["a", "b"], ["a", "b", "c"]]


@pytest.mark.parametrize("mode", ["recompute", "swap"])
def test_nobody_joins_while_somebody_is_preempted(mode):
    config = {"num_gpu_blocks": 6, "num_cpu_blocks": 9, "preemption_mode": mode, "watermark": 0.0}
    told = steps(config, ("a", 11, 10), ("b", 11, 10), ("c", 3, 1, 1.0))
    first = next(s["step"] for s in told if "b" not in s["scheduled"] and s["step"] > 0)
    back = next(s["step"] for s in told if s["step"] > first and "b" in s["scheduled"])
    for s in told[first:back]:
        assert "c" not in s["scheduled"]
    assert next(r for s in told for r in s["finished"]) == "a"


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_where_nothing_is_scarce_it_is_v1_with_whole_prompts(seed):
    rng = np.random.default_rng(seed)
    trace = LLMTrace(np.cumsum(rng.exponential(0.02, 30)), rng.integers(1, 30, 30), rng.integers(1, 30, 30))
    cost = LinearCost(base_s=0.01, token_s=1e-4, context_s=1e-6)
    shared = {"max_num_seqs": int(rng.integers(3, 40)), "max_num_batched_tokens": 64, **SMALL}
    paper = simulate_llm(
        trace, policy="vllm-paper", config={"num_gpu_blocks": 600, **shared}, cost=cost,
        options=SimulateOptions(padded=True),
    )  # fmt: skip
    whole = {"num_blocks": 601, "enable_chunked_prefill": False, "enable_prefix_caching": False, **shared}
    today = simulate_llm(trace, policy="vllm-v1", config=whole, cost=cost)
    np.testing.assert_allclose(paper.finish, today.finish, rtol=1e-12)
    np.testing.assert_allclose(paper.first_token, today.first_token, rtol=1e-12)
