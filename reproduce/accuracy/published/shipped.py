"""The cases of large models that ship (`examples/training-*.yaml`): published, their layout as estimated, and the best
one that the search finds; ``python -m`` prints them.

Each file has two planners: `published` is pinned to the layout of the source, `searched` is free. What the source
leaves open is said in the file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from ....planners.megatron import SearchOptions, model_shape
from ....planners.megatron.result import Configuration
from ....simulator import Cluster
from ....simulator.training import TransformerShape
from ....worlds.cases import CaseFile

__all__ = ["CASES", "Shipped", "main", "row"]

EXAMPLES = Path(__file__).parents[3] / "examples"


@dataclass(frozen=True, slots=True)
class Shipped:
    """A case and what its source says.

    Parameters
    ----------
    file : str
        Its name in ``examples/``.
    parameters : float
        Of the model, as published.
    seconds : float
        Of an iteration, as published.
    source : str
        Where.
    """

    file: str
    parameters: float
    seconds: float
    source: str

    @property
    def shape(self) -> TransformerShape:
        """The model."""
        said = self._said
        return model_shape(said["model"], said["workload"]["sequence"])

    @property
    def cluster(self) -> Cluster:
        """Where it was trained."""
        said = self._said["cluster"]
        return Cluster(said["devices"] // 8, 8, said["device"])

    def fastest(self, label: str) -> Configuration:
        """The fastest configuration of one of its planners."""
        said = self._said
        [planner] = [one for one in said["planners"] if one["label"] == label]
        batch = said["workload"]["global_batch"]
        return SearchOptions.of(planner["options"]).run(self.shape, self.cluster, batch, top=1).best[0]

    @property
    def _said(self) -> dict[str, Any]:
        return cast("dict[str, Any]", CaseFile(EXAMPLES / self.file).document.data)


def _at(shape: TransformerShape, tflops: float, samples: int, devices: int) -> float:
    """Seconds of an iteration of `samples` sequences at so many TFLOP/s for each device, FLOPs as Megatron-LM counted
    them until 2025: attention's scores in full; the embedding multiplies nothing."""
    scores = 12 * shape.layers * shape.core_dim * shape.heads * shape.seq
    products = 6 * (shape.active_params - shape.vocab * shape.hidden)
    return samples * shape.seq * (products + scores) / (tflops * 1e12) / devices


RECIPES = "NVIDIA/dgxc-benchmarking, {}"
CASES = (
    Shipped("training-deepseek-v3.yaml", 671e9, 52.04, RECIPES.format("deepseek_v3/pretrain/README.md, example")),
    Shipped("training-llama-4-maverick.yaml", 400e9, 3.685, RECIPES.format("llama4/pretrain/README.md, its log")),
    Shipped("training-llama-3-405b.yaml", 405e9, 17.20, RECIPES.format("llama3.1/README_405b.md, table of H100s")),
    Shipped("training-llama-3-70b.yaml", 70e9, 14.72, RECIPES.format("llama3.1/README_70b.md, table of H100s")),
    Shipped(
        "training-mixtral-8x7b.yaml", 46.7e9, _at(model_shape("mixtral-8x7b-v0.1", 4096), 468, 256, 64),
        "NVIDIA/Megatron-LM, megatron/core/transformer/moe/README.md, 468 TFLOP/s, table of mappings",
    ),
    Shipped(
        "training-mixtral-8x22b.yaml", 141e9, _at(model_shape("mixtral-8x22b-v0.1", 4096), 455, 256, 128),
        "yanring/Megatron-MoE-ModelZoo, best_practice/Mixtral/run_mixtral_8x22B.sh, about 455 TFLOP/s",
    ),
)  # fmt: skip
"""All of them."""


def row(case: Shipped) -> str:
    """A line of the table: the case, published seconds, ours of the same layout with the error, the search's."""
    ours, best = case.fastest("published"), case.fastest("searched")
    error = f"{100 * (ours.seconds / case.seconds - 1):+.1f} %".replace("-", "−")
    degrees = " ".join(f"{name} {best.settings[name]}" for name in ("tp", "pp", "cp", "dp", "ep", "interleave"))
    return (
        f"| `{case.file}` | {case.seconds:.3g} s | {ours.seconds:.3g} s | {error} | {best.seconds:.3g} s: {degrees}, "
        f"microbatch {best.settings['microbatch']} |"
    )


def table() -> Iterator[str]:
    """All lines."""
    yield "| case | published | ours, their layout | error | the fastest that is found |"
    yield "|---|---|---|---|---|"
    for case in CASES:
        yield row(case)


def main() -> None:
    """Print them."""
    print("\n".join(table()))


if __name__ == "__main__":
    main()
