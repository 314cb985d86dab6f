"""Further published runs with experts, looked up on 28 November 2026 after `mixtures`; ``python -m`` prints them.

Written down with the split, and committed, before the estimate was run on any of them. The rule is that of `fresh`:
groups of a source are shuffled by `SEED`, and the first half, rounded down, is what the model may be chosen by. Runs of
Qwen3 are neighbours of those that `mixtures` reports on, and so all of them are reported: each stands as a source of
one group.

Left out, since the source does not print enough: the precision of Megatron Bridge's tables of container 25.09 (among
them DeepSeek-V3 on 1,024 H100s); Mixtral 8x22B in the MoE model zoo ("should be around 455 TFLOPS", and two layouts).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ....planners.megatron import model_shape
from ....simulator import Cluster
from ....simulator.training import CORE, NEMO_2024, Experts, TransformerShape
from .fresh import Run, parted, print_parts
from .megatron import Point
from .mixtures import CURRENT_SCALING

__all__ = ["main", "runs", "split"]

H100 = "h100-80gb"
DGXC = "DGX Cloud recipes, experts"


def split() -> tuple[tuple[Point, ...], tuple[Point, ...]]:
    """(chosen by, reported)."""
    return parted(tuple(runs()), "published experts")


def runs() -> Iterator[Run]:
    """All of them."""
    yield from recipes()
    yield from qwen()
    yield from mixtral()


def recipes() -> Iterator[Run]:
    """NVIDIA's DGX Cloud recipes on DGX H100s (NVIDIA/dgxc-benchmarking), seconds of a step: Grok-1 (grok1/README.md,
    NeMo 25.04; its vocabulary there is Llama 3's), Llama 4 Maverick (llama4/pretrain/README.md, the log that it quotes,
    of 64 nodes) and DeepSeek-V3 (deepseek_v3/pretrain/README.md, the example of 52.04 s; tokens dropped at capacity 1,
    NeMo's scripts/performance/llm/pretrain_deepseek_v3.py, which also says how layers are dealt). Taken: userbuffers
    and gradients in bf16 as in NeMo's performance mode; NCCL's all-to-all; the default imbalance where none is said;
    nothing recomputed (DeepSeek-V3's: up-projections)."""
    grok = TransformerShape(64, 6144, 48, 8, 32768, 128256, 8192, True, experts=Experts(8, 2, 32768))
    said = {"tp": 4, "pp": 8, "cp": 2, "dp": 8, "microbatch": 1, "global_batch": 1024, "interleave": 8, "ep": 8,
            "etp": 1, "zero": 1, "sequence_parallel": True}  # fmt: skip
    for dtype, seconds in (("bf16", 15.933), ("fp8", 13.433)):
        name = f"Grok-1 314B, {dtype}"
        yield Run(name, Point(DGXC, name, grok, Cluster(64, 8, H100), {**said, "dtype": dtype}, NEMO_2024, seconds))
    said = {"tp": 4, "pp": 1, "dp": 128, "microbatch": 1, "global_batch": 1024, "ep": 128, "etp": 4, "zero": 1,
            "sequence_parallel": True, "dtype": "fp8"}  # fmt: skip
    maverick = model_shape("llama-4-maverick", 8192)
    name = "Llama 4 Maverick 400B, fp8"
    yield Run(name, Point(DGXC, name, maverick, Cluster(64, 8, H100), said, NEMO_2024, 3.685))
    shape = model_shape("deepseek-v3", 4096)
    assert shape.experts is not None
    shape = replace(shape, experts=replace(shape.experts, capacity=1.0))
    said = {"tp": 2, "pp": 16, "dp": 32, "microbatch": 1, "global_batch": 8192, "ep": 64, "etp": 1, "zero": 1,
            "sequence_parallel": True}  # fmt: skip
    name = "DeepSeek-V3 671B, bf16"
    yield Run(name, Point(DGXC, name, shape, Cluster(128, 8, H100), said, NEMO_2024, 52.04))


def qwen() -> Iterator[Run]:
    """Qwen3 at 4,096 tokens, balanced by force, gradients in bf16, nothing recomputed: the DGX Cloud recipe's example
    (qwen3/pretrain/README.md, 235B in bf16 on 256 H100s, 25.53 s), and Megatron Bridge's tables in FP8
    (NVIDIA-NeMo/Megatron-Bridge, docs/performance-summary-archive.md, containers 25.11 and 26.02; flags by its
    scripts/performance/configs/qwen3). Taken: NCCL's all-to-all."""
    stack = replace(CORE, name="Megatron Bridge 2025", gradient_bytes=2, overlap_tensor=True)
    scaled = replace(stack, name="Megatron Bridge 2025, FP8", expert_ops=CURRENT_SCALING)
    large, small = (_even(name) for name in ("qwen3-235b-a22b", "qwen3-30b-a3b"))
    said = {"tp": 2, "pp": 8, "dp": 16, "microbatch": 1, "interleave": 4, "ep": 32, "etp": 1, "zero": 1,
            "sequence_parallel": True}  # fmt: skip
    here, recipe, bridge = Cluster(32, 8, H100), "DGX Cloud recipes, Qwen3", "Megatron Bridge, FP8, Qwen3"
    asked = {**said, "global_batch": 2048}
    yield Run("all", Point(recipe, "Qwen3-235B, bf16", large, here, asked, stack, 25.53227))
    for container, batch, rate in (("25.11", 2048, 1575), ("26.02", 8192, 1633)):
        asked, seconds = {**said, "global_batch": batch, "dtype": "fp8"}, batch * 4096 / rate / 256
        yield Run("all", Point(bridge, f"Qwen3-235B, {container}", large, here, asked, scaled, seconds))
    asked = {"tp": 1, "pp": 2, "dp": 8, "microbatch": 1, "global_batch": 1024, "interleave": 12, "zero": 1, "ep": 8,
             "etp": 1, "dtype": "fp8"}  # fmt: skip
    seconds = 1024 * 4096 / 5113 / 16
    yield Run("all", Point(bridge, "Qwen3 30B-A3B, 26.02", small, Cluster(2, 8, H100), asked, scaled, seconds))


def mixtral() -> Iterator[Run]:
    """Megatron Core's page (NVIDIA/Megatron-LM, megatron/core/transformer/moe/README.md, v0.9 to v0.12): Mixtral 8x7B
    in bf16 at 468 TFLOP/s, and its reference mapping, 64 H100s. Taken: FLOPs as Megatron-LM counted them then,
    attention's scores in full; the default imbalance."""
    shape = model_shape("mixtral-8x7b", 4096)
    said = {"tp": 1, "pp": 4, "dp": 16, "microbatch": 1, "global_batch": 256, "interleave": 8, "ep": 8, "etp": 1,
            "zero": 1}  # fmt: skip
    scores = 12 * shape.layers * shape.heads * 128 * 4096
    products = 6 * (shape.active_params - shape.vocab * shape.hidden)  # the embedding multiplies nothing
    seconds = 256 * 4096 * (products + scores) / 468e12 / 64
    point = Point("Megatron Core, Mixtral", "Mixtral 8x7B", shape, Cluster(8, 8, H100), said, CORE, seconds)
    yield Run("all", point)


def _even(name: str) -> TransformerShape:
    """A shape at 4,096 tokens whose experts are forced to equal loads, as in these benchmarks."""
    shape = model_shape(name, 4096)
    assert shape.experts is not None
    return replace(shape, experts=replace(shape.experts, imbalance=1.0))


def main() -> None:
    """Print a table."""
    print_parts(split())


if __name__ == "__main__":
    main()
