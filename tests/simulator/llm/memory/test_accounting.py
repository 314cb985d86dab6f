"""Where the slots go: hand-counted cases for every policy, and the identities of Fig. 5.2."""

from __future__ import annotations

import dataclasses

import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.simulator.llm import LLMRequest
from meshwright.simulator.llm.memory.accounting import MemoryUse, memory_use
from meshwright.simulator.llm.memory.contiguous import ContiguousConfig
from meshwright.simulator.llm.policy.fastertransformer import FasterTransformerScheduler
from meshwright.simulator.llm.policy.orca import OrcaScheduler
from meshwright.simulator.llm.policy.vllm02 import Vllm02Config, Vllm02Scheduler
from meshwright.simulator.llm.policy.vllm06 import Vllm06Config, Vllm06Scheduler
from meshwright.simulator.llm.policy.vllm_paper import VllmPaperConfig, VllmPaperScheduler
from meshwright.simulator.llm.policy.vllm_v1 import V1Config, V1Scheduler


def slots(scheduler, total):
    use = memory_use(scheduler)
    return tuple(round(total * x) for x in (use.used, use.reserved, use.internal, use.rounding, use.free))


def step(scheduler, times=1):
    """So many whole steps, and the decision of the next."""
    for _ in range(times):
        scheduler.complete(scheduler.schedule())
    return scheduler.schedule()


@pytest.mark.parametrize(
    ("reserve", "before", "after"),
    [
        # A prompt of 10 and an output of 5 in 100 slots of a model of 32, at the prompt and three tokens later.
        ("max", (10, 5, 17, 0, 68), (13, 2, 17, 0, 68)),
        ("pow2", (10, 5, 3, 14, 68), (13, 2, 3, 14, 68)),
        ("oracle", (10, 5, 0, 1, 84), (13, 2, 0, 1, 84)),
    ],
)
def test_orca(reserve, before, after):
    orca = OrcaScheduler(ContiguousConfig(100, max_model_len=32), reserve)
    assert memory_use(orca) == MemoryUse(0, 0, 0, 0, 1)
    orca.add(LLMRequest("a", 10, 5))
    step(orca, 0)
    assert slots(orca, 100) == before
    orca = OrcaScheduler(ContiguousConfig(100, max_model_len=32), reserve)
    orca.add(LLMRequest("a", 10, 5))
    step(orca, 3)
    assert slots(orca, 100) == after


def test_fastertransformer_keeps_the_rows_of_those_that_are_done():
    engine = FasterTransformerScheduler(ContiguousConfig(100, max_model_len=32))
    engine.add(LLMRequest("a", 10, 1))
    engine.add(LLMRequest("b", 4, 4))
    step(engine, 0)
    assert slots(engine, 100) == (14, 5, 45, 0, 36)
    engine.complete(engine.schedule())
    engine.schedule()
    assert slots(engine, 100) == (5, 3, 56, 0, 36)  # a's 32 slots are of no use any more


def test_vllm_wastes_the_rest_of_a_last_block():
    vllm = Vllm02Scheduler(Vllm02Config(num_gpu_blocks=10, block_size=4, max_model_len=32, watermark=0.0))
    vllm.add(LLMRequest("a", 9, 2))
    step(vllm, 0)
    assert slots(vllm, 40) == (9, 2, 1, 0, 28)  # three blocks of 4: two tokens will come, one slot stays empty
    vllm = Vllm02Scheduler(Vllm02Config(num_gpu_blocks=10, block_size=4, max_model_len=32, watermark=0.0))
    vllm.add(LLMRequest("a", 9, 20))
    step(vllm, 3)
    assert slots(vllm, 40) == (12, 0, 0, 0, 28)


def test_blocks_that_samples_share_count_once():
    vllm = Vllm02Scheduler(Vllm02Config(num_gpu_blocks=20, block_size=4, max_model_len=32, watermark=0.0))
    vllm.add(LLMRequest("a", 6, 3, best_of=3))
    step(vllm, 1)
    # One full block shared by all three, and a block of 3 tokens for each after copy-on-write.
    assert slots(vllm, 80) == (4 + 3 * 3, 3, 0, 0, 64)


def test_todays_vllm_shares_prefixes():
    config = V1Config(num_blocks=21, block_size=4, max_model_len=32, max_num_batched_tokens=64)
    engine = V1Scheduler(config)
    tokens = tuple(range(9))
    engine.add(LLMRequest("a", 9, 2, tokens=tokens))
    engine.add(LLMRequest("b", 9, 2, tokens=tokens))
    engine.schedule()
    assert slots(engine, 80) == (8 + 1 + 1, 4, 2, 0, 64)


def test_something_else_is_refused():
    with pytest.raises(InputError, match="expected a scheduler"):
        memory_use(object())
    with pytest.raises(InputError, match="sum to 1"):
        MemoryUse(0.5, 0.6, 0, 0, 0)
    with pytest.raises(InputError, match="no average"):
        MemoryUse.mean([])
    with pytest.raises(dataclasses.FrozenInstanceError):
        MemoryUse(1, 0, 0, 0, 0).used = 0.5


def test_averages_are_weighted_by_time():
    mean = MemoryUse.mean([MemoryUse(1, 0, 0, 0, 0), MemoryUse(0, 0, 0, 0.5, 0.5)], [1.0, 3.0])
    assert mean == MemoryUse(0.25, 0, 0, 0.375, 0.375)
    assert (mean.external, mean.held) == (0.75, 0.625)


def test_external_fragmentation_of_orca_max_is_what_seven_requests_leave():
    """Fig. 5.2: 8.9 % of 15,728 slots, whatever the lengths."""
    orca = OrcaScheduler(ContiguousConfig(15_728))
    for k in range(20):
        orca.add(LLMRequest(k, 100 + k, 50 * k + 1))
    for _ in range(200):
        decision = orca.schedule()
        assert memory_use(orca).external == pytest.approx(1 - 7 * 2048 / 15_728)
        orca.complete(decision)


POLICIES = {
    "orca-max": lambda: OrcaScheduler(ContiguousConfig(200, max_model_len=32), "max"),
    "orca-pow2": lambda: OrcaScheduler(ContiguousConfig(200, max_model_len=32), "pow2"),
    "orca-oracle": lambda: OrcaScheduler(ContiguousConfig(200, max_model_len=32), "oracle"),
    "fastertransformer": lambda: FasterTransformerScheduler(ContiguousConfig(200, max_model_len=32)),
    "vllm-paper": lambda: VllmPaperScheduler(VllmPaperConfig(25, 100, block_size=8, max_model_len=32)),
    "vllm-0.2": lambda: Vllm02Scheduler(Vllm02Config(25, 100, block_size=8, max_model_len=32)),
    "vllm-0.6": lambda: Vllm06Scheduler(
        Vllm06Config(25, 100, 8, 32, enable_prefix_caching=True, preemption_mode="swap", num_lookahead_slots=3)
    ),
    "vllm-v1": lambda: V1Scheduler(V1Config(26, 8, 32, 16)),
}


@given(
    st.sampled_from(sorted(POLICIES)),
    st.lists(st.tuples(st.integers(1, 20), st.integers(1, 12), st.integers(1, 3)), min_size=1, max_size=12),
)
@settings(max_examples=examples(40, anew=120), deadline=None)
def test_shares_are_whole_at_every_step_of_every_policy(policy, drawn):
    scheduler = POLICIES[policy]()
    for k, (prompt, output, best_of) in enumerate(drawn):
        scheduler.add(LLMRequest(k, prompt, output, best_of=1 if policy in ("vllm-v1", "vllm-0.6") else best_of))
    for _ in range(2000):
        decision = scheduler.schedule()
        use = memory_use(scheduler)  # refuses shares that are negative or do not sum to 1
        if decision.scheduled:
            assert use.used > 0
        if policy == "orca-oracle":
            assert use.internal == 0
        if policy.startswith("vllm"):
            assert use.rounding == 0
        scheduler.complete(decision)
        if not (scheduler.waiting or scheduler.running or getattr(scheduler, "swapped", None)):
            break
    else:
        pytest.fail("did not finish")
    assert memory_use(scheduler).free == 1
