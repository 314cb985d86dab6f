"""The clock-free schedulers, step by step: hand-worked cases of vLLM's rules, and what must hold after every step."""

from __future__ import annotations

from itertools import pairwise

import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError, RunError
from meshwright.simulator.llm import LLMRequest, drive
from meshwright.simulator.llm.policy.vllm02 import Vllm02Config, Vllm02Scheduler
from meshwright.simulator.llm.policy.vllm_v1 import V1Config, V1Scheduler


def request(name, prompt, output, at=0, **more):
    return {"id": name, "arrive_step": at, "prompt": prompt, "output": output, **more}


def run02(requests, **config):
    return drive("vllm-0.2", {"block_size": 4, "max_model_len": 64, **config}, requests)


def run1(requests, **config):
    return drive("vllm-v1", {"block_size": 4, "max_model_len": 64, "max_num_batched_tokens": 64, **config}, requests)


def test_prompts_go_first_and_decodes_wait_for_them():
    steps = run02([request("a", 4, 3), request("b", 4, 2, at=1)], num_gpu_blocks=100, max_num_batched_tokens=64)
    assert [s["kind"] for s in steps] == ["prompt", "prompt", "decode", "decode"]
    assert [s["scheduled"] for s in steps] == [["a"], ["b"], ["a", "b"], ["a"]]
    assert [s["finished"] for s in steps] == [[], [], ["b"], ["a"]]


def test_prompt_batches_are_padded_and_padding_is_bounded():
    requests = [request("a", 10, 1), request("b", 4, 1), request("c", 10, 1)]
    assert run02(requests, num_gpu_blocks=100)[0]["num_batched_tokens"] == 30
    assert run02(requests, num_gpu_blocks=100, max_paddings=5)[0]["scheduled"] == ["a"]
    assert run02(requests, num_gpu_blocks=100, max_num_batched_tokens=29)[0]["scheduled"] == ["a", "b"]


def test_requests_that_never_fit_are_ignored_at_once():
    steps = run02([request("long", 65, 1), request("big", 40, 1), request("ok", 8, 1)], num_gpu_blocks=8)
    assert steps[0]["ignored"] == ["long", "big"]
    assert steps[0]["scheduled"] == ["ok"]


def test_the_newest_is_preempted_and_recomputed_with_what_it_generated():
    # 6 blocks of 4: a and b hold 2 each after their prompts (5 tokens), and one block more each from token 9 on.
    steps = run02([request("a", 5, 12), request("b", 5, 12)], num_gpu_blocks=6, watermark=0.0)
    first = next(s for s in steps if s["waiting"])
    assert first["waiting"] == ["b"]
    assert first["running"] == ["a"]
    again = next(s for s in steps if s["step"] > first["step"] and s["kind"] == "prompt")
    assert again["scheduled"] == ["b"]
    # b had generated one token for the prompt and one in each decode step before the preemption.
    assert again["num_batched_tokens"] == 5 + first["step"]


def test_two_requests_at_the_memory_edge_ping_pong():
    """b is admitted into the room that a needs a step later: a prompt step, one token, preempted again."""
    steps = run02([request("a", 7, 9), request("b", 7, 9)], num_gpu_blocks=4, watermark=0.0)
    lost = ["b" in now["running"] and "b" in after["waiting"] for now, after in pairwise(steps)]
    assert sum(lost) >= 2
    assert {n for s in steps for n in s["finished"]} == {"a", "b"}


def test_samples_share_the_prompt_and_copy_on_write():
    steps = run02([request("a", 6, 3, best_of=3)], num_gpu_blocks=20, watermark=0.0)
    assert steps[0]["free_gpu"] == 18  # the prompt's 2 blocks
    # Each of the first two samples to write copies the shared half-full block, the last one writes in place.
    assert steps[1]["copies"] == 2
    assert steps[1]["free_gpu"] == 16
    assert steps[1]["num_batched_tokens"] == 3
    assert steps[2]["copies"] == 0


def test_groups_of_several_sequences_are_swapped_not_recomputed():
    requests = [request("a", 4, 8, best_of=2), request("b", 4, 8, best_of=2)]
    steps = run02(requests, num_gpu_blocks=8, num_cpu_blocks=8, watermark=0.0)
    out = next(s for s in steps if s["swap_out"])
    back = next(s for s in steps if s["swap_in"])
    assert out["swapped"] == ["b"]
    assert out["swap_out"] == back["swap_in"] == 8 - out["free_cpu"]
    assert not any(s["swap_in"] and s["swap_out"] for s in steps)
    assert back["kind"] == "decode"
    assert "b" in back["scheduled"]


def test_nothing_is_admitted_while_something_is_swapped():
    requests = [request("a", 4, 8, best_of=2), request("b", 4, 8, best_of=2), request("c", 1, 1, at=6)]
    steps = run02(requests, num_gpu_blocks=8, num_cpu_blocks=8, watermark=0.0)
    assert any(s["swapped"] and "c" in s["waiting"] for s in steps)
    assert not any(s["swapped"] and s["kind"] == "prompt" for s in steps)


def test_no_room_to_swap_to_is_said():
    requests = [request("a", 4, 8, best_of=2), request("b", 4, 8, best_of=2)]
    with pytest.raises(RunError, match="num_cpu_blocks"):
        run02(requests, num_gpu_blocks=8, num_cpu_blocks=0, watermark=0.0)
    with pytest.raises(InputError, match="raise num_gpu_blocks"):
        run02([request("a", 4, 30, best_of=3)], num_gpu_blocks=6, num_cpu_blocks=30, watermark=0.0)


def test_v1_shares_one_budget_between_decodes_and_chunks_of_a_prompt():
    steps = run1([request("a", 4, 4), request("b", 30, 2, at=1)], num_blocks=40, max_num_batched_tokens=16)
    assert [s["scheduled"] for s in steps] == [{"a": 4}, {"a": 1, "b": 15}, {"a": 1, "b": 15}, {"a": 1, "b": 1}]


def test_v1_without_chunks_waits_for_a_whole_budget():
    steps = run1(
        [request("a", 4, 4), request("b", 16, 1, at=1)], num_blocks=40, max_num_batched_tokens=16,
        enable_chunked_prefill=False, enable_prefix_caching=False, max_model_len=17,
    )[:4]  # fmt: skip
    assert [s["scheduled"] for s in steps] == [{"a": 4}, {"a": 1}, {"a": 1}, {"a": 1}]


def test_v1_finds_full_blocks_again_but_always_computes_a_token():
    tokens = tuple(range(12))
    requests = [request("a", 12, 2, tokens=tokens), request("b", 12, 2, at=5, tokens=tokens)]
    steps = run1(requests, num_blocks=20)
    assert steps[5]["new_computed"] == {"b": 8}
    assert steps[5]["scheduled"] == {"b": 4}
    assert run1(requests, num_blocks=20, enable_prefix_caching=False)[5]["new_computed"] == {"b": 0}


def test_v1_shares_blocks_that_are_in_use():
    tokens = tuple(range(12))
    steps = run1([request("a", 12, 8, tokens=tokens), request("b", 12, 2, at=1, tokens=tokens)], num_blocks=20)
    assert steps[0]["free_blocks"] == 19 - 3
    # a's 13th token takes a block; b shares two blocks and takes one.
    assert steps[1]["free_blocks"] == 19 - 3 - 1 - 1


@pytest.mark.parametrize(("newcomer", "kept"), [(4, 8), (8, 4), (12, 0)])
def test_v1_evicts_the_least_recently_used_and_its_end_first(newcomer, kept):
    old, other = tuple(range(12)), tuple(range(100, 112))
    requests = [
        request("old", 12, 1, tokens=old),
        request("other", 12, 1, at=1, tokens=other),
        request("newcomer", newcomer, 1, at=2),
        request("again", 12, 1, at=3, tokens=old),
    ]
    assert run1(requests, num_blocks=7)[3]["new_computed"] == {"again": kept}


def test_v1_preempts_the_last_and_resumes_it_from_what_is_cached():
    steps = run1([request("a", 8, 12), request("b", 8, 12)], num_blocks=8, watermark=0.0)
    first = next(s for s in steps if s["preempted"])
    assert first["preempted"] == ["b"]
    assert first["waiting"] == ["b"]
    again = next(s for s in steps if s["step"] > first["step"] and "b" in s["scheduled"])
    assert again["scheduled"]["b"] < 8 + first["step"]  # some of its blocks were still there
    assert again["new"] == []


def test_v1_priority_preempts_the_least_important():
    requests = [request("low", 8, 12, priority=5), request("high", 8, 12, at=1, priority=1)]
    steps = run1(requests, num_blocks=8, policy="priority", enable_prefix_caching=False)
    assert next(s for s in steps if s["preempted"])["preempted"] == ["low"]
    assert [n for s in steps for n in s["finished"]] == ["high", "low"]


def test_v1_long_prompts_are_limited_only_while_somebody_else_is_there():
    alone = [request("a", 20, 1)]
    config = {"num_blocks": 40, "long_prefill_token_threshold": 6}
    assert [s["scheduled"] for s in run1(alone, **config)] == [{"a": 20}]
    assert run1(alone, **config, limit_alone=True)[0]["scheduled"] == {"a": 6}
    steps = run1([*alone, request("b", 9, 1, at=0)], **config)
    assert [s["scheduled"] for s in steps] == [{"a": 6, "b": 6}, {"a": 6, "b": 3}, {"a": 8}]
    waiting = run1([*alone, request("b", 9, 1, at=0)], **config, max_num_seqs=1)
    assert waiting[0]["scheduled"] == {"a": 6}


def test_v1_passes_nobody_over_where_one_before_is_preempted():
    """Asynchronous: `low`, whose last token is under way, is not looked at; that it is preempted costs `c` nothing."""
    scheduler = V1Scheduler(
        V1Config(
            num_blocks=6, block_size=4, max_model_len=64, max_num_batched_tokens=64, policy="priority",
            async_scheduling=True, enable_prefix_caching=False,
        )
    )  # fmt: skip
    for name, prompt, output, priority in (("low", 5, 2, 9), ("b", 7, 4, 1), ("c", 1, 9, 1)):
        scheduler.add(LLMRequest(name, prompt, output, priority=priority))
    scheduler.running = [scheduler.waiting.pop(), *scheduler.waiting]
    order = {r.request.id: r for r in scheduler.running}
    scheduler.waiting, scheduler.running = [], [order["low"], order["b"], order["c"]]
    first = scheduler.schedule()
    second = scheduler.schedule()
    assert [r.request.id for r in second.scheduled] == ["low", "b", "c"]
    scheduler.complete(first)
    third = scheduler.schedule()  # b's 9th token needs a block, of which none is free
    assert [r.request.id for r in third.preempted] == ["low"]
    assert [r.request.id for r in third.scheduled] == ["b", "c"]


def test_v1_last_blocks_of_asynchronous_steps_can_be_found_once_their_request_is_done():
    config = V1Config(num_blocks=20, block_size=4, max_model_len=64, async_scheduling=True)
    scheduler = V1Scheduler(config)
    scheduler.add(LLMRequest("a", 6, 3, text="chat"))
    under_way = [scheduler.schedule()]
    while scheduler.running:
        under_way.append(scheduler.schedule())
        scheduler.complete(under_way.pop(0))
    scheduler.add(LLMRequest("b", 12, 1, text="chat"))
    # a's 8 computed tokens fill two blocks; its last token, the 9th, was never computed.
    (cached,) = scheduler.schedule().cached.values()
    assert cached == 8


def test_v1_reserves_the_whole_prompt_unless_told_not_to():
    requests = [request("a", 16, 8), request("b", 20, 1, at=1)]
    assert run1(requests, num_blocks=10, max_num_batched_tokens=20)[1]["new"] == []
    eager = run1(requests, num_blocks=10, max_num_batched_tokens=12, scheduler_reserve_full_isl=False)
    assert eager[1]["new"] == ["b"]


@pytest.mark.parametrize(
    ("policy", "config", "requests", "says"),
    [
        ("vllm", {}, [], "unknown policy"),
        ("vllm-0.2", {"num_gpu_block": 4}, [], "did you mean 'num_gpu_blocks'"),
        ("vllm-0.2", {}, [], "num_gpu_blocks"),
        ("vllm-0.2", {"num_gpu_blocks": 4, "block_size": 0}, [], "block_size"),
        ("vllm-v1", {"num_blocks": 1}, [], "null block"),
        ("vllm-v1", {"num_blocks": 9, "policy": "sjf"}, [], "fcfs, priority"),
        ("vllm-v1", {"num_blocks": 4}, [request("a", 100, 1)], "needs 7 blocks"),
        ("vllm-v1", {"num_blocks": 9}, [request("a", 0, 1)], "prompt: expected an integer >= 1"),
        ("vllm-v1", {"num_blocks": 9}, [request("a", 1, 0)], "output: expected an integer >= 1"),
        ("vllm-v1", {"num_blocks": 9}, [request("a", 1, 1), request("a", 1, 1)], "two have the id"),
        ("vllm-v1", {"num_blocks": 9}, [{"id": "a", "prompt": 1, "outputs": 1}], "did you mean 'output'"),
        ("vllm-v1", {"num_blocks": 9}, [request("a", 3, 1, tokens=[1, 2])], "as many as the prompt"),
        ("vllm-0.2", {"num_gpu_blocks": 9, "max_num_seqs": 2}, [request("a", 1, 1, best_of=3)], "wait for ever"),
    ],
)  # fmt: skip
def test_bad_input(policy, config, requests, says):
    with pytest.raises(InputError, match=says):
        drive(policy, config, requests)


REQUESTS = st.lists(
    st.tuples(st.integers(1, 20), st.integers(1, 15), st.integers(0, 20), st.integers(1, 3), st.integers(0, 2)),
    min_size=1,
    max_size=8,
)


@given(REQUESTS, st.integers(1, 5), st.integers(40, 60))
@settings(max_examples=examples(25, anew=60), deadline=None)
def test_02_leaks_no_block_and_finishes_everything(drawn, block_size, blocks):
    scheduler = Vllm02Scheduler(
        Vllm02Config(
            num_gpu_blocks=-(-blocks * 5 // block_size), num_cpu_blocks=300, block_size=block_size, max_num_seqs=8
        )
    )
    finished, step = 0, 0
    for k, (prompt, output, at, best_of, _) in enumerate(drawn):
        scheduler.add(LLMRequest(k, prompt, output, at, best_of))
    while scheduler.waiting or scheduler.running or scheduler.swapped:
        decision = scheduler.schedule()
        held = {id(b): b for t in scheduler.memory.tables.values() for b in t}.values()
        pools = scheduler.memory.gpu.free_blocks + scheduler.memory.cpu.free_blocks
        assert len(held) + pools == scheduler.memory.gpu.size + scheduler.memory.cpu.size
        for block in held:
            assert block.shares >= sum(any(b is block for b in t) for t in scheduler.memory.tables.values())
        assert sum(len(g.sequences) for g in scheduler.running) <= 8
        assert not (decision.swap_in and decision.swap_out)
        finished += len(scheduler.complete(decision)) + len(decision.ignored)
        step += 1
        assert step < 5000
    assert finished == len(drawn)
    assert scheduler.memory.gpu.free_blocks == scheduler.memory.gpu.size
    assert scheduler.memory.cpu.free_blocks == scheduler.memory.cpu.size


@given(REQUESTS, st.integers(1, 5), st.booleans(), st.sampled_from(["fcfs", "priority"]), st.booleans())
@settings(max_examples=examples(25, anew=60), deadline=None)
def test_v1_leaks_no_block_and_finishes_everything(drawn, block_size, caching, policy, shared):
    config = V1Config(
        num_blocks=1 + -(-40 // block_size),
        block_size=block_size,
        max_model_len=64,
        max_num_batched_tokens=16,
        enable_prefix_caching=caching,
        policy=policy,
    )
    scheduler = V1Scheduler(config)
    for k, (prompt, output, at, _, priority) in enumerate(drawn):
        scheduler.add(
            LLMRequest(k, prompt, output, at, priority=priority, tokens=tuple(range(prompt)) if shared else None)
        )
    finished, step = 0, 0
    while scheduler.waiting or scheduler.running:
        decision = scheduler.schedule()
        held = [b for r in scheduler.running for b in r.blocks]
        assert len({b.number for b in held}) + scheduler.pool.free_blocks == scheduler.pool.size - 1
        assert all(b.shares == sum(x is b for x in held) for b in held)
        assert sum(decision.scheduled.values()) <= 16
        for r in scheduler.running:
            assert len(r.blocks) * block_size >= r.computed
        finished += len(scheduler.complete(decision))
        step += 1
        assert step < 5000
    assert finished == len(drawn)
    assert scheduler.pool.free_blocks == scheduler.pool.size - 1
