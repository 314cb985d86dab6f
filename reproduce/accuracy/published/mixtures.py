"""Published runs of models with experts, looked up on 28 November 2026, split by a seed before errors were computed.

Written down with the split, and committed, before the estimate was run on any of them, but for DeepSeek-V3's, whose
seconds were seen while the model was written (the first and the last stage of DualPipe were then put on one device, as
its report has them). Later that day causes of the errors were looked for with all of them in view: what was added then
has sources of its own (docs/training-estimate.md), and `experts` has runs that nobody had looked at. Rows of a source
that differ only in overlap are a group; the groups of each source are shuffled by `SEED`, and the first half, rounded
down, is what the model may be chosen by. ``python -m`` prints both parts.

Left out: Megatron Bridge's Qwen3-235B on H100s (its row misprints the batch), AutoModel's DeepSeek-V3 and Kimi K2 (61
layers in stages that no rule here deals), its GPT-OSS (windows), the model zoo's long sequences (experts recomputed)
and Qwen3-Next (linear attention), Mixtral on B200s and GB200s (no rates), papers that print MFU without a step's
configuration.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ....planners.megatron import model_shape
from ....profiles.hardware import LinkSpec, device
from ....simulator import Cluster
from ....simulator.training import CORE, TITAN_2024, TransformerShape
from ....simulator.training.configuration.rates import rates_of
from .fresh import SEED, Run, parted, print_parts
from .megatron import Point

__all__ = ["CURRENT_SCALING", "SEED", "main", "runs", "split"]

H100 = "h100-80gb"
NETWORK = 160e9
"""Bytes per second of an H800's links, by DeepSeek-V3's report (section 3.2.2); an H100's are 450e9."""
RESERVED = 20
"""Multiprocessors of 132 that DeepSeek-V3 leaves to communication all the time (the same section)."""
CURRENT_SCALING = (20, 30)
"""`Stack.expert_ops` where 8-bit inputs are scaled by their own largest value, as Megatron Bridge's are: Transformer
Engine has a fused cast of several tensors for delayed scaling alone (pytorch/csrc/extensions/cast.cpp), so an expert's
two inputs and two gradients take seven operators each: four allocations, the largest value, the scale, the cast."""


def split() -> tuple[tuple[Point, ...], tuple[Point, ...]]:
    """(chosen by, reported)."""
    return parted(tuple(runs()), "published mixtures")


def runs() -> Iterator[Run]:
    """All of them."""
    yield from model_zoo()
    yield from automodel()
    yield from bridge()
    yield from deepseek()


def _even(name: str) -> TransformerShape:
    """A shape at 4,096 tokens whose experts are forced to equal loads, as in these benchmarks."""
    shape = model_shape(name, 4096)
    assert shape.experts is not None
    return replace(shape, experts=replace(shape.experts, imbalance=1.0))


def model_zoo() -> Iterator[Run]:
    """Megatron-Core's MoE model zoo (yanring/Megatron-MoE-ModelZoo, best_practice/Qwen3/readme.md), Qwen3-235B in bf16
    on 256 H100s, seconds of a step, batch 2,048, etp 1. Taken: balance by force, as its recipes have it; where FSDP
    reduces gradients, bf16, since in fp32 a network card alone would need longer than the run took. "norm, act" are
    recomputed in three rows, which is not modelled: taken as nothing; the last row prints none."""
    deep = replace(CORE, name="Megatron Core, DeepEP", dispatch_once=True)
    shards = replace(deep, name="Megatron FSDP, DeepEP", gradient_bytes=2)
    shape, here = _even("qwen3-235b-a22b"), Cluster(32, 8, H100)
    for group, name, stack, said, seconds in (
        ("ep 32", "tp 2 pp 8 ep 32", deep, {"tp": 2, "pp": 8, "dp": 16, "ep": 32, "interleave": 4}, 19.7),
        ("ep 32", "the same, overlapped", deep,
         {"tp": 2, "pp": 8, "dp": 16, "ep": 32, "interleave": 4, "overlap_experts": True}, 17.6),
        ("fsdp", "tp 2 ep 8, FSDP", shards,
         {"tp": 2, "pp": 1, "dp": 128, "ep": 8, "microbatch": 4, "zero": 3, "recompute": "full"}, 17.6),
        ("pp 32", "tp 2 pp 32 ep 8, all-to-all", CORE, {"tp": 2, "pp": 32, "dp": 4, "ep": 8, "interleave": 3}, 24.2),
        ("tp 4", "tp 4 pp 8 ep 8", deep, {"tp": 4, "pp": 8, "dp": 8, "ep": 8, "interleave": 4}, 29.0),
    ):  # fmt: skip
        settings = {"microbatch": 1, "global_batch": 2048, "etp": 1, "zero": 1, "sequence_parallel": True, **said}
        yield Run(group, Point("MoE model zoo, Qwen3-235B", name, shape, here, settings, stack, seconds))


def automodel() -> Iterator[Run]:
    """NeMo AutoModel's page (NVIDIA-NeMo/Automodel, docs/performance-summary.md), bf16 on H100s, FSDP2: Qwen3 30B-A3B
    on 8, experts over all of them, balanced by a fake gate, norms, products and attention of Transformer Engine;
    Llama-3 70B on 64, cp 2, sequences of 8,192. Not printed: whether layers are recomputed (taken: 70B, which does not
    fit otherwise)."""
    stack = replace(TITAN_2024, name="AutoModel", dispatch_once=True)
    engine = replace(stack, name="AutoModel, Transformer Engine", eager=False, flash_generation=0)
    said = {"tp": 1, "pp": 1, "dp": 8, "microbatch": 4, "global_batch": 512, "zero": 3, "ep": 8, "etp": 1}
    qwen = Point("AutoModel", "Qwen3 30B-A3B", _even("qwen3-30b-a3b"), Cluster(1, 8, H100), said, engine, 21.773)
    yield Run("Qwen3", qwen)
    llama = TransformerShape(80, 8192, 64, 8, 28672, 128256, 8192, True)
    said = {"tp": 1, "pp": 1, "dp": 32, "cp": 2, "microbatch": 1, "global_batch": 128, "zero": 3, "recompute": "full"}
    yield Run("Llama", Point("AutoModel", "Llama-3 70B, cp 2", llama, Cluster(8, 8, H100), said, stack, 18.90))


def bridge() -> Iterator[Run]:
    """Megatron Bridge's page (NVIDIA-NeMo/Megatron-Bridge, docs/performance-summary.md, container 25.11): Qwen3 30B-A3B
    in FP8 on 16 H100s, 5,275 tokens per second and device; balanced by force. Taken: NCCL's all-to-all, etp 1."""
    said = {"tp": 1, "pp": 2, "dp": 8, "microbatch": 2, "global_batch": 512, "interleave": 24, "zero": 1, "ep": 8,
            "etp": 1, "dtype": "fp8"}  # fmt: skip
    stack = replace(CORE, name="Megatron Bridge 2025", gradient_bytes=2, expert_ops=CURRENT_SCALING)
    seconds = 512 * 4096 / 5275 / 16
    point = Point(
        "Megatron Bridge, FP8, experts", "Qwen3 30B-A3B", _even("qwen3-30b-a3b"), Cluster(2, 8, H100), said, stack,
        seconds,
    )  # fmt: skip
    yield Run("all", point)


def deepseek() -> Iterator[Run]:
    """DeepSeek-V3's report (arXiv 2412.19437): 180 thousand H800 hours for a trillion tokens on 2,048 of them,
    failures and all; batch 15,360 of 4,096 tokens, 16 stages, 64-way experts over 8 nodes, ZeRO 1, DualPipe with its
    overlap, FP8 with tokens sent in 8 bits, one layer for a further token. Taken: a microbatch of one; nothing
    recomputed (theirs: norms and up-projections); scaling by blocks as by tensors; the default imbalance."""
    spec = replace(device(H100), name="h800-80gb", intra_node=LinkSpec(NETWORK, device(H100).intra_node.latency_s))
    stack = replace(
        CORE, name="DeepSeek-V3", dispatch_once=True, dispatch_bytes=1, gradient_bytes=4, expert_ops=(0, 0)
    )  # its experts are one product (DeepGEMM)
    rates = rates_of(spec)
    left = 1 - RESERVED / rates.multiprocessors
    rates = replace(
        rates, multiprocessors=rates.multiprocessors - RESERVED, matmul=rates.matmul * left,
        flash_forward=rates.flash_forward * left, flash_backward=rates.flash_backward * left,
    )  # fmt: skip
    said = {"tp": 1, "pp": 16, "dp": 128, "microbatch": 1, "global_batch": 15360, "ep": 64, "etp": 1, "zero": 1,
            "schedule": "dualpipe", "overlap_experts": True, "dtype": "fp8"}  # fmt: skip
    seconds = 15360 * 4096 / (1e12 / (180e3 * 3600 / 2048))
    shape = model_shape("deepseek-v3", 4096)
    point = Point("DeepSeek-V3, report", "671B", shape, Cluster(256, 8, spec), said, stack, seconds, rates=rates)
    yield Run("all", point)


def main() -> None:
    """Print a table."""
    print_parts(split())


if __name__ == "__main__":
    main()
