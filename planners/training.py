"""`training_planner`: the planners of training by name, each called as `planners.alpa.plan` is."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import InputError
from ..wording import nearest

if TYPE_CHECKING:
    from ..profiles.graph import CostModel, Graph
    from ..simulator.cluster import Cluster
    from ..simulator.training.plan.file import TrainingPlan
    from .alpa.baselines import Baseline

__all__ = ["CONFIGURATION_SEARCH", "TRAINING_PLANNERS", "planner_options", "training_planner"]

_STAGE_GRAPHS = {
    "graphpipe": ("graphpipe.planner", "plan", "GraphPipeOptions"),
    "pipedream": ("pipedream.planner", "pipedream", "SequentialOptions"),
    "piper": ("piper.planner", "piper", "SequentialOptions"),
}
"""Name -> module, function and options."""

TRAINING_PLANNERS = (
    "alpa", "intra-only", "inter-only", "equal-operator", "equal-layer", "pp-dp", "megatron", "deepspeed-moe", "data",
    "zero2", "zero3", "heuristic", "terapipe", *_STAGE_GRAPHS,
)  # fmt: skip
"""Names of the planners of training: Alpa and its baselines (`planners.alpa.baselines`), TeraPipe, GraphPipe, PipeDream
and Piper. They are listed here, and not collected from the rooms, so that listing them imports no search."""

CONFIGURATION_SEARCH = "search"
"""Name of the configuration search (`planners.megatron.SearchOptions`). It describes a decoder by its sizes and needs
no operator graph, unlike the planners above."""


def training_planner(name: str) -> Baseline:
    """A planner of training.

    Raises
    ------
    InputError
        If there is none of this name; the nearest is named.
    """
    _check(name)
    if name == "terapipe":
        return importlib.import_module("meshwright.planners.terapipe").plan
    if name in _STAGE_GRAPHS:
        return _stage_graph_planner(name)
    from .alpa import plan
    from .alpa.baselines import BASELINES

    return plan if name == "alpa" else BASELINES[name]


def planner_options(name: str) -> type[Any]:
    """The options class of a planner of training, or of the configuration search.

    The docstring of that class describes each option.

    Raises
    ------
    InputError
        If there is no such planner.
    """
    if name == CONFIGURATION_SEARCH:
        return importlib.import_module("meshwright.planners.megatron").SearchOptions
    _check(name)
    if name == "terapipe":
        return importlib.import_module("meshwright.planners.terapipe").TeraPipeOptions
    if name in _STAGE_GRAPHS:
        return getattr(importlib.import_module("meshwright.planners.graphpipe"), _STAGE_GRAPHS[name][2])
    from .alpa import AlpaOptions

    return AlpaOptions


def _check(name: str) -> None:
    if name not in TRAINING_PLANNERS:
        near = nearest(name, TRAINING_PLANNERS)
        hint = f"did you mean {near!r}?" if near else f"those of training are {', '.join(TRAINING_PLANNERS)}"
        raise InputError(f"planner: {name!r} plans no training; {hint}")


def _stage_graph_planner(name: str) -> Callable[..., TrainingPlan]:
    """A planner that chooses the microbatch size itself. A caller who gives a number of microbatches fixes that
    size."""

    def planned(
        graph: Graph, cluster: Cluster, *, global_batch: int, microbatches: int | None = None,
        options: Mapping[str, Any] | None = None, costs: CostModel | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> TrainingPlan:  # fmt: skip
        module, function, _ = _STAGE_GRAPHS[name]
        search = getattr(importlib.import_module(f"meshwright.planners.{module}"), function)
        said = dict(options or {})
        if microbatches is not None:
            if "microbatches" in said:
                raise InputError(
                    f"{name}: microbatches: {microbatches} microbatches of one size, or the option with their samples; "
                    "give one of the two"
                )
            said["microbatches"] = (global_batch // microbatches,)
        return search(graph, cluster, global_batch=global_batch, options=said, costs=costs, progress=progress)

    return planned
