"""Decisions of the real scheduler of vLLM 0.33.0, step by step: ours must be the same.

``vllm_0_33_0_steps.json`` holds 20 small random worlds: options, requests (step of arrival, tokens, output, priority,
adapter, salt), and for each step what vLLM's own `Scheduler` or `AsyncScheduler` decided (tokens scheduled, running,
waiting, free blocks) and the tokens that its batch was then given. They were taken by running vLLM's sources without a
device; groups of layers that hold all tokens stand first.
"""

from __future__ import annotations

import json
from collections import deque
from pathlib import Path
from typing import Any

import pytest
from meshwright.simulator.llm.policy.request import LLMRequest
from meshwright.simulator.llm.policy.vllm_v1 import V1Config, V1Request, V1Scheduler, V1Step

WORLDS: list[dict[str, Any]] = json.loads((Path(__file__).parent / "vllm_0_33_0_steps.json").read_text())


@pytest.mark.parametrize("world", WORLDS, ids=range(len(WORLDS)))
def test_every_decision_is_vllms(world: dict[str, Any]) -> None:
    config = V1Config(**world["config"])
    scheduler = V1Scheduler(config)
    coming, live = deque(enumerate(world["requests"])), dict[str, V1Request]()
    flying: deque[tuple[V1Step, list[tuple[str, int]]]] = deque()
    for number, (scheduled, running, waiting, free, given) in enumerate(world["steps"]):
        while coming and coming[0][1][0] == number:
            name, (_, tokens, output, priority, lora, salt) = coming.popleft()
            asked = LLMRequest(
                str(name), len(tokens), output, priority=priority, tokens=tuple(tokens), lora=lora, cache_salt=salt
            )
            live[str(name)] = scheduler.add(asked)
        step = scheduler.schedule()
        assert {r.request.id: n for r, n in step.scheduled.items()} == scheduled
        assert [r.request.id for r in scheduler.running] == running
        assert [r.request.id for r in scheduler.waiting] == waiting
        assert scheduler.pool.free_blocks == free
        flying.append((step, given))
        if len(flying) == config.batches:
            done, sampled = flying.popleft()
            scheduler.complete(done, {live[name]: token for name, token in sampled})
    assert not coming
    assert not scheduler.running
    assert not scheduler.waiting


def test_the_worlds_hold_what_they_are_for() -> None:
    """Pipelines, schedules ahead, windows with prefix caching, adapters, priorities, and preemptions."""
    configs = [world["config"] for world in WORLDS]
    assert {c["pipeline_parallel_size"] for c in configs} == {1, 2, 3}
    assert any(c["window_groups"] and c["enable_prefix_caching"] for c in configs)
    for name in ("async_scheduling", "max_loras", "max_num_active_seqs"):
        assert any(c[name] for c in configs)
    assert any(c["policy"] == "priority" for c in configs)
    preempted = [set(a[1]) & set(b[2]) for w in WORLDS for a, b in zip(w["steps"], w["steps"][1:], strict=False)]
    assert sum(map(bool, preempted)) > 10
