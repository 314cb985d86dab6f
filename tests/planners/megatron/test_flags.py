"""Configurations as arguments of Megatron-LM."""

import pytest
from meshwright.errors import InputError
from meshwright.planners.megatron import megatron_flags, search
from meshwright.simulator import Cluster
from meshwright.simulator.training import CORE, MEGATRON_2022, TransformerShape

GPT = TransformerShape(16, 2048, 16, vocab=51200, seq=2048)
LLAMA = TransformerShape(30, 2048, 16, 4, 5632, 32000, 2048, gated=True)
NODE = Cluster(1, 8, "a100-80gb")


def flags(shape, **said):
    stack = said.get("stack", CORE)
    best = search(shape, NODE, 32, top=1, **said).best[0]
    return megatron_flags(best, shape, 32, dtype=said.get("dtype", "bf16"), stack=stack)


def test_means():
    said = flags(GPT, tp=2, pp=2, dp=2, microbatch=2, interleave=4, recompute="full", sequence_parallel=True, zero=1)
    for flag in (
        "--tensor-model-parallel-size 2", "--pipeline-model-parallel-size 2", "--micro-batch-size 2",
        "--global-batch-size 32", "--sequence-parallel", "--num-layers-per-virtual-pipeline-stage 2",
        "--recompute-granularity full", "--recompute-method uniform", "--use-distributed-optimizer",
        "--overlap-grad-reduce", "--overlap-param-gather", "--bf16", "--num-layers 16", "--kv-channels 128",
    ):  # fmt: skip
        assert flag in said, flag
    assert len(said) == len({flag.split()[0] for flag in said})


def test_what_is_off_is_not_said():
    said = flags(GPT, tp=1, pp=1, recompute="none", zero=0, stack=MEGATRON_2022, dtype="fp16")
    words = {flag.split()[0] for flag in said}
    assert not words & {
        "--sequence-parallel", "--recompute-granularity", "--use-distributed-optimizer", "--overlap-grad-reduce",
        "--num-layers-per-virtual-pipeline-stage", "--swiglu", "--group-query-attention", "--hidden-dropout",
        "--untie-embeddings-and-output-weights", "--bf16",
    }  # fmt: skip
    assert {"--fp16", "--attention-backend unfused"} <= set(said)


def test_sharding_and_uneven_stages():
    assert "--data-parallel-sharding-strategy optim_grads_params" in flags(LLAMA, tp=1, pp=1, zero=3)
    assert "--data-parallel-sharding-strategy optim_grads" in flags(LLAMA, tp=1, pp=1, zero=2)
    uneven = flags(LLAMA, tp=2, pp=4, interleave=2, zero=0)  # 32 layers' worth in 8 chunks
    assert {"--account-for-embedding-in-pipeline-split", "--account-for-loss-in-pipeline-split"} <= set(uneven)
    assert "--num-virtual-stages-per-pipeline-rank 2" in uneven


def test_llama():
    said = set(flags(LLAMA, pp=1))
    assert {
        "--swiglu", "--normalization RMSNorm", "--disable-bias-linear", "--group-query-attention",
        "--num-query-groups 4", "--untie-embeddings-and-output-weights", "--position-embedding-type rope",
        "--ffn-hidden-size 5632",
    } <= said  # fmt: skip
    with pytest.raises(InputError, match="dtype: expected one of"):
        megatron_flags(search(LLAMA, NODE, 32).best[0], LLAMA, 32, dtype="fp8")
