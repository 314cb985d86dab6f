"""Random worlds of `vllm-0.6`: what must hold at every step; and the policy under a clock, in simulations and cases."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.profiles.llm import ConstantCost, LinearCost
from meshwright.simulator.llm import Deployment, LLMTrace, SimulateOptions, SwapCost, drive, simulate_llm
from meshwright.simulator.llm.plan.costs import flight_options
from meshwright.simulator.llm.policy.request import LLMRequest
from meshwright.simulator.llm.policy.vllm06 import Vllm06Config, Vllm06Scheduler
from meshwright.worlds.faces import case, plan


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Vllm06Config, list[LLMRequest]]:
    """Small memories, every option, prompts that begin alike."""
    chunked, caching = draw(st.booleans()), draw(st.booleans())
    policy = "fcfs" if chunked else draw(st.sampled_from(["fcfs", "priority"]))
    swaps = policy == "fcfs" and draw(st.booleans())
    blocks = draw(st.integers(10, 20))
    config = Vllm06Config(
        blocks, 8 * blocks, 4, 32, 8 if chunked else 32, draw(st.integers(1, 5)), caching, chunked, policy,
        "swap" if swaps else None, draw(st.sampled_from([0.0, 0.5, 3.0])), 0 if chunked else draw(st.integers(0, 3)),
    )  # fmt: skip
    requests: list[LLMRequest] = []
    for k in range(draw(st.integers(1, 8))):
        prompt = draw(st.integers(1, 8 if chunked and swaps else 20))  # what is swapped half computed fits one step
        alike = draw(st.integers(0, prompt))
        tokens = tuple(0 if i < alike else 100 * k + i for i in range(prompt))
        arrival = draw(st.integers(0, 9)) * 0.75
        requests.append(LLMRequest(k, prompt, draw(st.integers(1, 12)), arrival, priority=k % 3, tokens=tokens))
    return config, sorted(requests, key=lambda r: r.arrival)


def check(scheduler: Vllm06Scheduler) -> None:
    """Every block is free or held as often as tables say, on the device and on the host; tables are long enough."""
    memory = scheduler.memory
    for pool, holders in ((memory.gpu, scheduler.running), (memory.cpu, scheduler.swapped)):
        held = [b for r in holders for b in r.blocks]
        assert {b.number: b.shares for b in held} == {
            n: sum(b.number == n for b in held) for n in {b.number for b in held}
        }
        assert pool.free_blocks == pool.size - len({b.number for b in held})
        for r in holders:
            assert r.computed <= r.filled <= r.length
            assert len(r.blocks) * memory.size >= r.filled
    assert all(not r.blocks for r in scheduler.waiting)


@given(worlds())
@settings(max_examples=examples(60, anew=400), deadline=None)
def test_blocks_budget_order_and_ends(drawn: tuple[Vllm06Config, list[LLMRequest]]) -> None:
    config, coming = drawn[0], list(drawn[1])
    scheduler, finished, begun = Vllm06Scheduler(config), dict[Any, int](), list[Any]()
    for number in range(2000):
        now = number * 0.7
        while coming and coming[0].arrival <= now:
            scheduler.add(coming.pop(0))
        if not (coming or scheduler.waiting or scheduler.running or scheduler.swapped):
            break
        step = scheduler.schedule(now)
        check(scheduler)
        fresh = sum(step.scheduled.values()) - sum(step.cached.values())
        assert fresh <= config.token_budget
        assert len(step.scheduled) <= config.max_num_seqs
        assert step.num_batched_tokens == sum(step.scheduled.values())
        assert all(n > step.cached.get(r, 0) for r, n in step.scheduled.items())
        assert not (step.swap_in and step.swap_out)
        if not config.enable_chunked_prefill:
            assert step.prompts in (0, len(step.scheduled))
        begun += [r.request.id for r in step.new]
        assert not step.ignored
        finished |= {r.request.id: r.output for r in scheduler.complete(step)}
        check(scheduler)
    assert finished == {r.id: r.output for r in drawn[1]}
    if config.policy == "fcfs":
        assert begun == [r.id for r in drawn[1]]
    assert (scheduler.memory.gpu.free_blocks, scheduler.memory.cpu.free_blocks) == (
        config.num_gpu_blocks, config.num_cpu_blocks,
    )  # fmt: skip


CONFIG: dict[str, Any] = {"num_gpu_blocks": 40, "block_size": 4, "max_model_len": 64, "max_num_seqs": 8}


def crowd(n: int = 20) -> LLMTrace:
    rng = np.random.default_rng(0)
    return LLMTrace(np.sort(rng.uniform(0, 20, n)), rng.integers(1, 30, n), rng.integers(1, 30, n))


@pytest.mark.parametrize(
    "more", [{}, {"enable_chunked_prefill": True, "max_num_batched_tokens": 16}, {"enable_prefix_caching": True}]
)
def test_a_simulation_decides_as_drive_does(more: dict[str, Any]) -> None:
    """Steps of one second each and arrivals between them: the same steps, so the same times."""
    trace = crowd()
    requests = [
        {"id": k, "arrive_step": float(np.ceil(t)), "prompt": int(p), "output": int(o)}
        for k, (t, p, o) in enumerate(zip(trace.arrival, trace.prompt_tokens, trace.output_tokens, strict=True))
    ]
    ends = {r: s["step"] + 1 for s in drive("vllm-0.6", CONFIG | more, requests) for r in s["finished"]}
    whole = LLMTrace(np.ceil(trace.arrival), trace.prompt_tokens, trace.output_tokens)
    result = simulate_llm(whole, policy="vllm-0.6", config=CONFIG | more, cost=ConstantCost(1.0))
    start = float(np.ceil(trace.arrival)[0])
    busy = np.all(result.iterations.start[1:] == result.iterations.end[:-1])
    assert busy
    assert start == result.iterations.start[0]
    assert {k: float(t) for k, t in enumerate(result.finish)} == ends
    assert result.made_by == "reference"


def test_prompts_wait_by_the_clock() -> None:
    """A prompt of 10 tokens takes 11 s, a decode 2 s: the second waits half of 11 s, and until the step then ends."""
    trace = LLMTrace([0.0, 11.5], [10, 10], [20, 1])
    for factor, first in ((0.0, 13.0), (0.5, 19.0)):
        result = simulate_llm(
            trace, policy="vllm-0.6", config=CONFIG | {"delay_factor": factor}, cost=LinearCost(1.0, 1.0)
        )
        # At 11 a decode begins; at 13, 15, 17 the second has waited 1.5, 3.5, 5.5 s; 5.5 is not more than half of 11.
        assert result.scheduled[1] == first


def test_swaps_take_their_time_and_need_a_cost() -> None:
    config = CONFIG | {"num_gpu_blocks": 20, "num_cpu_blocks": 200, "preemption_mode": "swap"}
    found = [
        simulate_llm(
            crowd(), policy="vllm-0.6", config=config, cost=ConstantCost(1.0), options=SimulateOptions(swap=cost)
        )
        for cost in (SwapCost(1, 1, 1e-9), SwapCost(1, 1, 0.5))
    ]
    assert found[0].preemptions.any()
    assert found[0].iterations.swap_in.sum() == found[0].iterations.swap_out.sum() > 0
    assert found[1].finish.max() > found[0].finish.max() + 1
    with pytest.raises(InputError, match="give a SwapCost"):
        simulate_llm(crowd(), policy="vllm-0.6", config=config, cost=ConstantCost(1.0))


def test_the_compiled_engine_refuses_it_by_name() -> None:
    with pytest.raises(InputError, match=r"^engine: compiled: policy 'vllm-0\.6' is not compiled; pass engine='auto'"):
        simulate_llm(crowd(), policy="vllm-0.6", config=CONFIG, cost=ConstantCost(1.0), engine="compiled")


@pytest.mark.parametrize(
    ("more", "request_", "message"),
    [
        ({"max_model_len": 2048}, (2000, 10), "needs 503 blocks, num_gpu_blocks 40 less the watermark leaves 40"),
        ({}, (60, 10), "are longer than max_model_len 64"),
        (
            {"max_model_len": 40, "max_num_batched_tokens": 40},
            (41, 1),
            "is above the 40 that max_model_len and max_num",
        ),
    ],
)
def test_requests_that_can_never_run(more: dict[str, Any], request_: tuple[int, int], message: str) -> None:
    prompt, output = request_
    trace = LLMTrace([0.0], [prompt], [output])
    with pytest.raises(InputError, match=message):
        simulate_llm(trace, policy="vllm-0.6", config=CONFIG | more, cost=ConstantCost(1.0))


def test_it_is_a_case_s_scheduler() -> None:
    said: dict[str, Any] = {
        "model": "llama-3.1-8b", "devices": 1, "device": "h100-80gb", "lengths": "alpaca", "rate": 20.0,
        "duration": 3.0, "planner": "fixed",
    }  # fmt: skip
    means: list[float] = []
    for factor in (0.0, 20.0):
        engine = {"enable_chunked_prefill": False, "max_num_batched_tokens": 4096}
        found = plan(case("llm", **said, engine=engine | {"policy": "vllm-0.6", "scheduler": {"delay_factor": factor}}))
        (result,) = found.simulate().results.values()
        means.append(float(result.ttft(50)))
    assert means[1] > means[0]
    with pytest.raises(InputError, match=r"engine\.scheduler: delay_factor: expected a finite factor >= 0 \(got -1"):
        plan(case("llm", **said, engine={"policy": "vllm-0.6", "scheduler": {"delay_factor": -1}}))


def test_a_case_s_swaps_take_their_time() -> None:
    """A plan knows its model and its devices: the cost of swapping follows from them."""
    said: dict[str, Any] = {
        "model": "llama-3.1-8b", "devices": 1, "device": "l4-24gb", "lengths": "sharegpt", "rate": 40.0, "requests": 45,
        "planner": "fixed",
    }  # fmt: skip
    engine = {
        "policy": "vllm-0.6",
        "enable_chunked_prefill": False,
        "max_num_batched_tokens": 8192,
        "gpu_memory_utilization": 0.75,
    }
    found = plan(
        case("llm", **said, engine=engine | {"scheduler": {"preemption_mode": "swap", "num_cpu_blocks": 4000}})
    )
    (result,) = found.simulate().results.values()
    assert result.iterations.swap_out.sum() == result.iterations.swap_in.sum() > 0
    assert result.finish.all()


def test_the_batches_of_a_pipeline_divide_both_memories() -> None:
    engine = Deployment(
        name="x", model="llama-3.1-8b", pp=2, policy="vllm-0.6", num_blocks=200, devices=((0, 1),),
        config={"num_cpu_blocks": 100, "preemption_mode": "swap"},
    )  # fmt: skip
    options = flight_options(engine)
    assert (options.num_gpu_blocks, options.num_cpu_blocks, options.max_num_seqs) == (100, 50, 128)
