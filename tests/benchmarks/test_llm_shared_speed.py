"""Speed of the compiled loop over models that share devices, and its ratio to the reference; none is asserted.

Three models on two groups of devices, each on both: OPT-13B on A100s (40 GB) by its roofline, ShareGPT-like lengths,
2 requests/s a model: 5,400 requests, about 1.76 M output tokens. What is timed is `simulate_shared`, from the traces to
the results, after compilation; processor time of the best run.
"""

import time

import numpy as np
import pytest
from meshwright.profiles import device
from meshwright.profiles.llm import decoder, iteration_cost
from meshwright.simulator.llm import LLMTrace, SharedEngine, renewal_times, simulate_shared
from meshwright.traces.lengths import SHAREGPT

CONFIG = {"num_blocks": 850, "max_model_len": 2048, "max_num_batched_tokens": 2048, "max_num_seqs": 256}
N = 1800


def seconds(call, rounds):
    """The result of a call and the least processor time that it took."""
    best, result = np.inf, None
    for _ in range(rounds):
        begin = time.thread_time()
        result = call()
        best = min(best, time.thread_time() - begin)
    return result, best


@pytest.mark.parametrize("stages", [1, 2])
def test_a_quarter_of_an_hour_of_three_models(stages, benchmark):
    traces = {}
    for seed, name in enumerate("abc"):
        lengths = SHAREGPT.sample(N, seed=seed)
        traces[name] = LLMTrace(renewal_times(2.0, N, seed=seed), lengths.prompt, lengths.output)
    cost = iteration_cost(decoder("opt-13b"), device("a100-40gb"), pp=stages, max_tokens=4096, max_outputs=512)
    engines = [SharedEngine(name, group, "vllm-v1", CONFIG, cost, stages) for name in traces for group in (0, 1)]

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
