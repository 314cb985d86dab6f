"""The reference engine: worked by hand with a constant cost, and what must hold of every simulation."""

from __future__ import annotations

import numpy as np
import pytest
from flat_options import llm_asked
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.profiles.llm import ConstantCost, Iteration, LinearCost
from meshwright.simulator.llm import LLMTrace, SimulateOptions, SwapCost, conversations, draw, drive, simulate_llm
from meshwright.simulator.serving.queueing import md1

ONE = ConstantCost(1.0)


def v1(trace, cost=ONE, *, num_blocks=101, block_size=4, max_model_len=64, max_num_batched_tokens=64, **more):
    options = {
        "num_blocks": num_blocks,
        "block_size": block_size,
        "max_model_len": max_model_len,
        "max_num_batched_tokens": max_num_batched_tokens,
    }
    engine = {name: more.pop(name) for name in list(more) if name in ENGINE}
    return simulate_llm(trace, policy="vllm-v1", config={**options, **more}, cost=cost, **llm_asked(**engine))


def v02(trace, cost=ONE, *, num_gpu_blocks=100, block_size=4, max_model_len=64, **more):
    options = {"num_gpu_blocks": num_gpu_blocks, "block_size": block_size, "max_model_len": max_model_len}
    engine = {name: more.pop(name) for name in list(more) if name in ENGINE}
    return simulate_llm(trace, policy="vllm-0.2", config={**options, **more}, cost=cost, **llm_asked(**engine))


ENGINE = ("engines", "router", "concurrency", "until", "too_long", "swap", "padded", "seed")


def test_a_prompt_gives_the_first_token_and_every_iteration_one_more():
    result = v1(LLMTrace([2.5], [10], [3]))
    assert result.token_times(0).tolist() == [3.5, 4.5, 5.5]
    assert result.scheduled.tolist() == [2.5]
    assert result.first_token.tolist() == [3.5]
    assert result.finish.tolist() == [5.5]


def test_a_request_that_arrives_during_an_iteration_joins_the_next_one():
    result = v1(LLMTrace([0.0, 0.5, 1.0], [4, 4, 4], [3, 2, 1]))
    assert result.token_times(0).tolist() == [1, 2, 3]
    assert result.token_times(1).tolist() == [2, 3]
    assert result.token_times(2).tolist() == [2]  # at the boundary itself it is in time
    assert result.scheduled.tolist() == [0, 1, 1]


def test_long_prompts_are_chunked_beside_decodes():
    # a decodes from its second iteration on; b's 20 tokens get 7 of the budget of 8 beside it: 7, 7, 6.
    result = v1(LLMTrace([0.0, 0.5], [8, 20], [6, 2]), max_num_batched_tokens=8)
    assert result.iterations.prefill.tolist() == [8, 7, 7, 6, 0, 0]
    assert result.iterations.decodes.tolist() == [0, 1, 1, 1, 2, 1]
    assert result.token_times(1).tolist() == [4, 5]
    assert result.token_times(0).tolist() == [1, 2, 3, 4, 5, 6]


def test_asynchronous_scheduling_decides_a_step_ahead():
    # While a's first iteration runs (0 to 1) the second is decided; b, who arrives at 0.5, is in the third: 2 to 3.
    trace = LLMTrace([0.0, 0.5], [4, 4], [4, 2])
    result = v1(trace, async_scheduling=True)
    assert result.token_times(0).tolist() == [1, 2, 3, 4]
    assert result.token_times(1).tolist() == [3, 4]
    assert result.scheduled.tolist() == [0, 1]
    assert len(result.iterations) == 4  # what is known to be finished is not scheduled again
    late = v1(LLMTrace([0.0, 4.5], [4, 4], [4, 2]), async_scheduling=True)
    assert late.token_times(1).tolist() == [5.5, 6.5]  # an idle engine begins at once


def test_the_papers_prompts_interrupt_decodes():
    result = v02(LLMTrace([0.0, 0.5], [4, 4], [3, 2]))
    assert result.token_times(0).tolist() == [1, 3, 4]
    assert result.token_times(1).tolist() == [2, 3]
    assert result.itl(100) == 2


def test_the_cost_is_asked_about_what_is_computed():
    seen = []

    class Spy:
        def seconds(self, iteration):
            seen.append(iteration)
            return 1.0

    trace = LLMTrace([0.0, 0.5], [8, 6], [3, 2])
    v1(trace, Spy(), max_num_batched_tokens=4)
    assert seen == [
        Iteration(((4, 0),)),
        Iteration(((4, 4),), outputs=1),
        Iteration(((3, 0),), 1, 9, 1),
        Iteration(((3, 3),), 1, 10, 2),
        Iteration((), 1, 7, 1),
    ]
    seen.clear()
    v02(trace, Spy())
    assert seen == [
        Iteration(((8, 0),), outputs=1),
        Iteration(((6, 0),), outputs=1),
        Iteration((), 2, 9 + 7, 2),
        Iteration((), 1, 10, 1),
    ]
    seen.clear()
    v02(LLMTrace([0.0, 0.0], [8, 6], [1, 1]), Spy(), padded=True)
    assert seen == [Iteration(((8, 0), (8, 0)), outputs=2)]


def test_samples_share_their_prompt_and_read_their_own_context():
    result = v02(LLMTrace([0.0], [6], [3], best_of=[2]))
    # 2 blocks for the prompt; the last one is copied when the samples part; 7 and 8 tokens fit two blocks each.
    assert (result.iterations.used_tokens // 4).tolist() == [2, 3, 3]
    assert result.iterations.wasted_tokens.tolist() == [2, 2, 0]
    assert result.generated.tolist() == [3]
    assert result.throughput == pytest.approx(2)


def test_swapping_takes_its_time():
    swap = SwapCost(layers=2, piece_bytes=1000, start_s=0.0, bandwidth=1000.0)  # 4 s a block
    # Three blocks of one token each way of a request of two samples; see what `drive` says of the same requests.
    asked = [{"id": 0, "prompt": 4, "output": 9}, {"id": 1, "prompt": 4, "output": 9, "best_of": 2}]
    config = {
        "num_gpu_blocks": 7, "num_cpu_blocks": 8, "block_size": 4, "max_model_len": 64, "watermark": 0.0
    }  # fmt: skip
    steps = drive("vllm-0.2", config, asked)
    moved = sum(s["swap_out"] + s["swap_in"] for s in steps)
    assert moved > 0
    trace = LLMTrace([0.0, 0.0], [4, 4], [9, 9], best_of=[1, 2])
    result = simulate_llm(trace, policy="vllm-0.2", config=config, cost=ONE, options=SimulateOptions(swap=swap))
    ran = sum(bool(s["scheduled"]) for s in steps)
    assert result.finish.max() == pytest.approx(ran + 4 * moved)
    assert int(result.iterations.swap_out.sum() + result.iterations.swap_in.sum()) == moved
    with pytest.raises(InputError, match="SwapCost"):
        simulate_llm(trace, policy="vllm-0.2", config=config, cost=ONE)


def test_a_turn_finds_what_was_said_before_in_the_cache():
    trace = LLMTrace([0.0, 0.0], [8, 20], [5, 2], after=[-1, 0], think_s=[0.0, 3.0])
    result = v1(trace)
    assert result.arrival.tolist() == [0, 8]  # the answer is there at 5, and read for 3
    # 8 + 5 tokens, the last one never computed: three blocks of four are full.
    assert result.cached_tokens.tolist() == [0, 12]
    assert result.iterations.prefill.tolist()[5] == 8
    assert result.prefix_hit_rate == 12 / 28


def test_common_prefixes_are_found_by_their_tokens():
    trace = LLMTrace([0.0, 2.0], [8, 8], [1, 1], prefix_ids=[[1, 2], [1, 3]], prefix_block=4)
    result = v1(trace)
    assert result.cached_tokens.tolist() == [0, 4]
    assert v1(trace, enable_prefix_caching=False).cached_tokens.tolist() == [0, 0]


def test_a_closed_loop_sends_the_next_when_one_finishes():
    result = v1(LLMTrace(np.zeros(4), [4] * 4, [2, 3, 2, 1]), concurrency=2)
    assert result.arrival.tolist() == [0, 0, 2, 3]
    assert result.finish.tolist() == [2, 3, 4, 4]


def test_round_robin_and_the_least_loaded():
    trace = LLMTrace(np.arange(4) / 10, [4] * 4, [9, 1, 1, 1])
    assert v1(trace, engines=2).engine.tolist() == [0, 1, 0, 1]
    trace = LLMTrace([0.0, 0.1, 2.0, 5.0], [4] * 4, [9, 1, 5, 1])
    assert v1(trace, engines=2, router="least_outstanding").engine.tolist() == [0, 1, 1, 0]
    turns = LLMTrace([0.0, 0.1, 0.2], [4, 4, 20], [1, 9, 1], after=[-1, -1, 1], think_s=[0, 0, 1])
    assert v1(turns, engines=2, router="prefix_affinity").engine.tolist() == [0, 1, 1]


def test_stopped_before_the_end():
    result = v1(LLMTrace([0.0, 0.0, 9.0], [4] * 3, [2, 5, 2]), until=3.5)
    assert result.finish.tolist()[0] == 2
    assert np.isnan(result.finish[1:]).all()
    assert result.generated.tolist() == [2, 3, 0]
    assert result.unfinished.tolist() == [False, True, True]
    assert np.isnan(result.arrival[2])


def test_what_does_not_fit_is_ignored_if_asked():
    trace = LLMTrace([0.0] * 3, [80, 8, 60], [1, 2, 20])
    for run, cut in ((v1, 4), (v02, 5)):  # vLLM 0.2 ends a sequence one token later
        result = run(trace, too_long="ignore")
        assert result.ignored.tolist() == [True, False, False]
        assert result.generated.tolist() == [0, 2, cut]
        assert result.attainment() == pytest.approx(2 / 3)


asked = st.lists(
    st.tuples(st.integers(0, 12), st.integers(1, 30), st.integers(1, 20), st.integers(1, 2)), min_size=1, max_size=12
)


def agrees(steps, result, emits):
    """Whether a simulation with iterations of 1 s made the decisions of `drive`'s steps."""
    ran = [s for s in steps if s["scheduled"]]
    assert result.iterations.start.tolist() == [s["step"] for s in ran]
    assert result.iterations.running.tolist() == [len(s["running"]) for s in ran]
    waiting = [len(s["waiting"]) + len(s.get("swapped", [])) for s in ran]
    assert result.iterations.waiting.tolist() == waiting
    finish = {r: s["step"] + 1 for s in steps for r in s["finished"]}
    assert {i: t for i, t in enumerate(result.finish.tolist()) if not np.isnan(t)} == finish
    for row in range(len(result)):
        assert result.token_times(row).tolist() == [s["step"] + 1 for s in ran if row in emits(s)]


@settings(max_examples=examples(25, anew=60), deadline=None)
@given(asked, st.integers(8, 40), st.integers(8, 64), st.booleans(), st.sampled_from(["fcfs", "priority"]))
def test_the_decisions_are_those_of_drive_for_todays_vllm(rows, blocks, budget, caching, policy):
    rows.sort()
    config = {
        "num_blocks": blocks, "block_size": 4, "max_model_len": 64, "max_num_batched_tokens": budget,
        "enable_prefix_caching": caching, "policy": policy,
    }  # fmt: skip
    rows = [r for r in rows if -(-(r[1] + r[2] - 1) // 4) < blocks] or [(0, 1, 1, 1)]
    steps = drive(
        "vllm-v1",
        config,
        [{"id": i, "arrive_step": a, "prompt": p, "output": o, "priority": k} for i, (a, p, o, k) in enumerate(rows)],
    )
    columns = np.array(rows).T
    trace = LLMTrace(*columns[:3], priority=columns[3])
    result = simulate_llm(trace, policy="vllm-v1", config=config, cost=ONE)
    if caching and any(s["preempted"] for s in steps):
        return  # what a resumed request found in the cache is not in the records
    # `drive` does not say who got a token: those all of whose tokens are computed.
    computed, length = dict.fromkeys(range(len(rows)), 0), {i: p for i, (_, p, _, _) in enumerate(rows)}
    for step in steps:
        computed.update(dict.fromkeys(step["preempted"], 0))
        computed.update(step["new_computed"])
        for r, tokens in step["scheduled"].items():
            computed[r] += tokens
        step["emits"] = [r for r in step["scheduled"] if computed[r] == length[r]]
        for r in step["emits"]:
            length[r] += 1
    agrees(steps, result, lambda s: s["emits"])


@settings(max_examples=examples(25, anew=60), deadline=None)
@given(asked, st.integers(10, 60))
def test_the_decisions_are_those_of_drive_for_the_papers_vllm(rows, blocks):
    rows.sort()
    config = {
        "num_gpu_blocks": blocks, "num_cpu_blocks": 200, "block_size": 4, "max_model_len": 64, "watermark": 0.0
    }  # fmt: skip
    rows = [r for r in rows if r[3] * (-(-(r[1] + r[2]) // 4) + 1) < blocks] or [(0, 1, 1, 1)]
    steps = drive(
        "vllm-0.2",
        config,
        [{"id": i, "arrive_step": a, "prompt": p, "output": o, "best_of": n} for i, (a, p, o, n) in enumerate(rows)],
    )
    free = SwapCost(layers=1, piece_bytes=1, start_s=0.0, bandwidth=1e300)
    columns = np.array(rows).T
    trace = LLMTrace(*columns[:3], best_of=columns[3])
    if any(s["kind"] == "decode" and not s["scheduled"] for s in steps):
        return  # a step that only swaps takes no time here
    result = simulate_llm(trace, policy="vllm-0.2", config=config, cost=ONE, options=SimulateOptions(swap=free))
    agrees(steps, result, lambda s: s["scheduled"])


@settings(max_examples=examples(15, anew=40), deadline=None)
@given(st.integers(0, 1000), st.integers(20, 60), st.integers(1, 3), st.sampled_from(["vllm-v1", "async", "vllm-0.2"]))
def test_invariants(seed, blocks, engines, policy):
    rng = np.random.default_rng(seed)
    n = 40
    trace = LLMTrace(np.sort(rng.exponential(0.5, n)), rng.integers(1, 40, n), rng.integers(1, 24, n))
    size = {"num_gpu_blocks": blocks} if policy == "vllm-0.2" else {"num_blocks": blocks}
    if policy == "async":
        policy, size = "vllm-v1", {**size, "async_scheduling": True}
    cost = LinearCost(0.01, token_s=1e-3, context_s=1e-5)
    result = simulate_llm(
        trace, policy=policy, config={**size, "block_size": 4, "max_model_len": 64}, cost=cost, engines=engines
    )
    it = result.iterations
    # Conservation: all finish, with the tokens that were asked for, each counted in one iteration.
    assert np.array_equal(result.generated, trace.output_tokens)
    assert len(result.runs.tokens()) == trace.output_tokens.sum()
    assert not result.ignored.any()
    # Causality, and a clock that goes on: engines do one iteration at a time.
    assert (result.scheduled >= result.arrival).all()
    assert (result.first_token > result.scheduled).all()
    assert (result.finish >= result.first_token).all()
    for e in range(engines):
        mine = it.engine == e
        assert (it.start[mine][1:] >= it.end[mine][:-1]).all()
    for row in range(n):
        times = result.token_times(row)
        assert (np.diff(times) > 0).all()
        assert times[0] == result.first_token[row]
        assert times[-1] == result.finish[row]
    # Memory: what is held fits, and what is wasted is held.
    assert (it.used_tokens <= it.capacity_tokens).all()
    assert ((it.wasted_tokens >= 0) & (it.wasted_tokens <= it.used_tokens)).all()
    assert it.preempted.sum() == result.preemptions.sum()


def sample(n=200, **more):
    rng = np.random.default_rng(7)
    return draw(rng.integers(1, 200, n), rng.integers(1, 100, n), rate=4.0, **more)


@pytest.mark.parametrize("policy", ["vllm-v1", "vllm-0.2", "orca-max", "fastertransformer"])
@pytest.mark.parametrize("seed", range(5))
def test_no_policy_knows_how_long_an_output_will_be(policy, seed):
    """Until a request ends, all is as if it had ended later."""
    rng = np.random.default_rng(seed)
    n, pick = 30, int(rng.integers(30))
    arrival, prompt, output = np.sort(rng.exponential(0.3, n)), rng.integers(1, 30, n), rng.integers(1, 20, n)
    config = {
        "vllm-v1": {"num_blocks": 40, "block_size": 4, "max_model_len": 64},
        "vllm-0.2": {"num_gpu_blocks": 40, "block_size": 4, "max_model_len": 64},
    }.get(policy, {"num_slots": 256, "max_model_len": 64})
    longer = output.copy()
    longer[pick] += 9
    ends = simulate_llm(LLMTrace(arrival, prompt, output), policy=policy, config=config, cost=LinearCost(0.1, 0.01))
    goes_on = simulate_llm(LLMTrace(arrival, prompt, longer), policy=policy, config=config, cost=LinearCost(0.1, 0.01))
    until = ends.token_times(pick)[-1]
    for row in range(n):
        one, two = ends.token_times(row), goes_on.token_times(row)
        assert one[one <= until].tolist() == two[two <= until].tolist()


def test_the_same_seed_gives_the_same_result():
    runs = [v1(sample(60), max_model_len=512, engines=3, router="random", seed=s) for s in (1, 1, 2)]
    assert np.array_equal(runs[0].finish, runs[1].finish)
    assert not np.array_equal(runs[0].engine, runs[2].engine)


def test_scaling_time_scales_latencies():
    trace = sample(80)
    slow = LLMTrace(trace.arrival * 4, trace.prompt_tokens, trace.output_tokens)
    once = v1(trace, LinearCost(0.01, token_s=1e-3), max_model_len=512)
    four = v1(slow, LinearCost(0.04, token_s=4e-3), max_model_len=512)
    np.testing.assert_allclose(four.finish, 4 * once.finish, rtol=1e-12)
    assert four.normalized_latency == pytest.approx(4 * once.normalized_latency)


def test_littles_law():
    """The mean number in the system is the rate of finishing times the mean latency, exactly, from empty to empty."""
    trace = LLMTrace(np.floor(sample().arrival), sample().prompt_tokens, sample().output_tokens)
    for concurrency in (None, 7):
        result = v1(trace, max_model_len=512, num_blocks=400, concurrency=concurrency)
        it = result.iterations
        inside = ((it.running + it.waiting) * (it.end - it.start)).sum()
        assert inside == pytest.approx(result.values("e2e").sum())


def test_one_request_at_a_time_is_an_m_d_1_queue():
    """Each request is one iteration of 1 s; Pollaczek-Khinchine gives the mean latency, within 4 standard errors."""
    trace = draw([4], [1], 6_000, rate=0.6, seed=5)
    result = v1(trace, max_num_seqs=1, enable_prefix_caching=False)
    estimate = result.estimate("e2e", batches=40)
    assert abs(estimate.mean - float(md1(0.6, 1.0))) < 2 * estimate.half_width
    assert estimate.half_width < 0.2


def test_more_engines_do_no_harm_and_conversations_run():
    rng = np.random.default_rng(1)
    trace = conversations(rng.integers(1, 40, 99), rng.integers(1, 40, 99), 50, rate=2.0, max_model_len=512)
    one = v1(trace, LinearCost(0.01, 1e-3), max_model_len=512, num_blocks=1000)
    two = v1(trace, LinearCost(0.01, 1e-3), max_model_len=512, num_blocks=1000, engines=2, router="prefix_affinity")
    assert one.prefix_hit_rate > 0.2
    assert two.normalized_latency < one.normalized_latency
    wait = one.arrival - np.where(trace.after < 0, np.nan, one.finish[trace.after])
    later = trace.after >= 0
    np.testing.assert_allclose(wait[later], trace.think_s[later])


class Bad:
    def seconds(self, iteration):
        return float("nan")


@pytest.mark.parametrize(
    ("trace", "options", "says"),
    [
        (LLMTrace([0], [70], [1]), {}, "request 0: its prompt of 70 tokens leaves no room"),
        (LLMTrace([0, 1], [1, 40], [1, 40]), {}, "request 1: .* longer than max_model_len 64"),
        (LLMTrace([0], [30], [30]), {"num_blocks": 8}, "request 0: needs 15 blocks, num_blocks 8 leaves 7"),
        (LLMTrace([0], [1], [1]), {"block_size": 0}, "block_size"),
        (LLMTrace([0], [1], [1]), {"num_blocks": 1}, "num_blocks: expected at least 2"),
        (LLMTrace([0], [1], [1]), {"engines": 0}, "engines: expected an integer >= 1"),
        (LLMTrace([0], [1], [1]), {"concurrency": 0}, "concurrency"),
        (LLMTrace([0], [1], [1]), {"until": -1.0}, "until"),
        (LLMTrace([0], [1], [1]), {"router": "nearest"}, "unknown router 'nearest'"),
        (LLMTrace([0], [1], [1]), {"too_long": "cut"}, "too_long"),
        (LLMTrace([0], [1], [1]), {"num_block": 3}, "did you mean 'num_blocks'"),
        (LLMTrace([0], [1], [1]), {"watermark": "1 %"}, "watermark: expected a share"),
        (LLMTrace([0], [1], [1]), {"async_scheduling": 1}, "async_scheduling: expected true or false"),
        (LLMTrace([0], [1], [1]), {"long_prefill_token_threshold": 0.5}, "long_prefill_token_threshold"),
        (LLMTrace([0], [1], [1], best_of=[2]), {}, "best_of"),
        (LLMTrace([0], [1], [1]), {"cost": Bad()}, "cost: gave nan seconds"),
        (LLMTrace([0], [1], [1]), {"cost": 3.0}, "cost: expected an IterationCost"),
        ([], {}, "no request at all"),
    ],
)
def test_bad_input_is_said_before_anything_runs(trace, options, says):
    with pytest.raises(InputError, match=says):
        v1(trace, **options)


def test_bad_input_of_the_papers_vllm():
    with pytest.raises(InputError, match="above the 64 that max_model_len"):
        v02(LLMTrace([0], [65], [1]))
    with pytest.raises(InputError, match="needs 15 blocks, num_gpu_blocks 10"):
        v02(LLMTrace([0], [30], [30]), num_gpu_blocks=10)
    with pytest.raises(InputError, match="best_of 9 is above max_num_seqs 4"):
        v02(LLMTrace([0], [3], [3], best_of=[9]), max_num_seqs=4)
    for name, value in (("watermark", "x"), ("max_paddings", 1.5), ("max_num_batched_tokens", 0), ("block_size", 0)):
        with pytest.raises(InputError, match=f"{name}: expected"):
            v02(LLMTrace([0], [1], [1]), **{name: value})
    with pytest.raises(InputError, match="unknown policy 'vllm'"):
        simulate_llm(LLMTrace([0], [1], [1]), policy="vllm", config={}, cost=ONE)
