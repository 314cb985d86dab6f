"""Random workloads and options: tokens are the plain model's, decisions those of `drive`, and no block is lost."""

import numpy as np
import pytest

pytest.importorskip("torch")

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from meshwright.errors import InputError
from meshwright.profiles.llm.decoder import DecoderSpec
from meshwright.runtime.llm.engine import LLMEngine
from meshwright.simulator.llm import LLMRequest, drive

SPEC = DecoderSpec("test-random", layers=1, hidden=32, heads=4, ffn=48, vocab=41, kv_heads=2, head_dim=8)

shapes = st.lists(st.tuples(st.integers(1, 40), st.integers(1, 14), st.integers(0, 6)), min_size=1, max_size=7)
v1 = st.fixed_dictionaries(
    {
        "num_blocks": st.integers(16, 60),
        "block_size": st.sampled_from([4, 5, 8]),
        "max_num_batched_tokens": st.integers(3, 64),
        "max_num_seqs": st.integers(1, 8),
        "enable_prefix_caching": st.booleans(),
        "policy": st.sampled_from(["fcfs", "priority"]),
        "long_prefill_token_threshold": st.sampled_from([0, 7]),
    }
)
paged = st.fixed_dictionaries(
    {
        "num_gpu_blocks": st.integers(16, 60),
        "num_cpu_blocks": st.just(100),
        "block_size": st.sampled_from([4, 5, 8]),
        "max_num_seqs": st.integers(1, 8),
        "preemption_mode": st.sampled_from(["recompute", "swap"]),
    }
)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(shapes, st.one_of(st.tuples(st.just("vllm-v1"), v1), st.tuples(st.just("vllm-0.2"), paged)), st.integers(0, 9))
def test_any_workload(truth, run_all, shapes, chosen, seed):
    policy, options = chosen
    config = {"max_model_len": 64, **options}
    rng = np.random.default_rng(seed)
    common = rng.integers(SPEC.vocab, size=40).tolist()
    requests, arrive, step = [], [], 0
    for k, (prompt, output, later) in enumerate(shapes):
        step += later
        arrive.append(step)
        tokens = (*common[: prompt // 2], *rng.integers(SPEC.vocab, size=prompt - prompt // 2).tolist())
        requests.append(LLMRequest(k, prompt, output, float(step), priority=k % 3, tokens=tokens))
    try:
        expected = drive(policy, config, requests)
    except InputError:
        return  # it can never run; the engine says so, too
    with LLMEngine(SPEC, policy, config) as engine:
        outputs, records, _ = run_all(engine, requests, arrive=arrive)
        pool = engine.scheduler.pool if policy == "vllm-v1" else engine.scheduler.memory.gpu
        assert pool.free_blocks == pool.size - (policy == "vllm-v1")
    for request in requests:
        assert outputs[request.id].outputs[0] == truth(SPEC, request)
    found = [[f.request for f in out.finished] for out in records]
    assert [r["finished"] for r in expected] == found
    if policy == "vllm-v1":
        assert [sum(r["scheduled"].values()) for r in expected] == [
            0 if out.ran is None or out.ran.iteration is None else out.ran.iteration.tokens for out in records
        ]
