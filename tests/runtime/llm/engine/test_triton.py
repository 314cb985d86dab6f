"""The engine on Triton's kernels, under Triton's CPU interpreter: the tokens of the torch kernels."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")
pytest.importorskip("triton")

SCRIPT = """
from meshwright.profiles.llm.decoder import DecoderSpec
from meshwright.runtime.llm.engine import LLMEngine
from meshwright.simulator.llm import LLMRequest

spec = DecoderSpec("t", layers=1, hidden=64, heads=4, ffn=96, vocab=97, kv_heads=2, head_dim=16, max_positions=256)
config = {"num_gpu_blocks": 24, "num_cpu_blocks": 24, "block_size": 16, "max_model_len": 128}
found = []
for backend in ("torch", "triton"):
    outputs = {}
    for policy, options in (
        ("vllm-v1", {"num_blocks": 24, "block_size": 16, "max_model_len": 128, "max_num_batched_tokens": 20}),
        ("vllm-0.2", config),
    ):
        with LLMEngine(spec, policy, options, backend=backend) as engine:
            assert engine.runner.kernels.name == backend
            for k, (prompt, output, beams) in enumerate([(30, 5, 1), (7, 6, 2), (18, 4, 1)]):
                best_of = beams if policy == "vllm-0.2" else 1
                engine.add(LLMRequest(k, prompt, output, best_of=best_of, beam=best_of > 1))
            while engine.busy:
                for done in engine.step().finished:
                    outputs[policy, done.request] = done.outputs
    found.append(outputs)
assert len(found[0]) == 6
assert found[0] == found[1]
print("equal")
"""


def test_tokens_are_those_of_the_torch_kernels():
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert (done.returncode, done.stdout) == (0, "equal\n"), done.stderr[-2000:]
