"""What tells blocks of the same tokens apart: adapters and salts; and who finds blocks again after a preemption."""

from __future__ import annotations

import numpy as np
import pytest
from meshwright.profiles.llm import LinearCost
from meshwright.simulator.llm import LLMTrace, simulate_llm
from meshwright.simulator.llm.memory.prefix_blocks import block_hashes, request_contents
from meshwright.simulator.llm.policy.request import LLMRequest
from meshwright.simulator.llm.policy.vllm_v1 import V1Config, V1Scheduler

SIZE = 4


def engine(usable: int, **more: object) -> V1Scheduler:
    return V1Scheduler(V1Config(usable + 1, SIZE, 400, 400, **more))  # type: ignore[arg-type]


def served(scheduler: V1Scheduler, name: str, **more: object) -> int:
    """Tokens that were found of a prompt of 11 equal tokens, when it is served to its end."""
    request = scheduler.add(LLMRequest(name, 11, 1, tokens=tuple(range(11)), **more))  # type: ignore[arg-type]
    step = scheduler.schedule()
    scheduler.complete(step)
    return step.cached[request]


def test_salts_part_equal_prompts():
    """``test_cache_key_salting``: the same salt hits two blocks of 11 tokens, another salt none."""
    scheduler = engine(40)
    assert served(scheduler, "0", cache_salt="salt1") == 0
    assert served(scheduler, "1", cache_salt="salt1") == 8
    assert served(scheduler, "2", cache_salt="salt2") == 0
    assert served(scheduler, "3") == 0
    assert served(scheduler, "4") == 8


def test_adapters_part_equal_prompts():
    """vLLM's ``_gen_lora_extra_hash_keys``: keys and values depend on the adapter that computed them."""
    scheduler = engine(40, max_loras=2)
    assert served(scheduler, "0", lora="x") == 0
    assert served(scheduler, "1", lora="y") == 0
    assert served(scheduler, "2") == 0
    assert served(scheduler, "3", lora="x") == 8
    assert served(scheduler, "4", lora="x", cache_salt="s") == 0


def test_a_salt_named_like_an_adapter_is_another_key():
    """``test_lora_name_and_cache_salt_block_hashes_do_not_collide``."""
    one, other = LLMRequest("a", 3, 1, lora="foo"), LLMRequest("b", 3, 1, cache_salt="foo")
    assert request_contents(one, (0, 1, 2), 3, 3) != request_contents(other, (0, 1, 2), 3, 3)


def test_the_keys_are_in_every_block():
    """The salt is part of the first block's hash alone, and each hash holds the one before it."""
    plain, salted = (block_hashes(range(12), 4, keys=k) for k in (None, "s"))
    assert len(set(plain) | set(salted)) == 6
    assert block_hashes(range(12), 4, salted[:1]) == salted[1:]


def test_turns_of_a_conversation_under_another_salt_share_nothing():
    """Turns of 20 and 60 tokens: the second finds 7 full blocks of the first, or none."""
    hits = []
    for salts in ([0, 0], [0, 1], [-1, -1]):
        trace = LLMTrace([0.0, 9.0], [20, 60], [10, 1], after=[-1, 0], think_s=[0.0, 1.0], cache_salt=salts)
        config = {"num_blocks": 60, "block_size": SIZE, "max_model_len": 200}
        hits.append(simulate_llm(trace, config=config, cost=LinearCost(1e-2)).cached_tokens.tolist())
    assert hits == [[0, 28], [0, 0], [0, 28]]


@pytest.mark.parametrize("router", ["prefix_affinity", "prefix_aware"])
def test_routers_tell_salts_apart(router):
    """The same prompt under two salts, over and over: each salt stays on the engine that has its blocks."""
    salts = np.arange(40) % 2
    trace = LLMTrace(
        np.arange(40) * 2e-3, [1024] * 40, [200] * 40, prefix_ids=[[3, 3]] * 40, prefix_block=512, cache_salt=salts
    )  # fmt: skip
    found = simulate_llm(
        trace, config={"num_blocks": 4000}, cost=LinearCost(1e-3), engines=2, router=router, engine="simpy"
    )
    for salt in (0, 1):
        assert len(set(found.engine[salts == salt].tolist())) == 1


def test_who_was_preempted_finds_its_own_blocks():
    """Six blocks. a and b fill three each; for its 13th token a needs one more, and b, the last, gives up its own. They
    lie in the queue from the last to the first, so that a takes b's third: b finds two of its three again."""
    scheduler = engine(6)
    a, b = (scheduler.add(LLMRequest(name, 8, n)) for name, n in (("a", 8), ("b", 9)))
    steps = []
    while scheduler.running or scheduler.waiting:
        steps.append(scheduler.schedule())
        scheduler.complete(steps[-1])
    lost = next(k for k, s in enumerate(steps) if s.preempted)
    assert steps[lost].preempted == [b]
    assert steps[lost].scheduled == {a: 1}
    again = next(s for s in steps if s.resumed)
    assert again.resumed == [b]
    assert again.cached[b] == 8
    assert again.scheduled[b] == 13 - 8  # 8 of the prompt and 5 generated, less what was found
    assert scheduler.pool.free_blocks == 6
