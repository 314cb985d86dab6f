"""Swapping instead of recomputing a preempted sequence (vLLM §5.4.5): by hand, and the same outcome otherwise."""

import numpy as np
import pytest
from meshwright.errors import InputError, RunError
from meshwright.profiles.llm.linear import ConstantCost
from meshwright.simulator.llm import LLMTrace, SimulateOptions, SwapCost, drive, simulate_llm

POOL = {"num_gpu_blocks": 6, "num_cpu_blocks": 8, "block_size": 2, "watermark": 0.0}
TWO = [{"id": "a", "prompt": 3, "output": 7}, {"id": "b", "prompt": 3, "output": 6}]


def test_the_newest_is_swapped_out_and_goes_on_where_it_was():
    records = drive("vllm-0.2", POOL | {"preemption_mode": "swap"}, TWO)
    # Prompts take two blocks each, the fifth token a third: nothing is free when both have six tokens, and vLLM wants
    # a free block for every sequence. `b` goes out with its three blocks, and comes back when `a` is done.
    assert [(r["swap_out"], r["swap_in"]) for r in records] == [(0, 0)] * 3 + [(3, 0)] + [(0, 0)] * 3 + [
        (0, 3), (0, 0), (0, 0),
    ]  # fmt: skip
    out = next(i for i, r in enumerate(records) if r["swap_out"])
    back = next(i for i, r in enumerate(records) if r["swap_in"])
    assert records[out]["swapped"] == ["b"]
    assert "a" in [name for r in records[out:back] for name in r["finished"]]
    assert sum(r["kind"] == "prompt" for r in records) == 1  # nothing is computed twice
    assert sum("b" in r["scheduled"] for r in records) == 6  # a step for each of its tokens


def test_recomputing_needs_a_second_prompt_step():
    records = drive("vllm-0.2", POOL | {"preemption_mode": "recompute"}, TWO)
    assert records == drive("vllm-0.2", POOL, TWO)
    assert sum(r["kind"] == "prompt" for r in records) > 1
    assert not any(r["swap_out"] for r in records)


def test_each_swap_takes_its_time():
    trace = LLMTrace([0.0, 0.0], [3, 3], [7, 6])
    swap = SwapCost(layers=1, piece_bytes=1, start_s=0.5, bandwidth=1e9)  # 2 x 0.5 s a block
    free = SwapCost(layers=1, piece_bytes=1, start_s=0.0, bandwidth=1e30)
    config = POOL | {"preemption_mode": "swap"}
    slow, fast = (
        simulate_llm(trace, policy="vllm-0.2", config=config, cost=ConstantCost(1.0), options=SimulateOptions(swap=s))
        for s in (swap, free)
    )
    moved = slow.iterations.swap_out.sum() + slow.iterations.swap_in.sum()
    assert moved == 6
    assert slow.finish.max() - fast.finish.max() == pytest.approx(6 * 1.0)
    assert np.array_equal(slow.preemptions, [0, 1])


def test_what_is_wrong_is_said():
    with pytest.raises(InputError, match="preemption_mode: expected 'recompute' or 'swap'"):
        drive("vllm-0.2", POOL | {"preemption_mode": "drop"}, TWO)
    with pytest.raises(RunError, match="raise num_cpu_blocks"):
        drive("vllm-0.2", POOL | {"preemption_mode": "swap", "num_cpu_blocks": 1}, TWO)
    config = POOL | {"preemption_mode": "swap"}
    with pytest.raises(InputError, match="give a SwapCost"):
        simulate_llm(LLMTrace([0.0], [3], [6]), policy="vllm-0.2", config=config, cost=ConstantCost(1.0))
