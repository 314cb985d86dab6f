"""A workload through the real engine: every request gets its tokens, times are in order, nothing is left behind."""

import numpy as np
import pytest

pytest.importorskip("torch")

from meshwright.errors import InputError
from meshwright.runtime.llm.engine import LLMEngine, StepLog, serve_trace
from meshwright.simulator.llm import LLMRequest, LLMTrace, drive

CONFIG = {"num_blocks": 80, "block_size": 4, "max_model_len": 128, "max_num_batched_tokens": 48}


def check(result, trace):
    assert result.made_by == "engine"
    assert result.finished.all()
    assert (result.generated == trace.output_tokens).all()
    assert (result.arrival <= result.scheduled).all()
    assert (result.scheduled < result.first_token).all()
    assert (result.first_token <= result.finish).all()
    it = result.iterations
    assert (it.start[1:] >= it.end[:-1]).all()
    assert (it.end > it.start).all()
    computed = trace.prompt_tokens - result.cached_tokens + trace.output_tokens - 1  # the last one is not computed
    assert int((it.prefill + it.decodes).sum()) >= int(computed.sum())
    for row in range(len(trace)):
        times = result.token_times(row)
        assert len(times) == trace.output_tokens[row]
        assert times[-1] == result.finish[row]
        assert (np.diff(times) > 0).all()


@pytest.mark.parametrize("policy", ["vllm-v1", "vllm-0.2"])
def test_open_loop(specs, policy):
    n = 12
    trace = LLMTrace(np.arange(n) * 0.004, np.arange(n) * 5 + 3, 20 - np.arange(n))
    config = CONFIG if policy == "vllm-v1" else {"num_gpu_blocks": 60, "block_size": 4, "max_model_len": 128}
    log, seen = StepLog(), []
    with LLMEngine(specs["llama"], policy, config) as engine:
        result = serve_trace(engine, trace, log=log, progress=lambda *now: seen.append(now))
        assert not engine.busy
    check(result, trace)
    assert (result.arrival == trace.arrival).all()
    assert len(log) == len(result.iterations)
    parts = sum(log.column(name) for name in ("schedule", "build", "forward", "sample"))
    assert (parts <= log.column("total")).all()
    assert log.means()["forward"] > 0
    assert int(np.sum(log.tokens)) == int(result.iterations.prefill.sum() + result.iterations.decodes.sum())


def test_at_once_it_decides_as_drive_does(specs):
    """All requests arrive before the first step, so real time cannot matter: the iterations are the simulator's."""
    shapes = [(40, 12), (17, 30), (60, 9), (25, 25), (33, 14), (48, 20)]
    trace = LLMTrace(np.zeros(len(shapes)), [p for p, _ in shapes], [o for _, o in shapes])
    config = CONFIG | {"num_blocks": 50}
    with LLMEngine(specs["llama"], "vllm-v1", config) as engine:
        result = serve_trace(engine, trace, warmup=False)
    check(result, trace)
    records = drive("vllm-v1", config, [LLMRequest(k, p, o) for k, (p, o) in enumerate(shapes)])
    sums = [sum(r["scheduled"].values()) for r in records if r["scheduled"]]
    assert (result.iterations.prefill + result.iterations.decodes).tolist() == sums
    assert int(result.preemptions.sum()) == sum(len(r["preempted"]) for r in records) > 0


def test_closed_loop_keeps_so_many(specs):
    trace = LLMTrace(np.zeros(9), np.full(9, 10), np.full(9, 6))
    with LLMEngine(specs["llama"], "vllm-v1", CONFIG) as engine:
        result = serve_trace(engine, trace, concurrency=3)
    check(result, trace)
    assert int((result.iterations.running + result.iterations.waiting).max()) == 3
    begin, end = result.arrival[:, None], result.finish[:, None]
    at_once = ((begin <= result.arrival) & (result.arrival < end)).sum(0)
    assert int(at_once.max()) == 3


def test_a_turn_finds_the_turn_before_in_the_cache(specs):
    trace = LLMTrace([0, 0, 0.01], [22, 9, 50], [10, 6, 5], after=[-1, -1, 0], think_s=[0, 0, 0.001])
    with LLMEngine(specs["llama"], "vllm-v1", CONFIG) as engine:
        result = serve_trace(engine, trace)
    check(result, trace)
    assert result.arrival[2] >= result.finish[0] + 0.001
    assert result.cached_tokens.tolist() == [0, 0, 28]  # of 32 tokens said 31 have keys and values


def test_ids_beyond_the_vocabulary_share_blocks_as_they_should(specs):
    ids = [[900, 901, 902], [900, 901, 903], [900, 901, 902]]
    trace = LLMTrace([0, 0.05, 0.1], [24, 24, 24], [4, 4, 4], prefix_ids=ids, prefix_block=8)
    with LLMEngine(specs["llama"], "vllm-v1", CONFIG) as engine:
        result = serve_trace(engine, trace, concurrency=1)
    assert result.cached_tokens.tolist() == [0, 16, 20]


def test_it_can_be_stopped(specs):
    trace = LLMTrace([0.0, 1000.0], [20, 20], [100, 100])
    with LLMEngine(specs["llama"], "vllm-v1", CONFIG) as engine:
        result = serve_trace(engine, trace, until=0.01)
        assert not engine.busy
        assert engine.scheduler.pool.free_blocks == CONFIG["num_blocks"] - 1
    assert np.isnan(result.finish[1])


def test_what_cannot_run_is_said_first(specs):
    with LLMEngine(specs["llama"], "vllm-v1", CONFIG) as engine:
        with pytest.raises(InputError, match="request 1: its prompt of 100 and output of 100"):
            serve_trace(engine, LLMTrace([0, 0], [5, 100], [5, 100]))
        with pytest.raises(InputError, match="concurrency"):
            serve_trace(engine, LLMTrace([0], [5], [5]), concurrency=0)
        assert not engine.busy


def test_samples_and_beams_share_memory(specs):
    trace = LLMTrace([0, 0.01, 0.02], [20, 30, 15], [10, 12, 9], best_of=[3, 1, 4], beam=[1, 0, 1])
    config = {"num_gpu_blocks": 100, "num_cpu_blocks": 50, "block_size": 4, "max_model_len": 128}
    with LLMEngine(specs["opt"], "vllm-0.2", config) as engine:
        result = serve_trace(engine, trace)
    check(result, trace)
    assert int(result.iterations.shared_tokens.max()) > 0
