"""Published runs with context parallelism or hybrid sharding, looked up on 28 November 2026; ``python -m`` prints them.

The estimate could not say them when `fresh` was split; it learned to that day, by papers and code. All are reported:
nothing was chosen by them or fitted to them, and no error was computed before this file was committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ....simulator import Cluster
from ....simulator.training import CORE, NEMO_2024, TITAN_2024, TransformerShape
from .megatron import Point

__all__ = ["main", "runs"]

H100 = "h100-80gb"


def runs() -> Iterator[Point]:
    """All of them."""
    yield from llama()
    yield from nvidia()
    yield from ibm()


def _llama_405b(layers: int = 126, kv_heads: int = 16) -> TransformerShape:
    return TransformerShape(layers, 16384, 128, kv_heads, 53248, 128256, 8192, True)


LLAMA_8B = TransformerShape(32, 4096, 32, 8, 14336, 128256, 8192, True)
LLAMA_70B = TransformerShape(80, 8192, 64, 8, 28672, 128256, 8192, True)
DGXC = (  # model, shape, tp, pp, interleave, type; devices, batch, seconds
    ("8B", LLAMA_8B, 1, 1, 1, "bf16", ((8, 128, 12.91), (32, 512, 13.05), (128, 2048, 13.10))),
    ("8B", LLAMA_8B, 1, 1, 1, "fp8", ((8, 128, 9.67), (32, 512, 9.75), (128, 2048, 9.82))),
    ("70B", LLAMA_70B, 4, 4, 5, "bf16", ((64, 128, 14.72), (512, 1024, 14.89), (2048, 4096, 14.98))),
    ("70B", LLAMA_70B, 4, 4, 5, "fp8", ((64, 128, 11.01), (512, 1024, 11.18), (2048, 4096, 11.39))),
    ("405B, 7 layers", _llama_405b(7), 8, 1, 1, "bf16", ((32, 126, 8.85),)),
    ("405B, 7 layers", _llama_405b(7), 8, 1, 1, "fp8", ((32, 126, 5.80),)),
    ("405B, 42 layers", _llama_405b(42), 8, 3, 7, "bf16", ((192, 252, 16.93),)),
    ("405B, 42 layers", _llama_405b(42), 8, 3, 7, "fp8", ((192, 252, 11.00),)),
    ("405B", _llama_405b(), 8, 9, 7, "bf16", ((576, 252, 17.20), (1152, 504, 17.52), (2304, 1008, 17.62))),
    ("405B", _llama_405b(), 8, 9, 7, "fp8", ((576, 252, 11.24), (1152, 504, 11.31), (2304, 1008, 12.35))),
)  # fmt: skip


def llama() -> Iterator[Point]:
    """NVIDIA's DGX Cloud recipes for Llama 3.1, NeMo 24.09 (NVIDIA/dgxc-benchmarking, llama3.1/README_8b.md, _70b.md,
    _405b.md, configure.sh), seconds of a step on DGX H100s, cp 2; the smallest, a middle and the largest number of
    devices. Shapes and flags by NeMo-Framework-Launcher's recipes (training/llama/llama3_1_*.yaml, 16 groups of keys in
    405B): sequence parallelism and userbuffers where tp > 1, distributed optimizer, nothing recomputed, cuDNN's
    attention; gradients in fp32, for want of another word."""
    stack = replace(NEMO_2024, gradient_bytes=0)
    for model, shape, tp, pp, v, dtype, rows in DGXC:
        for devices, batch, seconds in rows:
            said = {"tp": tp, "pp": pp, "cp": 2, "dp": devices // tp // pp // 2, "microbatch": 1, "zero": 1,
                    "global_batch": batch, "interleave": v, "sequence_parallel": tp > 1, "dtype": dtype}  # fmt: skip
            name = f"Llama 3.1 {model}, {dtype}, {devices} devices"
            here = Cluster(devices // 8, 8, H100)
            yield Point("DGX Cloud recipes, cp 2", name, shape, here, said, stack, seconds)


def nvidia() -> Iterator[Point]:
    """NeMo 24.07's page, Llama-3 8B and 70B, as `later.nemo` has its other rows; Megatron Bridge's page (containers
    25.09, 25.11, 26.02), Llama 3.1 405B on 1,024 H100s, as `fresh.nemo_2025` has its 70B. FP8, cp 2."""
    for name, shape, devices, tp, pp, v, rate in (
        ("Llama-3 8B", LLAMA_8B, 8, 1, 1, 1, 12036), ("Llama-3 70B", LLAMA_70B, 64, 4, 4, 5, 1533),
    ):  # fmt: skip
        said = {"tp": tp, "pp": pp, "cp": 2, "dp": devices // tp // pp // 2, "microbatch": 1, "global_batch": 128,
                "interleave": v, "sequence_parallel": tp > 1, "zero": 1, "dtype": "fp8"}  # fmt: skip
        here, seconds = Cluster(devices // 8, 8, H100), 128 * 8192 / rate / devices
        yield Point("NeMo 24.07, FP8, cp 2", name, shape, here, said, NEMO_2024, seconds)
    stack = replace(CORE, name="Megatron Bridge 2025", gradient_bytes=2, overlap_tensor=True)
    for container, batch, rate in (("25.09", 512, 302), ("25.11", 512, 292), ("26.02", 1536, 311)):
        said = {"tp": 8, "pp": 8, "cp": 2, "dp": 8, "microbatch": 1, "global_batch": batch, "interleave": 8,
                "sequence_parallel": True, "zero": 1, "dtype": "fp8"}  # fmt: skip
        name, seconds = f"Llama 3.1 405B, {container}", batch * 8192 / rate / 1024
        here = Cluster(128, 8, H100)
        yield Point("Megatron Bridge, FP8, cp 2", name, _llama_405b(kv_heads=8), here, said, stack, seconds)


def ibm() -> Iterator[Point]:
    """IBM's fms-fsdp (foundation-model-stack/fms-fsdp, README.md; shapes by fms_fsdp/utils/config_utils.py), Llama 2 of
    4,096 tokens on 128 A100-80GBs, tokens per device and second: 7B and 13B sharded within a node (HSDP), 34B and 70B
    over all and recomputed. FlashAttention-2 of PyTorch, gradients reduced in bf16 (policies/mixed_precision.py),
    without ``torch.compile``, which came later. Not printed: the network (as shipped)."""
    stack = replace(TITAN_2024, gradient_bytes=2)
    for name, shape, b, again, shard, rate in (
        ("7B", TransformerShape(32, 4096, 32, 32, 11008, 32000, 4096, True), 2, "none", 8, 3760),
        ("13B", TransformerShape(40, 5120, 40, 40, 13824, 32000, 4096, True), 1, "none", 8, 1700),
        ("34B", TransformerShape(48, 8192, 64, 8, 22016, 32000, 4096, True), 8, "full", 0, 772),
        ("70B", TransformerShape(80, 8192, 64, 8, 28672, 32000, 4096, True), 6, "full", 0, 380),
    ):
        said = {"tp": 1, "pp": 1, "dp": 128, "microbatch": b, "global_batch": 128 * b, "recompute": again, "zero": 3,
                "shard": shard}  # fmt: skip
        here = Cluster(16, 8, "a100-80gb")
        yield Point("fms-fsdp, A100-80GB", f"Llama 2 {name}", shape, here, said, stack, b * 4096 / rate)


def main() -> None:
    """Print a table."""
    print("| source | run | time |\n|---|---|---|")
    for point in runs():
        print(f"| {point.source} | {point.name} | {point.errors()[0]:+.1%} |")


if __name__ == "__main__":
    main()
