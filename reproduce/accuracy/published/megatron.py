"""Published Megatron-LM measurements, with their sources; ``python -m`` prints them beside the estimates.

Those of Korthikanti et al. were known when the model was first written. The others were looked up afterwards and first
held against the model as it stood; then things were added to it, for reasons that stand without them, so that they are
no held-out set any more (docs/training-estimate.md has both comparisons). Those of Jiang et al. came last; nothing was
changed for them.

Where a table says GB and does not say which, its own differences decide: 32,000 more tokens cost 1.46, 1.95 and 2.44
units in Yeung et al., which is 16 bytes per parameter in GiB to the last digit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from ....profiles.hardware import LinkSpec, device
from ....simulator import Cluster
from ....simulator.training import CORE, MEGATRON_2022, DeviceRates, Stack, TransformerShape, estimate

__all__ = [
    "Point", "korthikanti", "main", "megascale", "nemotron", "points", "regression_runs", "vocabulary", "zero_bubble",
]  # fmt: skip

GIB = 2**30


@dataclass(frozen=True)
class Point:
    """One measurement."""

    source: str
    name: str
    shape: TransformerShape
    cluster: Cluster
    settings: Mapping[str, object]
    stack: Stack
    seconds: float | None = None
    peak_bytes: float | None = None
    rates: DeviceRates | None = None

    def errors(self) -> tuple[float | None, float | None]:
        """Relative errors of time and of memory."""
        r = estimate(self.shape, self.cluster, stack=self.stack, rates=self.rates, check_memory=False, **self.settings)  # pyright: ignore
        time = None if self.seconds is None else r.seconds / self.seconds - 1
        return time, None if self.peak_bytes is None else r.peak_bytes / self.peak_bytes - 1


def points() -> Iterator[Point]:
    """All of them."""
    yield from korthikanti()
    yield from regression_runs()
    yield from nemotron()
    yield from vocabulary()
    yield from zero_bubble()
    yield from megascale()


def korthikanti() -> Iterator[Point]:
    """Korthikanti et al. 2022, Table 5, A100-80GB, fp16."""
    rows = (
        (48, 6144, 64, 1, 8, 4, 4, 1, 1.42, 1.10),
        (96, 12288, 96, 8, 64, 1, 64, 3, 18.13, 13.75),
        (105, 20480, 128, 35, 280, 1, 280, 3, 49.05, 37.83),
        (128, 25600, 160, 64, 512, 1, 512, 1, 94.42, 71.49),
    )
    for layers, hidden, heads, pp, devices, b, batch, v, full, selective in rows:
        shape = TransformerShape(layers, hidden, heads, vocab=51200, seq=2048)
        for seconds, recompute in ((full, "full"), (selective, "selective")):
            said = {"tp": 8, "pp": pp, "dp": 1, "microbatch": b, "global_batch": batch, "interleave": v,
                    "dtype": "fp16", "recompute": recompute, "sequence_parallel": recompute == "selective"}  # fmt: skip
            name = f"{shape.params / 1e9:.0f}B {recompute}"
            cluster = Cluster(devices // 8, 8, "a100-80gb")
            yield Point("Korthikanti 2022, Table 5", name, shape, cluster, said, MEGATRON_2022, seconds)


def regression_runs() -> Iterator[Point]:
    """Golden values of Megatron-LM's own functional tests (tests/functional_tests/test_cases/gpt, NVIDIA/Megatron-LM).

    gpt3_15b_8t_release_sm: iteration time and mem-max-allocated-bytes of DGX H100 (dev container; an earlier one took
    1.585 s) and of DGX A100 (0.11.0); 256 devices follow from the FLOPs (64 would be 1.6 times the peak, 512 half of
    what such models reach). gpt3_7b_*_memory_speed: memory only, since they run in deterministic mode, with dropout, a
    ring forced on NCCL and no fused gradient accumulation: they are slower than training by a fifth.
    """
    big = TransformerShape(32, 6144, 48, 8, 24576, 256000, 4096, tied=False, dropout=False)
    said = {"tp": 8, "pp": 1, "dp": 32, "microbatch": 4, "global_batch": 384, "zero": 1, "sequence_parallel": True}
    source = "Megatron-LM functional tests"
    yield Point(source, "15B H100", big, Cluster(32, 8, "h100-80gb"), said, CORE, 1.418, 28158672896)
    yield Point(source, "15B A100", big, Cluster(32, 8, "a100-80gb"), said, CORE, 3.434)
    small = TransformerShape(32, 4096, 32, 8, 16384, 131072, 8192, tied=False, dropout=True)
    wide = {"tp": 4, "pp": 1, "dp": 2, "microbatch": 2, "global_batch": 8, "zero": 1}
    deep = {"tp": 1, "pp": 4, "dp": 2, "microbatch": 1, "global_batch": 8, "zero": 1, "interleave": 8}
    for name, by_wide, by_deep in (("h100-80gb", 57143791616, 60518293504), ("a100-80gb", 58188115968, 60489064448)):
        here = Cluster(1, 8, name)
        yield Point(source, f"7B tp 4 {name}", small, here, wide, CORE, None, by_wide)
        yield Point(source, f"7B pp 4 {name}", replace(small, vocab=131073), here, deep, CORE, None, by_deep)


def nemotron() -> Iterator[Point]:
    """Nemotron-4 340B technical report (2024), Table 2: DGX H100, tp 8, pp 12 interleaved; chunks of a layer taken."""
    shape = TransformerShape(96, 18432, 96, 8, 73728, 256000, 4096, tied=False, dropout=False)
    for dp, batch, seconds in ((16, 768, 10.3), (32, 1536, 10.3), (64, 2304, 8.0)):
        said = {"tp": 8, "pp": 12, "dp": dp, "microbatch": 1, "global_batch": batch, "interleave": 8, "zero": 1,
                "sequence_parallel": True}  # fmt: skip
        here = Cluster(dp * 12, 8, "h100-80gb")
        yield Point("Nemotron-4 340B, Table 2", f"340B dp {dp}", shape, here, said, CORE, seconds)


def vocabulary() -> Iterator[Point]:
    """Yeung et al. 2024 (arXiv 2411.05288), Table 5, the 1F1B baselines: A100-80GB, pipelines only, vocabularies of 32,
    64, 128 and 256 thousand; MFU and peak memory (GB, see above), fp16 and dropout by the bytes that they add up to."""
    rows = {
        (8, 2048): ((46.16, 14.86), (40.48, 16.32), (33.11, 19.25), (25.23, 25.64)),
        (8, 4096): ((47.05, 21.39), (41.87, 22.85), (35.00, 25.78), (26.75, 31.64)),
        (16, 2048): ((45.66, 24.03), (40.09, 25.98), (32.44, 29.92), (24.21, 38.71)),
        (16, 4096): ((47.56, 36.99), (41.21, 38.94), (33.88, 42.85), (25.33, 50.90)),
        (32, 2048): ((42.81, 33.45), (37.28, 35.89), (28.97, 41.17), (20.86, 52.16)),
        (32, 4096): ((43.68, 54.97), (38.11, 57.41), (30.05, 62.29), (21.63, 73.05)),
    }
    sizes = {8: (32, 3072, 24), 16: (48, 4096, 32), 32: (64, 5120, 40)}
    stack = replace(CORE, dropout=True)
    for (devices, seq), measured in rows.items():
        layers, hidden, heads = sizes[devices]
        cluster = Cluster(devices // 8, 8, "a100-80gb")
        for thousands, (mfu, gib) in zip((32, 64, 128, 256), measured, strict=True):
            shape = TransformerShape(layers, hidden, heads, vocab=1000 * thousands, seq=seq, tied=False)
            seconds = shape.model_flops(128) / (mfu / 100 * devices * cluster.spec.peak_flops)
            said = {"tp": 1, "pp": devices, "dp": 1, "microbatch": 1, "global_batch": 128, "dtype": "fp16"}
            name = f"pp {devices}, seq {seq}, vocab {thousands}k"
            yield Point("Yeung 2024, Table 5", name, shape, cluster, said, stack, seconds, gib * GIB)


def zero_bubble() -> Iterator[Point]:
    """Qi et al. 2024 (arXiv 2401.10241), Tables 3 and 4, 1F1B and interleaved 1F1B (a layer per chunk): A100-80GB,
    sequences of 1,024, one layer less at both ends; samples per GPU and second, memory in GB, here 10^9 bytes. Scores
    in memory by the bytes that they add up to."""
    rows = (
        (22, 24, 2304, 8, 6, ((24, 11.8, 13.1), (32, 12.5, 13.4), (64, 13.6, 13.9)), 30, 40),
        (30, 32, 4096, 8, 3, ((24, 3.50, 4.01), (32, 3.70, 4.08), (64, 4.03, 4.19)), 39, 48),
        (46, 40, 5120, 16, 1, ((48, 1.40, 1.54), (64, 1.49, 1.59), (128, 1.64, 1.66)), 32, 39),
        (62, 48, 6144, 32, 1, ((96, 0.76, 0.82), (128, 0.80, 0.85), (256, 0.88, 0.90)), 43, 58),
    )
    for layers, heads, hidden, pp, b, measured, plain_gb, interleaved_gb in rows:
        shape = TransformerShape(layers, hidden, heads, vocab=50304, seq=1024)
        cluster = Cluster(pp // 8, 8, "a100-80gb")
        for m, plain, interleaved in measured:
            for v, rate, gb in ((1, plain, plain_gb), ((layers + 2) // pp, interleaved, interleaved_gb)):
                said = {"tp": 1, "pp": pp, "dp": 1, "microbatch": b, "global_batch": b * m, "interleave": v,
                        "dtype": "fp16"}  # fmt: skip
                name = f"{layers} layers, pp {pp}, {m} microbatches, interleave {v}"
                seconds = b * m / rate / pp
                yield Point("Qi 2024, Table 4", name, shape, cluster, said, MEGATRON_2022, seconds, gb * 1e9)


def megascale() -> Iterator[Point]:
    """Jiang et al. 2024 (MegaScale, NSDI), Tables 1 to 3: Megatron-LM of 2023, GPT of 175B, tp 8, pp 8 in 6 chunks, up
    to 12,288 A100s with eight cards of 200 Gb/s per node; Table 3's first row (256 devices, batch 256, MFU 47.7 %).

    Recomputation is not printed; taken are selective recomputation with sequence parallelism, as Megatron-LM's own
    recipes of the time, and scores in memory, since faster attention is among MegaScale's additions.
    """
    shape = TransformerShape(96, 12288, 128, vocab=64000, seq=2048)
    card = LinkSpec(25e9, device("a100-80gb").inter_node.latency_s)
    spec = replace(device("a100-80gb"), inter_node=card)
    baseline = shape.model_flops(256) / (0.477 * 256 * spec.peak_flops)
    rows = (
        (256, 256, baseline), (256, 768, 40.0), (512, 768, 21.2), (768, 768, 15.2), (1024, 768, 11.9),
        (3072, 6144, 29.02), (6144, 6144, 14.78), (8192, 6144, 12.24), (12288, 6144, 8.57),
    )  # fmt: skip
    for devices, batch, seconds in rows:
        said = {"tp": 8, "pp": 8, "dp": devices // 64, "microbatch": 1, "global_batch": batch, "interleave": 6,
                "recompute": "selective", "sequence_parallel": True}  # fmt: skip
        here = Cluster(devices // 8, 8, spec)
        name = f"175B {devices} devices, batch {batch}"
        yield Point("Jiang 2024, Tables 2 and 3", name, shape, here, said, MEGATRON_2022, seconds)


def main() -> None:
    """Print a table."""
    print("| source | run | time | memory |\n|---|---|---|---|")
    for point in points():
        words = ["" if error is None else f"{error:+.1%}" for error in point.errors()]
        print(f"| {point.source} | {point.name} | {words[0]} | {words[1]} |")


if __name__ == "__main__":
    main()
