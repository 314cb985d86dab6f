"""Published runs looked up on 28 November 2026, split by a seed before any error was computed; ``python -m`` prints it.

The rule: runs of one source that differ only in devices, batch or sequence are a group, so that no run is chosen by its
neighbour. The groups of each source are shuffled by `SEED`; the first half, rounded down, is what the model may be
chosen by, all others are what it is reported on. A source of one group is reported.

Every figure was read in the source that its function names. What a source does not print is said there. Left out, since
the estimate cannot say them or the source does not print enough: context parallelism, experts, recomputation of single
operators or of every second layer (most of torchtitan's tables, also at 500 W), hybrid sharding (IBM's fms-fsdp,
InternEvo's zero1=8), Blackwell (no rates), JAX (Paxml), microbatches that are not printed (Megatron-LLaMA and
KempnerForge), BigScience's V100 tables ("+/-40 % correct").
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ....profiles.hardware import DeviceSpec, LinkSpec, device
from ....seeds import generator
from ....simulator import Cluster
from ....simulator.training import CORE, FSDP_2023, NEMO_2024, TITAN_2024, TransformerShape
from .later import MPT
from .megatron import Point

__all__ = ["SEED", "Run", "main", "parted", "print_parts", "runs", "split"]

SEED = 20261128
H100 = "h100-80gb"


@dataclass(frozen=True)
class Run:
    """A published run and the group that is split as one."""

    group: str
    point: Point


def split() -> tuple[tuple[Point, ...], tuple[Point, ...]]:
    """(chosen by, reported)."""
    return parted(tuple(runs()), "published runs")


def parted(every: Sequence[Run], word: str) -> tuple[tuple[Point, ...], tuple[Point, ...]]:
    """Half of each source's groups, drawn by the seed and a word, and the others."""
    chosen: set[tuple[str, str]] = set()
    for source in dict.fromkeys(run.point.source for run in every):
        groups = list(dict.fromkeys(run.group for run in every if run.point.source == source))
        order = generator(SEED, word, source).permutation(len(groups))
        chosen.update((source, groups[k]) for k in order[: len(groups) // 2])
    parts = tuple(
        tuple(run.point for run in every if ((run.point.source, run.group) in chosen) == wanted)
        for wanted in (True, False)
    )
    return parts[0], parts[1]


def print_parts(parts: Sequence[Sequence[Point]]) -> None:
    """Print what was chosen by and what is reported as one table."""
    print("| part | source | run | time |\n|---|---|---|---|")
    for part, points in zip(("chosen by", "reported"), parts, strict=True):
        for point in points:
            print(f"| {part} | {point.source} | {point.name} | {point.errors()[0]:+.1%} |")


def runs() -> Iterator[Run]:
    """All of them."""
    yield from dgxc()
    yield from nemo_2025()
    yield from foundry()
    yield from intern()
    yield from torchtitan()
    yield from tinyllama()


def _node(name: str, per_device: float | None = None) -> DeviceSpec:
    """A shipped device, its network card at so many bytes per second."""
    spec = device(name)
    return spec if per_device is None else replace(spec, inter_node=LinkSpec(per_device, spec.inter_node.latency_s))


GPT_175B = TransformerShape(96, 12288, 96, vocab=51200, seq=2048)
NEMOTRON_15B = TransformerShape(32, 6144, 48, 8, 24576, 256000, 4096, tied=False, dropout=False)
NEMOTRON_340B = TransformerShape(96, 18432, 96, 8, 73728, 256000, 4096, tied=False, dropout=False)
DGXC = {  # model: shape, what stays; (dtype, devices, batch, seconds)
    "GPT-3 175B": (
        GPT_175B, {"tp": 4, "pp": 8, "microbatch": 1, "interleave": 12}, replace(NEMO_2024, flash_generation=2),
        (("bf16", 128, 256, 8.309), ("bf16", 512, 1024, 8.42), ("bf16", 2048, 4096, 8.49),
         ("fp8", 128, 256, 5.626), ("fp8", 512, 1024, 5.774), ("fp8", 2048, 4096, 5.96)),
    ),
    "Nemotron-4 15B": (
        NEMOTRON_15B, {"tp": 4, "pp": 1, "microbatch": 4}, replace(NEMO_2024, gradient_bytes=0),
        (("bf16", 16, 64, 2.812), ("bf16", 256, 1024, 2.852), ("bf16", 2048, 8192, 2.887),
         ("fp8", 16, 64, 2.039), ("fp8", 256, 1024, 2.075), ("fp8", 2048, 8192, 2.12)),
    ),
    "Nemotron-4 15B, tp 2": (
        NEMOTRON_15B, {"tp": 2, "pp": 1, "microbatch": 2}, replace(NEMO_2024, gradient_bytes=0),
        (("bf16", 16, 64, 2.746), ("fp8", 16, 64, 1.988)),
    ),
    "Nemotron-4 340B": (
        NEMOTRON_340B, {"tp": 8, "pp": 8, "microbatch": 1, "interleave": 12}, replace(NEMO_2024, flash_generation=2),
        (("bf16", 128, 32, 4.61), ("bf16", 512, 128, 4.7), ("bf16", 2048, 512, 4.84),
         ("fp8", 128, 32, 3.16), ("fp8", 512, 128, 3.26), ("fp8", 2048, 512, 3.49)),
    ),
}  # fmt: skip


def dgxc() -> Iterator[Run]:
    """NVIDIA's DGX Cloud recipes (NVIDIA/dgxc-benchmarking: nemo_megatron/README_175b.md, nemotron/README_15b.md,
    README_340b.md, and README.md for tp 2), DGX H100s, seconds of a step; the smallest, a middle and the largest number
    of devices of each table. Shapes and flags are those of the recipes beside them (gpt3_175b_hydra.yaml,
    nemotron4-15b-synth.yaml, -340b-, configure.sh): sequence parallelism, userbuffers, distributed optimizer with
    gradients in bf16 (15B: in fp32, for want of another word), nothing recomputed (340B: "selective", which
    Transformer Engine does not do with FlashAttention), FlashAttention-2 where they switch cuDNN's attention off.
    """
    for model, (shape, said, stack, rows) in DGXC.items():
        for dtype, devices, batch, seconds in rows:
            settings = {**said, "dp": devices // said["tp"] // said["pp"], "global_batch": batch, "dtype": dtype,
                        "sequence_parallel": True, "zero": 1}  # fmt: skip
            name = f"{model}, {dtype}, {devices} devices"
            here = Cluster(devices // 8, 8, H100)
            yield Run(f"{model}, {dtype}", Point("DGX Cloud recipes", name, shape, here, settings, stack, seconds))


def nemo_2025() -> Iterator[Run]:
    """NeMo 25.02's page (docs.nvidia.com, nemo-framework, performance-summary), GPT-3 175B on 512 H100s, 866 tokens per
    second and device; Megatron Bridge's (NVIDIA-NeMo/Megatron-Bridge, docs/performance-summary.md), Llama-3 70B on 64
    H100s, containers 25.09 and 26.02.01: 1,619 and 1,639. FP8; Bridge scales by the current step, not modelled here.
    Taken, as for NeMo 24.07: userbuffers, gradients in bf16, distributed optimizer, nothing recomputed."""
    said = {"tp": 4, "pp": 8, "dp": 16, "microbatch": 2, "global_batch": 2048, "interleave": 6, "dtype": "fp8",
            "sequence_parallel": True, "zero": 1}  # fmt: skip
    seconds = 2048 * 2048 / 866 / 512
    yield Run("all", Point("NeMo 25.02, FP8", "GPT-3 175B", GPT_175B, Cluster(64, 8, H100), said, NEMO_2024, seconds))
    stack = replace(CORE, name="Megatron Bridge 2025", gradient_bytes=2, overlap_tensor=True)
    shape = TransformerShape(80, 8192, 64, 8, 28672, 128256, 8192, True)
    for container, batch, rate in (("25.09", 128, 1619), ("26.02.01", 256, 1639)):
        said = {"tp": 4, "pp": 8, "dp": 2, "microbatch": 1, "global_batch": batch, "interleave": 5, "dtype": "fp8",
                "sequence_parallel": True, "zero": 1}  # fmt: skip
        name, seconds = f"Llama-3 70B, {container}", batch * 8192 / rate / 64
        yield Run("all", Point("Megatron Bridge, FP8", name, shape, Cluster(8, 8, H100), said, stack, seconds))


FOUNDRY_H100 = (
    "760m 512 8 96 1536 no 669998", "760m 1024 8 48 768 no 628648", "760m 2048 8 24 384 no 505177",
    "760m 4096 8 12 192 no 443674", "760m 8192 8 6 96 no 334602", "760m 16384 8 3 48 no 222521",
    "1b 512 8 56 1792 no 418201", "1b 1024 8 18 576 no 391287", "1b 2048 8 14 112 no 363645",
    "1b 4096 8 7 224 no 308282", "1b 8192 8 3 96 no 233256", "1b 16384 8 2 64 no 157194",
    "3b 512 8 40 1920 no 223721", "3b 1024 8 20 960 no 216369", "3b 4096 8 5 240 no 167712",
    "3b 8192 8 3 144 no 132626", "3b 16384 8 1 48 no 89223",
    "7b 1024 8 64 1024 full 81628", "7b 2048 8 6 48 no 85144", "7b 4096 8 16 256 full 68893",
    "7b 8192 8 8 128 full 55481",
    "13b 1024 8 40 960 full 44019", "13b 2048 8 2 16 no 38336", "13b 4096 8 10 240 full 37740",
    "13b 16384 8 3 72 full 23881",
    "30b 1024 8 6 1008 full 16672", "30b 2048 8 3 504 full 16022", "30b 4096 8 1 168 full 14419",
    "30b 8192 8 1 168 full 11072", "30b 2048 16 10 480 full 36209", "30b 2048 32 14 1344 full 73860",
    "70b 2048 32 2 1024 full 28242", "70b 2048 64 8 2048 full 66523",
)  # fmt: skip
FOUNDRY_FP8 = (
    "350m 512 8 56 1792 no 1235360", "1b 512 8 56 1792 no 562523", "1b 8192 8 2 64 no 256087",
    "3b 512 8 40 1920 no 292217", "3b 2048 8 10 480 no 244692", "3b 8192 8 3 144 no 153174",
)  # fmt: skip
FOUNDRY_A100 = ("70b 2048 32 2 1024 full 11962", "70b 2048 64 8 2048 full 26274")
FOUNDRY_A100_40 = (
    "3b 4096 8 2 128 no 70223", "3b 8192 8 1 64 no 57193", "3b 2048 64 6 384 no 623167",
    "7b 512 8 48 1536 full 31167", "7b 1024 8 24 768 full 30833", "7b 2048 8 12 384 full 29436",
    "7b 4096 8 6 192 full 26930", "7b 8192 8 3 96 full 23098", "7b 2048 32 18 576 full 119202",
    "7b 2048 64 18 1152 full 234614",
    "13b 512 8 16 2048 full 14108", "13b 1024 8 8 1024 full 13817", "13b 2048 8 4 512 full 13347",
    "13b 4096 8 2 256 full 12830", "13b 8192 8 1 128 full 11258", "13b 2048 32 14 448 full 63946",
    "13b 2048 64 16 1024 full 126479",
)  # fmt: skip


def foundry() -> Iterator[Run]:
    """Rows of LLM Foundry's tables (mosaicml/llm-foundry, scripts/train/benchmarking/README.md) that `later` does not
    have, up to 16,384 tokens; what is taken of the software is said there (`later.mpt`). A row: model, tokens of a
    sequence, devices, microbatch, global batch, recomputation, tokens/s. PURE tables reduce gradients in bf16."""
    tables = (
        ("LLM Foundry, H100, further rows", FOUNDRY_H100, _node(H100), 0, "bf16"),
        ("LLM Foundry, H100, FP8", FOUNDRY_FP8, _node(H100), 0, "fp8"),
        ("LLM Foundry, A100-80GB, 70B", FOUNDRY_A100, _node("a100-80gb", 25e9), 2, "bf16"),
        ("LLM Foundry, A100-40GB, further rows", FOUNDRY_A100_40, _node("a100-40gb", 25e9), 2, "bf16"),
    )
    for source, rows, spec, reduced, dtype in tables:
        stack = replace(FSDP_2023, flash_generation=1, gradient_bytes=reduced)
        for row in rows:
            size, seq, devices, b, batch, again, rate = row.split()
            shape = TransformerShape(*MPT[size], vocab=50368, seq=int(seq), dropout=False)
            said = {"tp": 1, "pp": 1, "dp": int(devices), "microbatch": int(b), "global_batch": int(batch), "zero": 3,
                    "recompute": "full" if again == "full" else "none", "dtype": dtype}  # fmt: skip
            name = f"MPT {size}, {seq} tokens, {devices} devices, b {b}, {said['recompute']}"
            here, seconds = Cluster(int(devices) // 8, 8, spec), int(batch) * int(seq) / int(rate)
            yield Run(size, Point(source, name, shape, here, said, stack, seconds))


def intern() -> Iterator[Run]:
    """InternEvo's page (InternLM/InternEvo, doc/en/train_performance.md), 7B (configs/7B_sft.py), nodes of eight
    A100-80GBs with 4 cards of 100 Gb/s, optimizer sharded over all (zero1=-1), tokens per device and second. Taken:
    gradients reduced in bf16, FlashAttention-2, the fused loss."""
    stack = replace(CORE, name="InternEvo", flash_generation=2, gradient_bytes=2, loss_bytes=(2, 4))
    shape = TransformerShape(32, 4096, 32, 32, 11008, 103168, 2048, True)
    rows = (
        (1, 8, 2, 4, "none", 4062), (1, 16, 2, 4, "none", 3842), (1, 64, 2, 4, "none", 3690),
        (1, 128, 2, 4, "none", 3571), (1, 512, 2, 4, "none", 2861), (1, 8, 8, 1, "full", 3314),
        (2, 8, 4, 4, "none", 3822), (2, 32, 4, 4, "none", 3475), (2, 128, 4, 4, "none", 3308),
    )  # fmt: skip
    for tp, devices, b, m, again, rate in rows:
        dp = devices // tp
        said = {"tp": tp, "pp": 1, "dp": dp, "microbatch": b, "global_batch": b * m * dp, "recompute": again, "zero": 1}
        here, seconds = Cluster(devices // 8, 8, _node("a100-80gb", 6.25e9)), b * m * dp * 2048 / rate / devices
        name = f"7B, tp {tp}, {devices} devices, {again}"
        yield Run(f"tp {tp}, {again}", Point("InternEvo, A100-80GB", name, shape, here, said, stack, seconds))


def torchtitan() -> Iterator[Run]:
    """torchtitan's page of 2024 (pytorch/torchtitan, docs/performance.md), 64 A100-80GBs, FSDP2, tokens per device and
    second; its rows with nothing or everything recomputed. Not printed: the network (200 Gb/s per device is taken).
    Eager kernels; gradients reduced in fp32; the loss in fp32."""
    for name, shape, b, again, rate in (
        ("Llama-2 13B", TransformerShape(40, 5120, 40, 40, 13824, 32000, 4096, True), 2, "none", 2162),
        ("Llama-2 70B", TransformerShape(80, 8192, 64, 8, 28672, 32000, 4096, True), 2, "full", 353),
        ("Llama-3 70B", TransformerShape(80, 8192, 64, 8, 28672, 128256, 8192, True), 1, "full", 331),
    ):
        said = {"tp": 1, "pp": 1, "dp": 64, "microbatch": b, "global_batch": 64 * b, "recompute": again, "zero": 3}
        here, seconds = Cluster(8, 8, _node("a100-80gb", 25e9)), b * shape.seq / rate
        yield Run(name, Point("torchtitan, A100-80GB", name, shape, here, said, TITAN_2024, seconds))


def tinyllama() -> Iterator[Run]:
    """TinyLlama (jzhang38/TinyLlama, README.md and pretrain/tinyllama.py): 1.1B on 16 A100-40GBs, 24 thousand tokens
    per device and second, FSDP, FlashAttention-2, fused kernels, gradients in bf16. Gradients of the eight microbatches
    are accumulated before they are reduced, which `FSDP_2023` does not say. Not printed: the network (as shipped)."""
    shape = TransformerShape(22, 2048, 32, 4, 5632, 32000, 2048, True)
    said = {"tp": 1, "pp": 1, "dp": 16, "microbatch": 8, "global_batch": 1024, "zero": 3}
    stack, here = replace(FSDP_2023, gradient_bytes=2), Cluster(2, 8, "a100-40gb")
    yield Run("all", Point("TinyLlama, A100-40GB", "1.1B", shape, here, said, stack, 1024 * 2048 / 24e3 / 16))


def main() -> None:
    """Print a table."""
    print_parts(split())


if __name__ == "__main__":
    main()
