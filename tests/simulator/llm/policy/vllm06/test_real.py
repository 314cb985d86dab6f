"""Decisions of the real scheduler of vLLM 0.6.6, step by step: ours must be the same.

``steps.json`` holds 20 small random worlds: options, requests (time of arrival, tokens, output, priority,
adapter), and for each step the time and what vLLM's own `Scheduler` decided: tokens scheduled in order, how many of
these are prompts, tokens in the batch, blocks swapped out and in (pairs), ignored, running, waiting, swapped, free
blocks of device and host, and block tables by number. They were taken by running vLLM's sources without a device. Every
generated token is its request's own. Blocks of requests that can never be swapped in were freed, as ours are.
"""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from typing import Any

import pytest
from meshwright.simulator.llm.policy.request import LLMRequest
from meshwright.simulator.llm.policy.vllm06 import Vllm06Config, Vllm06Request, Vllm06Scheduler

WORLDS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "steps.json").read_text())


def names(queue: list[Vllm06Request]) -> list[str]:
    return [str(r.request.id) for r in queue]


@pytest.mark.parametrize("world", WORLDS, ids=range(len(WORLDS)))
def test_every_decision_is_vllms(world: dict[str, Any]) -> None:
    scheduler = Vllm06Scheduler(Vllm06Config(**world["config"]))
    blocks = world["config"]["num_gpu_blocks"]  # vLLM counts the host's blocks on from the device's
    coming = deque(enumerate(world["requests"]))
    for now, scheduled, prompts, batched, out, back, ignored, running, waiting, swapped, free, tables in world["steps"]:
        while coming and coming[0][1][0] <= now:
            name, (arrival, tokens, output, priority, lora) = coming.popleft()
            scheduler.add(
                LLMRequest(name, len(tokens), output, arrival, priority=priority, tokens=tuple(tokens), lora=lora)
            )
        step = scheduler.schedule(now)
        assert [[str(r.request.id), n] for r, n in step.scheduled.items()] == scheduled
        assert (step.prompts, step.num_batched_tokens) == (prompts, batched)
        assert [list(pair) for pair in step.swap_out] == out
        assert [list(pair) for pair in step.swap_in] == back
        assert sorted(names(step.ignored)) == sorted(ignored)
        assert (names(scheduler.running), names(scheduler.waiting)) == (running, waiting)
        assert names(scheduler.swapped) == swapped
        assert [scheduler.memory.gpu.free_blocks, scheduler.memory.cpu.free_blocks] == free
        ours = {str(r.request.id): [b.number for b in r.blocks] for r in scheduler.running}
        ours |= {str(r.request.id): [blocks + b.number for b in r.blocks] for r in scheduler.swapped}
        assert ours == tables
        scheduler.complete(step)
    assert not coming
    assert not scheduler.running + scheduler.waiting + scheduler.swapped


def test_the_worlds_hold_what_they_are_for() -> None:
    """Every option in use, chunks beside decodes, swaps both ways, preemptions, requests that can never run."""
    configs = [world["config"] for world in WORLDS]
    for name in ("enable_prefix_caching", "enable_chunked_prefill", "delay_factor", "num_lookahead_slots", "max_loras"):
        assert any(c[name] for c in configs)
        assert not all(c[name] for c in configs)
    assert any(c["enable_prefix_caching"] and c["enable_chunked_prefill"] for c in configs)
    assert {c["policy"] for c in configs} == {"fcfs", "priority"}
    assert {c["preemption_mode"] for c in configs} == {None, "recompute", "swap"}
    steps = [step for world in WORLDS for step in world["steps"]]
    assert sum(bool(step[4]) for step in steps) > 10  # swapped out
    assert sum(bool(step[5]) for step in steps) > 10  # and in
    assert sum(0 < step[2] < len(step[1]) for step in steps) > 10  # prompts and decodes together
    assert any(step[6] for step in steps)
    lost = [set(a[7]) & set(b[8]) for w in WORLDS for a, b in zip(w["steps"], w["steps"][1:], strict=False)]
    assert sum(map(bool, lost)) > 10
