"""Engines over several processes: the same tokens as one process, and no hang when one of them dies."""

import os
import signal

import pytest

pytest.importorskip("torch")

from meshwright.errors import InputError, RunError
from meshwright.runtime.llm.engine import LLMEngine

SHAPES = [(5, 8), (33, 10), (1, 9), (50, 6), (18, 12)]
V1 = {"num_blocks": 32, "block_size": 4, "max_model_len": 128, "max_num_batched_tokens": 24}
PAPER = {"num_gpu_blocks": 24, "num_cpu_blocks": 40, "block_size": 4, "max_model_len": 128}


@pytest.mark.parametrize(
    ("shape", "changes", "split"),
    [
        ("llama", {"kv_heads": 1, "vocab": 96}, {"tp": 2}),  # a KV head on both ranks; the head split by vocabulary
        ("opt", {}, {"tp": 2, "cp": 2}),
    ],
)
def test_tokens_are_those_of_one_process(specs, resized, shape, changes, split, make_requests, run_all, truth):
    spec = resized(specs[shape], name=f"{shape}-{len(changes)}", **changes)
    requests = make_requests(spec, SHAPES, shared=4)
    with LLMEngine(spec, "vllm-v1", V1, timeout_s=60, **split) as engine:
        outputs, records, _ = run_all(engine, requests, arrive=[0, 0, 1, 4, 4])
        assert sum(len(w.preempted) for out in records for w in out.work) > 0
    for request in requests:
        assert outputs[request.id].outputs[0] == truth(spec, request)


def test_copies_and_swaps_reach_every_shard(specs, make_requests, run_all):
    spec = specs["opt"]
    requests = make_requests(spec, [(9, 9, 3), (14, 12, 4), (21, 7, 2)], beam=True)
    outputs = []
    for split in ({}, {"cp": 2}):
        with LLMEngine(spec, "vllm-0.2", PAPER, timeout_s=60, **split) as engine:
            found, records, _ = run_all(engine, requests)
        outputs.append({name: f.outputs for name, f in found.items()})
        work = [w for out in records for w in out.work]
        assert min(sum(w.copies for w in work), sum(w.swap_out for w in work)) > 0
    assert outputs[0] == outputs[1]


def test_a_dead_process_is_one_error_and_nothing_is_left(specs, make_requests):
    spec = specs["llama"]
    (request,) = make_requests(spec, [(20, 50)])
    with LLMEngine(spec, "vllm-v1", V1, tp=2, timeout_s=20) as engine:
        engine.add(request)
        engine.step()
        (follower,) = engine.runner._followers
        os.kill(follower.popen.pid, signal.SIGKILL)
        follower.popen.wait()
        with pytest.raises(RunError, match="rank 1 died: killed by SIGKILL"):
            engine.step()
        with pytest.raises(RunError, match="make a new engine"):
            engine.step()
    assert follower.popen.poll() is not None


def test_what_cannot_be_split_is_said_before_anything_starts(specs):
    for fields, words in (
        ({"tp": 3}, "tp 3: does not divide the 8 heads"),
        ({"cp": 3}, "cp 3: does not divide block_size 4"),
        ({"tp": 0}, "tp: expected an integer >= 1"),
        ({"device": "tpu"}, "device: expected cpu or cuda"),
        ({"dtype": "int7"}, "dtype: expected one of"),
        ({"colour": 3}, "colour"),
    ):
        with pytest.raises(InputError, match=words):
            LLMEngine(specs["llama"], "vllm-v1", V1, **fields)
    with pytest.raises(InputError, match="GiB do not fit this machine"):
        LLMEngine("Llama-3.1-405B", "vllm-v1", V1, dtype="float64")
    with pytest.raises(InputError, match="max_model_len 300: test-llama has 256 positions"):
        LLMEngine(specs["llama"], "vllm-v1", V1 | {"max_model_len": 300})
    with pytest.raises(InputError, match="policy: the engine runs vllm-v1, "):
        LLMEngine(specs["llama"], "orca-max", {"num_slots": 100})
