"""GraphPipe and what it is compared with, on the models, batches and cluster of its evaluation (§3.7, §3.10.3)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ...errors import InfeasibleError, LimitError
from ..style import BLUE, GREEN, ORANGE
from .setting import USABLE_GIB, Setting

if TYPE_CHECKING:
    from ...profiles.graph import Graph
    from ...simulator.training.plan.file import TrainingPlan

__all__ = [
    "GPUS", "MODELS", "NOTES", "OPTIONS", "PIPER_GIB", "PIPER_SECONDS", "PIPER_STATES", "SYSTEMS", "Model", "Point",
    "graph_of", "plan_of", "searched",
]  # fmt: skip

GPUS = (4, 8, 16, 32)  # those of Fig. 3.6 and Table 3.1

OPTIONS: Mapping[str, Any] = MappingProxyType({"optimizer": "sgd", "memory_fraction": 1.0})
"""Every system is planned with: plain SGD, as FlexFlow's programs of these models train them, and all of the memory
that a setting says is usable."""
PIPER_SECONDS, PIPER_GIB = 745.0, 4.0
"""What Piper may take for one search: the longest that Table 3.1 has, and a guess at what a workstation spares."""
PIPER_STATES = 1_000_000
"""Downsets that 4 GiB hold: 1.6 GB were measured for 390,626 (CANDLE-Uno with eight branches on 4 GPUs), stages and
prices included."""

SYSTEMS: Mapping[str, str] = MappingProxyType({"GraphPipe": BLUE, "PipeDream": ORANGE, "Piper": GREEN})
"""System -> colour."""


@dataclass(frozen=True, slots=True)
class Model:
    """One of the three models.

    Parameters
    ----------
    name, title : str
        Its name in the zoo, and its name in pictures.
    branches : int
        Number of branches as the appendix gives it (§3.10.3); Fig. 3.6 uses it.
    branches_searched : int
        Number of branches as the section on search times gives it (§3.7.2); Table 3.1 uses it.
    batches : mapping
        Number of GPUs -> samples of an iteration (the mini-batch).
    """

    name: str
    title: str
    branches: int
    branches_searched: int
    batches: Mapping[int, int]


MODELS: Mapping[str, Model] = MappingProxyType(
    {
        name: Model(name, title, branches, searched, dict(zip(GPUS, batches, strict=True)))
        for name, title, branches, searched, batches in (
            ("mmt", "Multi-modal Transformer", 4, 2, (64, 128, 256, 512)),
            ("dlrm", "DLRM", 7, 8, (256, 512, 1024, 2048)),
            ("candle-uno", "CANDLE-Uno", 7, 8, (4096, 8192, 16384, 32768)),
        )
    }
)


@dataclass(frozen=True, slots=True)
class Point:
    """What is planned and simulated.

    Parameters
    ----------
    system, model : str
        One of `SYSTEMS`; name in the zoo, without its number of branches.
    branches, gpus, batch : int
        Of the model, of the cluster, samples of an iteration.
    microbatch : int, optional
        Samples of a microbatch; by default the size with the shortest simulated iteration.
    setting : Setting
        What is assumed of runtime and machine.
    """

    system: str
    model: str
    branches: int
    gpus: int
    batch: int
    microbatch: int | None = None
    setting: Setting = field(default_factory=Setting)


@cache
def graph_of(model: str, branches: int) -> Graph:
    """A model with so many branches."""
    from ...profiles.graph.zoo import zoo_graph

    return zoo_graph(f"{model}-{branches}")


def plan_of(point: Point) -> TrainingPlan:
    """The plan of one system.

    Raises
    ------
    InfeasibleError
        If it finds none.
    LimitError
        If Piper takes longer, or needs more memory, than it may.
    """
    found = _planned(point)
    if isinstance(found, (InfeasibleError, LimitError)):
        raise found
    return found


@cache
def _planned(point: Point) -> TrainingPlan | InfeasibleError | LimitError:
    """The plan itself, cached: figures of one process share it."""
    try:
        return searched(point)
    except (InfeasibleError, LimitError) as error:
        return error


def searched(point: Point) -> TrainingPlan:
    """Run the search now, without the cache: for those who time it."""
    from ...planners import graphpipe

    cluster, setting = point.setting.cluster(point.gpus), point.setting
    options: dict[str, Any] = {**OPTIONS, "footprint": setting.footprint}
    if point.microbatch is not None:
        options["microbatches"] = (point.microbatch,)
    if setting.one_device:
        options["devices"] = (1,)
    said: dict[str, Any] = {}
    if point.system != "GraphPipe":
        options["ties"] = setting.ties
    if point.system == "Piper":
        options["max_states"], said["progress"] = PIPER_STATES, _Patience(PIPER_SECONDS)
    planner = getattr(graphpipe, {"GraphPipe": "plan", "PipeDream": "pipedream", "Piper": "piper"}[point.system])
    graph, costs = graph_of(point.model, point.branches), setting.costs(cluster.spec)
    if point.system == "PipeDream":  # the only one that cuts the operators' own order
        graph = setting.ordered(graph)
    return planner(graph, cluster, global_batch=point.batch, options=options, costs=costs, **said)


class _Patience:
    """Ends a search that has taken too long, where it next says how far it is: after a microbatch size."""

    def __init__(self, seconds: float) -> None:
        self.until, self.seconds = time.process_time() + seconds, seconds

    def __call__(self, line: str) -> None:
        if time.process_time() > self.until:
            raise LimitError(f"the search was ended after {self.seconds:g} processor seconds ({line})")


NOTES = (
    "V100s as the data sheet says, float32 (15.7 TFLOP/s), documented shares of the peak, nothing fitted "
    "(docs/training-costs.md): samples/s are not the paper's, ratios are what is compared",
    "Summit: 16 GB V100s, 4 a node; 50 GB/s of NVLink between two, one EDR adapter of 100 Gb/s a node; SGD",
    f"memory as FlexFlow holds it: every tensor and its gradient of all samples in flight, {USABLE_GIB:g} GiB a GPU",
)
