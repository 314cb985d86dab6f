"""Alpa and what it is compared with, on the models, batches and clusters of its evaluation (§3.8.1)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..errors import InfeasibleError
from ..profiles.graph import Graph, roofline
from ..simulator.cluster import Cluster
from .report import Frame, Progress, quiet
from .style import BLUE, GREEN, ORANGE, VERMILLION

if TYPE_CHECKING:
    from ..simulator.training.plan import TrainingPlan

__all__ = [
    "FAMILIES",
    "RESHARDINGS",
    "SYSTEMS",
    "TITLES",
    "Family",
    "cluster_of",
    "measure",
    "measure_all",
    "measure_reshardings",
    "plan_of",
]

DEVICE = "v100-16gb"
"""p3.16xlarge: 8 of them with NVLink, 25 Gb/s between nodes."""
OPTIONS: Mapping[str, Any] = MappingProxyType({"recompute": "full"})
"""Every system recomputes each layer's operators in the backward pass, as in the authors' benchmark."""


@dataclass(frozen=True, slots=True)
class Family:
    """One kind of model.

    Parameters
    ----------
    name, title : str
        Of tables and of pictures.
    models : mapping
        GPUs -> name in the zoo (Tables 3.6–3.8).
    batch : int
        Samples of an iteration (Table 3.4).
    microbatches : mapping
        GPUs -> numbers of microbatches that pipelines choose from: around those of the authors' benchmark.
    """

    name: str
    title: str
    models: Mapping[int, str]
    batch: int
    microbatches: Mapping[int, tuple[int, ...]]

    def counts(self, system: str, gpus: int) -> tuple[int, ...]:
        """Numbers of microbatches that a system chooses from. Without a pipeline: few, of 1 to 16 samples a GPU."""
        if system not in ("DeepSpeed", "Intra-op only") or gpus < 8 or self.name == "resnet":
            return self.microbatches[gpus]
        return tuple(self.batch // (gpus * each) for each in ((1, 2, 4) if gpus > 16 else (2, 4, 8)))


def _sizes(prefix: str, *sizes: str) -> dict[int, str]:
    return {n: f"{prefix}-{size}" for n, size in zip(_GPUS, sizes, strict=True)}


_GPUS: tuple[int, ...] = (1, 4, 8, 16, 32, 64)
_LANGUAGE: dict[int, tuple[int, ...]] = dict(
    zip(_GPUS, ((32, 64), (16, 32, 64), (16, 32, 64), (32, 64, 128), (64, 128, 256), (128, 256)), strict=True)
)
_IMAGES: dict[int, tuple[int, ...]] = dict.fromkeys(_GPUS, (24, 32, 48, 96))

FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "gpt": Family(
            "gpt", "GPT-3", _sizes("gpt3", "350m", "1.3b", "2.6b", "6.7b", "15b", "39b"), 1024, _LANGUAGE
        ),
        "moe": Family(
            "moe", "GShard MoE", _sizes("gshard-moe", "380m", "1.3b", "2.4b", "10b", "27b", "70b"), 1024,
            _LANGUAGE,
        ),
        "resnet": Family(
            "resnet", "Wide-ResNet", _sizes("wide-resnet", "250m", "1b", "2b", "4b", "6.8b", "13b"), 1536,
            _IMAGES,
        ),
    }
)  # fmt: skip
TITLES = {name: family.title for name, family in FAMILIES.items()}

SYSTEMS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "gpt": {"Megatron-LM": ORANGE, "Inter-op only": GREEN, "Intra-op only": VERMILLION, "Alpa": BLUE},
        "moe": {"DeepSpeed": ORANGE, "Inter-op only": GREEN, "Intra-op only": VERMILLION, "Alpa": BLUE},
        "resnet": {"PP-DP": ORANGE, "Inter-op only": GREEN, "Intra-op only": VERMILLION, "Alpa": BLUE},
    }
)
"""Family -> system -> colour, in the order of the bars."""

RESHARDINGS: tuple[str, ...] = ("signal send/recv", "w/o local all-gather", "w/ local all-gather")


def cluster_of(gpus: int) -> Cluster:
    """The testbed's first GPUs."""
    return Cluster.of(gpus, DEVICE)


def graph_of(family: str, gpus: int, batch: int) -> Graph:
    """The model for so many GPUs, at a microbatch of `batch` samples."""
    from ..profiles.graph.zoo import zoo_graph

    return zoo_graph(FAMILIES[family].models[gpus], batch)


def plan_of(family: str, system: str, gpus: int) -> TrainingPlan:
    """The plan of one system with the number of microbatches that it is fastest with.

    Raises
    ------
    InfeasibleError
        If it fits the memory with none of them.
    """
    plan = _best(family, system, gpus)
    if isinstance(plan, InfeasibleError):
        raise plan
    return plan


@cache
def _best(family: str, system: str, gpus: int) -> TrainingPlan | InfeasibleError:
    """Planned once for all figures of a process."""
    from ..planners.alpa.inter.intra_pricer import least_device_seconds

    chosen, cluster = FAMILIES[family], cluster_of(gpus)
    costs = roofline(cluster.spec)
    best: TrainingPlan | None = None
    why = InfeasibleError(f"{system}: no number of microbatches to choose from")
    for count in chosen.counts(system, gpus):
        graph = graph_of(family, gpus, chosen.batch // count)
        least = least_device_seconds(graph, costs) * count / gpus  # of any plan: small microbatches fill GPUs worse
        if best is not None and least >= best.predicted["seconds"]:
            continue
        try:
            plan = _planners()[system](graph, cluster, chosen.batch, count)
        except InfeasibleError as error:
            why = error
            continue
        if best is None or plan.predicted["seconds"] < best.predicted["seconds"]:
            best = plan
    return best or why


def measure(family: str, system: str, gpus: int) -> dict[str, Any]:
    """One point: the plan's iteration, simulated with its transfers; NaN where it runs out of memory."""
    from ..simulator.training import simulate_training

    row: dict[str, Any] = {"family": family, "system": system, "gpus": gpus, "model": FAMILIES[family].models[gpus]}
    try:
        plan = plan_of(family, system, gpus)
    except InfeasibleError as error:
        return row | dict.fromkeys(_MEASURED, math.nan) | {"note": " ".join(str(error).split())}
    result = simulate_training(plan)
    flops = [stage.flops for stage in plan.stages]
    return row | {
        "pflops": plan.predicted["pflops"] * plan.predicted["seconds"] / result.seconds,
        "seconds": result.seconds,
        "bubble": result.bubble,
        "microbatches": plan.microbatches,
        "stages": len(plan.stages),
        "largest_stage": max(flops) * len(flops) / sum(flops),
        "tensor_parallel": max(stage.logical[1] for stage in plan.stages),
        "planning_s": plan.planner.seconds,
        "note": _shape(plan),
    }


_MEASURED = (
    *("pflops", "seconds", "bubble", "microbatches", "stages", "largest_stage", "tensor_parallel", "planning_s"),
)  # fmt: skip


def _shape(plan: TrainingPlan) -> str:
    """Stages by devices and logical mesh, such as ``4 stages of 2 x 4``."""
    shapes = [f"{a} x {b}" for a, b in (stage.logical for stage in plan.stages)]
    runs: list[tuple[str, int]] = []
    for shape in shapes:
        if runs and runs[-1][0] == shape:
            runs[-1] = (shape, runs[-1][1] + 1)
        else:
            runs.append((shape, 1))
    return ", ".join(f"{n} of {shape}" for shape, n in runs)


def measure_all(
    families: Sequence[str], sizes: Sequence[int], progress: Progress = quiet, *, systems: Sequence[str] | None = None
) -> Frame:
    """One row for each family, number of GPUs and system (by default those of Fig. 3.7)."""
    import pandas as pd

    jobs = [(f, n, s) for f in families for n in sizes for s in (systems or SYSTEMS[f])]
    rows: list[dict[str, Any]] = []
    for k, (family, gpus, system) in enumerate(jobs):
        progress(k, len(jobs), f"{FAMILIES[family].models[gpus]} on {gpus} GPUs, {system}")
        rows.append(measure(family, system, gpus))
    progress(len(jobs), len(jobs), "")
    return pd.DataFrame(rows)


def measure_reshardings(sizes: Sequence[int], progress: Progress = quiet) -> Frame:
    """Alpa's plans of Wide-ResNet, simulated with each way of moving tensors between meshes."""
    import pandas as pd

    from ..simulator.training import simulate_training

    rows: list[dict[str, Any]] = []
    for k, gpus in enumerate(sizes):
        progress(k, len(sizes), f"{FAMILIES['resnet'].models[gpus]} on {gpus} GPUs")
        plan = plan_of("resnet", "Alpa", gpus)
        flops = plan.predicted["pflops"] * plan.predicted["seconds"]
        signal = plan.model_copy(update={"transfers": tuple(_signal(t) for t in plan.transfers)})
        runs = (
            simulate_training(signal, resharding="send_recv"),
            simulate_training(plan, resharding="send_recv"),
            simulate_training(plan, resharding="local_all_gather"),
        )
        for name, result in zip(RESHARDINGS, runs, strict=True):
            rows.append(
                {
                    "gpus": gpus,
                    "system": name,
                    "pflops": flops / result.seconds,
                    "seconds": result.seconds,
                    "stages": len(plan.stages),
                    "note": _shape(plan),
                }
            )
    progress(len(sizes), len(sizes), "")
    return pd.DataFrame(rows)


def _signal(transfer: Any) -> Any:
    """The same transfer of one byte."""
    return transfer.model_copy(update={"bytes": 1.0, "source_spec": "", "target_spec": ""})


Run = Callable[[Graph, Cluster, int, int], "TrainingPlan"]


@lru_cache(maxsize=1)
def _planners() -> Mapping[str, Run]:
    """System -> its planner of (graph at a microbatch, cluster, batch, microbatches)."""
    from ..planners.alpa import AlpaOptions, plan
    from ..planners.alpa.baselines import BASELINES

    options = AlpaOptions(**OPTIONS)

    def run(planner: Callable[..., TrainingPlan]) -> Run:
        return lambda graph, cluster, batch, count: planner(
            graph, cluster, global_batch=batch, microbatches=count, options=options
        )

    return MappingProxyType({"Alpa": run(plan), **{name: run(BASELINES[key]) for name, key in _BASELINES.items()}})


_BASELINES = {
    "Megatron-LM": "megatron",
    "DeepSpeed": "deepspeed-moe",
    "PP-DP": "pp-dp",
    "Intra-op only": "intra-only",
    "Inter-op only": "inter-only",
    "Equal operator": "equal-operator",
    "Equal layer": "equal-layer",
}
