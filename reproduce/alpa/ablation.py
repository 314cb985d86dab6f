"""Ways to shard a whole model on the GPUs of one node: the points of Figure 8."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from ...errors import InfeasibleError
from ...planners.alpa.fixed import data_parallel, heuristic
from ...planners.alpa.inter.flops import training_flops
from ...planners.alpa.intra import Analysis, IntraOptions, IntraPlan, score
from ...profiles.graph import CostModel, Graph
from ...profiles.graph.models.language import MoE
from ...profiles.graph.models.transformer import GPT
from ...profiles.graph.models.vision import ResNet
from ...simulator.cluster import Cluster
from ...simulator.mesh import LogicalMesh, Mesh
from ..report import Frame, Progress, quiet
from ..style import BLUE, GREEN, GREY, ORANGE, VERMILLION
from .systems import AS_SAID

__all__ = ["SIZES", "WAYS", "Way", "graph_at", "heuristic_misses", "measure_ways", "sharded"]

MEMORY = 0.9
"""Share of a GPU's memory that a plan may fill, as in `AlpaOptions`."""
SIZES = (1, 2, 4, 8)
"""GPUs."""

Zero = Literal[0, 2, 3]


@dataclass(frozen=True, slots=True)
class Way:
    """How a model is sharded.

    Parameters
    ----------
    axes : {"", "data", "heuristic"}
        What is given for the operators; empty: chosen by the ILP.
    weights : {"", "whole", "largest"}
        What is given for the parameters: whole on every GPU, or cut along their largest dimension.
    zero : {0, 2, 3}
        Whether gradients and states are cut further, and weights as well.
    colour : str
        Of the bars.
    """

    axes: str
    weights: str
    zero: Zero
    colour: str


_WAYS: Mapping[str, Way] = MappingProxyType(
    {
        "Data": Way("data", "whole", 0, GREY),
        "ZeRO-2": Way("data", "whole", 2, GREEN),
        "ZeRO-3": Way("data", "", 3, ORANGE),
        "Heuristic": Way("heuristic", "largest", 0, VERMILLION),
        "Auto-sharding": Way("", "", 2, BLUE),
    }
)
WAYS: Mapping[str, str] = MappingProxyType({name: way.colour for name, way in _WAYS.items()})
"""Way -> colour, in the order of the bars."""


def graph_at(family: str, gpus: int, images: int = 32) -> Graph:
    """The model that the authors' benchmark gives to so many GPUs, at its whole batch (of Wide-ResNet: `images`)."""
    at = SIZES.index(gpus)
    name = f"{family}-{gpus}"
    if family == "gpt":
        hidden = (2048, 3072, 4096, 5760)[at]
        heads = hidden // (144 if gpus == 8 else 128)
        return GPT(layers=8, hidden=hidden, heads=heads, vocab=25600, seq=1024).graph(name, 8)
    if family == "moe":
        hidden, experts = (1024, 1280, 1536, 1536)[at], (8, 16, 16, 32)[at]
        heads = hidden // (32 if gpus <= 2 else 64)
        return MoE(layers=8, hidden=hidden, heads=heads, experts=experts, vocab=51200, seq=1024).graph(name, 8)
    return ResNet(blocks=(3, 4, 6, 3), base=(160, 224, 320, 448)[at], width=2).graph(name, images)


def sharded(
    graph: Graph, way: Way, mesh: LogicalMesh, costs: CostModel, analysis: Analysis, family: str, *,
    recompute: bool | None = None,
) -> IntraPlan:  # fmt: skip
    """The whole model on one mesh, in one microbatch; for MoE with Adafactor, as `systems.options_of`.

    Layers are recomputed as in the authors' benchmark, all but Wide-ResNet's, unless `recompute` says otherwise.

    Raises
    ------
    InfeasibleError
        If it does not fit the memory.
    """
    given: dict[str, str | tuple[str, str]] = {}
    if way.axes:
        axes = (data_parallel if way.axes == "data" else heuristic)(graph, mesh.shape)
        given |= {op.name: axes[op.name] for op in graph.operators if op.heavy}  # the others follow these
    if way.weights:
        given |= {t.name: _spec(t.shape, mesh.shape, way.weights) for t in graph.parameters}
    options = IntraOptions(
        memory_bytes=MEMORY * mesh.mesh.cluster.spec.memory_bytes,
        zero=way.zero,
        recompute="full" if (family != "resnet" if recompute is None else recompute) else "none",
        optimizer="adafactor" if family == "moe" else "adam",
    )
    return score(graph, 0, len(graph.operators), mesh, costs, given, options, analysis=analysis)


def _spec(shape: tuple[int, ...], mesh: tuple[int, int], how: str) -> str:
    """Spec of a parameter: whole, or cut along its largest dimension that divides, by all GPUs."""
    words = ["R"] * len(shape)
    n = mesh[0] * mesh[1]
    fitting = [d for d in range(len(shape)) if shape[d] % n == 0]
    if how == "largest" and n > 1 and fitting:
        words[max(fitting, key=lambda d: shape[d])] = "S" + "".join(str(a) for a in (0, 1) if mesh[a] > 1)
    return "".join(words)


def measure_ways(progress: Progress = quiet) -> Frame:
    """One row for each model, number of GPUs and way: PFLOP/s, NaN where memory ends.

    Returns
    -------
    DataFrame
        Columns family, gpus, system, pflops, seconds, bytes, params, mesh.
    """
    import pandas as pd

    jobs = [(f, n) for f in ("gpt", "moe", "resnet") for n in SIZES]
    rows: list[dict[str, float | str]] = []
    for k, (family, gpus) in enumerate(jobs):
        progress(k, len(jobs), f"{family} on {gpus} GPUs")
        graph, cluster = graph_at(family, gpus), Cluster.of(gpus, "v100-16gb")
        costs, analysis = AS_SAID.costs(family, cluster), Analysis(graph)
        flops = float(training_flops(graph).sum())
        for name, way in _WAYS.items():
            best = min(_plans(graph, way, cluster, costs, analysis, family), key=lambda p: _seconds(p[1]), default=None)
            rows.append(
                {
                    "family": family,
                    "gpus": gpus,
                    "system": name,
                    "pflops": math.nan if best is None else flops / _seconds(best[1]) / 1e15,
                    "seconds": math.nan if best is None else _seconds(best[1]),
                    "bytes": math.nan if best is None else _bytes(best[1]),
                    "params": graph.params,
                    "mesh": "" if best is None else f"{best[0][0]} x {best[0][1]}",
                }
            )
    progress(len(jobs), len(jobs), "")
    return pd.DataFrame(rows)


def heuristic_misses(images: int = 32, *, recompute: bool = False) -> int:
    """Of Wide-ResNet on 4 and 8 GPUs, how many the heuristic cannot train."""
    missed = 0
    for gpus in SIZES[2:]:
        graph, cluster = graph_at("resnet", gpus, images), Cluster.of(gpus, "v100-16gb")
        mesh, costs = Mesh(cluster, 1, gpus).view((1, gpus)), AS_SAID.costs("resnet", cluster)
        try:
            sharded(graph, _WAYS["Heuristic"], mesh, costs, Analysis(graph), "resnet", recompute=recompute)
        except InfeasibleError:
            missed += 1
    return missed


def _plans(
    graph: Graph, way: Way, cluster: Cluster, costs: CostModel, analysis: Analysis, family: str
) -> Iterator[tuple[tuple[int, int], IntraPlan]]:
    n = cluster.n_devices
    mesh = Mesh(cluster, 1, n)
    for shape in [(1, n)] if way.axes else [s for s in mesh.logical_shapes if s[0] <= s[1]]:
        try:
            yield (
                shape,
                sharded(graph, way, mesh.view(shape), costs, analysis, family),
            )
        except InfeasibleError:
            continue


def _seconds(plan: IntraPlan) -> float:
    return plan.seconds + plan.reduce_s + plan.update_s


def _bytes(plan: IntraPlan) -> float:
    return plan.state_bytes + plan.activation_bytes + plan.work_bytes
