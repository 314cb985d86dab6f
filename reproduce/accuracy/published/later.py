"""Published runs that were found later, split before any error was looked at; ``python -m`` prints both parts.

The split was written down first: runs to choose the model's physics by, and runs to report on, which were computed when
the model stood. Since 28 November 2026 two levels and one kernel's rates are fitted to the first part and to that of
`fresh` (`DeviceRates.level`); nothing is fitted to the second.

Chosen by: Megatron-LM on V100s within a node (LiBai's benchmark); GPT models of NeMo's FP8 table; MPT models of LLM
Foundry on one node of A100-80GBs.
Reported: Megatron-LM on V100s over two and four nodes, the Megatron-LM 1.0 page (DGX-2H), the Llama-2 and Nemotron
models of NeMo's FP8 table, MPT models of LLM Foundry on 16 to 512 H100s and on 16 to 128 A100-40GBs (FSDP), Llama 3
405B on 8,192 and 16,384 H100s.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ....profiles.hardware import LinkSpec, device
from ....simulator import Cluster
from ....simulator.training import CORE, FSDP_2023, MEGATRON_2022, NEMO_2024, TransformerShape
from .megatron import Point

__all__ = ["chosen", "libai", "llama3", "main", "megatron_one", "mpt", "nemo", "reported"]

VOLTA_CARD = 25e9
"""Bytes per second of a node's network cards in LiBai's benchmark. Not printed: two cards of 100 Gb/s reproduce one run
(16 devices, batch 64), which therefore is in neither part; one card is slower than that run."""


def chosen() -> Iterator[Point]:
    """What the model was chosen by."""
    yield from libai(
        "24 1x1x1 6 6 no 15.5", "24 4x1x1 4 16 no 53.3", "24 8x1x1 4 32 no 107.9", "24 1x4x1 6 6 no 38.0",
        "24 1x8x1 8 8 no 55.7", "24 1x1x1 32 256 full 13.3", "24 1x1x4 32 256 full 33.2", "48 1x1x8 24 384 full 31.8",
        "24 2x2x1 32 512 full 36.9", "24 4x2x1 32 1024 full 73.2", "24 2x1x4 32 512 full 65.3",
    )  # fmt: skip
    yield from nemo("GPT3")
    yield from mpt(MPT_A100, "a100-80gb", "LLM Foundry, one node of A100-80GB")


def reported() -> Iterator[Point]:
    """What it is reported on."""
    yield from libai(
        "24 32x1x1 4 128 no 296.6", "24 8x2x1 32 2048 full 146.5", "24 2x8x1 32 512 full 109.1",
        "24 4x4x1 32 512 full 138.1", "24 4x1x4 32 1024 full 128.4", "24 8x1x4 32 2048 full 247.3",
        "24 2x2x4 32 1024 full 106.3", "24 4x2x4 48 1536 full 179.5", "24 2x4x4 64 1024 full 178.2",
    )  # fmt: skip
    yield from megatron_one()
    yield from nemo("Llama-2")
    yield from nemo("Nemotron")
    yield from mpt(MPT_H100, "h100-80gb", "LLM Foundry, H100")
    yield from mpt(MPT_H100_LARGE, "h100-80gb", "LLM Foundry, 128 and 512 H100")
    yield from mpt(MPT_A100_40, "a100-40gb", "LLM Foundry, A100-40GB", 2)
    yield from llama3()


def libai(*rows: str) -> Iterator[Point]:
    """LiBai 0.2's benchmark page (Oneflow-Inc/libai, Benchmark.md), its Megatron-LM columns (commit e156d2f): GPT-2,
    sequences of 1,024, fp16, V100s. A row: layers, dp x tp x pp, microbatch, global batch, recomputation, samples/s.
    """
    for row in rows:
        layers, degrees, b, batch, again, rate = row.split()
        dp, tp, pp = (int(x) for x in degrees.split("x"))
        shape = TransformerShape(int(layers), 1024, 16, vocab=50257, seq=1024)
        spec = replace(device("v100-32gb"), inter_node=LinkSpec(VOLTA_CARD, device("v100-32gb").inter_node.latency_s))
        devices = dp * tp * pp
        recompute = "full" if again == "full" else "none"
        said = {"tp": tp, "pp": pp, "dp": dp, "microbatch": int(b), "global_batch": int(batch), "dtype": "fp16",
                "recompute": recompute}  # fmt: skip
        here = Cluster(max(devices // 8, 1), min(devices, 8), spec)
        name = f"GPT-2 {layers} layers, {degrees}, b {b}, batch {batch}, {recompute}"
        yield Point("LiBai, Megatron-LM on V100s", name, shape, here, said, MEGATRON_2022, int(batch) / float(rate))


def megatron_one() -> Iterator[Point]:
    """Megatron-LM 1.0 (nv-adlr.github.io/MegatronLMV1, May 2020), Table 1: batch 8, sequences of 1,024, activations
    recomputed, DGX-2H: V100-SXM3 at 130 TFLOP/s, all six links into a switch. The page does not print
    shapes: these are the release's README as remembered, not read again; they give the printed parameters (1.2, 2.0,
    4.2, 8.7 billion) and the first one's 62.4 TFLOP/s."""
    spec = replace(device("v100-32gb"), name="v100sxm3-32gb", peak_flops=130e12)
    for layers, hidden, heads, tp, ms in (
        (24, 1920, 15, 1, 1288), (30, 2304, 18, 2, 1242), (36, 3072, 24, 4, 1357), (42, 4096, 32, 8, 1508),
    ):  # fmt: skip
        shape = TransformerShape(layers, hidden, heads, vocab=51200, seq=1024)
        said = {"tp": tp, "pp": 1, "dp": 1, "microbatch": 8, "global_batch": 8, "dtype": "fp16", "recompute": "full"}
        name = f"{shape.params / 1e9:.1f}B tp {tp}"
        yield Point("Megatron-LM 1.0, DGX-2H", name, shape, Cluster(1, tp, spec), said, MEGATRON_2022, ms / 1e3)


NEMO = {  # shape; devices, global batch, microbatch, tp, pp, interleave, tokens per second and device
    "GPT3-5B": (TransformerShape(24, 4096, 32, vocab=51200, seq=2048), 64, 2048, 4, 1, 1, 1, 22521),
    "GPT3-20B": (TransformerShape(44, 6144, 48, vocab=51200, seq=2048), 64, 256, 2, 2, 1, 1, 5851),
    "GPT3-175B": (TransformerShape(96, 12288, 96, vocab=51200, seq=2048), 128, 256, 1, 4, 8, 6, 726),
    "GPT3-175B on 512": (TransformerShape(96, 12288, 96, vocab=51200, seq=2048), 512, 2048, 2, 4, 8, 6, 782),
    "Llama-2 7B": (TransformerShape(32, 4096, 32, 32, 11008, 32000, 4096, True), 8, 128, 1, 1, 1, 1, 16847),
    "Llama-2 13B": (TransformerShape(40, 5120, 40, 40, 13824, 32000, 4096, True), 16, 128, 1, 1, 4, 10, 8646),
    "Llama-2 70B": (TransformerShape(80, 8192, 64, 8, 28672, 32000, 4096, True), 64, 128, 1, 4, 4, 20, 1707),
    "Nemotron-8B": (
        TransformerShape(32, 4096, 32, vocab=256000, seq=4096, tied=False, dropout=False), 64, 256, 4, 2, 1, 1, 12701,
    ),
    "Nemotron-22B": (
        TransformerShape(40, 6144, 48, vocab=256000, seq=4096, tied=False, dropout=False), 64, 256, 2, 2, 4, 10, 4256,
    ),
    "Nemotron-340B": (
        TransformerShape(96, 18432, 96, 8, 73728, 256000, 4096, tied=False, dropout=False),
        128, 32, 1, 8, 8, 12, 322,
    ),
}  # fmt: skip


def nemo(family: str) -> Iterator[Point]:
    """NeMo 24.07's performance summary (NVIDIA/NeMo, docs/source/performance): FP8 on DGX H100s. Rows with context
    parallelism are left out. Taken, as its recipes have it: sequence parallelism where tp > 1, distributed optimizer,
    nothing recomputed. Shapes of GPT-3 5B and 20B are those of the recipes; the others, which the table does not print,
    are those of the models as remembered, not read again."""
    for name, (shape, devices, batch, b, tp, pp, v, rate) in NEMO.items():
        if name.startswith(family):
            said = {"tp": tp, "pp": pp, "dp": devices // tp // pp, "microbatch": b, "global_batch": batch,
                    "interleave": v, "sequence_parallel": tp > 1, "zero": 1, "dtype": "fp8"}  # fmt: skip
            here = Cluster(devices // 8, 8, "h100-80gb")
            seconds = batch * shape.seq / rate / devices
            yield Point("NeMo 24.07, FP8", name, shape, here, said, NEMO_2024, seconds)


MPT = {
    "125m": (12, 768, 12), "350m": (24, 1024, 16), "760m": (24, 1536, 12), "1b": (24, 2048, 16), "3b": (32, 2560, 20),
    "7b": (32, 4096, 32), "13b": (40, 5120, 40), "30b": (48, 7168, 56), "70b": (80, 8192, 64),
}  # fmt: skip
MPT_H100 = (
    "760m 2048 16 24 384 no 1096819", "760m 2048 32 24 768 no 2175091", "1b 2048 16 20 320 no 736596",
    "1b 2048 32 20 640 no 1444183", "1b 2048 64 20 1280 no 2841754", "3b 2048 16 10 480 no 386285",
    "3b 2048 32 6 576 no 736701", "3b 2048 64 6 1152 no 1441663", "13b 2048 16 2 32 no 76280",
    "13b 2048 32 2 64 no 153960", "13b 2048 64 2 128 no 307209",
)  # fmt: skip
MPT_H100_LARGE = (
    "7b 2048 128 6 768 no 1340830", "7b 2048 512 6 3072 no 4951479", "13b 2048 128 16 2048 full 650264",
    "13b 2048 512 16 8192 full 2535811", "30b 2048 128 8 1024 full 281491", "30b 2048 512 8 4096 full 1083366",
    "70b 2048 128 8 1024 full 135490", "70b 2048 512 8 4096 full 515636",
)  # fmt: skip
MPT_A100 = (
    "125m 2048 8 32 512 no 1133901", "350m 2048 8 32 512 no 470263", "760m 2048 8 24 384 no 259472",
    "1b 512 8 56 1792 no 185186", "1b 2048 8 14 448 no 164109", "1b 16384 8 2 64 no 79650",
    "3b 512 8 40 1920 no 97019", "3b 2048 8 10 160 no 86491", "3b 8192 8 3 144 no 61567",
    "7b 1024 8 64 1024 full 34857", "7b 2048 8 6 96 no 37130", "7b 8192 8 8 128 full 25655",
    "13b 1024 8 40 960 full 18647", "13b 2048 8 2 48 no 18097", "13b 4096 8 10 240 full 16482",
    "30b 2048 8 3 504 full 7330", "30b 8192 8 1 168 full 4594",
)  # fmt: skip
MPT_A100_40 = (
    "350m 2048 16 18 288 no 886622", "350m 2048 128 18 2304 no 6647647", "760m 2048 16 12 192 no 473723",
    "760m 2048 128 12 1536 no 3704382", "1b 2048 16 8 128 no 305372", "1b 2048 128 10 1280 no 2386897",
    "3b 2048 16 5 80 no 156013", "3b 2048 128 6 768 no 1220885", "7b 2048 16 16 256 full 58322",
    "7b 2048 128 18 2304 full 463749", "13b 2048 16 10 160 full 31900", "13b 2048 128 16 2048 full 252444",
    "30b 2048 32 4 128 full 27431", "30b 2048 128 6 768 full 110803", "70b 2048 64 2 128 full 17672",
    "70b 2048 128 4 512 full 48194",
)  # fmt: skip


def mpt(rows: tuple[str, ...], name: str, source: str, reduced: int = 4) -> Iterator[Point]:
    """LLM Foundry's tables (mosaicml/llm-foundry, scripts/train/benchmarking): bf16, FSDP with everything sharded. A
    row: model, tokens of a sequence, devices, microbatch, global batch, recomputation, tokens/s.

    `reduced`: bytes of a gradient as it is reduced, 4 where the table says DEFAULT, 2 where it says PURE. The tables
    have no versions. Taken is FlashAttention's first generation, in Triton, which MPT's own code recommended when the
    tables began: at 16,384 tokens attention would otherwise have to take no time beside it. Nodes of A100s have 1,600
    Gb/s; nodes of H100s are taken to have 3,200.
    """
    stack = replace(FSDP_2023, flash_generation=1, gradient_bytes=0 if reduced == 4 else reduced)
    spec = device(name)
    if name.startswith("a100"):
        spec = replace(spec, inter_node=LinkSpec(25e9, spec.inter_node.latency_s))
    for row in rows:
        size, seq, devices, b, batch, again, rate = row.split()
        shape = TransformerShape(*MPT[size], vocab=50368, seq=int(seq), dropout=False)
        said = {"tp": 1, "pp": 1, "dp": int(devices), "microbatch": int(b), "global_batch": int(batch), "zero": 3,
                "recompute": "full" if again == "full" else "none"}  # fmt: skip
        what = f"MPT {size}, {seq} tokens, {devices} devices, b {b}, {said['recompute']}"
        seconds = int(batch) * int(seq) / int(rate)
        yield Point(source, what, shape, Cluster(int(devices) // 8, 8, spec), said, stack, seconds)


def llama3() -> Iterator[Point]:
    """Llama 3 (arXiv 2407.21783), Table 4 as remembered, not read again: the rows without context parallelism. 405B,
    sequences of 8,192, tp 8, pp 16, batch of 16 M tokens, 430 and 400 TFLOP/s per device. Taken: chunks of a layer,
    gradients and optimizer sharded, no recomputation; FLOPs as the paper's 6 per parameter and token with causal
    attention in full; FlashAttention-2, since the third came when the runs were over (July 2024)."""
    stack = replace(CORE, flash_generation=2)
    shape = TransformerShape(126, 16384, 128, 8, 53248, 128256, 8192, True)
    for dp, batch, tflops in ((64, 2048, 430), (128, 2048, 400)):
        said = {"tp": 8, "pp": 16, "dp": dp, "microbatch": 1, "global_batch": batch, "interleave": 8, "zero": 1,
                "sequence_parallel": True}  # fmt: skip
        here = Cluster(16 * dp, 8, "h100-80gb")
        seconds = shape.model_flops(batch) / (tflops * 1e12 * 128 * dp)
        yield Point("Llama 3, Table 4", f"405B dp {dp}", shape, here, said, stack, seconds)


def main() -> None:
    """Print a table."""
    print("| part | source | run | time |\n|---|---|---|---|")
    for part, points in (("chosen by", chosen()), ("reported", reported())):
        for point in points:
            print(f"| {part} | {point.source} | {point.name} | {point.errors()[0]:+.1%} |")


if __name__ == "__main__":
    main()
