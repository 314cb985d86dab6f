"""Mutants of the training world: orders of passes, closed forms, memory, collectives, resharding."""

from __future__ import annotations

from mutant import Mutant

__all__ = ["MUTANTS"]

MUTANTS = (
    Mutant(
        "interleaved-fill-of-every-stage",
        "training",
        "wrong factor",
        (
            (
                "simulator/training/closed_form.py",
                "return max(microbatches * (stages // meshes) + meshes - stages, microbatches)",
                "return microbatches",
            ),
        ),
        ("tests/simulator/training/test_closed_forms.py",),
        "The planned and the simulated time of an interleaved pipeline would be compared by a formula of another one.",
    ),
    Mutant(
        "warm-up-one-pass-short",
        "training",
        "off by one",
        (
            (
                "simulator/training/policy/orders.py",
                "warmup=(v - 1) * group + 2 * (p - 1 - r)) for r in range(p)]",
                "warmup=(v - 1) * group + 2 * (p - 1 - r) + 1) for r in range(p)]",
            ),
        ),
        (
            "tests/simulator/training/policy/test_schedule_formulas.py",
            "tests/simulator/training/policy/test_schedules_torch.py",
        ),
        "Interleaved stages would keep one microbatch more than Megatron-LM's.",
    ),
    Mutant(
        "memory-of-the-tied-end",
        "training",
        "lost case",
        (
            (
                "simulator/training/configuration/weights.py",
                "positions + np.where(alone, norm + (0 if shape.tied else vocabulary) + more, 0)",
                "positions + np.where(alone, norm + more, 0)",
            ),
        ),
        ("tests/simulator/training/configuration/test_layer_theory.py",),
        "A model whose output layer is not the embedding would fit one device that it does not fit.",
    ),
    Mutant(
        "score-bytes-of-one-copy",
        "training",
        "wrong factor",
        (
            (
                "simulator/training/configuration/activations/tensors.py",
                "return 2 * size + 1 if has_dropout(shape, stack) else size",
                "return size + 1 if has_dropout(shape, stack) else size",
            ),
        ),
        ("tests/simulator/training/configuration/test_memory.py",),
        "5 a s / h of the papers' activations would be 3 a s / h.",
    ),
    Mutant(
        "zero-shards-parameters-too-early",
        "training",
        "off by one",
        (
            (
                "simulator/training/configuration/memory.py",
                "np.where(c.zero >= level, d, 1.0) for level in (3, 2, 1)",
                "np.where(c.zero >= level, d, 1.0) for level in (2, 2, 1)",
            ),
        ),
        (
            "tests/simulator/training/configuration/test_memory.py",
            "tests/simulator/training/configuration/test_metamorphic.py",
        ),
        "ZeRO-2 would shard what only ZeRO-3 does.",
    ),
    Mutant(
        "all-reduce-sends-all-n-parts",
        "training",
        "wrong factor",
        (
            (
                "simulator/training/configuration/collectives.py",
                "seconds = 2 * self.latency + 2 * (self.size - 1) / self.size * n_bytes / self.reduce_rate",
                "seconds = 2 * self.latency + 2 * n_bytes / self.reduce_rate",
            ),
        ),
        (
            "tests/simulator/training/configuration/test_model.py",
            "tests/simulator/training/configuration/test_estimate.py",
        ),
        "Tensor parallelism of two would pay twice for its all-reduces.",
    ),
    Mutant(
        "ring-latency-of-n-messages",
        "training",
        "off by one",
        (
            (
                "simulator/mesh.py",
                "return (n - 1) * link.latency_s + (n - 1) / n * n_bytes / link.bandwidth_bytes_per_s",
                "return n * link.latency_s + (n - 1) / n * n_bytes / link.bandwidth_bytes_per_s",
            ),
        ),
        ("tests/simulator/test_mesh_links.py",),
        "Small collectives would take one message more.",
    ),
    Mutant(
        "rings-do-not-share-adapters",
        "training",
        "swapped link",
        (
            (
                "simulator/mesh.py",
                "return bytes_per_s / self._rings(axes, nodes)",
                "return bytes_per_s",
            ),
        ),
        ("tests/simulator/test_mesh_links.py",),
        "Data parallelism across nodes would be as fast as if one ring crossed at a time.",
    ),
    Mutant(
        "gather-of-another-axis",
        "training",
        "swapped link",
        (
            (
                "simulator/training/resharding/crossing.py",
                "_gather_seconds(tile_bytes, target, need.repeating_axes, parts < copies) if gathers else 0.0",
                "_gather_seconds(tile_bytes, source, need.repeating_axes, parts < copies) if gathers else 0.0",
            ),
        ),
        ("tests/simulator/training/resharding/test_executed.py", "tests/simulator/training/resharding/test_reuse.py"),
        "A tensor would be gathered over the links of the mesh that it came from.",
    ),
    Mutant(
        "four-products-backward",
        "training",
        "missing term",
        (
            (
                "simulator/training/configuration/kernels.py",
                "(2.5 if backward else 1.0) * products",
                "(2.0 if backward else 1.0) * products",
            ),
        ),
        ("tests/simulator/training/configuration/test_layer_theory.py",),
        "Fused attention's backward pass has five products for two.",
    ),
    Mutant(
        "kfkb-turns-in-samples-of-another",
        "training",
        "wrong factor",
        (
            (
                "simulator/training/policy/uneven.py",
                "return after + x - math.gcd(x, y) +",
                "return after + x - min(x, y) +",
            ),
        ),
        (
            "tests/simulator/training/program/test_uneven_programs.py",
            "tests/simulator/training/program/test_uneven_engines.py",
        ),
        "A stage would warm up with too few samples and keep its successor waiting.",
    ),
)
