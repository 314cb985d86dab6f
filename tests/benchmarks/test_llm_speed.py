"""Speed of the compiled engine of LLM serving, and its ratio to the reference; figures are printed, none is asserted.

OPT-13B on an A100 (40 GB) by its roofline, ShareGPT-like lengths, 2 requests/s, one hour: 7,200 requests, about 2.35 M
output tokens. With more blocks than are ever used, and with so few that requests are preempted every few seconds. What
is timed is `simulate_llm`, from the trace to the result, after compilation; processor time of the best run.
"""

import time

import numpy as np
import pytest
from meshwright.profiles import device
from meshwright.profiles.llm import decoder, iteration_cost
from meshwright.simulator.llm import LLMTrace, renewal_times, simulate_llm
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
