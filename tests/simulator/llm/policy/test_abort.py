"""A request that leaves before its end: its blocks are free again, and the others never notice."""

import numpy as np
import pytest
from meshwright.simulator.llm import LLMRequest
from meshwright.simulator.llm.policy.vllm02 import Vllm02Config, Vllm02Scheduler
from meshwright.simulator.llm.policy.vllm_v1 import V1Config, V1Scheduler


def v1(**more):
    return V1Scheduler(V1Config(60, 4, max_model_len=200, max_num_batched_tokens=30, **more))


def paged():
    return Vllm02Scheduler(Vllm02Config(60, 200, 4, max_model_len=200, max_num_seqs=12))


def busy(scheduler):
    return bool(scheduler.waiting or scheduler.running or getattr(scheduler, "swapped", None))


def free(scheduler):
    if isinstance(scheduler, V1Scheduler):
        return scheduler.pool.free_blocks == 59
    return scheduler.memory.gpu.free_blocks == 60 and scheduler.memory.cpu.free_blocks == 200


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("make", [v1, paged])
def test_whoever_leaves_whenever_every_block_comes_back(make, seed):
    rng = np.random.default_rng(seed)
    scheduler, live, done = make(), {}, set()
    for k in range(400):
        if k < 60 and rng.random() < 0.6:
            best = 1 if make is v1 else int(rng.integers(1, 4))
            request = LLMRequest(k, int(rng.integers(1, 50)), int(rng.integers(1, 40)), best_of=best)
            live[k] = scheduler.add(request)
        if live and rng.random() < 0.25:
            scheduler.abort(live.pop(int(rng.choice(list(live)))))
        if busy(scheduler):
            for finished in scheduler.complete(scheduler.schedule()):
                done.add(finished.request.id)
                del live[finished.request.id]
    assert not busy(scheduler)
    assert not live
    assert done
    assert free(scheduler)


def test_leaving_while_a_step_is_under_way():
    scheduler = v1(async_scheduling=True)
    first, second = (scheduler.add(LLMRequest(k, 10, 8)) for k in range(2))
    early = scheduler.schedule()
    late = scheduler.schedule()
    scheduler.abort(first)
    assert scheduler.complete(early) == []
    assert scheduler.complete(late) == []
    assert (first.output, second.output) == (0, 2)
    while busy(scheduler):
        scheduler.complete(scheduler.schedule())
    assert free(scheduler)
    assert second.output == 8


def test_tokens_that_a_model_chose_are_found_by_later_prompts():
    scheduler = v1()
    request = scheduler.add(LLMRequest(0, 6, 7, tokens=(1, 2, 3, 4, 5, 6)))
    said = iter(range(10, 17))
    while busy(scheduler):
        step = scheduler.schedule()
        scheduler.complete(step, {r: next(said) for r in step.samples})
    assert request.output == 7
    scheduler.add(LLMRequest(1, 14, 1, tokens=(1, 2, 3, 4, 5, 6, *range(10, 16), 99, 98)))
    step = scheduler.schedule()
    assert list(step.cached.values()) == [12]
