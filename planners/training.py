"""`TRAINING_PLANNERS`: the planners of training by name, each with one signature."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..profiles.graph import Graph
    from ..simulator.cluster import Cluster
    from ..simulator.training.plan import TrainingPlan

__all__ = ["TRAINING_PLANNERS"]

Progress = Callable[[str], None]
_SHORT = {"layers": "n_layers"}
"""Short names of options."""


def _alpa(name: str, **fixed: Any) -> Callable[..., TrainingPlan]:
    """Alpa's planner, or one of its baselines (§8.1, §8.3): the same search with some of its choices taken away."""

    def search(
        graph: Graph, cluster: Cluster, *, global_batch: int, microbatches: int | None = None,
        options: Mapping[str, Any] = MappingProxyType({}), progress: Progress | None = None,
    ) -> TrainingPlan:  # fmt: skip
        from .alpa import AlpaOptions, plan

        given = {_SHORT.get(key, key): value for key, value in options.items()}
        found = plan(
            graph, cluster, global_batch=global_batch, microbatches=microbatches,
            options=AlpaOptions.of({**given, **fixed}), progress=progress,
        )  # fmt: skip
        return found.model_copy(update={"planner": found.planner.model_copy(update={"name": name})})

    return search


TRAINING_PLANNERS: Mapping[str, Callable[..., TrainingPlan]] = MappingProxyType(
    {
        "alpa": _alpa("alpa"),
        "intra-only": _alpa("intra-only", stages="one"),
        "inter-only": _alpa("inter-only", stages="one_device"),
        "equal-layer": _alpa("equal-layer", stages="equal_layer"),
        "equal-operator": _alpa("equal-operator", clustering="equal_operator"),
    }
)
"""Name -> search(graph, cluster, *, global_batch, microbatches=None, options={}, progress=None)."""
