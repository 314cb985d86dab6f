"""Speed of the compiled loop over fleets, pools too, and its ratio to the reference; none is asserted.

OPT-13B on A100s (40 GB) by its roofline, ShareGPT-like lengths, 8 requests/s on about four engines (with pools one
more, which processes the prompts): 7,200 requests, about 2.35 M output tokens. What is timed is `simulate_llm`, from
the trace to the result and its report, after compilation; processor time of the best run.
"""

import time
from dataclasses import replace

import numpy as np
import pytest
from flat_options import llm_asked
from meshwright.profiles import LinkSpec, device
from meshwright.profiles.llm import decoder, iteration_cost
from meshwright.simulator.llm import (
    Autoscaling,
    Faults,
    LLMTrace,
    Pools,
    Speculative,
    conversations,
    renewal_times,
    simulate_llm,
)
from meshwright.traces.lengths import SHAREGPT

CONFIG = {"num_blocks": 850, "max_model_len": 2048, "max_num_batched_tokens": 2048, "max_num_seqs": 256}
N = 7200
FAULTS = Faults(mtbf_s=600.0, mttr_s=60.0, load_s=60.0)
SCALING = Autoscaling(2, 8, 24.0, interval_s=15.0, start_s=60.0)
POOLS = Pools(1, 4, LinkSpec(25e9, 1e-5), kv_bytes_per_token=819_200)
WAYS = {
    "faults": {"faults": FAULTS, "engines": 5},
    "autoscaling": {"scaling": SCALING, "engines": 4},
    "both, asynchronous": {"faults": FAULTS, "scaling": SCALING, "engines": 4},
    "both, 4 drafts": {"faults": FAULTS, "scaling": SCALING, "engines": 4, "speculative": Speculative(4, 0.7)},
    "both, conversations with windows": {"faults": FAULTS, "scaling": SCALING, "engines": 4},
    "pools": {"pools": POOLS},
    "pools, from a buffer": {"pools": replace(POOLS, handoff="buffer")},
    "pools, faults, autoscaling": {"pools": POOLS, "faults": FAULTS, "scaling": replace(SCALING, role="decode")},
}


def seconds(call, rounds):
    """The result of a call and the least processor time that it took."""
    best, result = np.inf, None
    for _ in range(rounds):
        begin = time.thread_time()
        result = call()
        best = min(best, time.thread_time() - begin)
    return result, best


@pytest.mark.parametrize("name", WAYS)
def test_a_quarter_of_an_hour_of_a_fleet(name, benchmark):
    lengths = SHAREGPT.sample(N, seed=0)
    trace = LLMTrace(renewal_times(8.0, N, seed=0), lengths.prompt, lengths.output)
    config = {**CONFIG, "async_scheduling": "asynchronous" in name}
    if "windows" in name:  # half the layers see 128 tokens; the prefix cache finds the history, and its last window
        trace = conversations(
            lengths.prompt, lengths.output, N // 3, rate=8 / 3, turns=3, think_s=20.0, max_model_len=2048, seed=1
        )
        config |= {"num_blocks": 1700, "sliding_window": 128, "full_groups": 1, "window_groups": 1}
    cost = iteration_cost(decoder("opt-13b"), device("a100-40gb"), max_tokens=4096, max_outputs=512)

    def run(engine="compiled"):
        return simulate_llm(
            trace, config=config, cost=cost, engine=engine, router="least_outstanding", **llm_asked(**WAYS[name])
        )

    run()
    ours, fast = seconds(run, 9)
    theirs, slow = seconds(lambda: run("simpy"), 1)
    report = ours.fleet
    print(
        f"\nvllm-v1, {name}: {int(ours.generated.sum()) / fast / 1e6:.1f} M output tokens/s, {1e3 * fast:.1f} ms, "
        f"{1e9 * fast / len(ours.iterations):.0f} ns per iteration ({len(ours.iterations)}, batch "
        f"{ours.mean_batch:.1f}); {len(report.roles)} engines, {int(report.deaths.sum())} deaths, "
        f"{int(report.retries.sum())} retries; reference {slow:.2f} s = {slow / fast:.0f} x"
    )
    benchmark.extra_info["ratio"] = slow / fast
    benchmark.pedantic(run, rounds=3)
    assert (ours.made_by, theirs.made_by) == ("compiled", "reference")
    np.testing.assert_allclose(ours.finish, theirs.finish, rtol=1e-9)
    for told in ("preemptions", "cached_tokens", "engine"):
        np.testing.assert_array_equal(getattr(ours, told), getattr(theirs, told))
    np.testing.assert_allclose(report.end, theirs.fleet.end, rtol=1e-9)
