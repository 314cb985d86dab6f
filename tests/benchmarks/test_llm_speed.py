"""Speed of the compiled engine of LLM serving, and its ratio to the reference; figures are printed, none is asserted.

OPT-13B on an A100 (40 GB) by its roofline, ShareGPT-like lengths, 2 requests/s, one hour: 7,200 requests, about 2.35 M
output tokens. With more blocks than are ever used, and with so few that requests are preempted every few seconds; then
today's defaults, priorities, engines that share a router, the paper's baselines, and three models that share devices.
What is timed is `simulate_llm` (`simulate_shared`), from the trace to the result, after compilation; processor time of
the best run.
"""

import time

import numpy as np
import pytest
from flat_options import llm_asked
from meshwright.profiles import device
from meshwright.profiles.llm import decoder, iteration_cost
from meshwright.simulator.llm import (
    LLMTrace,
    SharedEngine,
    SimulateOptions,
    Speculative,
    conversations,
    renewal_times,
    simulate_llm,
    simulate_shared,
)
from meshwright.simulator.llm.memory.swapping import SwapCost
from meshwright.traces.lengths import SHAREGPT

MODEL = {"max_model_len": 2048, "max_num_batched_tokens": 2048, "max_num_seqs": 256}
POOLS = {"roomy": 5000, "pressed": 850}
N = 7200


@pytest.fixture(scope="module")
def trace():
    lengths = SHAREGPT.sample(N, seed=0)
    return LLMTrace(renewal_times(2.0, N, seed=0), lengths.prompt, lengths.output)


@pytest.fixture(scope="module")
def cost():
    return iteration_cost(decoder("opt-13b"), device("a100-40gb"), max_tokens=4096, max_outputs=512)


def seconds(call, rounds):
    """The result of a call and the least processor time that it took."""
    best, result = np.inf, None
    for _ in range(rounds):
        begin = time.thread_time()
        result = call()
        best = min(best, time.thread_time() - begin)
    return result, best


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("policy", ["vllm-v1", "vllm-0.2"])
def test_an_hour_of_opt_13b(policy, pool, trace, cost, benchmark):
    blocks = {"num_blocks": POOLS[pool], "enable_prefix_caching": False}
    if policy == "vllm-0.2":
        blocks = {"num_gpu_blocks": POOLS[pool]}

    def run(engine="compiled"):
        return simulate_llm(trace, policy=policy, config=MODEL | blocks, cost=cost, engine=engine)

    run()
    ours, fast = seconds(run, 9)
    theirs, slow = seconds(lambda: run("simpy"), 1)
    decoded = int(ours.iterations.decodes.sum())
    preempted = int(ours.preemptions.sum())
    often = f"{preempted} preemptions" + (f", one every {ours.span[1] / preempted:.1f} s" if preempted else "")
    print(
        f"\n{policy}, {pool}: {1e3 * fast:.1f} ms, {decoded / fast / 1e6:.1f} M decode tokens/s, "
        f"{1e9 * fast / len(ours.iterations):.0f} ns per iteration ({len(ours.iterations)}, batch "
        f"{ours.mean_batch:.1f}); {often}; reference {slow:.2f} s = {slow / fast:.0f} x"
    )
    benchmark.extra_info["ratio"] = slow / fast
    benchmark.pedantic(run, rounds=3)
    assert ours.made_by == "compiled"
    np.testing.assert_allclose(ours.finish, theirs.finish, rtol=1e-9)
    np.testing.assert_array_equal(ours.preemptions, theirs.preemptions)


WINDOWS = {"enable_prefix_caching": False, "sliding_window": 128, "full_groups": 1, "window_groups": 1}
"""GPT-OSS's layers."""
WORLDS = {
    "asynchronous": ({"num_blocks": 5000, "async_scheduling": True}, {}),
    "asynchronous, pressed": ({"num_blocks": 850, "async_scheduling": True}, {}),
    "priorities, pressed": ({"num_blocks": 850, "policy": "priority"}, {}),
    "4 engines, least_outstanding": ({"num_blocks": 850, "async_scheduling": True}, {"engines": 4}),
    "8 engines, closed loop of 160": ({"num_blocks": 850}, {"engines": 8, "concurrency": 160}),
    "conversations on 4 engines": ({"num_blocks": 850, "async_scheduling": True}, {"engines": 4}),
    "half the layers see 128 tokens": (WINDOWS | {"num_blocks": 10_000}, {}),
    "half the layers see 128 tokens, pressed": (WINDOWS | {"num_blocks": 1600}, {}),
    "conversations, half the layers see 128 tokens, cached": (
        WINDOWS | {"num_blocks": 3000, "enable_prefix_caching": True},
        {},
    ),
}


@pytest.mark.parametrize("name", WORLDS)
def test_an_hour_of_todays_vllm(name, trace, cost, benchmark):
    options, way = WORLDS[name]
    served = trace
    if name.startswith("conversations"):
        lengths = SHAREGPT.sample(N, seed=1)
        served = conversations(
            lengths.prompt, lengths.output, N // 3, rate=2.0, turns=3, think_s=20.0, max_model_len=2048, seed=1
        )
    elif name.startswith("priorities"):
        served = LLMTrace(trace.arrival, trace.prompt_tokens, trace.output_tokens, priority=np.arange(N) % 3)

    def run(engine="compiled"):
        return simulate_llm(
            served, config=MODEL | options, cost=cost, engine=engine, router="least_outstanding", **llm_asked(**way)
        )

    run()
    ours, fast = seconds(run, 9)
    theirs, slow = seconds(lambda: run("simpy"), 1)
    print(
        f"\nvllm-v1, {name}: {len(ours)} requests, {1e3 * fast:.1f} ms, "
        f"{1e9 * fast / len(ours.iterations):.0f} ns per iteration ({len(ours.iterations)}, batch "
        f"{ours.mean_batch:.1f}); {int(ours.preemptions.sum())} preemptions; reference {slow:.2f} s = "
        f"{slow / fast:.0f} x"
    )
    benchmark.extra_info["ratio"] = slow / fast
    benchmark.pedantic(run, rounds=3)
    assert ours.made_by == "compiled"
    np.testing.assert_allclose(ours.finish, theirs.finish, rtol=1e-9)
    for told in ("preemptions", "cached_tokens", "engine"):
        np.testing.assert_array_equal(getattr(ours, told), getattr(theirs, told))


SWAPS = {"num_gpu_blocks": 850, "num_cpu_blocks": 1600, "preemption_mode": "swap"}
GROUPS = {
    "swapped": (2.0, 1, False, SWAPS),
    "4 samples, pressed": (0.6, 4, False, {"num_gpu_blocks": 1000, "num_cpu_blocks": 1600}),
    "4 beams, pressed": (0.75, 4, True, {"num_gpu_blocks": 900, "num_cpu_blocks": 1600}),
}
"""Requests per second, sequences of each, whether these are beams, options."""


@pytest.mark.parametrize("name", GROUPS)
def test_hours_of_groups_under_vllm_02(name, trace, cost, benchmark):
    rate, k, beam, options = GROUPS[name]
    served = LLMTrace(
        renewal_times(rate, N, seed=0), trace.prompt_tokens, trace.output_tokens, best_of=np.full(N, k),
        beam=np.full(N, beam),
    )  # fmt: skip
    asked = SimulateOptions(swap=SwapCost.of(decoder("opt-13b"), 16))

    def run(engine="compiled", requests=served):
        return simulate_llm(
            requests, policy="vllm-0.2", config=MODEL | options, cost=cost, engine=engine, options=asked
        )

    run()
    ours, fast = seconds(run, 5)
    few = served.select(range(N // 10))  # the reference takes minutes for all
    (part, quick), (theirs, slow) = seconds(lambda: run(requests=few), 5), seconds(lambda: run("simpy", few), 1)
    print(
        f"\nvllm-0.2, {name}: {1e3 * fast:.1f} ms, {k * ours.generated.sum() / fast / 1e6:.1f} M output tokens/s, "
        f"{1e9 * fast / len(ours.iterations):.0f} ns per iteration ({len(ours.iterations)}, batch "
        f"{ours.mean_batch:.1f}); {int(ours.preemptions.sum())} preemptions, "
        f"{int(ours.iterations.swap_out.sum())} blocks swapped; reference {slow:.2f} s = {slow / quick:.0f} x"
    )
    benchmark.extra_info["ratio"] = slow / quick
    benchmark.pedantic(run, rounds=3)
    assert ours.made_by == "compiled"
    np.testing.assert_allclose(part.finish, theirs.finish, rtol=1e-9)
    np.testing.assert_array_equal(part.iterations.swap_out, theirs.iterations.swap_out)


@pytest.mark.parametrize("modelled", [False, True])
def test_an_hour_of_speculative_decoding(modelled, trace, cost, benchmark):
    draft = iteration_cost(decoder("opt-125m"), device("a100-40gb"), max_tokens=4096, max_outputs=512)
    asked = SimulateOptions(speculative=Speculative(4, 0.7, draft if modelled else None, 1e-4))

    def run(engine="compiled", requests=trace):
        return simulate_llm(requests, config=MODEL | {"num_blocks": 5000}, cost=cost, engine=engine, options=asked)

    run()
    ours, fast = seconds(run, 5)
    few = trace.select(range(N // 10))  # the reference takes minutes for all
    (part, quick), (theirs, slow) = seconds(lambda: run(requests=few), 5), seconds(lambda: run("simpy", few), 1)
    print(
        f"\nvllm-v1, 4 drafts{' of a model' if modelled else ''}: {1e3 * fast:.1f} ms, "
        f"{ours.generated.sum() / fast / 1e6:.1f} M output tokens/s, {1e9 * fast / len(ours.iterations):.0f} ns per "
        f"iteration ({len(ours.iterations)}, batch {ours.mean_batch:.1f}); reference {slow:.2f} s = "
        f"{slow / quick:.0f} x"
    )
    benchmark.extra_info["ratio"] = slow / quick
    benchmark.pedantic(run, rounds=3)
    assert ours.made_by == "compiled"
    np.testing.assert_allclose(part.finish, theirs.finish, rtol=1e-9)
    np.testing.assert_array_equal(part.generated, theirs.generated)


@pytest.mark.parametrize("policy", ["orca-max", "orca-oracle", "fastertransformer"])
def test_an_hour_of_the_baselines(policy, trace, cost, benchmark):
    config = {"num_slots": 15_728, "max_model_len": 2048, "max_num_seqs": 256}

    def run(engine="compiled"):
        return simulate_llm(
            trace, policy=policy, config=config, cost=cost, engine=engine, options=SimulateOptions(too_long="ignore")
        )

    run()
    ours, fast = seconds(run, 9)
    theirs, slow = seconds(lambda: run("simpy"), 1)
    print(
        f"\n{policy}: {1e3 * fast:.1f} ms, {1e9 * fast / len(ours.iterations):.0f} ns per iteration "
        f"({len(ours.iterations)}, batch {ours.mean_batch:.1f}); reference {slow:.2f} s = {slow / fast:.0f} x"
    )
    benchmark.extra_info["ratio"] = slow / fast
    benchmark.pedantic(run, rounds=3)
    assert ours.made_by == "compiled"
    np.testing.assert_allclose(ours.finish, theirs.finish, rtol=1e-9)


@pytest.mark.parametrize("stages", [1, 2])
def test_a_quarter_of_an_hour_of_three_models_on_two_groups(stages, benchmark):
    """Each model has an engine on both groups: 5,400 requests, about 1.8 M output tokens."""
    n, traces = N // 4, {}
    for seed, name in enumerate("abc"):
        lengths = SHAREGPT.sample(n, seed=seed)
        traces[name] = LLMTrace(renewal_times(2.0, n, seed=seed), lengths.prompt, lengths.output)
    cost = iteration_cost(decoder("opt-13b"), device("a100-40gb"), pp=stages, max_tokens=4096, max_outputs=512)
    config = MODEL | {"num_blocks": 850}
    engines = [SharedEngine(name, group, "vllm-v1", config, cost, stages) for name in traces for group in (0, 1)]

    def run(engine="compiled"):
        return simulate_shared(traces, engines, router="least_outstanding", engine=engine)

    run()
    ours, fast = seconds(run, 9)
    theirs, slow = seconds(lambda: run("simpy"), 1)
    tokens = sum(int(one.generated.sum()) for one in ours.values())
    steps = sum(len(one.iterations) for one in ours.values())
    print(
        f"\nthree models on two groups of {stages} stages: {tokens / fast / 1e6:.1f} M output tokens/s, "
        f"{1e3 * fast:.1f} ms, {1e9 * fast / steps:.0f} ns per iteration ({steps}, batch {tokens / steps:.1f}); "
        f"reference {tokens / slow / 1e6:.3f} M/s, {slow:.2f} s = {slow / fast:.0f} x"
    )
    benchmark.extra_info["ratio"] = slow / fast
    benchmark.pedantic(run, rounds=3)
    for name, one in ours.items():
        np.testing.assert_allclose(one.finish, theirs[name].finish, rtol=1e-9)
        np.testing.assert_array_equal(one.preemptions, theirs[name].preemptions)
