"""Sarathi-Serve's scheduler: schedules worked by hand, and held against today's vLLM where the two agree."""

from __future__ import annotations

import numpy as np
import pytest
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.profiles.llm import ConstantCost, LinearCost
from meshwright.simulator.llm import LLMRequest, LLMTrace, draw, drive, simulate_llm
from meshwright.simulator.llm.policy.sarathi import SarathiConfig, SarathiScheduler


def steps(requests, **config):
    options = {"num_gpu_blocks": 100, "block_size": 4, "chunk_size": 8, "max_model_len": 64, "watermark": 0.0}
    return drive("sarathi", {**options, **config}, requests)


def ask(name, prompt, output, at=0):
    return {"id": name, "prompt": prompt, "output": output, "arrive_step": at}


def test_no_prompt_ever_stalls_a_decode():
    got = steps([ask("a", 8, 6), ask("b", 20, 2, at=1)])
    # Beside a's decode b gets 7 of the budget of 8: 7, 7, 6; then both decode.
    assert [s["scheduled"] for s in got] == [
        {"a": 8}, {"a": 1, "b": 7}, {"a": 1, "b": 7}, {"a": 1, "b": 6}, {"a": 1, "b": 1}, {"a": 1}
    ]  # fmt: skip
    assert [s["finished"] for s in got] == [[], [], [], [], ["b"], ["a"]]
    # b has all five blocks from its admission on.
    assert [s["free_blocks"] for s in got] == [98, 92, 92, 92, 91, 96]


def test_what_is_left_goes_to_prompts_under_way_and_then_to_new_ones():
    got = steps([ask("a", 6, 3), ask("b", 4, 2), ask("c", 9, 1), ask("d", 3, 1)])
    # 6 + 2; then 1 for a, 2 for b and 5 for c; then decodes of a and b, 4 for c, 2 for d; then d's last one.
    assert [s["scheduled"] for s in got] == [
        {"a": 6, "b": 2}, {"a": 1, "b": 2, "c": 5}, {"a": 1, "b": 1, "c": 4, "d": 2}, {"d": 1}
    ]  # fmt: skip
    assert [s["new"] for s in got] == [["a", "b"], ["c"], ["d"], []]


def test_memory_is_the_papers_vllms():
    # 4 blocks for two requests of 7 + 4 tokens, 2 each. At step 1 no block is free: b gives way although a's token
    # needs none, and is admitted again at once, its 8 tokens as one prompt. At step 2 a needs a third block: b gives
    # way again, and its 9 tokens need three: it waits until a is done.
    got = steps([ask("a", 7, 4), ask("b", 7, 4)], num_gpu_blocks=4, chunk_size=16)
    assert [s["scheduled"] for s in got] == [
        {"a": 7, "b": 7}, {"a": 1, "b": 8}, {"a": 1}, {"a": 1}, {"b": 9}, {"b": 1}
    ]  # fmt: skip
    assert [s["preempted"] for s in got] == [[], ["b"], ["b"], [], [], []]
    assert [s["free_blocks"] for s in got] == [0, 0, 1, 1, 1, 1]
    v1 = drive("vllm-v1", {"num_blocks": 5, "block_size": 4, "max_model_len": 64, "enable_prefix_caching": False},
               [ask("a", 7, 4), ask("b", 7, 4)])  # fmt: skip
    assert [s["preempted"] for s in v1][:3] == [[], [], ["b"]]  # it asks only for what is needed


def test_the_watermark_is_left_free():
    two = [ask("a", 8, 2), ask("b", 8, 2)]
    assert steps(two, num_gpu_blocks=5, chunk_size=64)[0]["new"] == ["a", "b"]
    assert steps(two, num_gpu_blocks=5, chunk_size=64, watermark=0.4)[0]["new"] == ["a"]


@st.composite
def workloads(draw_):
    n = draw_(st.integers(1, 12))
    at = sorted(draw_(st.lists(st.integers(0, 15), min_size=n, max_size=n)))
    sizes = st.lists(st.integers(1, 25), min_size=n, max_size=n)
    return [ask(i, p, o, t) for i, (t, p, o) in enumerate(zip(at, draw_(sizes), draw_(sizes), strict=True))]


@given(workloads(), st.integers(13, 40))
@settings(max_examples=examples(40, anew=120), deadline=None)
def test_with_memory_for_all_it_is_todays_vllm_with_that_budget(requests, chunk):
    ours = steps(requests, num_gpu_blocks=1000, chunk_size=chunk)
    theirs = drive(
        "vllm-v1",
        {"num_blocks": 1001, "block_size": 4, "max_model_len": 64, "max_num_batched_tokens": chunk, "max_num_seqs": 128,
         "enable_prefix_caching": False},
        requests,
    )  # fmt: skip
    for name in ("scheduled", "finished", "new", "waiting", "preempted"):
        assert [s[name] for s in ours] == [s[name] for s in theirs], name


@given(workloads(), st.integers(1, 40), st.integers(14, 30), st.sampled_from([0.0, 0.1]))
@settings(max_examples=examples(50, anew=150), deadline=None)
def test_what_holds_under_pressure(requests, chunk, blocks, watermark):
    if any(r["prompt"] + r["output"] - 1 > 4 * (blocks - int(watermark * blocks)) for r in requests):
        return
    got = steps(requests, num_gpu_blocks=blocks, chunk_size=chunk, watermark=watermark)
    assert sorted(name for s in got for name in s["finished"]) == list(range(len(requests)))
    given_ = dict.fromkeys(range(len(requests)), 0)
    for s in got:
        assert 0 <= s["free_blocks"] <= blocks
        chunks = {n: t for n, t in s["scheduled"].items() if t > 1}
        rest = len(s["scheduled"]) - len(chunks)
        assert not chunks or sum(chunks.values()) + rest <= chunk
        for n, t in s["scheduled"].items():
            given_[n] += t
    for r in requests:  # every token was computed at least once, the last one never
        assert given_[r["id"]] >= r["prompt"] + r["output"] - 1


@given(workloads(), st.integers(2, 20))
@settings(max_examples=examples(25, anew=60), deadline=None)
def test_who_decodes_is_in_every_step_or_preempted(requests, chunk):
    scheduler = SarathiScheduler(SarathiConfig(14, block_size=4, chunk_size=chunk, max_model_len=64))
    for r in requests:
        scheduler.add(LLMRequest(r["id"], r["prompt"], r["output"]))
    while scheduler.waiting or scheduler.running:
        decoding = [r for r in scheduler.running if r.computed >= r.prompt]
        step = scheduler.schedule()
        assert all((r in step.scheduled) or (r in step.preempted) for r in decoding)
        scheduler.complete(step)
    assert scheduler.pool.free_blocks == 14


def test_every_block_comes_back():
    scheduler = SarathiScheduler(SarathiConfig(9, block_size=4, chunk_size=8, max_model_len=64))
    for i in range(6):
        scheduler.add(LLMRequest(i, 9, 12))
    while scheduler.waiting or scheduler.running:
        scheduler.complete(scheduler.schedule())
    assert scheduler.pool.free_blocks == 9


def test_small_chunks_bound_the_time_between_tokens():
    # The paper's trade: the largest gap between tokens is an iteration of the budget, whatever the prompts.
    trace = draw([400, 900], [50, 80], 120, rate=3.0, seed=0)
    cost = LinearCost(base_s=0.01, token_s=1e-3)

    def gap(policy, config):
        result = simulate_llm(trace, policy=policy, config=config, cost=cost)
        assert result.finished.all()
        return result.itl(100), result.ttft(50)

    common = {"num_gpu_blocks": 5000, "max_model_len": 2048}
    (small, late), (large, early) = (gap("sarathi", {**common, "chunk_size": c}) for c in (64, 1024))
    assert small <= 0.01 + 1e-3 * 64 + 1e-9
    assert large > 5 * small
    assert late > early
    assert gap("vllm-0.2", common)[0] > 5 * small


def test_the_world_says_the_same_as_the_steps():
    result = simulate_llm(
        LLMTrace([0.0, 0.5], [8, 20], [6, 2]), policy="sarathi", cost=ConstantCost(1.0),
        config={"num_gpu_blocks": 100, "block_size": 4, "chunk_size": 8, "max_model_len": 64},
    )  # fmt: skip
    assert result.token_times(0).tolist() == [1, 2, 3, 4, 5, 6]
    assert result.token_times(1).tolist() == [4, 5]
    assert result.iterations.used_tokens.tolist() == [8, 32, 32, 32, 36, 16]
    assert np.array_equal(result.iterations.prefill, [8, 7, 7, 6, 0, 0])


BAD = (
    ({"chunk_size": 0}, {}, "chunk_size: expected an integer >= 1"),
    ({"watermark": 1.0}, {}, "watermark: expected a share"),
    ({"num_blocks": 5}, {}, "unknown option 'num_blocks'"),
    ({}, {"prompt": 60, "output": 30}, "longer than max_model_len 64"),
    ({}, {"prompt": 80}, "leaves no room for an output in max_model_len 64"),
    ({"num_gpu_blocks": 3}, {"prompt": 12}, "needs 4 blocks, num_gpu_blocks 3 less the watermark leaves 3"),
    ({}, {"best_of": 2}, "best_of"),
)


@pytest.mark.parametrize(("config", "asked", "said"), BAD)
def test_bad_input_is_one_line(config, asked, said):
    options = {"num_gpu_blocks": 50, "block_size": 4, "max_model_len": 64, **config}
    request = LLMRequest(0, **{"prompt": 8, "output": 4, **asked})
    with pytest.raises(InputError, match=said) as error:
        simulate_llm([request], policy="sarathi", config=options, cost=ConstantCost(1.0))
    assert "\n" not in str(error.value)
