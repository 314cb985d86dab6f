"""Prefill and decode pools: schedules worked by hand, and what must hold of every one."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from flat_options import llm_asked
from how_many import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.profiles import LinkSpec
from meshwright.profiles.llm import ConstantCost, LinearCost
from meshwright.simulator.llm import Fault, Faults, LLMTrace, Pools, SimulateOptions, draw, simulate_llm
from meshwright.simulator.llm.fleet import run as fleet_run
from meshwright.simulator.serving.queueing import md1

ONE = ConstantCost(1.0)
FREE = LinkSpec(math.inf, 0.0)
SLOW = LinkSpec(1200.0, 0.25)  # a block of 4 tokens, 400 bytes, in a third of a second


def serve(trace, pools, cost=ONE, *, num_blocks=101, max_model_len=64, max_num_batched_tokens=64, engine=None, **more):
    config = {
        "num_blocks": num_blocks,
        "block_size": 4,
        "max_model_len": max_model_len,
        "max_num_batched_tokens": max_num_batched_tokens,
        **more,
    }
    return simulate_llm(trace, config=config, cost=cost, **llm_asked(pools=pools, **(engine or {})))


def pools(prefill=1, decode=1, link=SLOW, **more):
    return Pools(prefill, decode, link, kv_bytes_per_token=100, **more)


def test_a_prompt_is_processed_sent_and_decoded():
    result = serve(LLMTrace([0.0, 0.5], [10, 4], [3, 3]), pools())
    # a: prompt 0 to 1; 3 blocks, 1200 bytes, 1 to 2 on the NICs, there at 2.25; decodes 2.25 to 4.25.
    # b: prompt 1 to 2; the NICs are free at 2; 1/3 s and latency: there at 2.583; the decode engine is busy until 3.25.
    assert result.token_times(0).tolist() == [1, 3.25, 4.25]
    assert result.token_times(1).tolist() == [2, 4.25, 5.25]
    assert result.fleet.transfer_start.tolist() == [1, 2]
    assert result.fleet.transfer_end.tolist() == pytest.approx([2.25, 2 + 1 / 3 + 0.25])
    assert result.fleet.decode_start.tolist() == [2.25, 3.25]
    assert result.fleet.transfer_bytes.tolist() == [1200, 400]
    assert result.fleet.first_engine.tolist() == [0, 0]
    assert result.engine.tolist() == [1, 1]
    assert result.fleet.utilization("prefill") == pytest.approx(2 / 5.25)
    assert result.fleet.utilization("decode") == pytest.approx(3 / 5.25)
    assert result.made_by == "reference"
    before, after = result.fleet.waits(result.first_token)
    assert before.tolist() == [0, 0]
    assert after.tolist() == pytest.approx([0, 3.25 - 2 - 1 / 3 - 0.25])


def test_a_nic_carries_one_transfer_at_a_time():
    trace, slow = LLMTrace([0.0, 0.0], [10, 10], [2, 2]), LinkSpec(600.0, 0.0)  # 2 s each, both asked for at 1
    ends = {
        way: serve(trace, pools(2, 1, slow, serialise=way)).fleet.transfer_end.tolist()
        for way in ("both", "sender", "receiver", "none")
    }
    assert ends == {"both": [3, 5], "receiver": [3, 5], "sender": [3, 3], "none": [3, 3]}
    one = {
        way: serve(trace, pools(1, 2, slow, serialise=way)).fleet.transfer_end.tolist()
        for way in ("sender", "receiver")
    }
    assert one == {"sender": [3, 5], "receiver": [3, 3]}  # one prefill engine does both prompts in one iteration


def test_the_prefill_engine_holds_blocks_until_they_are_sent():
    # 4 usable blocks; each prompt takes 3. The second is admitted when the first is sent, at 2.25.
    result = serve(LLMTrace([0.0, 0.0], [10, 10], [2, 2]), pools(decode_config={"num_blocks": 50, "block_size": 4}),
                   num_blocks=5)  # fmt: skip
    assert result.scheduled.tolist() == [0, 2.25]
    assert result.first_token.tolist() == [1, 3.25]


def test_a_decode_engine_reserves_blocks_first_or_takes_from_a_buffer():
    # 3 usable blocks on the decode engine; each request needs 2 from prompt 7 on: one at a time.
    few = {"num_blocks": 4, "block_size": 4, "max_model_len": 64}
    trace, link = LLMTrace([0.0, 0.0], [7, 7], [2, 2]), LinkSpec(800.0, 0.0)  # a transfer takes 1 s
    result = serve(trace, pools(1, 1, link, decode_config=few))
    # Both prompts 0 to 1; a is sent 1 to 2, decodes 2 to 3; b reserves at 3, is sent 3 to 4, decodes 4 to 5.
    assert result.fleet.transfer_start.tolist() == [1, 3]
    assert result.finish.tolist() == [3, 5]
    result = serve(trace, pools(1, 1, link, decode_config=few, handoff="buffer"))
    # b is sent 2 to 3, after a on the same NICs, and decodes 3 to 4, when a has left.
    assert result.fleet.transfer_start.tolist() == [1, 2]
    assert result.finish.tolist() == [3, 4]


def test_a_decode_engine_computes_preempted_requests_again_itself():
    few = {"num_blocks": 6, "block_size": 4, "max_model_len": 64, "enable_prefix_caching": False}
    result = serve(LLMTrace([0.0, 0.0], [7, 7], [8, 8]), pools(1, 1, FREE, decode_config=few))
    # 5 usable blocks, two for each request; at 2, with 9 tokens, both need a third: the later one gives way and is
    # computed again, 9 tokens as one prompt, when the first has left at 8.
    assert result.preemptions.tolist() == [0, 1]
    assert result.token_times(0).tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert result.token_times(1).tolist() == [1, 2, 9, 10, 11, 12, 13, 14]
    mine = result.iterations.engine == 1
    assert result.iterations.prefill[~mine].tolist() == [14]
    assert result.iterations.prefill[mine].tolist() == [0] * 7 + [9] + [0] * 5


def test_one_token_is_never_sent():
    result = serve(LLMTrace([0.0], [10], [1]), pools())
    assert result.finish.tolist() == [1]
    assert np.isnan(result.fleet.transfer_start).all()
    assert result.fleet.transfer_bytes.sum() == 0


def test_layers_that_are_sent_while_others_are_computed():
    # 4 layers in 1 s, a transfer of 1 s in all: the last quarter is left when the prompt ends.
    fast = LinkSpec(1200.0, 0.0)
    result = serve(LLMTrace([0.0], [10], [2]), pools(link=fast, handoff="buffer", overlap_layers=4))
    assert result.fleet.transfer_end.tolist() == [1.25]
    # A transfer of 4 s goes on: the first layer is there at 0.25, then 4 x 1 s.
    slow = LinkSpec(300.0, 0.0)
    result = serve(LLMTrace([0.0], [10], [2]), pools(link=slow, handoff="buffer", overlap_layers=4))
    assert result.fleet.transfer_end.tolist() == [4.25]


def test_blocks_that_the_decode_engine_has_cached_are_not_sent():
    same = [tuple(range(12))] * 2
    trace = LLMTrace([0.0, 20.0], [12, 12], [3, 3], prefix_ids=same, prefix_block=1)
    result = serve(trace, pools())
    assert result.fleet.transfer_bytes.tolist() == [1200, 0]
    assert result.token_times(1).tolist() == [21, 22.25, 23.25]  # the latency is there all the same
    result = serve(trace, pools(handoff="buffer"))
    assert result.fleet.transfer_bytes.tolist() == [1200, 1200]


def test_the_bytes_of_a_token_come_from_the_model():
    from meshwright.profiles import DEVICES
    from meshwright.profiles.llm import DECODERS, iteration_cost

    model = DECODERS["opt-13b"]
    cost = iteration_cost(model, next(d for d in DEVICES.values() if d.memory_bandwidth_bytes_per_s > 0))
    assert Pools(1, 1, FREE).token_bytes(cost) == 819200  # 800 KB (vLLM §5.3)
    with pytest.raises(InputError, match="kv_bytes_per_token: a ConstantCost knows no model"):
        serve(LLMTrace([0.0], [10], [2]), Pools(1, 1, FREE))


def test_one_client_sees_one_engine():
    # With one request at a time and a free transfer, it does not matter where a token is computed.
    trace = draw([30, 10, 40], [10, 4, 20], 60, rate=1.0, seed=1)
    cost = LinearCost(base_s=0.1, token_s=1e-3, context_s=1e-4, decode_s=1e-3)
    alone = simulate_llm(trace, config={"num_blocks": 101, "block_size": 4, "max_model_len": 64}, cost=cost,
                         options=SimulateOptions(concurrency=1))  # fmt: skip
    for way in ("reserve", "buffer"):
        apart = serve(trace, pools(1, 1, FREE, handoff=way), cost, engine={"concurrency": 1})
        for name in ("arrival", "first_token", "finish", "generated"):
            assert np.array_equal(getattr(alone, name), getattr(apart, name)), name


def test_first_tokens_know_nothing_of_links_and_decodes():
    trace = draw([30, 10, 40], [10, 4, 20], 80, rate=8.0, seed=2)
    cost = LinearCost(base_s=0.05, token_s=1e-3, context_s=1e-4)
    results = [
        serve(trace, pools(2, decode, link), cost, num_blocks=5000)
        for decode, link in ((1, FREE), (3, FREE), (2, SLOW))
    ]
    assert np.array_equal(results[0].first_token, results[1].first_token)
    assert np.array_equal(results[0].first_token, results[2].first_token)
    assert not np.array_equal(results[0].finish, results[2].finish)
    # No decode is ever in a prompt's way: with outputs of one token, an engine alone says the same.
    ones = replace_outputs(trace, 1)
    alone = simulate_llm(ones, config={"num_blocks": 5000, "block_size": 4, "max_model_len": 64,
                                       "max_num_batched_tokens": 64}, cost=cost, engines=2)  # fmt: skip
    assert np.array_equal(alone.first_token, results[0].first_token)


def replace_outputs(trace, output):
    return LLMTrace(trace.arrival, trace.prompt_tokens, np.full(len(trace), output))


@st.composite
def fleets(draw_):
    n = draw_(st.integers(1, 12))
    numbers = st.lists(st.integers(1, 20), min_size=n, max_size=n)
    times = np.sort(np.array(draw_(st.lists(st.integers(0, 30), min_size=n, max_size=n))) / 2)
    trace = LLMTrace(times, draw_(numbers), draw_(numbers))
    more = draw_(
        st.fixed_dictionaries(
            {
                "handoff": st.sampled_from(["reserve", "buffer"]),
                "serialise": st.sampled_from(["both", "sender", "receiver", "none"]),
                "decode_config": st.sampled_from([None, {"num_blocks": 12, "block_size": 4, "max_model_len": 40}]),
                "decode_router": st.sampled_from(["least_outstanding", "power_of_two", "least_kv"]),
            }
        )
    )
    faults = draw_(st.sampled_from([None, "lose", "keep"]))
    if faults:
        one = st.tuples(st.integers(0, 3), st.integers(1, 40), st.sampled_from([0.0, 1.5, 7.0]))
        events = tuple(Fault(e, t / 2, r) for e, t, r in draw_(st.lists(one, min_size=1, max_size=5)))
        faults = Faults(events, tokens=faults, load_s=0.5, max_retries=2)
    return trace, pools(2, 2, draw_(st.sampled_from([FREE, SLOW])), **more), faults, draw_(st.booleans())


@given(fleets())
@settings(max_examples=examples(20, anew=60), deadline=None)
def test_what_holds_of_every_fleet(case):
    trace, options, faults, caching = case
    seen = []

    class Spy(fleet_run.FleetRun):
        def __init__(self, *given):
            super().__init__(*given)
            seen.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fleet_run, "FleetRun", Spy)
        result = serve(
            trace,
            options,
            ConstantCost(0.5),
            num_blocks=14,
            max_model_len=40,
            max_num_batched_tokens=16,
            enable_prefix_caching=caching,
            engine={"faults": faults, "router": "least_outstanding"},
        )
    report, n = result.fleet, len(trace)
    # Conservation: every request is finished or failed, every block is free, nobody is responsible for anything.
    assert (np.isfinite(result.finish) ^ report.failed).all()
    assert (result.ignored == report.failed).all()
    (run,) = seen
    for member in run.members:
        assert not member.rows
        assert member.outstanding == member.outstanding_tokens == 0
        assert member.scheduler.pool.free_blocks == member.scheduler.pool.size - 1
    assert not run.senders
    assert not run.receivers
    assert not any(run.backlog.values())
    # Every token once, in order of time, the first from a prefill engine, after that from decode engines.
    assert (result.generated[result.finished] == trace.output_tokens[result.finished]).all()
    for row in range(n):
        times = result.token_times(row)
        assert (np.diff(times) > 0).all()
        if result.finished[row]:
            assert times[0] == result.first_token[row]
            assert times[-1] == result.finish[row]
    # Causality: a prompt is processed, sent, decoded.
    sent = np.isfinite(report.decode_start) & result.finished
    assert (report.transfer_start >= result.arrival)[sent].all()
    assert (report.transfer_end >= report.transfer_start)[sent].all()
    assert (report.decode_start >= report.transfer_end)[sent].all()
    if faults is None:
        assert (report.transfer_start >= result.first_token)[sent].all()
        assert report.retries.sum() == report.lost_tokens.sum() == 0
        for ends in (report.first_engine, result.engine):
            if options.serialise == "both":
                for engine in np.unique(ends[sent]):
                    mine = sent & (ends == engine)
                    order = np.argsort(report.transfer_start[mine], kind="stable")
                    begin, end = report.transfer_start[mine][order], report.transfer_end[mine][order]
                    assert (begin[1:] >= end[:-1] - options.link.latency_s - 1e-9).all()
    # Decoding begins with the first token on a decode engine whose iteration begins when all was there.
    it = result.iterations
    for row in range(n):
        mine = result.runs.of(row).tokens()
        mine = mine[np.array(report.roles)[it.engine[mine]] == "decode"]
        begins = it.start[mine][it.start[mine] >= report.transfer_end[row]]
        assert np.array_equal(report.decode_start[row], begins.min(initial=np.inf) if len(begins) else np.nan, True)
    # An engine computes one thing at a time.
    for engine in range(it.engines):
        mine = it.engine == engine
        assert (it.start[mine][1:] >= it.end[mine][:-1]).all()


def test_a_conversation_goes_on_after_its_hand_over():
    trace = LLMTrace([0.0, 0.0], [8, 20], [3, 2], after=[-1, 0], think_s=[0.0, 3.0])
    result = serve(trace, pools(1, 1, FREE))
    assert result.finish[0] == 3
    assert result.arrival[1] == 6
    assert result.cached_tokens.tolist() == [0, 8]  # the prefill engine has the first prompt, not its answer


def test_a_tandem_of_two_servers_waits_only_at_the_first():
    # Prompts one at a time, 1 s each: M/D/1. They leave at least 1 s apart, so transfers of 0.9 s never wait (the
    # classic result on tandems of constant servers), and with 1.1 s they do, with more work than time.
    n = 500
    trace = draw([4], [2], n, rate=0.7, seed=4)
    more = {"max_num_seqs": 1, "num_blocks": 100000}
    fast = serve(trace, pools(1, 4, LinkSpec(400 / 0.9, 0.0), serialise="sender"), **more)
    assert np.array_equal(fast.fleet.transfer_start, fast.first_token)
    assert fast.fleet.transfer_time == pytest.approx(0.9)
    wait = fast.interval("ttft", confidence=0.999)
    assert wait.low <= md1(0.7, 1.0) <= wait.high
    slow = serve(trace, pools(1, 4, LinkSpec(400 / 1.5, 0.0), serialise="sender"), **more)
    assert slow.fleet.transfer_start[-1] > slow.first_token[-1] + 0.02 * n
    assert np.array_equal(slow.first_token, fast.first_token)


def test_prompts_that_fit_nowhere_are_ignored_if_so_asked():
    trace = LLMTrace([0.0, 0.0, 0.0], [100, 10, 10], [3, 3, 60])
    result = serve(trace, pools(), engine={"too_long": "ignore"})
    assert result.ignored.tolist() == [True, False, False]
    assert result.generated.tolist() == [0, 3, 54]  # it ends at max_model_len
    with pytest.raises(InputError, match="request 0"):
        serve(trace, pools())


def test_memory_in_use_is_that_of_the_mean_engine():
    few = {"num_blocks": 51, "block_size": 4, "max_model_len": 64}
    result = serve(LLMTrace([0.0], [10], [3]), pools(decode_config=few))
    assert result.iterations.capacity_tokens == (400 + 200) // 2


def test_which_ratio_is_best_follows_from_the_lengths():
    # Prompts take 4 s of an engine for each second of decoding that a request adds: more prefill engines win, and the
    # other way round.
    link = LinkSpec(1e12, 0.0)
    cost = LinearCost(base_s=0.01, token_s=1e-3, context_s=0.0)

    def best(prompt, output):
        trace = draw([prompt], [output], 80, rate=40.0, seed=0)
        made = {
            p: serve(trace, pools(p, 4 - p, link), cost, num_blocks=20000, max_model_len=4096,
                     max_num_batched_tokens=2048, max_num_seqs=8).request_throughput
            for p in (1, 2, 3)
        }  # fmt: skip
        return max(made, key=made.__getitem__)

    assert best(400, 4) == 3
    assert best(16, 100) == 1


BAD = (
    (lambda: pools(0), "prefill: expected an integer >= 1"),
    (lambda: pools(1, True), "decode: expected an integer >= 1"),
    (lambda: Pools(1, 1, 5.0), "link: expected a LinkSpec"),
    (lambda: Pools(1, 1, FREE, kv_bytes_per_token=0), "kv_bytes_per_token: expected an integer >= 1"),
    (lambda: pools(handoff="push"), "handoff: expected one of reserve, buffer"),
    (lambda: pools(serialise="all"), "serialise: expected one of"),
    (lambda: pools(overlap_layers=-1), "overlap_layers: expected an integer >= 0"),
    (lambda: pools(overlap_layers=4), "use handoff='buffer'"),
    (lambda: pools(decode_cost=3.0), "decode_cost: expected an IterationCost"),
)


@pytest.mark.parametrize(("make", "said"), BAD)
def test_bad_pools_are_one_line(make, said):
    with pytest.raises(InputError, match=said) as error:
        make()
    assert "\n" not in str(error.value)


def test_what_does_not_go_together():
    trace = LLMTrace([0.0], [10], [3])
    config = {"num_blocks": 50, "block_size": 4, "max_model_len": 64}
    cases = [
        ({"engines": 2}, "engines: pools say how many, 1 and 1"),
        ({"policy": "vllm-0.2", "config": {"num_gpu_blocks": 50}}, "'vllm-0.2' cannot be cut in two"),
        ({"config": {**config, "async_scheduling": True}}, "asynchronous scheduling is not modelled"),
        ({"pools": pools(decode_config={"num_blocks": 50, "block_size": 8})}, "block_size: 4 on prefill and 8"),
        ({"pools": pools(decode_router="best")}, "decode_router: unknown router 'best'"),
        ({"pools": pools(decode_config={"num_blocks": 3, "block_size": 4})}, "num_blocks 3 leaves 2"),
        ({"config": {**config, "full_groups": 2}}, "config: layers in several groups, or with windows, are not"),
        ({"pools": pools(decode_config={**config, "sliding_window": 8, "window_groups": 1})}, "decode_config: layers"),
        ({"pools": pools(decode_config={**config, "pipeline_parallel_size": 2})}, "parallel_size: not modelled"),
        ({"pools": 4}, "pools: expected Pools"),
    ]
    for more, said in cases:
        with pytest.raises(InputError, match=said) as error:
            simulate_llm(trace, **llm_asked(**{"config": config, "cost": ONE, "pools": pools(), **more}))
        assert "\n" not in str(error.value)
    assert replace(pools(), prefill=3).prefill == 3
